//! Cases: preconditions and results of writes, and expiration.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Fixture;
use crate::{Error, Expect};

const MINUTE: Duration = Duration::from_mins(1);

pub async fn a_created_key_can_be_read(f: &Fixture) {
    let record = f.store.put("/a", "1".into(), Expect::Absent, None).await.unwrap();
    assert_eq!((record.created, &*record.key), (record.modified, "/a"));
    assert_eq!((&record.value[..], record.expires), (&b"1"[..], None));
    assert_eq!(f.store.get("/a").await.unwrap(), Some(record));
    assert_eq!(f.store.get("/").await.unwrap(), None);
}

pub async fn a_key_is_created_once(f: &Fixture) {
    let first = f.store.put("/a", "1".into(), Expect::Absent, None).await.unwrap();
    let second = f.store.put("/a", "2".into(), Expect::Absent, None).await;
    let Err(Error::Conflict { key, found }) = second else { panic!("{second:?}") };
    assert_eq!((&*key, found), ("/a", Some(first)));
}

pub async fn a_conflicting_write_returns_the_current_record(f: &Fixture) {
    let first = f.set("/a", "1").await;
    let second = f.store.put("/a", "2".into(), Expect::At(first), None).await.unwrap();
    let stale = f.store.put("/a", "3".into(), Expect::At(first), None).await;
    let Err(Error::Conflict { found, .. }) = stale else { panic!("{stale:?}") };
    assert_eq!(found, Some(second));
    assert_eq!(f.all(None).await, ["/a=2"]);
}

pub async fn an_update_of_a_missing_key_is_a_conflict(f: &Fixture) {
    let result = f.store.put("/a", "1".into(), Expect::At(1), None).await;
    assert!(matches!(result, Err(Error::Conflict { found: None, .. })), "{result:?}");
}

pub async fn a_write_without_expectation_always_happens(f: &Fixture) {
    let created = f.set("/a", "1").await;
    let record = f.store.put("/a", "2".into(), Expect::Any, None).await.unwrap();
    assert_eq!(record.created, created);
    assert!(record.modified > created);
}

pub async fn revisions_increase_by_one_and_are_shared_by_all_keys(f: &Fixture) {
    let start = f.store.revision().await.unwrap();
    assert_eq!(f.set("/a", "1").await, start + 1);
    assert_eq!(f.set("/b", "1").await, start + 2);
    assert_eq!(f.unset("/a").await, start + 3);
    assert_eq!(f.set("/b", "2").await, start + 4);
    assert_eq!(f.store.revision().await.unwrap(), start + 4);
}

pub async fn a_failed_write_takes_no_revision(f: &Fixture) {
    let before = f.set("/a", "1").await;
    f.store.put("/a", "2".into(), Expect::Absent, None).await.unwrap_err();
    f.store.delete("/b", Expect::Any).await.unwrap_err();
    assert_eq!(f.store.revision().await.unwrap(), before);
    assert_eq!(f.set("/a", "3").await, before + 1);
}

pub async fn a_deletion_returns_the_record_and_takes_a_revision(f: &Fixture) {
    let record = f.store.put("/a", "1".into(), Expect::Absent, None).await.unwrap();
    let event = f.store.delete("/a", Expect::At(record.modified)).await.unwrap();
    assert_eq!((event.revision, event.new), (record.modified + 1, None));
    assert_eq!(event.old, Some(record));
    assert_eq!(f.store.get("/a").await.unwrap(), None);
}

pub async fn a_missing_key_cannot_be_deleted(f: &Fixture) {
    for expect in [Expect::Any, Expect::At(1), Expect::Absent] {
        let result = f.store.delete("/a", expect).await;
        assert!(matches!(&result, Err(Error::NotFound { key }) if &**key == "/a"), "{result:?}");
    }
}

pub async fn a_conflicting_deletion_returns_the_current_record(f: &Fixture) {
    let first = f.set("/a", "1").await;
    let second = f.set("/a", "2").await;
    let result = f.store.delete("/a", Expect::At(first)).await;
    let Err(Error::Conflict { found: Some(found), .. }) = result else { panic!("{result:?}") };
    assert_eq!(found.modified, second);
    assert_eq!(f.all(None).await, ["/a=2"]);
}

pub async fn a_deleted_key_can_be_created_again(f: &Fixture) {
    let first = f.set("/a", "1").await;
    f.unset("/a").await;
    let again = f.store.put("/a", "2".into(), Expect::Absent, None).await.unwrap();
    assert_eq!((again.created, again.modified), (first + 2, first + 2));
}

pub async fn one_of_many_concurrent_creations_succeeds(f: &Fixture) {
    let racer = |_| {
        let store = Arc::clone(&f.store);
        let attempt = async move { store.put("/a", "1".into(), Expect::Absent, None).await };
        f.tasks.spawn("racer", attempt)
    };
    let racers: Vec<_> = (0..20).map(racer).collect();
    let mut wins = 0;
    for racer in racers {
        wins += usize::from(racer.await.unwrap().is_ok());
    }
    assert_eq!(wins, 1);
}

pub async fn concurrent_increments_are_all_applied(f: &Fixture) {
    let start = f.store.put("/n", vec![0].into(), Expect::Absent, None).await.unwrap();
    let counters: Vec<_> = (0..8)
        .map(|_| {
            let (store, mut seen) = (Arc::clone(&f.store), Arc::clone(&start));
            f.tasks.spawn("counter", async move {
                for _ in 0..10 {
                    loop {
                        let value = Bytes::from(vec![seen.value[0] + 1]);
                        match store.put("/n", value, Expect::At(seen.modified), None).await {
                            Ok(record) => break seen = record,
                            Err(Error::Conflict { found, .. }) => seen = found.unwrap(),
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            })
        })
        .collect();
    for counter in counters {
        counter.await.unwrap();
    }
    let end = f.store.get("/n").await.unwrap().unwrap();
    assert_eq!((end.value[0], end.modified), (80, start.modified + 80));
}

pub async fn an_expired_record_is_deleted_by_a_watched_write(f: &Fixture) {
    let record = f.store.put("/a", "1".into(), Expect::Any, Some(MINUTE)).await.unwrap();
    assert!(record.expires.is_some());
    f.store.put("/b", "1".into(), Expect::Any, Some(2 * MINUTE)).await.unwrap();
    let mut watch = f.watch("/", f.store.revision().await.unwrap()).await;
    f.pass_time(MINUTE).await;
    let events = watch.events(1).await.unwrap();
    assert_eq!((&*events[0].key, events[0].new.is_none(), events.len()), ("/a", true, 1));
    assert_eq!(events[0].old, Some(record));
    assert_eq!(f.all(None).await, ["/b=1"]);
    f.pass_time(MINUTE).await;
    assert_eq!(&*watch.events(1).await.unwrap()[0].key, "/b");
}

pub async fn a_record_that_is_written_again_in_time_does_not_expire(f: &Fixture) {
    let mut watch = f.watch("/z", 0).await;
    f.store.put("/a", "1".into(), Expect::Any, Some(MINUTE)).await.unwrap();
    f.pass_time(MINUTE / 2).await;
    f.store.put("/a", "2".into(), Expect::Any, Some(MINUTE)).await.unwrap();
    f.store.put("/z", "1".into(), Expect::Any, Some(MINUTE / 2)).await.unwrap();
    f.pass_time(MINUTE / 2).await;
    // The first deadline of /a has passed when /z is deleted.
    while watch.events(1).await.unwrap().last().unwrap().new.is_some() {}
    assert_eq!(f.all(None).await, ["/a=2"]);
}

pub async fn a_record_that_is_written_again_without_a_ttl_does_not_expire(f: &Fixture) {
    let mut watch = f.watch("/z", 0).await;
    f.store.put("/a", "1".into(), Expect::Any, Some(MINUTE)).await.unwrap();
    let record = f.store.put("/a", "2".into(), Expect::Any, None).await.unwrap();
    assert_eq!(record.expires, None);
    f.store.put("/z", "1".into(), Expect::Any, Some(2 * MINUTE)).await.unwrap();
    f.pass_time(2 * MINUTE).await;
    while watch.events(1).await.unwrap().last().unwrap().new.is_some() {}
    assert_eq!(f.all(None).await, ["/a=2"]);
}

pub async fn a_closed_store_fails_with_closed(f: &Fixture) {
    f.set("/a", "1").await;
    f.store.close().await.unwrap();
    f.store.close().await.unwrap();
    assert!(matches!(f.store.get("/a").await, Err(Error::Closed)));
    let write = f.store.put("/a", "2".into(), Expect::Any, None).await;
    assert!(matches!(write, Err(Error::Closed)), "{write:?}");
    assert!(matches!(f.store.watch("/", 1).await.err(), Some(Error::Closed)));
}
