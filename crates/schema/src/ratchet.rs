//! Ratcheting: finds the old value that a new value corresponds to, and whether it changed.
//!
//! Fields correspond by name, items of a list with `x-kubernetes-list-type: map` by their keys.
//! Items of other lists do not correspond: such a list is compared as a whole.

use std::collections::HashMap;

use crate::lists;
use crate::structural::{List, Node};
use crate::validate::Data;
use machinery::Value;

/// The items of an old list, indexed by their keys because the list can be long.
pub(crate) struct OldItems<'a> {
    keys: &'a [Box<str>],
    by_key: HashMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    /// None if the items of this list do not correspond to those of the new one.
    pub(crate) fn of(node: &'a Node, old: Data<'a>) -> Option<Self> {
        let (List::Map(keys), Data::List(items)) = (&node.list, old) else { return None };
        let mut by_key = HashMap::with_capacity(items.len());
        for item in items {
            if let Some(key) = key_of(keys, item) {
                by_key.entry(key).or_insert(item);
            }
        }
        Some(Self { keys, by_key })
    }

    /// The item with the same keys as `item`; if there are several, the first.
    pub(crate) fn get(&self, item: &Value) -> Option<&'a Value> {
        self.by_key.get(&key_of(self.keys, item)?).copied()
    }
}

/// A text that is equal for items with equal keys. None for an item that lacks a key or has one
/// that is not a scalar: it corresponds to no old item.
///
/// Upstream: `apiserver/pkg/cel/common/maplist.go`.
fn key_of(keys: &[Box<str>], item: &Value) -> Option<String> {
    let mut text = String::new();
    for key in keys {
        match (item.get(&**key)?, keys.len()) {
            (Value::Null | Value::Array(_) | Value::Object(_), _) => return None,
            (scalar, 1) => text += &lists::scalar_identity(scalar),
            // Upstream: several keys are joined as text, with six digits after the point of floats.
            (Value::Number(number), _) if number.is_f64() => {
                text += &format!("{:.6}", number.as_f64().unwrap_or_default());
            }
            (scalar, _) => text += &scalar.to_string(),
        }
        // A separator: the JSON of a scalar has no line break.
        text.push('\n');
    }
    Some(text)
}

/// Whether a value is unchanged. As upstream, fields that the schema does not have are never
/// correlated, so an object with such fields counts as changed.
pub(crate) fn is_unchanged(node: &Node, new: Data<'_>, old: Data<'_>) -> bool {
    match (new, old) {
        (Data::Null, Data::Null) => true,
        (Data::Bool(new), Data::Bool(old)) => new == old,
        (Data::Text(new), Data::Text(old)) => new == old,
        (Data::Number(new), Data::Number(old)) => new == old,
        (Data::List(new), Data::List(old_items)) => {
            new.len() == old_items.len()
                && match (&node.list, &node.items) {
                    (List::Map(_), Some(item_node)) => {
                        let old_items = OldItems::of(node, old);
                        new.iter().all(|item| {
                            let old = old_items.as_ref().and_then(|it| it.get(item));
                            old.is_some_and(|old| is_unchanged(item_node, item.into(), old.into()))
                        })
                    }
                    _ => new == old_items,
                }
        }
        (Data::Object(new), Data::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(key, value)| match (node.field(key), old.get(key)) {
                    (Some(field), Some(old)) => is_unchanged(field, value.into(), old.into()),
                    _ => false,
                })
        }
        _ => false,
    }
}
