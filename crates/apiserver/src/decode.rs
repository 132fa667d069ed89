//! From a request's bytes to an [`Object`] of the hub version: parsed, judged for unknown fields,
//! made to fit its type, defaults set.

use crate::catalog::Served;
use crate::context::Cx;
use crate::options::FieldValidation;
use kinds::resource::Shape;
use kinds::{Resource, types};
use machinery::codec::{self, Decoded};
use machinery::{Faults, Map, Object, Path, Reason, Status, Value};

/// The largest body that is read.
pub(crate) const MAX_BODY: usize = 3 << 20;

/// Reads an object in the version of the path and brings it to the hub version.
pub(crate) fn object(cx: &Cx, bytes: &[u8], validation: FieldValidation) -> Result<Object, Status> {
    let Decoded { value, duplicates } = parse(cx, bytes)?;
    let mut object = typed(cx, value, bytes)?;
    let cannot = |why: String| {
        let (kind, version) = (&cx.resource().kind, &cx.version().name);
        let message =
            format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}");
        Status::bad_request(message)
    };
    let unknown = shape(&cx.served, cx.version, &mut object).map_err(cannot)?;
    let complaints: Vec<String> = duplicates.into_iter().chain(unknown).collect();
    judge(cx, validation, complaints).map_err(cannot)?;
    Ok(hub(&cx.served, object))
}

/// Warns of or refuses `complaints`, as the client wants it.
pub(crate) fn judge(
    cx: &Cx,
    validation: FieldValidation,
    complaints: Vec<String>,
) -> Result<(), String> {
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

fn parse(cx: &Cx, bytes: &[u8]) -> Result<Decoded, Status> {
    let media = cx.content_type.split(';').next().unwrap_or_default().trim();
    let kind = &cx.resource().kind;
    let unrecognized = |why: String| {
        let summary = summary(bytes);
        let message = format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
        );
        Status::bad_request(message)
    };
    match media {
        "" | "application/json" | "*/*" => codec::json::decode(bytes).map_err(|error| {
            unrecognized(format!("couldn't get version/kind; json parse error: {error}"))
        }),
        "application/yaml" => {
            codec::yaml::decode(bytes).map_err(|error| unrecognized(error.to_string()))
        }
        _ => Err(unsupported(&["application/json", "application/yaml"])),
    }
}

/// The body is in a format that we do not read.
pub(crate) fn unsupported(accepted: &[&str]) -> Status {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    );
    Status::new(415, Reason::UnsupportedMediaType, message)
}

/// The beginning of a body, for error messages: as text if it looks like JSON, else in hex.
fn summary(bytes: &[u8]) -> String {
    const SHOWN: usize = 30;
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let more = if bytes.len() > SHOWN { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let hex = shown.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
            format!("{hex}{more}")
        }
    }
}

/// Checks that the body says it is what the path says it is. Bodies of built-in kinds need not say
/// anything.
fn typed(cx: &Cx, value: Value, bytes: &[u8]) -> Result<Object, Status> {
    let resource = cx.resource();
    let kind = &resource.kind;
    let expected = resource.api_version(cx.version());
    let unrecognized = |why: String| {
        let summary = summary(bytes);
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
        ))
    };
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

/// Brings an object from one of its versions to the hub version, where all verbs work on it, and
/// sets the defaults that a built-in kind has.
pub(crate) fn hub(served: &Served, object: Object) -> Object {
    let resource = &served.resource;
    let mut object = crate::answer::converted(served, resource.storage, object);
    (resource.behavior.defaults)(&mut object);
    object
}
