//! [`prune`]: removes the fields that an applier applied before and no longer applies, unless
//! another manager owns them.

use std::collections::HashMap;

use super::element::PathElement;
use super::fields::{fields, with_declared_fields};
use super::managed::{Entry, Managed};
use super::remove::remove;
use super::request::{ManagedFieldsError, Request, Versions};
use super::schema::Schema;
use super::set::Set;
use crate::{Map, Object, Value};

/// `merged` without the pruned fields. `last` is the set that the applier owned before; its current
/// set is among `managed`.
pub(super) fn prune<S: Schema, V: Versions<S>>(
    request: &Request<'_, S, V>,
    merged: Object,
    managed: &Managed,
    last: &Entry,
) -> Result<Object, ManagedFieldsError> {
    let Some(schema) = request.schema_of(&last.api_version).filter(|_| !last.set.is_empty()) else {
        return Ok(merged);
    };
    // The usual case: the applier applies the same fields as before.
    let in_version = |entry: &&Entry| entry.api_version == last.api_version;
    if managed.entries.iter().filter(in_version).any(|entry| last.set.is_subset(&entry.set)) {
        return Ok(merged);
    }
    let last_set = with_declared_fields(schema, &last.set);
    let owned = by_version(managed, &last.api_version);
    let nothing_dropped = owned.first().is_some_and(|(version, set)| {
        *version == &last.api_version && last_set.is_subset(&with_declared_fields(schema, set))
    });
    if nothing_dropped {
        return Ok(merged);
    }
    let whole = request.convert(merged, &last.api_version)?;
    let mut pruned = without(schema, &whole, &last_set);
    let mut at_version = whole.clone();
    for (version, set) in &owned {
        let Some(schema) = request.schema_of(version) else { continue };
        at_version = request.convert(at_version, version)?;
        pruned = request.convert(pruned, version)?;
        let kept = all_fields(schema, pruned.map()).union(with_declared_fields(schema, set));
        let unowned = all_fields(schema, at_version.map()).difference(&kept);
        pruned = without(schema, &at_version, &unowned);
    }
    // Fields that were removed with their parent but did not belong to the applier are restored.
    let pruned = request.convert(pruned, &last.api_version)?;
    let removed = all_fields(schema, whole.map()).difference(&all_fields(schema, pruned.map()));
    let mut result = whole;
    remove(schema, result.map_mut(), &removed.intersection(&last_set));
    request.convert(result, request.api_version)
}

/// The fields that all managers own together, by version, the version `first` at the start.
fn by_version<'a>(managed: &'a Managed, first: &str) -> Vec<(&'a String, Set)> {
    let mut all: Vec<(&String, Vec<Set>)> = Vec::new();
    let mut places: HashMap<&String, usize> = HashMap::new();
    for entry in &managed.entries {
        let at = *places.entry(&entry.api_version).or_insert(all.len());
        if at == all.len() {
            all.push((&entry.api_version, Vec::new()));
        }
        all[at].1.push(entry.set.clone());
    }
    all.sort_by_key(|(version, _)| *version != first);
    all.into_iter().map(|(version, sets)| (version, Set::union_all(sets))).collect()
}

fn all_fields<S: Schema>(schema: S, object: &Map<String, Value>) -> Set {
    with_declared_fields(schema, &fields(schema, object))
}

/// A copy without these fields. The type is kept, since conversion needs it.
fn without<S: Schema>(schema: S, object: &Object, fields: &Set) -> Object {
    let mut kind = Set::new();
    for name in ["apiVersion", "kind"] {
        kind.insert(&[PathElement::field(name)]);
    }
    let mut copy = object.clone();
    remove(schema, copy.map_mut(), &fields.clone().difference(&kind));
    copy
}
