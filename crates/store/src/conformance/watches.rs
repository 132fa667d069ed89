//! Cases: the start, the events and the end of watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Fixture, show_events};
use crate::{Error, Expect, Revision};

pub async fn a_watch_delivers_past_events_first(f: &Fixture) {
    let first = f.set("/a", "1").await;
    f.set("/a", "2").await;
    f.unset("/a").await;
    let mut watch = f.watch("/", first).await;
    f.set("/b", "1").await;
    let expected =
        [format!("{}+/a=2", first + 1), format!("{}-/a", first + 2), format!("{}+/b=1", first + 3)];
    assert_eq!(watch.lines(3).await, expected);
}

pub async fn a_watch_delivers_later_events(f: &Fixture) {
    let start = f.store.revision().await.unwrap();
    let mut watch = f.watch("/", start).await;
    let waiting = f.tasks.spawn("watcher", async move { watch.lines(1).await });
    let revision = f.set("/a", "1").await;
    assert_eq!(waiting.await.unwrap(), [format!("{revision}+/a=1")]);
}

pub async fn a_watch_is_limited_to_its_prefix(f: &Fixture) {
    let mut watch = f.watch("/pods/", 0).await;
    f.set("/pod", "1").await;
    f.set("/nodes/a", "1").await;
    let pod = f.set("/pods/a", "1").await;
    f.set("/podsx", "1").await;
    let last = f.unset("/pods/a").await;
    assert_eq!(watch.lines(2).await, [format!("{pod}+/pods/a=1"), format!("{last}-/pods/a")]);
}

pub async fn an_event_has_the_record_before_and_after_it(f: &Fixture) {
    let mut watch = f.watch("/", 0).await;
    let first = f.store.put("/a", "1".into(), Expect::Absent, None).await.unwrap();
    let second = f.store.put("/a", "2".into(), Expect::Any, None).await.unwrap();
    f.unset("/a").await;
    let events = watch.events(3).await.unwrap();
    let states: Vec<_> = events.into_iter().map(|event| (event.old, event.new)).collect();
    let expected = [
        (None, Some(Arc::clone(&first))),
        (Some(first), Some(Arc::clone(&second))),
        (Some(second), None),
    ];
    assert_eq!(states, expected);
}

pub async fn a_watch_cannot_start_in_the_compacted_past(f: &Fixture) {
    let first = f.set("/a", "1").await;
    let second = f.set("/a", "2").await;
    f.set("/a", "3").await;
    f.store.compact(second).await.unwrap();
    let refused = f.store.watch("/", first).await.err();
    let Some(Error::Compacted { asked, oldest }) = refused else { panic!("{refused:?}") };
    assert_eq!((asked, oldest), (first, second));
    let mut watch = f.watch("/", second).await;
    assert_eq!(watch.lines(1).await, [format!("{}+/a=3", second + 1)]);
}

pub async fn a_watch_cannot_start_in_the_future(f: &Fixture) {
    let current = f.set("/a", "1").await;
    let refused = f.store.watch("/", current + 1).await.err();
    assert!(matches!(refused, Some(Error::Future { .. })), "{refused:?}");
}

/// Both are allowed: a backend may have sent the events to the reader before the compaction.
pub async fn a_compacted_watch_delivers_all_events_or_fails(f: &Fixture) {
    let mut watch = f.watch("/", f.set("/a", "1").await).await;
    let second = f.set("/a", "2").await;
    let last = f.set("/a", "3").await;
    f.store.compact(last).await.unwrap();
    match watch.events(2).await {
        Ok(events) => {
            let expected = [format!("{second}+/a=2"), format!("{last}+/a=3")];
            assert_eq!(show_events(&events), expected);
        }
        Err(Error::Compacted { oldest, .. }) => assert_eq!(oldest, last),
        Err(error) => panic!("{error}"),
    }
}

pub async fn an_idle_watch_survives_compaction(f: &Fixture) {
    let mut watch = f.watch("/quiet/", 0).await;
    f.set("/loud", "1").await;
    let last = f.set("/loud", "2").await;
    f.store.compact(last).await.unwrap();
    let revision = f.set("/quiet/a", "1").await;
    // The watch has missed no event, although its position was compacted.
    assert_eq!(watch.lines(1).await, [format!("{revision}+/quiet/a=1")]);
}

pub async fn an_idle_watch_reports_progress_on_request(f: &Fixture) {
    let mut watch = f.watch("/quiet/", 0).await;
    for round in 0..3 {
        let revision = f.set("/loud", "1").await;
        f.store.request_progress().await.unwrap();
        let response = watch.next().await.unwrap();
        assert_eq!((response.events, response.revision), (vec![], revision), "round {round}");
    }
}

pub async fn a_request_for_progress_does_not_overtake_events(f: &Fixture) {
    let mut watch = f.watch("/a/", 0).await;
    let revision = f.set("/a/1", "1").await;
    let last = f.set("/b", "1").await;
    f.store.request_progress().await.unwrap();
    let mut events = Vec::new();
    loop {
        let response = watch.next().await.unwrap();
        events.extend(response.events);
        if response.revision >= last {
            break;
        }
    }
    assert_eq!(show_events(&events), [format!("{revision}+/a/1=1")]);
}

pub async fn a_watch_of_a_closed_store_delivers_the_last_events_and_ends(f: &Fixture) {
    let mut watch = f.watch("/", 0).await;
    let mut idle = f.watch("/quiet/", 0).await;
    let waiting = f.tasks.spawn("idle", async move { idle.events(1).await });
    f.set("/a", "1").await;
    f.store.close().await.unwrap();
    assert_eq!(watch.events(1).await.unwrap().len(), 1);
    assert!(matches!(watch.events(1).await, Err(Error::Closed)));
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
}

pub async fn a_canceled_wait_loses_no_event(f: &Fixture) {
    let mut watch = f.watch("/", 0).await;
    tokio::select! {
        biased;
        response = watch.events(1) => panic!("nothing was written: {response:?}"),
        () = std::future::ready(()) => {}
    }
    let revision = f.set("/a", "1").await;
    assert_eq!(watch.lines(1).await, [format!("{revision}+/a=1")]);
}

pub async fn watches_have_no_gap_under_concurrent_writers(f: &Fixture) {
    const WRITERS: usize = 8;
    const WRITES: usize = 25;
    let start = f.store.revision().await.unwrap();
    let mut watchers = Vec::new();
    for _ in 0..WRITERS {
        let mut watch = f.watch("/", start).await;
        let events = async move { watch.events(WRITERS * WRITES).await.unwrap() };
        watchers.push(f.tasks.spawn("watcher", events));
    }
    for writer in 0..WRITERS {
        let store = Arc::clone(&f.store);
        f.tasks.spawn("writer", async move {
            for n in 0..WRITES {
                let value = n.to_string().into();
                store.put(&format!("/{writer}"), value, Expect::Any, None).await.unwrap();
            }
        });
    }
    for watcher in watchers {
        let events = watcher.await.unwrap();
        let revisions: Vec<Revision> = events.iter().map(|event| event.revision).collect();
        assert!(revisions.iter().copied().eq(start + 1..=start + 200), "{revisions:?}");
        let mut known = BTreeMap::new();
        for event in events {
            let before = known.insert(Arc::clone(&event.key), event.new.clone());
            assert_eq!(before.flatten(), event.old, "at revision {}", event.revision);
        }
    }
}
