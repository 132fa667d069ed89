//! `Event` as `events.k8s.io` serves it: the same object, with other names for some fields.
//!
//! Nothing is lost either way, since every field of the one group has its place in the other.

use crate::table::{self, selectable, selectable_as};
use machinery::Object;
use types::resource::{Columns, Version};

/// The name under which the storage version is known to [`convert`].
pub(crate) const CORE: &str = "v1";
/// The name under which this version is known to [`convert`].
pub(crate) const EVENTS: &str = "events.k8s.io/v1";

/// The fields with two names: (name in the core group, name in this group).
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// The version of `Event` that this group serves.
pub(crate) fn version(columns: Columns) -> Version {
    let mut fields: Vec<_> =
        ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"]
            .iter()
            .map(|field| {
                selectable_as(&format!("regarding.{field}"), &format!("involvedObject.{field}"), "")
            })
            .collect();
    fields.push(selectable("reason", ""));
    fields.push(selectable_as("reportingController", "reportingComponent", ""));
    fields.push(selectable("type", ""));
    Version {
        group: Some("events.k8s.io".to_owned()),
        selectable: fields.into(),
        ..table::v1("events/v1.Event", columns)
    }
}

/// Renames the fields of an event from one group's names to the other's; the groups are named by
/// their `apiVersion`.
pub(crate) fn convert(object: &mut Object, from: &str, to: &str) {
    let map = object.map_mut();
    for (core, events) in NAMES {
        let (old, new) = match (from, to) {
            (CORE, EVENTS) => (core, events),
            (EVENTS, CORE) => (events, core),
            _ => return,
        };
        if let Some(value) = map.remove(*old) {
            map.insert((*new).to_owned(), value);
        }
    }
    // Go writes these two even if they are empty, but only in the core group.
    if to == EVENTS {
        for field in ["reportingController", "reportingInstance"] {
            if map.get(field).is_some_and(|value| value == "") {
                map.remove(field);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;
    use machinery::json;

    #[test]
    fn fields_are_renamed_for_the_events_group() {
        let core = json!({"metadata": {"name": "a.1"}, "involvedObject": {"kind": "Pod"},
            "reason": "Pulled", "message": "done", "source": {"component": "kubelet"}, "count": 1,
            "firstTimestamp": "2024-05-06T07:08:09Z", "reportingComponent": "", "reportingInstance": ""});
        let mut event = object(core);
        convert(&mut event, CORE, EVENTS);
        assert_eq!(
            event.into_value(),
            json!({"metadata": {"name": "a.1"}, "regarding": {"kind": "Pod"}, "reason": "Pulled",
                "note": "done", "deprecatedSource": {"component": "kubelet"}, "deprecatedCount": 1,
                "deprecatedFirstTimestamp": "2024-05-06T07:08:09Z"})
        );
    }

    #[test]
    fn a_round_trip_through_the_events_group_loses_nothing() {
        let core = json!({"involvedObject": {"kind": "Pod"}, "message": "m", "action": "Act",
            "reportingComponent": "c", "reportingInstance": "i", "series": {"count": 2}});
        let mut event = object(core.clone());
        convert(&mut event, CORE, EVENTS);
        convert(&mut event, EVENTS, CORE);
        assert_eq!(event.into_value(), core);
    }
}
