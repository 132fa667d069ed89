//! [`patch`]: what must change so that an object is as its manifest says.
//!
//! ```text
//! manifest differs from the object          → the manifest's value
//! last applied, but not in the manifest     → removed
//! only in the object                        → kept: it belongs to somebody else
//! ```
//!
//! Lists whose type has a merge key are compared element by element.

use machinery::{Map, Value};
use types::{Container, Field, Type};

/// The patch from `current` to `modified`; a strategic merge patch if there is a type, otherwise a
/// JSON merge patch. It is empty if nothing differs.
pub(crate) fn patch(
    ty: Option<&'static Type>,
    original: Option<&Value>,
    modified: &Value,
    current: &Value,
) -> Value {
    let empty = Map::new();
    let map = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let original = map(original);
    let modified = modified.as_object().unwrap_or(&empty);
    let current = current.as_object().unwrap_or(&empty);
    let mut patch = maps(ty, &original, modified, current);
    // These are not the client's to change.
    if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
        if metadata.is_empty() {
            patch.remove("metadata");
        }
    }
    patch.into()
}

fn maps(
    ty: Option<&'static Type>,
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    current: &Map<String, Value>,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, value) in modified {
        let field = ty.and_then(|it| it.field(key));
        match current.get(key) {
            None if value.is_null() => {}
            None => {
                patch.insert(key.clone(), value.clone());
            }
            Some(live) if live == value => {}
            Some(live) => value_patch(&mut patch, field, key, original.get(key), value, live),
        }
    }
    for key in original.keys() {
        if !modified.contains_key(key) && current.contains_key(key) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    patch
}

/// Adds the change of one field whose value differs.
fn value_patch(
    patch: &mut Map<String, Value>,
    field: Option<&'static Field>,
    key: &str,
    original: Option<&Value>,
    modified: &Value,
    current: &Value,
) {
    match (modified, current) {
        (Value::Object(new), Value::Object(live)) => {
            // The values of a map have no type but that of the map's field.
            let ty = field.filter(|it| it.container == Container::One).and_then(Field::message);
            let empty = Map::new();
            let old = original.and_then(Value::as_object).unwrap_or(&empty);
            let mut change = maps(ty, old, new, live);
            if change.is_empty() {
                return;
            }
            if field.is_some_and(|it| it.retain_keys) {
                let keys: Vec<Value> = new.keys().map(|it| it.as_str().into()).collect();
                change.insert("$retainKeys".to_owned(), keys.into());
            }
            patch.insert(key.to_owned(), change.into());
        }
        (Value::Array(new), Value::Array(live)) => {
            let old = original.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let Some(field) = field.filter(|it| it.merge) else {
                patch.insert(key.to_owned(), modified.clone());
                return;
            };
            match (field.merge_key(), field.message()) {
                (Some(merge_key), Some(ty)) => {
                    keyed_lists(patch, key, ty, field, merge_key, [old, new, live]);
                }
                _ => value_lists(patch, key, [old, new, live]),
            }
        }
        _ => {
            patch.insert(key.to_owned(), modified.clone());
        }
    }
}

/// Adds the change of a list whose elements have a key.
fn keyed_lists(
    patch: &mut Map<String, Value>,
    name: &str,
    ty: &'static Type,
    field: &'static Field,
    key: &str,
    [original, modified, current]: [&[Value]; 3],
) {
    let find = |list: &'_ [Value], element: &Value| -> Option<Map<String, Value>> {
        list.iter().find(|it| it[key] == element[key])?.as_object().cloned()
    };
    let mut changes = Vec::new();
    for element in modified {
        let Some(new) = element.as_object() else { continue };
        let Some(live) = find(current, element) else {
            changes.push(element.clone());
            continue;
        };
        let old = find(original, element).unwrap_or_default();
        let mut change = maps(Some(ty), &old, new, &live);
        if change.is_empty() {
            continue;
        }
        change.insert(key.to_owned(), element[key].clone());
        if field.retain_keys {
            let keys: Vec<Value> = new.keys().map(|it| it.as_str().into()).collect();
            change.insert("$retainKeys".to_owned(), keys.into());
        }
        changes.push(change.into());
    }
    for element in original {
        if find(modified, element).is_none() && find(current, element).is_some() {
            let mut deletion = Map::new();
            deletion.insert("$patch".to_owned(), "delete".into());
            deletion.insert(key.to_owned(), element[key].clone());
            changes.push(deletion.into());
        }
    }
    if changes.is_empty() {
        return;
    }
    let order =
        modified.iter().map(|it| Map::from_iter([(key.to_owned(), it[key].clone())]).into());
    patch.insert(format!("$setElementOrder/{name}"), order.collect::<Vec<Value>>().into());
    patch.insert(name.to_owned(), changes.into());
}

/// Adds the change of a list of texts or numbers that is merged.
fn value_lists(
    patch: &mut Map<String, Value>,
    name: &str,
    [original, modified, current]: [&[Value]; 3],
) {
    let added: Vec<Value> = modified.iter().filter(|it| !current.contains(it)).cloned().collect();
    let is_removed = |it: &&Value| !modified.contains(it) && current.contains(it);
    let removed: Vec<Value> = original.iter().filter(is_removed).cloned().collect();
    if added.is_empty() && removed.is_empty() {
        return;
    }
    patch.insert(format!("$setElementOrder/{name}"), modified.to_vec().into());
    if !added.is_empty() {
        patch.insert(name.to_owned(), added.into());
    }
    if !removed.is_empty() {
        patch.insert(format!("$deleteFromPrimitiveList/{name}"), removed.into());
    }
}

#[cfg(test)]
mod tests {
    use machinery::json;

    use super::*;

    /// Compares three-way, applies the patch, and expects a result.
    fn check(original: &Value, modified: &Value, current: &Value, expected: &Value) {
        let ty = types::find("core/v1.PodSpec").unwrap();
        let patch = patch(Some(ty), Some(original), modified, current);
        let mut patched = current.clone();
        types::strategic::apply(ty, &mut patched, &patch).unwrap();
        assert_eq!(&patched, expected, "{patch}");
    }

    #[test]
    fn what_others_have_set_stays_and_what_is_no_longer_applied_goes() {
        check(
            &json!({"hostname": "a", "subdomain": "s"}),
            &json!({"hostname": "b"}),
            &json!({"hostname": "a", "subdomain": "s", "nodeName": "n"}),
            &json!({"hostname": "b", "nodeName": "n"}),
        );
    }

    #[test]
    fn the_elements_of_a_list_are_merged_by_their_key() {
        check(
            &json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}),
            &json!({"containers": [{"name": "a", "image": "2"}, {"name": "c", "image": "1"}]}),
            &json!({"containers": [{"name": "a", "image": "1", "tty": true},
                {"name": "b", "image": "1"}, {"name": "side", "image": "x"}]}),
            &json!({"containers": [{"name": "a", "image": "2", "tty": true},
                {"name": "side", "image": "x"}, {"name": "c", "image": "1"}]}),
        );
    }

    #[test]
    fn nothing_to_do_is_an_empty_patch() {
        let object = json!({"containers": [{"name": "a"}], "x": null});
        let current = json!({"containers": [{"name": "a", "image": "1"}], "nodeName": "n"});
        let ty = types::find("core/v1.PodSpec");
        assert_eq!(patch(ty, Some(&object), &object, &current), json!({}));
    }
}
