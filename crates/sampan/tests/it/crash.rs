//! A plane that is killed repeatedly under load: acknowledged writes are not lost, no revision is
//! used twice, and a resumed watch has no gap. The controllers of a killed plane finish what they have
//! begun.

mod synced;
mod interrupted_plane;
mod pod_history;
mod deployments;
mod jobs;
mod stateful_sets;
mod namespaces;
mod custom_pods;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::http::Client;
use crate::plane::Plane;
use machinery::{Value, json};

const KILLS: u64 = 100;
const WRITERS: u64 = 4;
const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";

/// The writes of one writer.
#[derive(Default)]
struct Ledger {
    /// The last acknowledged state of each name: its value, or None for deleted.
    acknowledged: BTreeMap<String, Option<String>>,
    /// The write in progress when the plane was killed, which may be stored or not.
    uncertain: BTreeMap<String, Option<String>>,
    /// The revisions of all acknowledged creates and updates.
    revisions: BTreeSet<u64>,
}

#[test]
fn a_hundred_kills_lose_no_acknowledged_write() {
    let directory = tempfile::tempdir().unwrap();
    let mut ledgers: Vec<Ledger> = (0..WRITERS).map(|_| Ledger::default()).collect();
    let mut seen = BTreeSet::new();
    let mut resume = None;
    for round in 0..KILLS {
        let plane = Plane::embedded(directory.path());
        check(&mut plane.client(), &mut ledgers, round);
        let first = resume.unwrap_or_else(|| current_revision(&mut plane.client()));
        let watcher = watch(plane.client(), first);
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = ledgers
            .drain(..)
            .enumerate()
            .map(|(index, ledger)| {
                let (client, stop) = (plane.client(), Arc::clone(&stop));
                thread::spawn(move || write(client, ledger, index as u64, round, &stop))
            })
            .collect();
        wait(Duration::from_millis(5 + round * 7 % 40));
        plane.kill();
        stop.store(true, Ordering::Relaxed);
        ledgers = writers.into_iter().map(|it| it.join().unwrap()).collect();
        let (events, last) = watcher.join().unwrap();
        resume = Some(last);
        seen.extend(events);
        assert_unique_revisions(&ledgers, round);
    }
    let plane = Plane::embedded(directory.path());
    check(&mut plane.client(), &mut ledgers, KILLS);
    let acknowledged: BTreeSet<u64> = ledgers.iter().flat_map(|it| it.revisions.clone()).collect();
    assert!(acknowledged.len() as u64 > KILLS, "the writers did not write");
    seen.extend(drain(&plane.client(), resume.unwrap()));
    let missed: Vec<_> = acknowledged.difference(&seen).collect();
    assert!(missed.is_empty(), "the watch missed {missed:?}");
}

/// Lets the plane run. There is no condition to wait for: the kill comes at any point.
fn wait(duration: Duration) {
    let (_sender, receiver) = std::sync::mpsc::channel::<()>();
    let _ = receiver.recv_timeout(duration);
}

/// Checks that no two writers, of this round or of earlier ones, got the same revision.
fn assert_unique_revisions(ledgers: &[Ledger], round: u64) {
    let all: BTreeSet<u64> = ledgers.iter().flat_map(|it| it.revisions.iter().copied()).collect();
    let count: usize = ledgers.iter().map(|it| it.revisions.len()).sum();
    assert_eq!(all.len(), count, "a revision was used twice by round {round}");
}

fn current_revision(client: &mut Client) -> u64 {
    let (_, list) = client.send("GET", COLLECTION, None).unwrap();
    revision(&list).unwrap()
}

fn revision(object: &Value) -> Option<u64> {
    object.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}

/// Creates, updates and deletes objects until the plane is killed.
fn write(
    mut client: Client,
    mut ledger: Ledger,
    index: u64,
    round: u64,
    stop: &AtomicBool,
) -> Ledger {
    for step in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("w{index}-{}", step % 7);
        let value = format!("{round}-{step}");
        let exists = ledger.acknowledged.get(&name).is_some_and(Option::is_some);
        let object = json!({"metadata": {"name": name}, "data": {"value": value}});
        let path = format!("{COLLECTION}/{name}");
        let (new_value, sent) = match (exists, step % 5) {
            (false, _) => (Some(value), client.send("POST", COLLECTION, Some(&object))),
            (true, 4) => (None, client.send("DELETE", &path, None)),
            (true, _) => (Some(value), client.send("PUT", &path, Some(&object))),
        };
        let Ok((code, response)) = sent else {
            ledger.uncertain.insert(name, new_value);
            break;
        };
        assert!(code < 300, "{code} {response}");
        if new_value.is_some() {
            assert!(ledger.revisions.insert(revision(&response).unwrap()), "a revision came twice");
        }
        ledger.acknowledged.insert(name, new_value);
    }
    ledger
}

/// Checks that the acknowledged state is stored; a write in progress may be stored or not.
fn check(client: &mut Client, ledgers: &mut [Ledger], round: u64) {
    let (_, list) = client.send("GET", COLLECTION, None).unwrap();
    let stored: BTreeMap<String, String> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| {
            let name = it["metadata"]["name"].as_str()?.to_owned();
            Some((name, it["data"]["value"].as_str()?.to_owned()))
        })
        .collect();
    for ledger in ledgers {
        for (name, value) in std::mem::take(&mut ledger.uncertain) {
            if stored.get(&name) == value.as_ref() {
                ledger.acknowledged.insert(name, value);
            }
        }
        for (name, value) in &ledger.acknowledged {
            assert_eq!(stored.get(name), value.as_ref(), "{name} before round {round}");
        }
    }
}

/// Watches the collection from `first` until the plane is killed. Returns the revisions of the
/// events, and the last of them.
fn watch(client: Client, first: u64) -> thread::JoinHandle<(Vec<u64>, u64)> {
    thread::spawn(move || {
        let path = format!("{COLLECTION}?watch=1&resourceVersion={first}");
        let mut seen = Vec::new();
        let mut last = first;
        let Ok(mut events) = client.watch(&path) else { return (seen, last) };
        while let Ok(Some(event)) = events.next() {
            assert_ne!(event["type"], "ERROR", "{event}");
            let revision = revision(&event["object"]).unwrap();
            assert!(revision > last, "events out of order: {revision} after {last}");
            last = revision;
            seen.push(revision);
        }
        (seen, last)
    })
}

/// The revisions of the events after the last round.
fn drain(client: &Client, first: u64) -> Vec<u64> {
    let path = format!("{COLLECTION}?watch=1&timeoutSeconds=2&resourceVersion={first}");
    let mut events = client.watch(&path).unwrap();
    let mut seen = Vec::new();
    while let Ok(Some(event)) = events.next() {
        seen.push(revision(&event["object"]).unwrap());
    }
    seen
}
