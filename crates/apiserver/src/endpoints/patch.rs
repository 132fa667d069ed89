//! PATCH: the client sends what is to change, the server finds out what becomes of the object.

use super::create::{check_namespace, shown};
use super::update::check_name;
use crate::body::Body;
use crate::context::Cx;
use crate::options::{FieldValidation, WriteOptions};
use crate::registry::{self, Part, UpdateRequest};
use crate::{conversion, decode};
use http::Response;
use kinds::resource::Shape;
use kinds::strategic::{self, Error, GoValue};
use machinery::patch;
use machinery::patch::json::PatchError;
use machinery::{Faults, GroupKind, Object, Path, Reason, Status, Value, codec};

/// The kinds of patches, by media type.
pub(super) enum Patch {
    /// RFC 6902.
    Json(Vec<u8>),
    /// RFC 7386.
    Merge(Value),
    /// Merge with the lists' keys, by what is known of the kind's type.
    Strategic(Value),
}

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Changes the named object and answers with it.
pub(crate) async fn patch(cx: &Cx, body: &[u8], part: Part) -> Result<Response<Body>, Status> {
    if media(cx) == APPLY {
        return super::apply::apply(cx, body, part).await;
    }
    let options = WriteOptions::parse_patch(&cx.query)?;
    let patch = parse(cx, body)?;
    let transform = |old: &Object| patched(cx, &patch, old, options.field_validation);
    let request = UpdateRequest {
        transform: &transform,
        part,
        dry_run: options.dry_run,
        ownership_settled: false,
    };
    let outcome = registry::update(cx, request).await?;
    shown(cx, 200, outcome).await
}

fn media(cx: &Cx) -> &str {
    cx.content_type.split(';').next().unwrap_or_default().trim()
}

/// Reads a patch; what it is for is not looked at yet.
pub(super) fn parse(cx: &Cx, body: &[u8]) -> Result<Patch, Status> {
    let media = media(cx);
    let typed = matches!(cx.version().shape, Shape::Typed(_));
    let value = || -> Result<Value, Status> {
        let decoded =
            codec::json::decode(body).map_err(|_| Status::bad_request("invalid JSON patch"))?;
        if decoded.value.is_object() {
            return Ok(decoded.value);
        }
        Err(Status::bad_request("invalid JSON patch"))
    };
    match media {
        JSON => Ok(Patch::Json(body.to_vec())),
        MERGE => value().map(Patch::Merge),
        STRATEGIC if typed => value().map(Patch::Strategic),
        _ if typed => {
            let mut status =
                Status::new(415, Reason::UnsupportedMediaType, "415: Unsupported Media Type");
            status.details = Some(Box::default());
            Err(status)
        }
        _ => Err(decode::unsupported(&[JSON, MERGE, APPLY])),
    }
}

/// What becomes of `old`, which is in the version that verbs work in; the patch is in that of the
/// path.
fn patched(
    cx: &Cx,
    patch: &Patch,
    old: &Object,
    validation: FieldValidation,
) -> Result<Object, Status> {
    let mut value = conversion::requested(cx, old.clone()).into_value();
    apply(cx, patch, &mut value)?;
    let Some(mut object) = Object::from_value(value) else { return Err(rejected()) };
    check_type(cx, &object)?;
    // What is shown in the message if the result does not fit its type.
    let text = object.clone();
    let does_not_fit = |why: String| {
        let (shown, why) = match patch {
            Patch::Strategic(patch) => {
                // Upstream: this patch is decoded field by field, and bytes by the JSON package.
                let is_json = why.starts_with("illegal base64");
                let prefix = if is_json { "error decoding from json: " } else { "" };
                (GoValue(patch).to_string(), format!("{prefix}{why}"))
            }
            Patch::Json(_) | Patch::Merge(_) => (as_go_writes(&text), why),
        };
        let mut faults = Faults::new();
        faults.invalid(&Path::root("patch"), shown, &why);
        Status::invalid(&GroupKind::default(), "", &faults)
    };
    let unknown = decode::shape(&cx.served, cx.version, &mut object).map_err(does_not_fit)?;
    decode::judge(cx, validation, unknown).map_err(does_not_fit)?;
    check_name(cx, &object)?;
    check_namespace(cx, &object)?;
    Ok(decode::working(cx, object))
}

/// Applies a patch to a JSON document.
pub(super) fn apply(cx: &Cx, patch: &Patch, value: &mut Value) -> Result<(), Status> {
    match patch {
        Patch::Json(patch) => patch::json::apply(value, patch).map_err(|error| match error {
            PatchError::Malformed(_) => Status::bad_request(error.to_string()),
            PatchError::TooManyOperations(_) => Status::too_large(&error.to_string()),
            _ => rejected(),
        }),
        Patch::Merge(patch) => {
            patch::merge::apply(value, patch);
            Ok(())
        }
        Patch::Strategic(patch) => {
            let Shape::Typed(ty) = &cx.version().shape else { return Err(rejected()) };
            strategic::apply(ty, value, patch).map_err(|error| match error {
                Error::NotAnObject(_)
                | Error::PrimitiveList
                | Error::RetainKeys
                | Error::ElementOrder => Status::bad_request(error.to_string()),
                Error::ListOfLists => rejected(),
                other => Status::unclassified(other.to_string()),
            })
        }
    }
}

/// The order in which Go writes metadata; everything else of a patched object is sorted.
const METADATA: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// A patched object as the message shows it that says why it does not fit.
fn as_go_writes(object: &Object) -> String {
    let members = object.map().iter().map(|(key, value)| match (key.as_str(), value) {
        ("metadata", Value::Object(metadata)) => {
            let known = METADATA.iter().filter_map(|it| metadata.get_key_value(*it));
            let rest = metadata.iter().filter(|(key, _)| !METADATA.contains(&key.as_str()));
            let fields: Vec<String> = known
                .chain(rest)
                .map(|(key, value)| format!("{}:{value}", Value::from(key.as_str())))
                .collect();
            format!("\"metadata\":{{{}}}", fields.join(","))
        }
        (key, value) => format!("{}:{value}", Value::from(key)),
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// A patch cannot make one kind into another.
fn check_type(cx: &Cx, object: &Object) -> Result<(), Status> {
    let expected = cx.resource().api_version(cx.version());
    let kind = &cx.resource().kind;
    if object.kind() != kind || object.api_version() != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}, Kind={}) does not match the expected API version ({expected}, Kind={kind})",
            object.api_version(),
            object.kind(),
        )));
    }
    Ok(())
}

/// Upstream: whatever is wrong with applying a JSON patch is told in these words.
fn rejected() -> Status {
    let message = "the server rejected our request due to an error in our request";
    let mut status = Status::new(422, Reason::Invalid, message);
    status.details = Some(Box::default());
    status
}
