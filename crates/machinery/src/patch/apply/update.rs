//! [`update`]: field ownership after an object was created, replaced or patched.

use super::compare::Comparison;
use super::fields::reconcile;
use super::managed::{Managed, Operation};
use super::request::{ManagedFieldsError, Request, Versions, entries, set_entries};
use super::schema::Schema;
use crate::{Map, Object, Value};

/// Sets `metadata.managedFields` of `new`, which replaces `live`. The manager of the request
/// becomes the only owner of the fields that it changed.
///
/// Both objects are in the version of the request and in their stored form, except that fields
/// which the request cannot change ([`Request::filter`]) may still differ. On the main resource,
/// entries that the client sent are accepted; `[]` or `[{}]` stops tracking until the next apply.
/// If ownership cannot be determined, it remains unchanged.
pub fn update<S: Schema, V: Versions<S>>(
    request: &Request<'_, S, V>,
    live: Option<&Object>,
    new: &mut Object,
) {
    let live_entries = live.map(entries).unwrap_or_default();
    let sent = match new.remove_meta("managedFields") {
        Some(Value::Array(list)) if request.subresource.is_empty() && list != live_entries => {
            Some(list)
        }
        _ => None,
    };
    let nothing = Object::default();
    let old = live.unwrap_or(&nothing);
    let changes = match request.changes(old, new) {
        Ok(changes) if sent.is_some() || !changes.is_empty() => changes,
        _ => return restore_entries(new, live_entries),
    };
    let sent = match sent {
        Some(list) if is_reset(&list) => Some(Managed::default()),
        Some(list) => Managed::decode(list).ok().filter(|it| !it.entries.is_empty()),
        None => None,
    };
    let managed =
        sent.unwrap_or_else(|| Managed::decode(live_entries.to_vec()).unwrap_or_default());
    // As upstream, tracking starts with the creation of an object or with an apply.
    if managed.entries.is_empty() && live.is_some_and(|live| !live.uid().is_empty()) {
        return;
    }
    match track(request, managed, changes, old, new, request.manager) {
        Ok(managed) => set_entries(new, managed),
        Err(_) => restore_entries(new, live_entries),
    }
}

/// Sets the entries that were stored before.
fn restore_entries(new: &mut Object, live_entries: &[Value]) {
    if !live_entries.is_empty() {
        new.set_meta("managedFields", live_entries.to_vec());
    }
}

/// Whether a client resets `managedFields`.
fn is_reset(list: &[Value]) -> bool {
    match list {
        [] => true,
        [only] => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Ownership after `manager` changed `live` to `new`.
pub(super) fn track<S: Schema, V: Versions<S>>(
    request: &Request<'_, S, V>,
    mut managed: Managed,
    changes: Comparison,
    live: &Object,
    new: &Object,
    manager: &str,
) -> Result<Managed, ManagedFieldsError> {
    let newly_owned = changes.modified.clone().union(changes.added.clone());
    let all = request.changes_by_version(&mut managed, changes, live, new)?;
    reconcile_all(request, &mut managed);
    for entry in &mut managed.entries {
        if let Some((_, changes)) = all.iter().find(|(version, _)| *version == entry.api_version) {
            let Comparison { removed, modified, added } = changes;
            for fields in [modified, added, removed] {
                entry.remove_owned(fields);
            }
        }
    }
    managed.drop_empty();
    if !newly_owned.is_empty() {
        let entry = managed.entry(&request.entry(manager, Operation::Update));
        let before = std::mem::take(&mut entry.set);
        entry.replace_owned(newly_owned.union(before));
        entry.set_time(request.now);
    }
    managed.limit_updaters();
    Ok(managed)
}

/// Adapts all entries to the current schemas.
pub(super) fn reconcile_all<S: Schema, V: Versions<S>>(
    request: &Request<'_, S, V>,
    managed: &mut Managed,
) {
    for entry in &mut managed.entries {
        if let Some(schema) = request.schema_of(&entry.api_version) {
            let mut set = std::mem::take(&mut entry.set);
            let changed = reconcile(schema, &mut set);
            if changed {
                entry.replace_owned(set);
            } else {
                entry.set = set;
            }
        }
    }
}

/// Restores the old times in `new` if nothing else changed since `live`, so that an apply without
/// effect is not stored.
pub fn keep_times_if_unchanged(live: &Object, new: &mut Object) {
    let (old, list) = (entries(live), entries(new));
    let equal_except_time = |a: &Value, b: &Value| match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let rest = |map: &Map<String, Value>| -> Vec<(String, Value)> {
                let rest = map.iter().filter(|(key, _)| *key != "time");
                rest.map(|(key, value)| (key.clone(), value.clone())).collect()
            };
            rest(a) == rest(b)
        }
        _ => false,
    };
    let unchanged = !list.is_empty()
        && old != list
        && old.len() == list.len()
        && old.iter().zip(list).all(|(a, b)| equal_except_time(a, b))
        && equal_except_managed_fields(live, new);
    if unchanged {
        let old = old.to_vec();
        new.set_meta("managedFields", old);
    }
}

/// Whether two objects are equal except for `managedFields`.
pub(super) fn equal_except_managed_fields(a: &Object, b: &Object) -> bool {
    fn without<'a>(
        map: &'a Map<String, Value>,
        key: &'a str,
    ) -> impl Iterator<Item = (&'a String, &'a Value)> {
        map.iter().filter(move |(it, _)| *it != key)
    }
    let same_metadata = match (a.metadata(), b.metadata()) {
        (Some(a), Some(b)) => without(a, "managedFields").eq(without(b, "managedFields")),
        (a, b) => a == b,
    };
    same_metadata && without(a.map(), "metadata").eq(without(b.map(), "metadata"))
}
