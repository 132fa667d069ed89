//! The path element that identifies an element of a list.

use super::element::PathElement;
use super::schema::{ListRule, Schema};
use crate::Value;

/// Why an element has no name, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Of a list by keys.
    #[error("associative list with keys may not have a null element")]
    Null,
    /// Of a list by keys.
    #[error("associative list with keys may not have non-map elements")]
    NotAnObject,
    /// Of a list by keys.
    #[error(
        "associative list with keys has an element that omits all key fields {keys:?} (and doesn't have default values for any key fields)"
    )]
    NoKeys {
        /// The fields of which it must have one.
        keys: Vec<String>,
    },
    /// Of a set.
    #[error("associative list without keys has an element that's a map type")]
    Object,
    /// Of a set.
    #[error("not supported: associative list with lists as elements")]
    List,
    /// Of a set.
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
}

/// The name of `item` in the list that `list` describes.
pub(super) fn name<S: Schema>(
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
