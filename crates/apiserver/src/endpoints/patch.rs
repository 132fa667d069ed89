//! PATCH: the client sends what is to change, the server finds out what becomes of the object.

mod quoted;

use super::create::{check_namespace, shown};
use super::update::check_name;
use crate::body::Body;
use crate::context::Cx;
use crate::decode::Misdeclared;
use crate::options::{FieldValidation, WriteOptions};
use crate::registry::{self, Part, UpdateRequest};
use crate::{conversion, decode};
use http::Response;
use kinds::resource::Shape;
use kinds::strategic::{self, Error, GoValue};
use machinery::codec::Decoded;
use machinery::patch;
use machinery::patch::json::PatchError;
use machinery::{Faults, GroupKind, Map, Object, Path, Reason, Status, Value, codec};

/// The kinds of patches, by media type.
pub(super) enum Patch {
    /// RFC 6902.
    Json(Vec<u8>),
    /// RFC 7386.
    Merge(Value),
    /// Merge with the lists' keys, by what is known of the kind's type.
    Strategic(Value),
}

impl Patch {
    /// Whether it says anything about a member of the object.
    fn touches(&self, member: &str) -> bool {
        match self {
            Self::Merge(patch) | Self::Strategic(patch) => patch.get(member).is_some(),
            Self::Json(patch) => codec::json::decode(patch).is_ok_and(|it| {
                let operations = it.value.as_array().into_iter().flatten();
                let mut paths = operations.filter_map(|it| it["path"].as_str());
                paths.any(|path| path.split('/').nth(1) == Some(member))
            }),
        }
    }
}

/// A patch, and how strictly it is judged.
struct Wanted {
    patch: Patch,
    /// The fields that it has twice.
    duplicates: Vec<String>,
    validation: FieldValidation,
}

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Changes the named object and answers with it.
pub(crate) async fn patch(cx: &Cx, body: &[u8], part: Part) -> Result<Response<Body>, Status> {
    if is_apply(cx) {
        return super::apply::apply(cx, body, part).await;
    }
    let options = WriteOptions::parse_patch(&cx.query)?;
    let (patch, duplicates) = parse(cx, body)?;
    let wanted = Wanted { patch, duplicates, validation: options.field_validation };
    let transform = |old: &Object| patched(cx, &wanted, old, part);
    let request = UpdateRequest {
        transform: &transform,
        part,
        dry_run: options.dry_run,
        ownership_settled: false,
    };
    let outcome = registry::update(cx, request).await?;
    shown(cx, 200, outcome).await
}

/// Whether the body is a configuration.
pub(super) fn is_apply(cx: &Cx) -> bool {
    media(cx) == APPLY
}

fn media(cx: &Cx) -> &str {
    cx.content_type.split(';').next().unwrap_or_default().trim()
}

/// Reads a patch; what it is for is not looked at yet. Also told are the fields that it has twice.
pub(super) fn parse(cx: &Cx, body: &[u8]) -> Result<(Patch, Vec<String>), Status> {
    let typed = matches!(cx.version().shape, Shape::Typed(_));
    let media = media(cx);
    let is_known = matches!(media, JSON | MERGE) || typed && media == STRATEGIC;
    if !is_known {
        if !typed {
            return Err(decode::unsupported(&[JSON, MERGE, APPLY]));
        }
        let mut status =
            Status::new(415, Reason::UnsupportedMediaType, "415: Unsupported Media Type");
        status.details = Some(Box::default());
        return Err(status);
    }
    let Decoded { value, duplicates } =
        codec::json::decode(body).map_err(|_| Status::bad_request("invalid JSON patch"))?;
    let into_map = |value: &Value| {
        let found = codec::json::kind_name(value);
        format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
    };
    let patch = match (media, value) {
        (JSON, _) => return Ok((Patch::Json(body.to_vec()), Vec::new())),
        (MERGE, Value::Object(patch)) => Patch::Merge(Value::Object(patch)),
        (MERGE, Value::Null) => return Err(Status::bad_request("Invalid JSON Patch")),
        (MERGE, other) => {
            let why = into_map(&other);
            return Err(Status::bad_request(format!("error decoding patch: {why}")));
        }
        (_, Value::Object(patch)) => Patch::Strategic(Value::Object(patch)),
        (_, Value::Null) => Patch::Strategic(Value::Object(Map::new())),
        (_, other) => return Err(Status::bad_request(into_map(&other))),
    };
    Ok((patch, duplicates))
}

/// What becomes of `old`, which is in the version that verbs work in; the patch is in that of the
/// path.
fn patched(cx: &Cx, wanted: &Wanted, old: &Object, part: Part) -> Result<Object, Status> {
    let mut value = conversion::requested(cx, old.clone()).into_value();
    apply(cx, &wanted.patch, &mut value)?;
    let Some(mut object) = Object::from_value(value) else { return Err(rejected()) };
    // What is shown in the message if the result does not fit its type.
    let text = object.clone();
    let does_not_fit = |why: String| {
        let (shown, why) = match &wanted.patch {
            Patch::Strategic(patch) => {
                // Upstream: this patch is decoded field by field, and bytes by the JSON package.
                let is_json = why.starts_with("illegal base64");
                let prefix = if is_json { "error decoding from json: " } else { "" };
                (GoValue(patch).to_string(), format!("{prefix}{why}"))
            }
            Patch::Json(_) | Patch::Merge(_) if cx.resource().custom => {
                (Value::Object(text.map().clone()).to_string(), why)
            }
            Patch::Json(_) | Patch::Merge(_) => {
                (quoted::as_go_writes(&text, wanted.patch.touches("metadata")), why)
            }
        };
        let mut faults = Faults::new();
        faults.invalid(&Path::root("patch"), shown, &why);
        Status::invalid(&GroupKind::default(), "", &faults)
    };
    if matches!(wanted.patch, Patch::Strategic(_)) {
        // Upstream: it changes an object that has a type, which therefore is out of its reach.
        object.set_type(&cx.resource().api_version(cx.version()), &cx.resource().kind);
    }
    decode::declared_by_patch(cx, &mut object, part).map_err(|it| match it {
        Misdeclared::Unfit(why) => does_not_fit(why),
        Misdeclared::Refused(status) => status,
    })?;
    let unknown = decode::shape(&cx.served, cx.version, &mut object).map_err(does_not_fit)?;
    let complaints = wanted.duplicates.iter().cloned().chain(unknown);
    decode::judge(cx, wanted.validation, complaints).map_err(does_not_fit)?;
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

/// Upstream: whatever is wrong with applying a JSON patch is told in these words.
fn rejected() -> Status {
    let message = "the server rejected our request due to an error in our request";
    let mut status = Status::new(422, Reason::Invalid, message);
    status.details = Some(Box::default());
    status
}
