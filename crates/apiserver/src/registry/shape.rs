//! Makes objects fit the type or the schema of their version: drops unknown fields, rejects values
//! of the wrong type, sets defaults.

use super::conversion::memory_version;
use super::scope::RequestScope;
use crate::storage::catalog::ServedResource;
use crate::storage::conversion::convert_locally;
use machinery::codec::{self, Literals};
use machinery::{Map, Object, Value};
use types::Type;
use types::resource::Shape;

/// The reason why an object does not fit its type.
#[derive(Debug)]
pub(crate) struct ShapeError {
    /// Upstream's message for an object that is decoded from text.
    pub from_text: String,
    /// Upstream's message for an object that is converted from unstructured values.
    pub from_values: String,
}

impl From<String> for ShapeError {
    fn from(why: String) -> Self {
        Self { from_text: why.clone(), from_values: why }
    }
}

/// Makes an object that was decoded from text fit the shape of one version, as [`fit`] does.
pub(crate) fn shape(
    served: &ServedResource,
    version: usize,
    object: &mut Object,
) -> Result<Vec<String>, String> {
    let fitted = fit(served, version, object, &Literals::default());
    let unknown = fitted.map_err(|error| error.from_text)?;
    // Only requests can reset managed fields, and the field manager processes those.
    if resets_managed_fields(object) {
        object.remove_meta("managedFields");
    }
    Ok(unknown)
}

/// Makes an object of a request fit the shape of its version, as [`fit`] does, and records empty
/// lists and maps.
pub(crate) fn shape_request(
    scope: &RequestScope,
    object: &mut Object,
    literals: &Literals,
) -> Result<Vec<String>, ShapeError> {
    let on_empty = &mut |path, value| scope.record_empty(path, value);
    fit_reporting_empty(&scope.served, scope.version, object, literals, on_empty)
}

/// Makes an object fit the shape of one version. Drops unknown fields and returns messages about
/// them; fails with Go's message for a value of the wrong type. `literals` are the numbers as they
/// were sent.
fn fit(
    served: &ServedResource,
    version: usize,
    object: &mut Object,
    literals: &Literals,
) -> Result<Vec<String>, ShapeError> {
    fit_reporting_empty(served, version, object, literals, &mut |_, _| {})
}

fn fit_reporting_empty(
    served: &ServedResource,
    version: usize,
    object: &mut Object,
    literals: &Literals,
    on_empty: &mut dyn FnMut(String, Value),
) -> Result<Vec<String>, ShapeError> {
    let mut unknown = Vec::new();
    match &served.version(version).shape {
        Shape::Typed(ty) => {
            let resets = resets_managed_fields(object);
            let mut value = Value::Object(std::mem::take(object.map_mut()));
            let on_unknown = &mut |path: String| unknown.push(unknown_field(&path));
            types::normalize_with(ty, &mut value, on_unknown, on_empty).map_err(|error| {
                let from_values = error.from_unstructured().to_owned();
                let from_text = error.with_literal(|path| literals.at(path)).to_string();
                ShapeError { from_text, from_values }
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
            decode_metadata(object.map_mut(), &mut unknown)?;
            let mut dropped = Vec::new();
            schema
                .prune_and_read(object.map_mut(), &mut decode_object_meta, &mut dropped)
                .map_err(|error| error.to_string())?;
            unknown.extend(dropped.iter().map(|path| unknown_field(path)));
            schema.default(object.map_mut());
        }
    }
    Ok(unknown)
}

/// Whether an empty list of managed fields was sent. For built-in kinds it resets the managed
/// fields, and differs from an absent list. Custom resources lose the list when their metadata is
/// decoded.
fn resets_managed_fields(object: &Object) -> bool {
    let entries = object.metadata().and_then(|it| it.get("managedFields"));
    entries.and_then(Value::as_array).is_some_and(Vec::is_empty)
}

/// Makes the result of an apply of `config` fit the shape of one version. Fields of a custom
/// resource are not dropped: apply has checked them against the schema, and upstream keeps a null,
/// which is then validated.
pub(crate) fn shape_applied(
    served: &ServedResource,
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
                // Upstream: the result of an apply is converted from unstructured values.
                Err(ShapeError { from_values, .. }) => Err(format!(
                    "failed to convert new object ({namespace}/{name}; {kind}) to proper version: unable to convert unstructured object to {kind}: {from_values}"
                )),
            }
        }
        Shape::Structural(schema) => {
            decode_metadata(object.map_mut(), &mut Vec::new())?;
            schema
                .read_embedded(object.map_mut(), &mut decode_object_meta, &mut Vec::new())
                .map_err(|error| error.to_string())?;
            schema.default(object.map_mut());
            Ok(())
        }
    }
}

/// Makes a value fit a built-in type. Drops unknown fields, and adds messages about them to
/// `unknown`.
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

/// Decodes the metadata of a custom resource, which has the same type as that of built-in kinds.
fn decode_metadata(
    object: &mut Map<String, Value>,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let value = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    decode_object_meta(value, &mut |path| unknown.push(unknown_field(&format!("metadata.{path}"))))
}

fn decode_object_meta(value: &mut Value, unknown: &mut dyn FnMut(String)) -> Result<(), String> {
    let ty = types::find("meta/v1.ObjectMeta").expect("the type table contains ObjectMeta");
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    // Upstream: metadata is decoded a second time, from the JSON that Go encodes.
    codec::json::whole_floats_to_integers(value);
    types::normalize(ty, value, unknown).map_err(|error| error.to_string())
}

/// Converts an object from the version of the request to the memory version, and sets the defaults
/// of a built-in kind.
pub(crate) fn to_memory_version(scope: &RequestScope, object: Object) -> Object {
    let mut object = convert_locally(&scope.served, memory_version(scope), object);
    (scope.resource().strategy.defaults)(&mut object);
    object
}
