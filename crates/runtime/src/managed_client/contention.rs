//! [`Contention`]: notices that this client and another one keep changing the same field of an
//! object, each undoing what the other did.
//!
//! ```text
//! own write a=1 ─ foreign a=2 ─ own write a=1 ─ foreign a=2 ─ own write a=1 …    reported
//! own write a=1 ─ foreign b=1 ─ own write a=2 ─ foreign b=2 ─ own write a=3 …    not reported
//! own write a=1 ─ own write a=2 ─ own write a=1 …                                 not reported
//! ```
//!
//! Most objects are written by several clients, a pod for example by its owner, the scheduler and its
//! node, and a ReplicaSet many times during a rollout. So only own writes that restore a value are
//! counted, and these are reported if they go on for a while, once for each object and [`PERIOD`].
//!
//! Invariants:
//! - at most [`MAX_OBJECTS`] objects are remembered. If there are more, those whose period is over are
//!   forgotten, and if that is not enough, all of them;
//! - the fields of objects are compared, and their states kept, only after [`FREE_ALTERNATIONS`].

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::resource_path::ResourcePath;
use informer::{Item, ObjectKey};
use keel::{Clock, ClockInstant};
use machinery::{GroupResource, Value};

/// The number of restored values in one [`PERIOD`] that is reported.
const LIMIT: u32 = 30;
/// The number of own writes that followed a write of another client in one [`PERIOD`], before the
/// fields are compared.
const FREE_ALTERNATIONS: u32 = 10;
const PERIOD: Duration = Duration::from_mins(1);
const MAX_OBJECTS: usize = 4096;

/// See the [module documentation](self).
pub(super) struct Contention {
    clock: Clock,
    writes: Mutex<HashMap<(GroupResource, ObjectKey), Writes>>,
}

/// The writes to one object.
struct Writes {
    /// The version that the last own write resulted in.
    own_version: String,
    /// The number of own writes that followed a write of another client.
    alternations: u32,
    /// The state that the last own write resulted in, after [`FREE_ALTERNATIONS`].
    own_state: Option<Item>,
    /// The number of own writes that restored a value of the own write before.
    restored: u32,
    since: ClockInstant,
}

impl Contention {
    pub(super) fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), writes: Mutex::default() }
    }

    /// An object was written. `before` is the state that the cache had shown, and `after` the new one.
    /// Logs a warning if another client keeps changing the same field.
    pub(super) fn wrote(&self, target: &ResourcePath, before: &Item, after: &Item) {
        let resource = GroupResource::new(&target.group_version.group, &target.resource);
        if let Some(field) = self.contended_field(&resource, before, after) {
            let managers = managers(after).join(", ");
            tracing::warn!(
                resource = %resource, object = %after.key(), field, managers,
                "this controller and another client keep changing the same field: {LIMIT} times within {} s",
                PERIOD.as_secs()
            );
        }
    }

    fn contended_field(
        &self,
        resource: &GroupResource,
        before: &Item,
        after: &Item,
    ) -> Option<String> {
        // A write without an effect has the version of the state before.
        if before.resource_version() == after.resource_version() {
            return None;
        }
        let own_state = self.note_write(resource, before, after)?;
        let field = restored_field(&own_state, before, after)?;
        let mut all = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let writes = all.get_mut(&(resource.clone(), after.key().clone()))?;
        writes.restored += 1;
        (writes.restored == LIMIT).then_some(field)
    }

    /// Remembers a write. Returns the state that the own write before resulted in, if the fields must
    /// be compared.
    fn note_write(&self, resource: &GroupResource, before: &Item, after: &Item) -> Option<Item> {
        let mut all = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (resource.clone(), after.key().clone());
        let own_version = after.resource_version().to_owned();
        if let Some(writes) = all.get_mut(&key) {
            if self.clock.elapsed_since(&writes.since) >= PERIOD {
                let since = self.clock.instant();
                *writes =
                    Writes { own_version, alternations: 0, own_state: None, restored: 0, since };
                return None;
            }
            let was_changed_by_another = writes.own_version != before.resource_version();
            writes.own_version = own_version;
            writes.alternations += u32::from(was_changed_by_another);
            if writes.alternations < FREE_ALTERNATIONS {
                return None;
            }
            let own_state = writes.own_state.replace(after.clone());
            return own_state.filter(|_| was_changed_by_another);
        }
        if all.len() >= MAX_OBJECTS {
            all.retain(|_, writes| self.clock.elapsed_since(&writes.since) < PERIOD);
            if all.len() >= MAX_OBJECTS {
                all.clear();
            }
        }
        let since = self.clock.instant();
        all.insert(
            key,
            Writes { own_version, alternations: 0, own_state: None, restored: 0, since },
        );
        None
    }
}

/// The first field to which the last own write gave the value of the own write before, and which had
/// another value in between.
fn restored_field(own: &Item, between: &Item, after: &Item) -> Option<String> {
    let [own, between, after] = [own, between, after].map(Item::decode::<Value>);
    restored_path(&own.ok()?, &between.ok()?, &after.ok()?, "")
}

fn restored_path(own: &Value, between: &Value, after: &Value, path: &str) -> Option<String> {
    if own == between || path == ".metadata.managedFields" {
        return None;
    }
    match (own, between, after) {
        (Value::Object(own), Value::Object(between), Value::Object(after)) => {
            let mut names =
                own.keys().chain(between.keys().filter(|name| !own.contains_key(*name)));
            names.find_map(|name| {
                let [own, between, after] =
                    [own, between, after].map(|map| map.get(name).unwrap_or(&Value::Null));
                restored_path(own, between, after, &format!("{path}.{name}"))
            })
        }
        (Value::Array(own), Value::Array(between), Value::Array(after))
            if own.len() == between.len() && own.len() == after.len() =>
        {
            let mut items = own.iter().zip(between).zip(after).enumerate();
            items.find_map(|(index, ((own, between), after))| {
                restored_path(own, between, after, &format!("{path}[{index}]"))
            })
        }
        _ => (own == after).then(|| path.to_owned()),
    }
}

/// The names of the clients that manage fields of the object.
fn managers(item: &Item) -> Vec<String> {
    let Ok(object) = item.object() else { return Vec::new() };
    let entries = object.get(&["metadata", "managedFields"]).and_then(|it| it.as_array());
    let managers = entries.into_iter().flatten().filter_map(|it| it["manager"].as_str());
    let mut managers: Vec<String> = managers.map(str::to_owned).collect();
    managers.sort_unstable();
    managers.dedup();
    managers
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Timestamp;
    use machinery::json;

    fn item(version: u32, data: &Value) -> Item {
        let metadata = json!({"name": "a", "resourceVersion": version.to_string(),
            "managedFields": [{"manager": "b"}]});
        Item::parse(json!({"metadata": metadata, "data": data}).to_string()).unwrap()
    }

    fn setup() -> (Contention, Clock) {
        let clock = Clock::manual(Timestamp::from_seconds(0));
        (Contention::new(&clock), clock)
    }

    /// The fields that are reported for `count` own writes, each of which changes the first state to
    /// the second one.
    fn reports(
        contention: &Contention,
        count: u32,
        write: impl Fn(u32) -> (Value, Value),
    ) -> Vec<String> {
        let maps = GroupResource::new("", "configmaps");
        let report = |number: u32| {
            let (before, after) = write(number);
            let version = 10 + number * 2;
            let (before, after) = (item(version - 1, &before), item(version, &after));
            contention.contended_field(&maps, &before, &after)
        };
        (0..count).filter_map(report).collect()
    }

    const ENOUGH: u32 = FREE_ALTERNATIONS + LIMIT + 1;

    #[test]
    fn values_that_are_restored_are_reported_once_in_each_period() {
        let (contention, clock) = setup();
        let fight = |_| (json!({"x": 2, "y": [{"z": 1}]}), json!({"x": 2, "y": [{"z": 3}]}));
        assert!(reports(&contention, ENOUGH - 1, fight).is_empty());
        assert_eq!(reports(&contention, ENOUGH * 3, fight), [".data.y[0].z"]);
        clock.advance(PERIOD);
        assert_eq!(reports(&contention, ENOUGH * 3, fight).len(), 1);
        assert_eq!(managers(&item(1, &Value::Null)), ["b"]);
    }

    #[test]
    fn a_field_that_is_added_and_removed_is_reported() {
        let (contention, _) = setup();
        let fight = |_| (json!({"x": 2, "y": 1}), json!({"x": 2}));
        assert_eq!(reports(&contention, ENOUGH, fight), [".data.y"]);
        let (contention, _) = setup();
        let fight = |_| (json!({"x": 2}), json!({"x": 2, "y": 1}));
        assert_eq!(reports(&contention, ENOUGH, fight), [".data.y"]);
    }

    #[test]
    fn clients_that_change_different_fields_are_not_reported() {
        let (contention, _) = setup();
        let work =
            |step| (json!({"own": step, "other": step}), json!({"own": step + 1, "other": step}));
        assert!(reports(&contention, ENOUGH * 3, work).is_empty());
    }

    #[test]
    fn successive_own_writes_are_not_reported() {
        let (contention, _) = setup();
        let maps = GroupResource::new("", "configmaps");
        for version in 10..10 + ENOUGH * 3 {
            let state = |version: u32| item(version, &json!(version % 2));
            let (before, after) = (state(version), state(version + 1));
            assert_eq!(contention.contended_field(&maps, &before, &after), None);
            assert_eq!(contention.contended_field(&maps, &after, &after), None, "no change");
        }
    }

    #[test]
    fn the_number_of_remembered_objects_is_limited() {
        let (contention, _) = setup();
        let maps = GroupResource::new("", "configmaps");
        for number in 0..2 * MAX_OBJECTS {
            let json = format!(r#"{{"metadata":{{"name":"a{number}","resourceVersion":"2"}}}}"#);
            contention.contended_field(&maps, &item(1, &Value::Null), &Item::parse(json).unwrap());
        }
        assert!(contention.writes.lock().unwrap().len() <= MAX_OBJECTS);
    }
}
