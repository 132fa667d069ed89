//! From a request's bytes to an [`Object`] of the version that verbs work in: parsed, judged for unknown fields,
//! made to fit its type, defaults set.

mod declared;
mod list_objects;
mod media;

pub(crate) use declared::{Misdeclared, canonicalize, foreign, patched as declared_by_patch};
pub(crate) use list_objects::{check as check_list_objects, check_object as check_applied};
pub(crate) use media::{read, unfit, unsupported};

use crate::catalog::Served;
use crate::context::Cx;
use crate::conversion;
use crate::options::FieldValidation;
use machinery::codec::{self, Decoded, Format, Literals};
use machinery::{Map, Object, Status, Value};
use media::unrecognized;
use types::Type;
use types::resource::Shape;

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
    let decoded =
        read(&cx.content_type, bytes, ty).map_err(|error| error.status(kind, version, bytes))?;
    let repeated = repeated(&decoded, validation);
    let Decoded { value, literals, format, .. } = decoded;
    let mut object = typed(cx, value, bytes)?;
    let cannot = |why: String| unfit(kind, version, kind, &why);
    let unknown = fit_sent(cx, &mut object, &literals).map_err(|it| cannot(it.of_text))?;
    let complaints = match ty {
        Some(_) => strict_errors(bytes, format, repeated, unknown),
        // Upstream: a custom resource is read without a type, and judged by its schema afterwards.
        None => [repeated, unknown].concat(),
    };
    judge(cx, validation, complaints).map_err(cannot)?;
    Ok(working(cx, object))
}

/// Reads what is no object of the path's resource, but of a built-in type.
pub(crate) fn other(
    cx: &Cx,
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
    fit_type(ty, &mut value, &literals, &mut unknown).map_err(cannot)?;
    let complaints = strict_errors(bytes, format, repeated, unknown);
    judge(cx, validation, complaints).map_err(cannot)?;
    Ok(Object::from_value(value).unwrap_or_default())
}

/// Complaints about repeated keys, for [`judge`].
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

/// The object in a body, which must be what the path says.
fn typed(cx: &Cx, value: Value, bytes: &[u8]) -> Result<Object, Status> {
    let kind = &cx.resource().kind;
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

/// Why an object cannot be of its type.
#[derive(Debug)]
pub(crate) struct Unfit {
    /// What upstream says when it reads it from text.
    pub of_text: String,
    /// What upstream says when it makes it from values.
    pub of_values: String,
}

impl From<String> for Unfit {
    fn from(why: String) -> Self {
        Self { of_text: why.clone(), of_values: why }
    }
}

/// Makes an object that was read from text fit the shape of one version, as [`fit`] does.
pub(crate) fn shape(
    served: &Served,
    version: usize,
    object: &mut Object,
) -> Result<Vec<String>, String> {
    let fitted = fit(served, version, object, &Literals::default());
    let unknown = fitted.map_err(|unfit| unfit.of_text)?;
    // Only requests may reset managers, and those are tracked.
    if resets_managed_fields(object) {
        object.remove_meta("managedFields");
    }
    Ok(unknown)
}

/// Makes an object of a request fit the shape of its version, as [`fit`] does, and notes what was sent
/// empty.
pub(crate) fn fit_sent(
    cx: &Cx,
    object: &mut Object,
    literals: &Literals,
) -> Result<Vec<String>, Unfit> {
    let on_empty = &mut |path, value| cx.note_empty(path, value);
    fit_noting(&cx.served, cx.version, object, literals, on_empty)
}

/// Makes an object fit the shape of one version: drops unknown fields and returns complaints about
/// them, or fails, in Go's words, where a value has the wrong type. `literals` are its numbers as
/// they were sent.
fn fit(
    served: &Served,
    version: usize,
    object: &mut Object,
    literals: &Literals,
) -> Result<Vec<String>, Unfit> {
    fit_noting(served, version, object, literals, &mut |_, _| {})
}

fn fit_noting(
    served: &Served,
    version: usize,
    object: &mut Object,
    literals: &Literals,
    on_empty: &mut dyn FnMut(String, Value),
) -> Result<Vec<String>, Unfit> {
    let mut unknown = Vec::new();
    match &served.version(version).shape {
        Shape::Typed(ty) => {
            let resets = resets_managed_fields(object);
            let mut value = Value::Object(std::mem::take(object.map_mut()));
            let on_unknown = &mut |path: String| unknown.push(unknown_field(&path));
            types::normalize_with(ty, &mut value, on_unknown, on_empty).map_err(|error| {
                let of_values = error.from_values().to_owned();
                let of_text = error.with_literal(|path| literals.at(path)).to_string();
                Unfit { of_text, of_values }
            })?;
            *object = Object::from_value(value).unwrap_or_default();
            if resets {
                object.set_meta("managedFields", Value::Array(Vec::new()));
            }
        }
        Shape::Structural(schema) => {
            if let Some(number) = &literals.too_large {
                return Err(codec::json::too_large(number).to_string().into());
            }
            metadata(object.map_mut(), &mut unknown)?;
            let mut dropped = Vec::new();
            schema
                .prune_and_read(object.map_mut(), &mut object_meta, &mut dropped)
                .map_err(|fault| fault.to_string())?;
            unknown.extend(dropped.iter().map(|path| unknown_field(path)));
            schema.default(object.map_mut());
        }
    }
    Ok(unknown)
}

/// Whether an empty list of managers was sent: of a built-in kind, that is a wish to forget them, and
/// not the same as none. Custom resources lose the list on their way through the type of metadata.
fn resets_managed_fields(object: &Object) -> bool {
    let entries = object.metadata().and_then(|it| it.get("managedFields"));
    entries.and_then(Value::as_array).is_some_and(Vec::is_empty)
}

/// Makes what came of an apply of `config` fit the shape of one version. Of a custom resource nothing is dropped:
/// its fields are known, and upstream leaves a null where nothing is left to be judged as what it is.
pub(crate) fn shape_applied(
    served: &Served,
    version: usize,
    config: &Object,
    object: &mut Object,
) -> Result<(), String> {
    match &served.version(version).shape {
        Shape::Typed(_) => {
            let (namespace, name) = (config.namespace(), config.name());
            let kind = format!("{}, Kind={}", config.api_version(), config.kind());
            match fit(served, version, object, &Literals::default()) {
                Ok(_) => Ok(()),
                // Upstream: the outcome of an apply is made from values.
                Err(Unfit { of_values, .. }) => Err(format!(
                    "failed to convert new object ({namespace}/{name}; {kind}) to proper version: unable to convert unstructured object to {kind}: {of_values}"
                )),
            }
        }
        Shape::Structural(schema) => {
            metadata(object.map_mut(), &mut Vec::new())?;
            schema
                .read_embedded(object.map_mut(), &mut object_meta, &mut Vec::new())
                .map_err(|fault| fault.to_string())?;
            schema.default(object.map_mut());
            Ok(())
        }
    }
}

/// Makes a value fit a built-in type, drops the fields that it does not have, and adds complaints
/// about them to `unknown`.
pub(crate) fn fit_type(
    ty: &'static Type,
    value: &mut Value,
    literals: &Literals,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    types::normalize(ty, value, &mut |path| unknown.push(unknown_field(&path)))
        .map_err(|error| error.with_literal(|path| literals.at(path)).to_string())
}

fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

/// A custom resource's metadata has the same type as everybody's.
fn metadata(object: &mut Map<String, Value>, unknown: &mut Vec<String>) -> Result<(), String> {
    let value = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    object_meta(value, &mut |path| unknown.push(unknown_field(&format!("metadata.{path}"))))
}

fn object_meta(value: &mut Value, unknown: &mut dyn FnMut(String)) -> Result<(), String> {
    let ty = types::find("meta/v1.ObjectMeta").expect("the table has the type of all metadata");
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    // Upstream: it was read once before, and is read again from what Go writes of it.
    codec::json::collapse(value);
    types::normalize(ty, value, unknown).map_err(|error| error.to_string())
}

/// Brings an object from the version of the path to the one in which all verbs work on it, and sets
/// the defaults that a built-in kind has.
pub(crate) fn working(cx: &Cx, object: Object) -> Object {
    let mut object = conversion::local(&cx.served, conversion::working_version(cx), object);
    (cx.resource().behavior.defaults)(&mut object);
    object
}
