//! [`merge`]: the elements of a patch's list, merged into those of the original.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::order::{self, Positions};
use super::schema::ListField;
use super::{DIRECTIVE, Error, go_value, merge_objects};

/// The type of the elements of lists that merge, which is the same for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Elements {
    Objects,
    Primitives,
}

impl Elements {
    pub(super) fn of(original: &[Value], patch: &[Value]) -> Result<Self, Error> {
        let mut all = original.iter().chain(patch);
        let first = all.next().ok_or(Error::NoElements)?;
        if first.is_array() {
            return Err(Error::ListOfLists);
        }
        let same = |value: &Value| go_value::type_of(value) == go_value::type_of(first);
        if first.is_null() || !all.all(same) {
            return Err(Error::mixed_elements(original, patch));
        }
        Ok(if first.is_object() { Self::Objects } else { Self::Primitives })
    }
}

/// A list after a merge.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub(super) elements: Vec<Value>,
    /// The order of the original, as upstream computes it: the first new elements take the
    /// positions that deleted ones leave free at the end.
    pub(super) server_order: Positions,
}

/// The result of merging a patch into `original`.
pub(super) fn merge(
    list: ListField,
    original: Vec<Value>,
    patch: &[Value],
) -> Result<Merged, Error> {
    if original.is_empty() && patch.is_empty() {
        return Ok(Merged::default());
    }
    match Elements::of(&original, patch)? {
        Elements::Objects => merge_maps(list, original, patch),
        Elements::Primitives => {
            let server_order = Positions::of(&original, list.key)?;
            let mut seen = Positions::default();
            let mut merged = original;
            merged.extend_from_slice(patch);
            merged.retain(|value| seen.add(value));
            let patch_order = Positions::of(patch, list.key)?;
            let elements = order::arrange(merged, &patch_order, &server_order, list.key)?;
            Ok(Merged { elements, server_order })
        }
    }
}

fn merge_maps(list: ListField, mut original: Vec<Value>, patch: &[Value]) -> Result<Merged, Error> {
    let key = list.key.ok_or(Error::NoDeclaredKey { kind: list.element.kind() })?;
    let original_len = original.len();
    let mut without_directive = Vec::with_capacity(patch.len());
    let mut deleted: HashSet<&Value> = HashSet::new();
    let mut replace = false;
    for object in patch.iter().filter_map(Value::as_object) {
        let Some(directive) = object.get(DIRECTIVE) else {
            without_directive.push(object);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                deleted.insert(merge_key_of(object, key)?);
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(Error::MergeDirective),
            _ => return Err(Error::unknown_directive(directive, object)),
        }
    }
    if !deleted.is_empty() {
        original.retain(|element| element.get(key).is_none_or(|id| !deleted.contains(id)));
    }
    if replace {
        let server_order = Positions::of(&original, list.key)?;
        let elements: Vec<Value> =
            without_directive.into_iter().cloned().map(Value::Object).collect();
        let own_order = Positions::of(&elements, list.key)?;
        let elements = order::arrange(elements, &Positions::default(), &own_order, list.key)?;
        return Ok(Merged { elements, server_order });
    }
    let kept_len = original.len();
    let merged = merge_elements(list, key, original, &without_directive)?;
    let mut patch_order = Positions::default();
    for object in &without_directive {
        patch_order.add(merge_key_of(object, key)?);
    }
    let kept_order = Positions::of(&merged[..kept_len], list.key)?;
    let server_order = Positions::of(&merged[..original_len.min(merged.len())], list.key)?;
    let elements = order::arrange(merged, &patch_order, &kept_order, list.key)?;
    Ok(Merged { elements, server_order })
}

/// Each element merges into the first one with its key, of the original or of the patch itself, or
/// else is appended.
fn merge_elements(
    list: ListField,
    key: &'static str,
    mut merged: Vec<Value>,
    patch: &[&Map<String, Value>],
) -> Result<Vec<Value>, Error> {
    let mut indexes: HashMap<Value, usize> = HashMap::with_capacity(merged.len());
    for (at, element) in merged.iter().enumerate() {
        if let Some(id) = element.get(key) {
            indexes.entry(id.clone()).or_insert(at);
        }
    }
    for object in patch {
        let id = merge_key_of(object, key)?;
        if let Some(Value::Object(old)) = indexes.get(id).map(|at| &mut merged[*at]) {
            merge_objects(list.element, old, object)?;
        } else {
            indexes.insert(id.clone(), merged.len());
            merged.push(Value::Object((*object).clone()));
        }
    }
    Ok(merged)
}

fn merge_key_of<'a>(object: &'a Map<String, Value>, key: &'static str) -> Result<&'a Value, Error> {
    match object.get(key) {
        None => Err(Error::no_merge_key(object, key)),
        Some(id) if id.is_object() || id.is_array() => Err(Error::unhashable(id)),
        Some(id) => Ok(id),
    }
}

/// The identity of an element: the value of its merge key, or the whole element.
pub(super) fn identity<'a>(
    element: &'a Value,
    key: Option<&'static str>,
) -> Result<&'a Value, Error> {
    match (key, element) {
        (None, element) => Ok(element),
        (Some(key), Value::Object(object)) => merge_key_of(object, key),
        (Some(_), element) => Err(Error::not_a_map(element)),
    }
}
