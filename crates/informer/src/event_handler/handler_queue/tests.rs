//! Merged events of a full queue.

use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::Item;
use crate::seeded::{for_seeds, pick};

fn item(name: &str, version: u64) -> Item {
    let json = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
    Item::parse(json.into_bytes()).unwrap()
}

fn added(name: &str, version: u64) -> ObjectEvent {
    ObjectEvent::Added { item: item(name, version), is_initial: false }
}

fn updated(name: &str, old: u64, new: u64) -> ObjectEvent {
    ObjectEvent::Updated { old: item(name, old), new: item(name, new) }
}

fn deleted(name: &str, version: u64) -> ObjectEvent {
    ObjectEvent::Deleted { item: item(name, version), is_final_state_unknown: false }
}

/// The events of a queue without capacity after `events`.
fn merged(events: impl IntoIterator<Item = ObjectEvent>) -> Vec<String> {
    let mut queue = HandlerQueue::new(0);
    for event in events {
        queue.push(event);
    }
    std::iter::from_fn(|| match queue.pop() {
        Popped::Event(event) => Some(show(&event)),
        _ => None,
    })
    .collect()
}

fn show(event: &ObjectEvent) -> String {
    match event {
        ObjectEvent::Added { item, .. } => format!("+{item:?}"),
        ObjectEvent::Updated { old, new } => format!("{old:?}>{new:?}"),
        ObjectEvent::Deleted { item, .. } => format!("-{item:?}"),
    }
}

#[test]
fn events_are_merged_as_documented() {
    assert_eq!(merged([added("a", 1), updated("a", 1, 2)]), ["+a@2"]);
    assert!(merged([added("a", 1), deleted("a", 2)]).is_empty());
    assert_eq!(merged([updated("a", 1, 2), updated("a", 2, 3)]), ["a@1>a@3"]);
    assert_eq!(merged([updated("a", 1, 2), deleted("a", 3)]), ["-a@3"]);
    assert_eq!(merged([deleted("a", 1), added("a", 2), updated("a", 2, 3)]), ["-a@1", "+a@3"]);
    assert_eq!(merged([deleted("a", 1), added("a", 2), deleted("a", 3)]), ["-a@1"]);
}

#[test]
fn events_are_merged_only_when_the_queue_is_full() {
    let mut queue = HandlerQueue::new(3);
    for event in [added("a", 1), updated("a", 1, 2), updated("a", 2, 3), updated("a", 3, 4)] {
        queue.push(event);
    }
    assert_eq!(queue.len(), 3);
}

#[test]
fn merged_events_do_not_move_the_end_of_the_initial_events() {
    let mut queue = HandlerQueue::new(0);
    queue.push(added("a", 1));
    queue.push_synced();
    queue.push(updated("a", 1, 2));
    assert!(matches!(queue.pop(), Popped::Event(event) if show(&event) == "+a@2"));
    assert!(matches!(queue.pop(), Popped::Synced));
    assert!(matches!(queue.pop(), Popped::Nothing));
}

#[test]
fn a_slow_handler_gets_the_final_states() {
    for_seeds(200, |entropy| {
        let mut queue = HandlerQueue::new(usize::try_from(entropy.below(8)).unwrap());
        let capacity = queue.capacity;
        let (mut server_objects, mut seen) = (BTreeMap::new(), BTreeMap::new());
        for version in 1..300 {
            let name = pick(&entropy, &["a", "b", "c", "d"]);
            match (entropy.below(6), server_objects.get(name).copied()) {
                (0, _) => take(&mut queue, &mut seen),
                (1 | 2, Some(_)) => {
                    server_objects.remove(name);
                    queue.push(deleted(name, version));
                }
                (_, Some(old)) => {
                    server_objects.insert(name, version);
                    queue.push(updated(name, old, version));
                }
                (_, None) => {
                    server_objects.insert(name, version);
                    queue.push(added(name, version));
                }
            }
            let objects: HashSet<&str> =
                server_objects.keys().copied().chain(seen.keys().map(String::as_str)).collect();
            assert!(queue.len() <= capacity + 2 * objects.len());
        }
        while queue.len() > 0 {
            take(&mut queue, &mut seen);
        }
        let server_objects: BTreeMap<String, u64> =
            server_objects.into_iter().map(|(name, version)| (name.to_owned(), version)).collect();
        assert_eq!(seen, server_objects);
    });
}

/// Takes one event, and checks that it is consistent with the events before.
fn take(queue: &mut HandlerQueue, seen: &mut BTreeMap<String, u64>) {
    let Popped::Event(event) = queue.pop() else { return };
    let version = event.item().resource_version().parse().unwrap();
    let name = event.item().name().to_owned();
    match &event {
        ObjectEvent::Added { .. } => assert_eq!(seen.insert(name, version), None),
        ObjectEvent::Updated { old, .. } => {
            let old: u64 = old.resource_version().parse().unwrap();
            assert_eq!(seen.insert(name, version), Some(old));
        }
        ObjectEvent::Deleted { .. } => assert!(seen.remove(&name).is_some()),
    }
}
