//! [`apply`]: Kubernetes' strategic merge patch, which merges lists by the types' patch strategies.
//!
//! ```
//! use serde_json::json;
//!
//! let pod_spec = types::find("core/v1.PodSpec").expect("Pods are built in");
//! let mut spec = json!({"containers": [{"name": "a"}, {"name": "b", "image": "x"}]});
//! let patch =
//!     json!({"containers": [{"$patch": "delete", "name": "a"}, {"name": "b", "tty": true}]});
//! types::strategic::apply(pod_spec, &mut spec, &patch)?;
//! assert_eq!(spec, json!({"containers": [{"name": "b", "image": "x", "tty": true}]}));
//! # Ok::<(), types::strategic::Error>(())
//! ```
//!
//! The directives of a patch:
//!
//! ```text
//! field: null                              remove it
//! $patch: replace                          in an object: the rest of it replaces the old object
//! $patch: delete                           in an object: empty it
//! {$patch: delete, name: a}                in a list: remove the elements with that merge key
//! {$patch: replace}                        in a list: the other elements replace the old list
//! $retainKeys: [a, b]                      remove the fields that are not named
//! $deleteFromPrimitiveList/field: [x]      remove these values
//! $setElementOrder/field: [{name: b}, …]   the order of the list afterwards
//! ```
//!
//! Where the original has no value, or one of another type, the patch's value is used, without
//! nulls and objects with `$patch`. Other directives remain in it, as fields that the type does not
//! have: the validation of unknown fields reports them.

mod error;
mod go_value;
mod list;
mod order;
mod schema;

pub use error::Error;
pub use go_value::GoValue;

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::Type;
use list::Elements;
use schema::Schema;

/// The directive about a whole object or element of a list.
const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";

/// Applies a patch to `original`, which is a `ty`. After an error, it is only partly changed.
pub fn apply(ty: &'static Type, original: &mut Value, patch: &Value) -> Result<(), Error> {
    let patch = match patch {
        Value::Object(patch) => patch,
        // Go decodes null as an empty map.
        Value::Null => return Ok(()),
        Value::Bool(_) => return Err(Error::NotAnObject("bool")),
        Value::Number(_) => return Err(Error::NotAnObject("number")),
        Value::String(_) => return Err(Error::NotAnObject("string")),
        Value::Array(_) => return Err(Error::NotAnObject("array")),
    };
    let Value::Object(original) = original else {
        return Err(Error::not_a_map(original));
    };
    merge_objects(Schema::of(ty), original, patch)
}

fn merge_objects(
    schema: Schema,
    original: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<(), Error> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return apply_directive(directive, original, patch);
    }
    retain_keys(original, patch)?;
    let done = order::merge_ordered_lists(schema, original, patch)?;
    for (key, value) in patch {
        if key == RETAIN_KEYS || key.starts_with(order::DIRECTIVE) || done.contains(&key.as_str()) {
            continue;
        }
        match key.strip_prefix(DELETE_FROM) {
            None => merge_field(schema, original, key, value)?,
            Some(rest) => {
                let key = rest.strip_prefix('/').ok_or(Error::PrimitiveList)?;
                delete_values(schema, original, key, value)?;
            }
        }
    }
    Ok(())
}

/// Applies an object's `$patch`.
fn apply_directive(
    directive: &Value,
    original: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<(), Error> {
    match directive.as_str() {
        Some("replace") => {
            original.clone_from(patch);
            original.remove(DIRECTIVE);
            Ok(())
        }
        Some("delete") => {
            original.clear();
            Ok(())
        }
        _ => Err(Error::unknown_directive(directive, patch)),
    }
}

/// Removes the fields that `$retainKeys` does not name, if it is present. The patch must not set
/// others.
///
/// Upstream obeys it everywhere, also where the type does not declare that strategy, which only
/// matters to clients that compute patches.
fn retain_keys(original: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Error> {
    let Some(retained) = patch.get(RETAIN_KEYS) else {
        return Ok(());
    };
    let retained = retained.as_array().ok_or(Error::RetainKeys)?;
    if let Some(composite) = retained.iter().find(|key| key.is_object() || key.is_array()) {
        return Err(Error::unhashable(composite));
    }
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let sets_another = patch.iter().any(|(key, value)| {
        let directive =
            key == RETAIN_KEYS || key.starts_with(DELETE_FROM) || key.starts_with(order::DIRECTIVE);
        !directive && !value.is_null() && !retained.contains(key.as_str())
    });
    if sets_another {
        return Err(Error::RetainKeys);
    }
    original.retain(|key, _| retained.contains(key.as_str()));
    Ok(())
}

fn merge_field(
    schema: Schema,
    original: &mut Map<String, Value>,
    key: &str,
    value: &Value,
) -> Result<(), Error> {
    match (original.get_mut(key), value) {
        (_, Value::Null) => {
            original.remove(key);
        }
        (Some(Value::Object(old)), Value::Object(new)) => {
            let field = schema.object(key)?;
            if field.replaced {
                old.clone_from(new);
            } else {
                merge_objects(field.schema, old, new)?;
            }
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            let list = schema.list(key)?;
            if list.merge {
                *old = list::merge(list, std::mem::take(old), new)?.elements;
            } else {
                old.clone_from(new);
            }
        }
        _ => match without_directives(without_nulls(value)) {
            Some(value) => {
                original.insert(key.to_owned(), value);
            }
            None => {
                original.remove(key);
            }
        },
    }
    Ok(())
}

/// Removes values from a list of primitives; how the list merges does not matter.
fn delete_values(
    schema: Schema,
    original: &mut Map<String, Value>,
    key: &str,
    value: &Value,
) -> Result<(), Error> {
    // Upstream treats the key of a value that is no list as if it had no prefix.
    let (Some(Value::Array(old)), Value::Array(deleted)) = (original.get_mut(key), value) else {
        let both_objects = value.is_object() && original.get(key).is_some_and(Value::is_object);
        if value.is_null() || both_objects {
            merge_field(schema, original, key, value)?;
        }
        return Ok(());
    };
    let list = schema.list(key)?;
    if old.is_empty() && deleted.is_empty() {
        return Ok(());
    }
    match Elements::of(old, deleted)? {
        Elements::Objects => {
            *old = list::merge(list, std::mem::take(old), deleted)?.elements;
        }
        Elements::Primitives => {
            let deleted: HashSet<&Value> = deleted.iter().collect();
            old.retain(|value| !deleted.contains(value));
        }
    }
    Ok(())
}

/// The value without the fields that are null, at any depth.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let kept = object.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

/// The value without the objects that have a `$patch`, at any depth: their directives have nothing
/// to act on.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.contains_key(DIRECTIVE) => None,
        Value::Object(object) => {
            let fields = object.into_iter();
            let kept = fields.filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(list) => {
            Some(Value::Array(list.into_iter().filter_map(without_directives).collect()))
        }
        scalar => Some(scalar),
    }
}

#[cfg(test)]
mod tests;
