//! The path element that identifies an element of a list.

use super::element::PathElement;
use super::schema::{ListRule, Schema};
use crate::Value;

/// Why an element of a list cannot be identified. The messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// In a list with `x-kubernetes-list-type: map`.
    #[error("associative list with keys may not have a null element")]
    Null,
    /// In a list with `x-kubernetes-list-type: map`.
    #[error("associative list with keys may not have non-map elements")]
    NotAnObject,
    /// In a list with `x-kubernetes-list-type: map`.
    #[error(
        "associative list with keys has an element that omits all key fields {keys:?} (and doesn't have default values for any key fields)"
    )]
    NoKeys {
        /// The fields of which it must have one.
        keys: Vec<String>,
    },
    /// In a list with `x-kubernetes-list-type: set`.
    #[error("associative list without keys has an element that's a map type")]
    Object,
    /// In a list with `x-kubernetes-list-type: set`.
    #[error("not supported: associative list with lists as elements")]
    List,
    /// In a list with `x-kubernetes-list-type: set`.
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
}

/// The path element that identifies `item` in a list with the schema `list`.
pub(super) fn path_element<S: Schema>(
    list: S,
    rule: ListRule,
    item: &Value,
) -> Result<PathElement, KeyError> {
    if rule == ListRule::Map {
        return by_keys(list, item);
    }
    match item {
        Value::Object(_) => Err(KeyError::Object),
        Value::Array(_) => Err(KeyError::List),
        Value::Null => Err(KeyError::NullInSet),
        scalar => Ok(PathElement::Value(scalar.clone())),
    }
}

fn by_keys<S: Schema>(list: S, item: &Value) -> Result<PathElement, KeyError> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err(KeyError::Null),
        _ => return Err(KeyError::NotAnObject),
    };
    let mut found: Vec<(Box<str>, Value)> = Vec::new();
    let keys = || (0..).map_while(|index| list.key(index));
    for key in keys() {
        let value = fields.get(key).cloned();
        let value = value.or_else(|| Some(list.key_default(key)?.into_owned()));
        found.extend(value.map(|value| (key.into(), value)));
    }
    if found.is_empty() {
        return Err(KeyError::NoKeys { keys: keys().map(str::to_owned).collect() });
    }
    Ok(PathElement::key(found))
}
