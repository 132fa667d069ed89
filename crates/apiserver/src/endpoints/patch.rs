//! PATCH: the client sends what is to change, the server finds out what becomes of the object.

mod quoted;
mod sent;

pub(super) use sent::parse;

use super::create::{check_namespace, shown};
use super::update::check_name;
use crate::endpoints::context::RequestContext;
use crate::endpoints::decode;
use crate::endpoints::decode::Misdeclared;
use crate::http::body::Body;
use crate::registry;
use crate::registry::conversion;
use crate::registry::shape;
use crate::registry::{UpdateRequest, UpdateStrategy};
use crate::request::options::{FieldValidation, WriteOptions};
use http::Response;
use machinery::{ErrorList, GroupKind, Object, Path, Status, Value};
use sent::{Form, Patch};
use types::Type;
use types::resource::Shape;
use types::strategic::GoValue;

/// A patch, and how strictly it is judged.
struct Wanted {
    patch: Patch,
    validation: FieldValidation,
}

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Changes the named object and answers with it.
pub(crate) async fn patch(
    cx: &RequestContext,
    body: &[u8],
    strategy: UpdateStrategy,
) -> Result<Response<Body>, Status> {
    if is_apply(cx) {
        return super::apply::apply(cx, body, strategy).await;
    }
    let options = WriteOptions::parse_patch(&cx.scope.query)?;
    let wanted = Wanted { patch: parse(cx, body)?, validation: options.field_validation };
    let transform = |old: &Object| patched(cx, &wanted, old, strategy);
    let request = UpdateRequest {
        transform: &transform,
        strategy,
        admission: &cx.plane.admission.of_write(&cx.scope, options.dry_run),
        dry_run: options.dry_run,
        fields_managed: false,
    };
    let outcome = registry::update(&cx.scope, request).await?;
    shown(cx, 200, outcome).await
}

/// Whether the body is a configuration.
pub(super) fn is_apply(cx: &RequestContext) -> bool {
    media(cx) == APPLY
}

fn media(cx: &RequestContext) -> &str {
    cx.content_type.split(';').next().unwrap_or_default().trim()
}

/// What becomes of `old`, which is in the version that verbs work in; the patch is in that of the
/// path.
fn patched(
    cx: &RequestContext,
    wanted: &Wanted,
    old: &Object,
    strategy: UpdateStrategy,
) -> Result<Object, Status> {
    let mut value = conversion::in_request_version(&cx.scope, old.clone()).into_value();
    let complaints = wanted.patch.apply(cx, wanted.validation, &mut value)?;
    decode::check_list_objects(&value)?;
    // What is shown in the message if the result does not fit its type.
    let text = value.clone();
    let does_not_fit =
        |why: String| does_not_fit(&cx.scope.version().shape, &wanted.patch, &text, &why);
    let mut object = decode::whole(value).map_err(does_not_fit)?;
    if wanted.patch.form == Form::Strategic {
        // Upstream: it changes an object that has a type, which therefore is out of its reach.
        object.set_type(
            &cx.scope.resource().api_version(cx.scope.version()),
            &cx.scope.resource().kind,
        );
    }
    decode::declared_by_patch(cx, &mut object, strategy).map_err(|it| match it {
        Misdeclared::ShapeError(why) => does_not_fit(why),
        Misdeclared::Refused(status) => status,
    })?;
    let unknown =
        shape::shape_request(&cx.scope, &mut object, &wanted.patch.literals).map_err(|unfit| {
            // Upstream: this patch changes values, from which the object is made anew.
            let is_of_values = wanted.patch.form == Form::Strategic;
            does_not_fit(if is_of_values { unfit.from_values } else { unfit.from_text })
        })?;
    let complaints = complaints.into_iter().chain(unknown);
    decode::report(cx, wanted.validation, complaints).map_err(does_not_fit)?;
    check_name(cx, &object)?;
    check_namespace(cx, &object)?;
    Ok(shape::to_memory_version(&cx.scope, object))
}

/// A patched object that is no object of the resource, but of a built-in type.
pub(super) fn made_of(
    cx: &RequestContext,
    ty: &'static Type,
    patch: &Patch,
    value: Value,
) -> Result<Object, Status> {
    let text = value.clone();
    let unfit = |why: &str| does_not_fit(&Shape::Typed(ty), patch, &text, why);
    let mut object = decode::whole(value).map_err(|why| unfit(&why))?;
    if let Some(why) = decode::foreign(cx, ty, &object) {
        return Err(unfit(&why));
    }
    let mut value = Value::Object(std::mem::take(object.map_mut()));
    types::normalize(ty, &mut value, &mut |_| {}).map_err(|error| match patch.form {
        Form::Strategic => unfit(error.from_values()),
        Form::Json | Form::Merge => unfit(&error.to_string()),
    })?;
    Ok(Object::from_value(value).unwrap_or_default())
}

/// The patched object is none of its type.
fn does_not_fit(shape: &Shape, patch: &Patch, result: &Value, why: &str) -> Status {
    let shown = match (patch.form, shape) {
        (Form::Strategic, _) => GoValue(&patch.value).to_string(),
        (_, Shape::Structural(_)) => result.to_string(),
        (_, Shape::Typed(ty)) => quoted::as_go_writes(ty, result, &patch.taken_apart()),
    };
    let mut errors = ErrorList::new();
    errors.invalid(&Path::root("patch"), shown, why);
    Status::invalid(&GroupKind::default(), "", &errors)
}
