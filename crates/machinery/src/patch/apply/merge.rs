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
    let wanted: Vec<PathElement> =
        config.iter().map(|it| item::path_element(schema, rule, it)).collect::<Result<_, _>>()?;
    let names: Vec<PathElement> =
        old.iter().map(|it| item::path_element(schema, rule, it)).collect::<Result<_, _>>()?;
    let places: BTreeMap<&PathElement, usize> = wanted.iter().zip(0..).collect();
    let mut present: BTreeMap<&PathElement, Vec<usize>> = BTreeMap::new();
    for (at, name) in names.iter().enumerate() {
        present.entry(name).or_default().push(at);
    }
    let mut old: Vec<Option<Value>> = old.into_iter().map(Some).collect();
    // The elements of both lists that are not written yet, in the order of the configuration.
    let mut shared: VecDeque<&PathElement> =
        wanted.iter().filter(|it| present.contains_key(it)).collect();
    let mut written: BTreeSet<&PathElement> = BTreeSet::new();
    let mut merged = Vec::with_capacity(old.len().max(config.len()));
    let (mut at, mut next) = (0, 0);
    while at < names.len() || next < wanted.len() {
        if let Some(name) = names.get(at) {
            let differs = wanted.get(next).is_none_or(|it| it != name);
            if !places.contains_key(name) {
                merged.extend(old[at].take());
                at += 1;
                continue;
            }
            // The configuration moves the element to a later position.
            let moves_back =
                next < wanted.len() && differs && shared.front().is_some_and(|it| *it != name);
            if moves_back {
                at += 1;
                continue;
            }
            at += usize::from(!differs || written.contains(name));
        }
        let Some(name) = wanted.get(next) else { continue };
        // Duplicates are not merged but replaced by the configuration's element.
        let mut value = match present.get(name).map(Vec::as_slice) {
            Some([only]) => old[*only].take(),
            _ => None,
        };
        match &mut value {
            Some(value) => merge_value(schema.items(), value, &config[next])?,
            none => *none = Some(config[next].clone()),
        }
        merged.extend(value);
        written.insert(name);
        if shared.front() == Some(&name) {
            shared.pop_front();
        }
        next += 1;
    }
    Ok(merged)
}
