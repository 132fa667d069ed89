//! Decodes a request body into an [`Object`] of the memory version, in which the registry processes
//! objects: parsed, checked for unknown fields, normalized by its type, defaults set.

mod type_meta;
mod list_objects;
mod media;

pub(crate) use list_objects::{check as check_list_objects, check_object as check_applied};
pub(crate) use media::{cannot_be_handled, decode_body, unsupported_media_type};
pub(crate) use type_meta::{TypeMetaError, canonicalize, check_patched, conversion_error};

use crate::endpoints::context::RequestContext;
use crate::registry::{conversion, shape};
use crate::request::options::FieldValidation;
use machinery::codec::{self, Decoded, Format};
use machinery::{Object, Status, Value};
use media::unrecognized;
use types::Type;
use types::resource::Shape;

/// The maximum number of strict decoding errors that are reported.
const MAX_STRICT_ERRORS: usize = 100;

/// Decodes an object in the version of the path, and converts it to the memory version.
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
    let decoded = decode_body(&cx.content_type, bytes, ty)
        .map_err(|error| error.status(kind, version, bytes))?;
    let duplicates = duplicates(&decoded, validation);
    let Decoded { value, literals, format, .. } = decoded;
    let mut object = object_of_resource(cx, value, bytes)?;
    let undecodable = |why: String| cannot_be_handled(kind, version, kind, &why);
    let unknown = shape::shape_request(&cx.scope, &mut object, &literals)
        .map_err(|it| undecodable(it.from_text))?;
    let errors = match ty {
        Some(_) => ordered_strict_errors(bytes, format, duplicates, unknown),
        // Upstream: a custom resource is decoded without a type, and its schema is applied
        // afterwards.
        None => [duplicates, unknown].concat(),
    };
    report_strict_errors(cx, validation, errors).map_err(undecodable)?;
    let object = shape::to_memory_version(&cx.scope, object);
    if let Some(audit) = &cx.scope.audit {
        audit.set_request_object(&object, |object| {
            let mut json = Vec::new();
            let object = conversion::in_request_version(&cx.scope, object);
            cx.scope.version().shape.write(&object, &mut json);
            json
        });
    }
    Ok(object)
}

/// Decodes an object of a built-in type that is not the kind of the path's resource. The caller records
/// it with [`note_typed_object`].
pub(crate) fn of_type(
    cx: &RequestContext,
    bytes: &[u8],
    ty: &'static Type,
    validation: FieldValidation,
) -> Result<Object, Status> {
    let (kind, version) = (ty.short_name(), ty.package().version());
    let decoded = decode_body(&cx.content_type, bytes, Some(ty))
        .map_err(|error| error.status(kind, version, bytes))?;
    let duplicates = duplicates(&decoded, validation);
    let Decoded { value, literals, format, .. } = decoded;
    let mut object = into_object(value).map_err(|why| unrecognized(kind, &why, bytes))?;
    if let Some(why) = conversion_error(cx, ty, &object) {
        let found = object.gvk();
        let or_default = |found: &str, wanted: &str| {
            if found.is_empty() { wanted.to_owned() } else { found.to_owned() }
        };
        return Err(cannot_be_handled(
            &or_default(&found.kind, kind),
            &or_default(&found.version, version),
            kind,
            &why,
        ));
    }
    let undecodable = |why: String| cannot_be_handled(kind, version, kind, &why);
    let mut unknown = Vec::new();
    let mut value = Value::Object(std::mem::take(object.map_mut()));
    shape::fit_type(ty, &mut value, &literals, &mut unknown).map_err(undecodable)?;
    let errors = ordered_strict_errors(bytes, format, duplicates, unknown);
    report_strict_errors(cx, validation, errors).map_err(undecodable)?;
    Ok(Object::from_value(value).unwrap_or_default())
}

/// Records the object of a request that is audited, which is of a built-in type.
pub(crate) fn note_typed_object(
    cx: &RequestContext,
    object: &Object,
    api_version: &str,
    ty: &'static Type,
) {
    if let Some(audit) = &cx.scope.audit {
        audit.set_request_object(object, |mut object| {
            object.set_type(api_version, ty.short_name());
            let mut json = Vec::new();
            Shape::Typed(ty).write(&object, &mut json);
            json
        });
    }
}

/// The errors about duplicate keys, for [`report_strict_errors`].
fn duplicates(decoded: &Decoded, validation: FieldValidation) -> Vec<String> {
    match validation {
        FieldValidation::Strict => decoded.strict_errors(),
        _ => decoded.duplicates.clone(),
    }
}

/// The strict decoding errors of a body of a built-in type, in upstream's order: those of JSON in
/// document order; those of YAML, which is converted to JSON with sorted keys, with duplicate keys
/// first.
fn ordered_strict_errors(
    bytes: &[u8],
    format: Format,
    mut duplicates: Vec<String>,
    mut unknown: Vec<String>,
) -> Vec<String> {
    duplicates.retain(|error| {
        // Upstream: a typed decoder does not look for duplicates within unknown fields.
        let Some(duplicate) = duplicate_field_path(error) else { return true };
        !unknown.iter().filter_map(|it| unknown_field_path(it)).any(|unknown| {
            let rest = duplicate.strip_prefix(unknown);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    });
    duplicates.append(&mut unknown);
    let mut errors = duplicates;
    if format == Format::Json && errors.len() > 1 {
        let paths: Vec<String> = errors
            .iter()
            .filter_map(|it| unknown_field_path(it).or_else(|| duplicate_field_path(it)))
            .map(ToOwned::to_owned)
            .collect();
        let occurrences = codec::json::occurrences(bytes, paths.iter().map(String::as_str));
        // An unknown field is found where it first occurs, a duplicate where it occurs again.
        let position = |error: &String| match unknown_field_path(error) {
            Some(path) => occurrences.get(path).map(|it| it.first),
            None => occurrences.get(duplicate_field_path(error)?).and_then(|it| it.second),
        };
        errors.sort_by_cached_key(position);
    }
    errors
}

/// The path in an error about an unknown field.
fn unknown_field_path(error: &str) -> Option<&str> {
    error.strip_prefix("unknown field \"")?.strip_suffix('"')
}

/// The path in an error about a duplicate key of JSON.
fn duplicate_field_path(error: &str) -> Option<&str> {
    error.strip_prefix("duplicate field \"")?.strip_suffix('"')
}

/// Adds a warning for each error, or fails, as the client has requested.
pub(crate) fn report_strict_errors(
    cx: &RequestContext,
    validation: FieldValidation,
    errors: impl IntoIterator<Item = String>,
) -> Result<(), String> {
    let errors: Vec<String> = errors.into_iter().take(MAX_STRICT_ERRORS).collect();
    match validation {
        FieldValidation::Strict if !errors.is_empty() => {
            Err(format!("strict decoding error: {}", errors.join(", ")))
        }
        FieldValidation::Warn => {
            for error in errors {
                cx.scope.warn(error);
            }
            Ok(())
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(()),
    }
}

/// The object in a body; its type must match the path.
fn object_of_resource(cx: &RequestContext, value: Value, bytes: &[u8]) -> Result<Object, Status> {
    let kind = &cx.scope.resource().kind;
    let mut object = into_object(value).map_err(|why| unrecognized(kind, &why, bytes))?;
    type_meta::check_body(cx, &mut object, bytes)?;
    Ok(object)
}

/// Converts a document to an object. Its `kind` and `apiVersion` must be strings, or missing.
pub(crate) fn into_object(value: Value) -> Result<Object, String> {
    if !matches!(value, Value::Object(_) | Value::Null) {
        let found = codec::json::kind_name(&value);
        return Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        ));
    }
    let mut object = Object::from_value(value).unwrap_or_default();
    type_meta::check_types(&object)?;
    canonicalize(&mut object);
    Ok(object)
}
