//! From a request's bytes to an [`Object`] of the version that verbs work in: parsed, judged for unknown fields,
//! made to fit its type, defaults set.

mod media;

pub(crate) use media::{read, unsupported};

use crate::catalog::Served;
use crate::context::Cx;
use crate::conversion;
use crate::options::FieldValidation;
use kinds::resource::Shape;
use kinds::{Resource, types};
use machinery::codec::{self, Decoded};
use machinery::{Faults, Map, Object, Path, Status, Value};
use media::{unfit, unrecognized};

/// The largest body that is read.
pub(crate) const MAX_BODY: usize = 3 << 20;

/// More unknown and repeated fields than this are not told.
const COMPLAINTS_MAX: usize = 100;

/// Reads an object in the version of the path and brings it to the one that verbs work in.
pub(crate) fn object(cx: &Cx, bytes: &[u8], validation: FieldValidation) -> Result<Object, Status> {
    let (kind, version) = (&cx.resource().kind, &cx.version().name);
    let ty = match &cx.version().shape {
        Shape::Typed(ty) => Some(*ty),
        Shape::Structural(_) => None,
    };
    let Decoded { value, duplicates } =
        read(&cx.content_type, bytes, ty).map_err(|error| error.status(kind, version, bytes))?;
    let mut object = typed(cx, value, bytes)?;
    let cannot = |why: String| unfit(kind, version, &why);
    let unknown = shape(&cx.served, cx.version, &mut object).map_err(cannot)?;
    judge(cx, validation, duplicates.into_iter().chain(unknown)).map_err(cannot)?;
    Ok(working(cx, object))
}

/// Warns of or refuses `complaints`, as the client wants it; the first hundred will do.
pub(crate) fn judge(
    cx: &Cx,
    validation: FieldValidation,
    complaints: impl IntoIterator<Item = String>,
) -> Result<(), String> {
    let complaints: Vec<String> = complaints.into_iter().take(COMPLAINTS_MAX).collect();
    match validation {
        FieldValidation::Strict if !complaints.is_empty() => {
            Err(format!("strict decoding error: {}", complaints.join(", ")))
        }
        FieldValidation::Warn => {
            for complaint in complaints {
                cx.warn(complaint);
            }
            Ok(())
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(()),
    }
}

/// Checks that the body says it is what the path says it is. Bodies of built-in kinds need not say
/// anything.
fn typed(cx: &Cx, value: Value, bytes: &[u8]) -> Result<Object, Status> {
    let resource = cx.resource();
    let kind = &resource.kind;
    let expected = resource.api_version(cx.version());
    let unrecognized = |why: String| unrecognized(kind, &why, bytes);
    let found = match &value {
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Object(_) | Value::Null => "",
    };
    if !found.is_empty() {
        return Err(unrecognized(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )));
    }
    let mut object = Object::from_value(value).unwrap_or_default();
    for (member, label) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
        match object.map().get(member) {
            None | Some(Value::Null) if resource.custom => {
                let text = String::from_utf8_lossy(bytes);
                return Err(unrecognized(format!("Object '{label}' is missing in '{text}'")));
            }
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => {
                let other = codec::json::kind_name(other);
                let field = if member == "kind" { "Kind" } else { "APIVersion" };
                return Err(unrecognized(format!(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal {other} into Go struct field .{member} of type string [{field}]"
                )));
            }
        }
    }
    if !object.api_version().is_empty() && object.api_version() != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({expected})",
            object.api_version()
        )));
    }
    if !object.kind().is_empty() && object.kind() != kind {
        return Err(wrong_kind(resource, &object));
    }
    object.set_type(&expected, kind);
    Ok(object)
}

/// Upstream: a custom resource of another kind is well formed but invalid, a built-in one cannot be
/// read at all.
fn wrong_kind(resource: &Resource, object: &Object) -> Status {
    let gvk = object.gvk();
    if resource.custom {
        let mut faults = Faults::new();
        let detail = format!("must be {}", resource.kind);
        faults.invalid(&Path::root("kind"), gvk.kind.as_str(), &detail);
        return Status::invalid(&gvk.group_kind(), object.name(), &faults);
    }
    Status::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: no kind \"{}\" is registered for version \"{}\" under this path",
        gvk.kind,
        gvk.version,
        resource.kind,
        gvk.kind,
        gvk.group_version(),
    ))
}

/// Makes an object fit the shape of one version: drops unknown fields and returns complaints about
/// them, or fails, in Go's words, where a value has the wrong type.
pub(crate) fn shape(
    served: &Served,
    version: usize,
    object: &mut Object,
) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    match &served.version(version).shape {
        Shape::Typed(ty) => {
            let mut value = Value::Object(std::mem::take(object.map_mut()));
            types::normalize(ty, &mut value, &mut |path| unknown.push(unknown_field(&path)))
                .map_err(|error| error.to_string())?;
            *object = Object::from_value(value).unwrap_or_default();
        }
        Shape::Structural(schema) => {
            metadata(object.map_mut(), &mut unknown)?;
            let mut dropped = Vec::new();
            schema.prune(object.map_mut(), &mut dropped);
            dropped.sort();
            unknown.extend(dropped.iter().map(|path| unknown_field(path)));
            schema.default(object.map_mut());
        }
    }
    Ok(unknown)
}

fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

/// A custom resource's metadata has the same type as everybody's.
fn metadata(object: &mut Map<String, Value>, unknown: &mut Vec<String>) -> Result<(), String> {
    let ty = types::find("meta/v1.ObjectMeta").expect("the table has the type of all metadata");
    let value = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    types::normalize(ty, value, &mut |path| {
        unknown.push(unknown_field(&format!("metadata.{path}")));
    })
    .map_err(|error| error.to_string())
}

/// Brings an object from the version of the path to the one in which all verbs work on it, and sets
/// the defaults that a built-in kind has.
pub(crate) fn working(cx: &Cx, object: Object) -> Object {
    let mut object = conversion::local(&cx.served, conversion::working_version(cx), object);
    (cx.resource().behavior.defaults)(&mut object);
    object
}
