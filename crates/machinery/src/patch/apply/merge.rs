//! [`merge`]: merges a configuration into an object. It removes nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::element::PathElement;
use super::item::{self, KeyError};
use super::schema::{Form, ListRule, MapRule, Schema};
use crate::{Map, Value};

/// Sets the values of `config` in `object`.
pub(super) fn merge<S: Schema>(
    schema: S,
    object: &mut Map<String, Value>,
    config: &Map<String, Value>,
) -> Result<(), KeyError> {
    for (name, value) in config {
        match object.get_mut(name) {
            Some(old) => merge_value(schema.child(name), old, value)?,
            None => {
                object.insert(name.clone(), value.clone());
            }
        }
    }
    Ok(())
}

fn merge_value<S: Schema>(schema: S, value: &mut Value, config: &Value) -> Result<(), KeyError> {
    match schema.forms().of(Some(config)) {
        // Null in the configuration leaves a non-empty object or list unchanged.
        Some(Form::Map(rule)) if rule != MapRule::Atomic => {
            let empty = value.as_object().is_none_or(Map::is_empty);
            match (value, config) {
                (value, config) if empty => *value = config.clone(),
                (Value::Object(old), Value::Object(new)) => return merge(schema, old, new),
                _ => {}
            }
        }
        Some(Form::List(rule)) if rule != ListRule::Atomic => {
            let empty = value.as_array().is_none_or(Vec::is_empty);
            match (value, config) {
                (value, config) if empty => *value = config.clone(),
                (Value::Array(old), Value::Array(new)) => {
                    *old = merge_lists(schema, rule, std::mem::take(old), new)?;
                }
                _ => {}
            }
        }
        _ => value.clone_from(config),
    }
    Ok(())
}

/// The elements of both lists: in the order of the object, as far as the order of the configuration
/// allows it. Upstream: structured-merge-diff `typed/merge.go` `visitListItems`.
fn merge_lists<S: Schema>(
    schema: S,
    rule: ListRule,
    old: Vec<Value>,
    config: &[Value],
) -> Result<Vec<Value>, KeyError> {
    let config_elements: Vec<PathElement> =
        config.iter().map(|it| item::path_element(schema, rule, it)).collect::<Result<_, _>>()?;
    let old_elements: Vec<PathElement> =
        old.iter().map(|it| item::path_element(schema, rule, it)).collect::<Result<_, _>>()?;
    let in_config: BTreeSet<&PathElement> = config_elements.iter().collect();
    let mut old_positions: BTreeMap<&PathElement, Vec<usize>> = BTreeMap::new();
    for (index, element) in old_elements.iter().enumerate() {
        old_positions.entry(element).or_default().push(index);
    }
    let mut old: Vec<Option<Value>> = old.into_iter().map(Some).collect();
    // The elements of both lists that are not written yet, in the order of the configuration.
    let mut shared: VecDeque<&PathElement> =
        config_elements.iter().filter(|it| old_positions.contains_key(it)).collect();
    let mut written: BTreeSet<&PathElement> = BTreeSet::new();
    let mut merged = Vec::with_capacity(old.len().max(config.len()));
    let (mut old_index, mut config_index) = (0, 0);
    while old_index < old_elements.len() || config_index < config_elements.len() {
        if let Some(element) = old_elements.get(old_index) {
            let differs = config_elements.get(config_index).is_none_or(|it| it != element);
            if !in_config.contains(element) {
                merged.extend(old[old_index].take());
                old_index += 1;
                continue;
            }
            // The configuration moves the element to a later position.
            let moves_back = config_index < config_elements.len()
                && differs
                && shared.front().is_some_and(|it| *it != element);
            if moves_back {
                old_index += 1;
                continue;
            }
            old_index += usize::from(!differs || written.contains(element));
        }
        let Some(element) = config_elements.get(config_index) else { continue };
        // Duplicates are not merged but replaced by the configuration's element.
        let mut value = match old_positions.get(element).map(Vec::as_slice) {
            Some([only]) => old[*only].take(),
            _ => None,
        };
        match &mut value {
            Some(value) => merge_value(schema.items(), value, &config[config_index])?,
            none => *none = Some(config[config_index].clone()),
        }
        merged.extend(value);
        written.insert(element);
        if shared.front() == Some(&element) {
            shared.pop_front();
        }
        config_index += 1;
    }
    Ok(merged)
}
