//! Watchers that do not read while objects change.

use std::thread;

use super::{AttackedPlane, COLLECTION, resident_kib};
use crate::http::{Client, Watch};
use machinery::{Value, json};

/// More updates than the server's history holds.
const UPDATES: usize = 24_000;
const WRITERS: usize = 4;
const STALLED: usize = 20;

#[test]
fn stalled_watchers_use_bounded_memory_and_end_with_expired() {
    let mut attacked = AttackedPlane::start();
    for writer in 0..WRITERS {
        attacked.send_accepted("POST", COLLECTION, &object(writer, 0));
    }
    let (_, list) = attacked.client.send("GET", COLLECTION, None).unwrap();
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{COLLECTION}?watch=1&resourceVersion={revision}");
    let stalled: Vec<Watch> = (0..STALLED).map(|_| attacked.client.watch(&path).unwrap()).collect();
    let reading = attacked.client.watch(&path).unwrap();
    let reader = thread::spawn(move || count_events(reading));
    let before = resident_kib(&attacked.plane);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let client = attacked.plane.client();
            thread::spawn(move || write(client, writer))
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(reader.join().unwrap(), UPDATES, "a watcher that reads gets every event");
    let after = resident_kib(&attacked.plane);
    assert!(after < before + super::GROWTH_MAX, "from {before} to {after} KiB");
    for watch in stalled {
        assert_expired(watch);
    }
    attacked.assert_healthy();
}

fn object(writer: usize, step: usize) -> Value {
    json!({
        "metadata": {"name": format!("w{writer}")},
        "data": {"step": step.to_string(), "padding": "x".repeat(1500)},
    })
}

fn write(mut client: Client, writer: usize) {
    let path = format!("{COLLECTION}/w{writer}");
    for step in 1..=UPDATES / WRITERS {
        let (code, response) = client.send("PUT", &path, Some(&object(writer, step))).unwrap();
        assert_eq!(code, 200, "{response}");
    }
}

/// Counts the events of the writers.
fn count_events(mut watch: Watch) -> usize {
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
