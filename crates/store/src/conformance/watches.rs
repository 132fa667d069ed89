//! Cases: what a watch delivers, from when on, and how it ends.

use std::{collections::BTreeMap, sync::Arc};

use super::{Fixture, show_events};
use crate::{Error, Expect, Revision, Watch};

/// Takes events until there are `count`.
async fn next(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.len() < count {
        lines.extend(show_events(&watch.next().await.unwrap()));
    }
    lines
}

pub(crate) async fn a_watch_delivers_the_past_first(f: &Fixture) {
    let first = f.set("/a", "1").await;
    f.set("/a", "2").await;
    f.unset("/a").await;
    let mut watch = f.store.watch("/", first).unwrap();
    f.set("/b", "1").await;
    let expected =
        [format!("{}+/a=2", first + 1), format!("{}-/a", first + 2), format!("{}+/b=1", first + 3)];
    assert_eq!(next(&mut watch, 3).await, expected);
    assert_eq!(watch.revision(), first + 3);
}

pub(crate) async fn a_watch_delivers_what_happens_later(f: &Fixture) {
    let mut watch = f.store.watch("/", f.store.revision().await.unwrap()).unwrap();
    assert_eq!(watch.take().unwrap(), []);
    let waiting = f.tasks.spawn("watcher", async move { next(&mut watch, 1).await });
    let revision = f.set("/a", "1").await;
    assert_eq!(waiting.await.unwrap(), [format!("{revision}+/a=1")]);
}

pub(crate) async fn a_watch_keeps_to_its_prefix(f: &Fixture) {
    let mut watch = f.store.watch("/pods/", 0).unwrap();
    f.set("/pod", "1").await;
    f.set("/nodes/a", "1").await;
    let pod = f.set("/pods/a", "1").await;
    f.set("/podsx", "1").await;
    let last = f.unset("/pods/a").await;
    assert_eq!(next(&mut watch, 2).await, [format!("{pod}+/pods/a=1"), format!("{last}-/pods/a")]);
}

pub(crate) async fn an_event_tells_what_was_and_what_is(f: &Fixture) {
    let mut watch = f.store.watch("/", 0).unwrap();
    let first = f.store.put("/a", "1".into(), Expect::Absent, None).await.unwrap();
    let second = f.store.put("/a", "2".into(), Expect::Any, None).await.unwrap();
    f.unset("/a").await;
    let mut events = Vec::new();
    while events.len() < 3 {
        events.extend(watch.next().await.unwrap());
    }
    let told: Vec<_> = events.into_iter().map(|event| (event.old, event.new)).collect();
    let expected = [
        (None, Some(Arc::clone(&first))),
        (Some(first), Some(Arc::clone(&second))),
        (Some(second), None),
    ];
    assert_eq!(told, expected);
}

pub(crate) async fn a_watch_cannot_start_in_the_compacted_past(f: &Fixture) {
    let first = f.set("/a", "1").await;
    let second = f.set("/a", "2").await;
    f.set("/a", "3").await;
    f.store.compact(second).await.unwrap();
    let refused = f.store.watch("/", first);
    let Err(Error::Compacted { asked, oldest }) = refused else { panic!("{refused:?}") };
    assert_eq!((asked, oldest), (first, second));
    let mut watch = f.store.watch("/", second).unwrap();
    assert_eq!(next(&mut watch, 1).await, [format!("{}+/a=3", second + 1)]);
}

pub(crate) async fn a_watch_cannot_start_in_the_future(f: &Fixture) {
    let current = f.set("/a", "1").await;
    let refused = f.store.watch("/", current + 1);
    assert!(matches!(refused, Err(Error::Future { .. })), "{refused:?}");
}

pub(crate) async fn a_watch_that_fell_behind_is_cut_off(f: &Fixture) {
    let mut watch = f.store.watch("/", f.set("/a", "1").await).unwrap();
    f.set("/a", "2").await;
    let last = f.set("/a", "3").await;
    f.store.compact(last).await.unwrap();
    let result = watch.next().await;
    assert!(
        matches!(&result, Err(Error::Compacted { oldest, .. }) if *oldest == last),
        "{result:?}"
    );
}

pub(crate) async fn an_idle_watch_survives_compaction(f: &Fixture) {
    let mut watch = f.store.watch("/quiet/", 0).unwrap();
    f.set("/loud", "1").await;
    let last = f.set("/loud", "2").await;
    f.store.compact(last).await.unwrap();
    let revision = f.set("/quiet/a", "1").await;
    // It has missed nothing, though its cursor was older than what is kept.
    assert_eq!(next(&mut watch, 1).await, [format!("{revision}+/quiet/a=1")]);
}

pub(crate) async fn an_idle_watch_knows_how_far_the_store_is(f: &Fixture) {
    let mut watch = f.store.watch("/quiet/", 0).unwrap();
    let revision = f.set("/loud", "1").await;
    assert_eq!(watch.take().unwrap(), []);
    assert_eq!(watch.revision(), revision);
}

pub(crate) async fn a_watch_ends_with_the_store_but_delivers_the_rest_first(f: &Fixture) {
    let mut watch = f.store.watch("/", 0).unwrap();
    let mut idle = f.store.watch("/quiet/", 0).unwrap();
    let waiting = f.tasks.spawn("idle", async move { idle.next().await });
    f.set("/a", "1").await;
    f.store.close().await.unwrap();
    assert_eq!(watch.next().await.unwrap().len(), 1);
    assert!(matches!(watch.next().await, Err(Error::Closed)));
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
}

pub(crate) async fn a_cancelled_wait_loses_nothing(f: &Fixture) {
    let mut watch = f.store.watch("/", 0).unwrap();
    tokio::select! {
        biased;
        events = watch.next() => panic!("nothing was written: {events:?}"),
        () = std::future::ready(()) => {}
    }
    let revision = f.set("/a", "1").await;
    assert_eq!(next(&mut watch, 1).await, [format!("{revision}+/a=1")]);
}

pub(crate) async fn watches_see_no_gap_under_concurrent_writers(f: &Fixture) {
    const WRITERS: usize = 8;
    const WRITES: usize = 25;
    let start = f.store.revision().await.unwrap();
    let watchers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let mut watch = f.store.watch("/", start).unwrap();
            f.tasks.spawn("watcher", async move {
                let mut events = Vec::new();
                while events.len() < WRITERS * WRITES {
                    events.extend(watch.next().await.unwrap());
                }
                events
            })
        })
        .collect();
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
