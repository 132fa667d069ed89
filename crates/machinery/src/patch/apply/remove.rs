//! [`remove`]: an object without the fields of a set.

use super::item;
use super::schema::{Form, ListRule, MapRule, Schema};
use super::set::Set;
use crate::{Map, Value};

/// Removes the fields of `set` from `object`, with their descendants. An object or a list that
/// becomes empty is set to null.
pub(super) fn remove<S: Schema>(schema: S, object: &mut Map<String, Value>, set: &Set) {
    for node in &set.nodes {
        let Some(name) = node.element.as_field() else { continue };
        if node.owned {
            object.remove(name);
        } else if let Some(value) = object.get_mut(name) {
            remove_below(schema.child(name), value, &node.below);
        }
    }
}

fn remove_below<S: Schema>(schema: S, value: &mut Value, set: &Set) {
    match (schema.forms().of(Some(value)), &mut *value) {
        (Some(Form::Scalar(_)) | None, _) => return,
        (Some(Form::Map(rule)), Value::Object(object)) if rule != MapRule::Atomic => {
            remove(schema, object, set);
            if !object.is_empty() {
                return;
            }
        }
        (Some(Form::List(rule)), Value::Array(items)) if rule != ListRule::Atomic => {
            items.retain_mut(|value| {
                let element = item::path_element(schema, rule, value).ok();
                let node = element.and_then(|element| set.find(&element));
                let Some(node) = node else { return true };
                if !node.owned {
                    remove_below(schema.items(), value, &node.below);
                }
                !node.owned
            });
            if !items.is_empty() {
                return;
            }
        }
        _ => {}
    }
    *value = Value::Null;
}
