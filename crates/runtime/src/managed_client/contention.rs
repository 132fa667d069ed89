//! [`Contention`]: notices that this client and another one keep changing the same object, each
//! undoing what the other did.
//!
//! ```text
//! own write a@5 ─ foreign a@6 ─ own write a@7 ─ foreign a@8 ─ own write a@9 …    reported
//! own write a@5 ─ own write a@6 ─ own write a@7 …                                 not reported
//! ```
//!
//! Most objects are written by several clients, a pod for example by its owner, the scheduler and its
//! node. So only alternations that go on for a while are reported, once for each object and
//! [`PERIOD`].
//!
//! Invariant: at most [`MAX_OBJECTS`] objects are remembered. If there are more, those whose period is
//! over are forgotten, and if that is not enough, all of them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::resource_path::ResourcePath;
use informer::{Item, ObjectKey};
use keel::{Clock, ClockInstant};
use machinery::GroupResource;

/// The number of alternations in one [`PERIOD`] that is reported.
const LIMIT: u32 = 30;
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
    since: ClockInstant,
}

impl Contention {
    pub(super) fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), writes: Mutex::default() }
    }

    /// An object was written. `before` is its version that the cache had shown, and `after` its new
    /// state. Logs a warning if another client keeps changing it as well.
    pub(super) fn wrote(&self, target: &ResourcePath, before: &str, after: &Item) {
        let resource = GroupResource::new(&target.group_version.group, &target.resource);
        if self.is_contended(&resource, before, after) {
            let managers = managers(after).join(", ");
            tracing::warn!(
                resource = %resource, object = %after.key(), managers,
                "this controller and another client keep changing the same object: {LIMIT} times within {} s",
                PERIOD.as_secs()
            );
        }
    }

    fn is_contended(&self, resource: &GroupResource, before: &str, after: &Item) -> bool {
        // A write without an effect has the version of the state before.
        if before == after.resource_version() {
            return false;
        }
        let mut all = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (resource.clone(), after.key().clone());
        let version = after.resource_version().to_owned();
        if let Some(writes) = all.get_mut(&key) {
            if self.clock.elapsed_since(&writes.since) >= PERIOD {
                (writes.alternations, writes.since) = (0, self.clock.instant());
            }
            let was_changed_by_another = writes.own_version != before;
            writes.own_version = version;
            writes.alternations += u32::from(was_changed_by_another);
            return was_changed_by_another && writes.alternations == LIMIT;
        }
        if all.len() >= MAX_OBJECTS {
            all.retain(|_, writes| self.clock.elapsed_since(&writes.since) < PERIOD);
            if all.len() >= MAX_OBJECTS {
                all.clear();
            }
        }
        let since = self.clock.instant();
        all.insert(key, Writes { own_version: version, alternations: 0, since });
        false
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

    fn item(version: u32) -> Item {
        let json = format!(
            r#"{{"metadata":{{"name":"a","resourceVersion":"{version}","managedFields":[{{"manager":"b"}}]}}}}"#
        );
        Item::parse(json).unwrap()
    }

    fn setup() -> (Contention, Clock) {
        let clock = Clock::manual(Timestamp::from_seconds(0));
        (Contention::new(&clock), clock)
    }

    /// The number of reports after `count` writes, each of which finds the version that is `distance`
    /// behind its own.
    fn reports(contention: &Contention, count: u32, distance: u32) -> usize {
        let maps = GroupResource::new("", "configmaps");
        let write = |number: u32| {
            let version = 10 + number * 2;
            contention.is_contended(&maps, &(version - distance).to_string(), &item(version))
        };
        (0..count).filter(|number| write(*number)).count()
    }

    #[test]
    fn alternating_writes_are_reported_once_in_each_period() {
        let (contention, clock) = setup();
        assert_eq!(reports(&contention, LIMIT, 1), 0);
        assert_eq!(reports(&contention, LIMIT * 3, 1), 1);
        clock.advance(PERIOD);
        assert_eq!(reports(&contention, LIMIT * 3, 1), 1);
        assert_eq!(managers(&item(1)), ["b"]);
    }

    #[test]
    fn successive_own_writes_are_not_reported() {
        let (contention, _) = setup();
        assert_eq!(reports(&contention, LIMIT * 3, 2), 0);
        assert_eq!(reports(&contention, LIMIT * 3, 0), 0, "nothing was changed");
    }

    #[test]
    fn the_number_of_remembered_objects_is_limited() {
        let (contention, _) = setup();
        let maps = GroupResource::new("", "configmaps");
        for number in 0..2 * MAX_OBJECTS {
            let json = format!(r#"{{"metadata":{{"name":"a{number}","resourceVersion":"2"}}}}"#);
            contention.is_contended(&maps, "1", &Item::parse(json).unwrap());
        }
        assert!(contention.writes.lock().unwrap().len() <= MAX_OBJECTS);
    }
}
