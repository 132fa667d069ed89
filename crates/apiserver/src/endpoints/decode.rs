//! From a request's bytes to an [`Object`] of the version that verbs work in: parsed, judged for unknown fields,
//! made to fit its type, defaults set.

mod declared;
mod list_objects;
mod media;

pub(crate) use declared::{Misdeclared, canonicalize, foreign, patched as declared_by_patch};
pub(crate) use list_objects::{check as check_list_objects, check_object as check_applied};
pub(crate) use media::{read, unfit, unsupported};

use crate::endpoints::context::RequestContext;
use crate::registry::shape;
use crate::request::options::FieldValidation;
use machinery::codec::{self, Decoded, Format};
use machinery::{Object, Status, Value};
use media::unrecognized;
use types::Type;
use types::resource::Shape;

/// More unknown and repeated fields than this are not told.
const COMPLAINTS_MAX: usize = 100;

/// Reads an object in the version of the path and brings it to the one that verbs work in.
pub(crate) fn object(
    cx: &RequestContext,
    bytes: &[u8],
    validation: FieldValidation,
) -> Result<Object, Status> {
    let (kind, version) = (&cx.scope.resource().kind, &cx.scope.version().name);
    let ty = match &cx.scope.version().shape {
        Shape::Typed(ty) => Some(*ty),
        Shape::Structural(_) => None,
    };
    let decoded =
        read(&cx.content_type, bytes, ty).map_err(|error| error.status(kind, version, bytes))?;
    let repeated = repeated(&decoded, validation);
    let Decoded { value, literals, format, .. } = decoded;
    let mut object = typed(cx, value, bytes)?;
    let cannot = |why: String| unfit(kind, version, kind, &why);
    let unknown = shape::shape_request(&cx.scope, &mut object, &literals)
        .map_err(|it| cannot(it.from_text))?;
    let complaints = match ty {
        Some(_) => strict_errors(bytes, format, repeated, unknown),
        // Upstream: a custom resource is read without a type, and judged by its schema afterwards.
        None => [repeated, unknown].concat(),
    };
    report(cx, validation, complaints).map_err(cannot)?;
    Ok(shape::to_memory_version(&cx.scope, object))
}

/// Reads what is no object of the path's resource, but of a built-in type.
pub(crate) fn other(
    cx: &RequestContext,
    bytes: &[u8],
    ty: &'static Type,
    validation: FieldValidation,
) -> Result<Object, Status> {
    let (kind, version) = (ty.short_name(), ty.package().version());
    let decoded = read(&cx.content_type, bytes, Some(ty))
        .map_err(|error| error.status(kind, version, bytes))?;
    let repeated = repeated(&decoded, validation);
    let Decoded { value, literals, format, .. } = decoded;
    let mut object = whole(value).map_err(|why| unrecognized(kind, &why, bytes))?;
    if let Some(why) = foreign(cx, ty, &object) {
        let found = object.gvk();
        let or = |found: &str, wanted: &str| {
            if found.is_empty() { wanted.to_owned() } else { found.to_owned() }
        };
        return Err(unfit(&or(&found.kind, kind), &or(&found.version, version), kind, &why));
    }
    let cannot = |why: String| unfit(kind, version, kind, &why);
    let mut unknown = Vec::new();
    let mut value = Value::Object(std::mem::take(object.map_mut()));
    shape::fit_type(ty, &mut value, &literals, &mut unknown).map_err(cannot)?;
    let complaints = strict_errors(bytes, format, repeated, unknown);
    report(cx, validation, complaints).map_err(cannot)?;
    Ok(Object::from_value(value).unwrap_or_default())
}

/// Complaints about repeated keys, for [`report`].
fn repeated(decoded: &Decoded, validation: FieldValidation) -> Vec<String> {
    match validation {
        FieldValidation::Strict => decoded.strict_errors(),
        _ => decoded.duplicates.clone(),
    }
}

/// The complaints about a body of a built-in type, in upstream's order: those about JSON in the order
/// of the document; of YAML, which is converted to JSON with sorted keys, repeated keys come first.
fn strict_errors(
    bytes: &[u8],
    format: Format,
    mut repeated: Vec<String>,
    mut unknown: Vec<String>,
) -> Vec<String> {
    repeated.retain(|complaint| {
        // A reader that knows the type skips what is in unknown fields.
        let Some(repeated) = duplicate_field(complaint) else { return true };
        !unknown.iter().filter_map(|it| unknown_path(it)).any(|unknown| {
            let rest = repeated.strip_prefix(unknown);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    });
    repeated.append(&mut unknown);
    let mut complaints = repeated;
    if format == Format::Json && complaints.len() > 1 {
        let paths: Vec<String> = complaints
            .iter()
            .filter_map(|it| unknown_path(it).or_else(|| duplicate_field(it)))
            .map(ToOwned::to_owned)
            .collect();
        let places = codec::json::occurrences(bytes, paths.iter().map(String::as_str));
        let place = |complaint: &String| {
            let first = unknown_path(complaint).and_then(|it| Some(places.get(it)?.0));
            first.or_else(|| duplicate_field(complaint).and_then(|it| places.get(it)?.1))
        };
        complaints.sort_by_cached_key(place);
    }
    complaints
}

/// The path in a complaint about an unknown field.
fn unknown_path(complaint: &str) -> Option<&str> {
    complaint.strip_prefix("unknown field \"")?.strip_suffix('"')
}

/// The path in a complaint about a repeated key of JSON.
fn duplicate_field(complaint: &str) -> Option<&str> {
    complaint.strip_prefix("duplicate field \"")?.strip_suffix('"')
}

/// Warns of or refuses `complaints`, as the client wants it; the first hundred will do.
pub(crate) fn report(
    cx: &RequestContext,
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
                cx.scope.warn(complaint);
            }
            Ok(())
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(()),
    }
}

/// The object in a body, which must be what the path says.
fn typed(cx: &RequestContext, value: Value, bytes: &[u8]) -> Result<Object, Status> {
    let kind = &cx.scope.resource().kind;
    let mut object = whole(value).map_err(|why| unrecognized(kind, &why, bytes))?;
    declared::sent(cx, &mut object, bytes)?;
    Ok(object)
}

/// The object that a document is; it says what kind it is in words, or not at all.
pub(crate) fn whole(value: Value) -> Result<Object, String> {
    if !matches!(value, Value::Object(_) | Value::Null) {
        let found = codec::json::kind_name(&value);
        return Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        ));
    }
    let mut object = Object::from_value(value).unwrap_or_default();
    declared::readable(&object)?;
    canonicalize(&mut object);
    Ok(object)
}
