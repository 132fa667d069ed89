//! Watchers that do not read while objects change.

use std::thread;

use super::{AttackedPlane, COLLECTION, resident};
use crate::http::{Client, Watch};
use machinery::{Value, json};

/// More updates than the server's history holds.
const UPDATES: usize = 24_000;
const WRITERS: usize = 4;
const STALLED: usize = 20;

#[test]
fn a_stalled_watcher_uses_no_memory_and_gets_expired() {
    let mut attacked = AttackedPlane::start();
    for writer in 0..WRITERS {
        attacked.send_accepted("POST", COLLECTION, &object(writer, 0));
    }
    let (_, list) = attacked.client.send("GET", COLLECTION, None).unwrap();
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{COLLECTION}?watch=1&resourceVersion={revision}");
    let stalled: Vec<Watch> = (0..STALLED).map(|_| attacked.client.watch(&path).unwrap()).collect();
    let attentive = attacked.client.watch(&path).unwrap();
    let reader = thread::spawn(move || follow(attentive));
    let before = resident(&attacked.plane);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let client = attacked.plane.client();
            thread::spawn(move || write(client, writer))
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(reader.join().unwrap(), UPDATES, "other watches get every event");
    let after = resident(&attacked.plane);
    assert!(after < before + super::GROWTH_MAX, "from {before} to {after} KiB");
    for watch in stalled {
        assert_expired(watch);
    }
    attacked.assert_healthy();
}

fn object(writer: usize, step: usize) -> Value {
    json!({
        "metadata": {"name": format!("w{writer}")},
        "data": {"step": step.to_string(), "filling": "x".repeat(1500)},
    })
}

fn write(mut client: Client, writer: usize) {
    let path = format!("{COLLECTION}/w{writer}");
    for step in 1..=UPDATES / WRITERS {
        let (code, answer) = client.send("PUT", &path, Some(&object(writer, step))).unwrap();
        assert_eq!(code, 200, "{answer}");
    }
}

/// Counts the events of the writers.
fn follow(mut watch: Watch) -> usize {
    for count in 1..=UPDATES {
        let event = watch.next().unwrap();
        assert_eq!(event.unwrap()["type"], "MODIFIED", "event {count}");
    }
    UPDATES
}

/// Reads the events in the buffers, and then the error `Expired`.
fn assert_expired(mut watch: Watch) {
    let mut last = Value::Null;
    while let Some(event) = watch.next().unwrap() {
        last = event;
    }
    assert_eq!(last["type"], "ERROR", "{last}");
    let status = &last["object"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("too old resource version: "), "{message}");
}
