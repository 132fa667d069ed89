//! PATCH: applies a JSON patch, a merge patch or a strategic merge patch to the named object.

mod go_json;
mod parsed_patch;

use http::Response;

use super::create::{check_namespace, respond};
use super::update::check_name;
use crate::endpoints::context::RequestContext;
use crate::endpoints::decode;
use crate::endpoints::decode::TypeMetaError;
use crate::http::body::Body;
use crate::registry;
use crate::registry::conversion;
use crate::registry::shape;
use crate::registry::{ManagedFields, UpdateRequest, UpdateStrategy};
use crate::request::options::{FieldValidation, WriteOptions};
use machinery::{ErrorList, GroupKind, Object, Path, Status, Value};
use parsed_patch::{ParsedPatch, PatchType};
use types::Type;
use types::resource::Shape;
use types::strategic::GoValue;

pub(super) use parsed_patch::parse;

/// A patch and its field validation.
struct Patcher {
    patch: ParsedPatch,
    validation: FieldValidation,
}

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Patches the named object and responds with it.
pub(crate) async fn patch(
    cx: &RequestContext,
    body: &[u8],
    strategy: UpdateStrategy,
) -> Result<Response<Body>, Status> {
    note_patch(cx, body);
    if is_apply(cx) {
        return super::apply::apply(cx, body, strategy).await;
    }
    let options = WriteOptions::parse_patch(&cx.query)?;
    let patcher = Patcher { patch: parse(cx, body)?, validation: options.field_validation() };
    let transform = |old: &Object| patched(cx, &patcher, old, strategy);
    let request = UpdateRequest {
        transform: &transform,
        strategy,
        admission: &cx.plane.admission.of_write(&cx.scope, &options),
        dry_run: options.dry_run,
        managed_fields: ManagedFields::Track,
    };
    let outcome = registry::update(&cx.scope, request).await?;
    respond(cx, 200, outcome).await
}

/// Records the patch of a request that is audited.
pub(super) fn note_patch(cx: &RequestContext, body: &[u8]) {
    if let Some(audit) = &cx.scope.audit {
        audit.set_patch(body);
    }
}

/// Whether the body is an apply configuration.
pub(super) fn is_apply(cx: &RequestContext) -> bool {
    media(cx) == APPLY
}

fn media(cx: &RequestContext) -> &str {
    cx.content_type.split(';').next().unwrap_or_default().trim()
}

/// Applies the patch to `old`, which is in the memory version; the patch is in the version of the
/// path.
fn patched(
    cx: &RequestContext,
    patcher: &Patcher,
    old: &Object,
    strategy: UpdateStrategy,
) -> Result<Object, Status> {
    let mut value = conversion::in_request_version(&cx.scope, old.clone()).into_value();
    let errors = patcher.patch.apply(cx, patcher.validation, &mut value)?;
    decode::check_list_objects(&value)?;
    // The patched document is part of the error message if it does not match its type.
    let document = value.clone();
    let invalid_patch =
        |why: String| invalid_patch(&cx.scope.version().shape, &patcher.patch, &document, &why);
    let mut object = decode::into_object(value).map_err(invalid_patch)?;
    if patcher.patch.patch_type == PatchType::StrategicMerge {
        // Upstream: a strategic merge patch changes a typed object, whose apiVersion and kind it
        // cannot reach.
        object.set_type(
            &cx.scope.resource().api_version(cx.scope.version()),
            &cx.scope.resource().kind,
        );
    }
    decode::check_patched(cx, &mut object, strategy).map_err(|it| match it {
        TypeMetaError::Undecodable(why) => invalid_patch(why),
        TypeMetaError::Rejected(status) => status,
    })?;
    let unknown =
        shape::shape_request(&cx.scope, &mut object, &patcher.patch.literals).map_err(|unfit| {
            // Upstream: a strategic merge patch changes unstructured values, which are then converted
            // to an object; the other patches change text, which is then decoded.
            let patches_values = patcher.patch.patch_type == PatchType::StrategicMerge;
            invalid_patch(if patches_values { unfit.from_values } else { unfit.from_text })
        })?;
    let errors = errors.into_iter().chain(unknown);
    decode::report_strict_errors(cx, patcher.validation, errors).map_err(invalid_patch)?;
    check_name(cx, &object)?;
    check_namespace(cx, &object)?;
    Ok(shape::to_memory_version(&cx.scope, object))
}

/// Decodes a patched document of a built-in type that is not the kind of the path's resource.
pub(super) fn decode_patched(
    cx: &RequestContext,
    ty: &'static Type,
    patch: &ParsedPatch,
    value: Value,
) -> Result<Object, Status> {
    let document = value.clone();
    let invalid = |why: &str| invalid_patch(&Shape::Typed(ty), patch, &document, why);
    let mut object = decode::into_object(value).map_err(|why| invalid(&why))?;
    if let Some(why) = decode::conversion_error(cx, ty, &object) {
        return Err(invalid(&why));
    }
    let mut value = Value::Object(std::mem::take(object.map_mut()));
    types::normalize(ty, &mut value, &mut |_| {}).map_err(|error| match patch.patch_type {
        PatchType::StrategicMerge => invalid(error.from_unstructured()),
        PatchType::Json | PatchType::Merge => invalid(&error.to_string()),
    })?;
    Ok(Object::from_value(value).unwrap_or_default())
}

/// The error for a patched document that does not match its type.
fn invalid_patch(shape: &Shape, patch: &ParsedPatch, document: &Value, why: &str) -> Status {
    let text = match (patch.patch_type, shape) {
        (PatchType::StrategicMerge, _) => GoValue(&patch.value).to_string(),
        (_, Shape::Structural(_)) => document.to_string(),
        (_, Shape::Typed(ty)) => go_json::write(ty, document, &patch.patched_objects()),
    };
    let mut errors = ErrorList::new();
    errors.invalid(&Path::root("patch"), text, why);
    Status::invalid(&GroupKind::default(), "", &errors)
}
