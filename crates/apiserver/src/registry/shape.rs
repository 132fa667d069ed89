//! Makes objects fit the type or the schema of their version: unknown fields are dropped, values of
//! the wrong type are refused, defaults are set.

use super::conversion::working_version;
use super::scope::RequestScope;
use crate::cache::catalog::Served;
use crate::cache::conversion::convert_locally;
use machinery::codec::{self, Literals};
use machinery::{Map, Object, Value};
use types::Type;
use types::resource::Shape;

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
    scope: &RequestScope,
    object: &mut Object,
    literals: &Literals,
) -> Result<Vec<String>, Unfit> {
    let on_empty = &mut |path, value| scope.note_empty(path, value);
    fit_noting(&scope.served, scope.version, object, literals, on_empty)
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
pub(crate) fn working(scope: &RequestScope, object: Object) -> Object {
    let mut object = convert_locally(&scope.served, working_version(scope), object);
    (scope.resource().behavior.defaults)(&mut object);
    object
}
