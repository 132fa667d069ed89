//! Expiration on the system clock. The other tests use a manual clock, which does not test the
//! timers of the system clock.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use crate::simulated_disk::SimulatedDisk;
use keel::{Clock, Tasks};
use store::{Embedded, Engine, Expect, Memory, Options, Store};

const TTL: Duration = Duration::from_millis(400);

/// Sufficient on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Waits for the deletion of the only record.
async fn until_expired(store: &Engine) {
    let revision = store.revision().await.unwrap();
    let mut watch = store.watch("", revision).await.unwrap();
    let response = tokio::time::timeout(TIMEOUT, watch.next()).await.expect("it expires");
    let events = response.unwrap().unwrap().events;
    assert!(events[0].new.is_none(), "{events:?}");
}

#[tokio::test]
async fn a_record_expires_after_its_ttl() {
    let (clock, tasks) = (Clock::system(), Tasks::new());
    let store = Memory::open(Options::default(), &clock, &tasks);
    let moment = clock.instant();
    store.put("/a", "1".into(), Expect::Absent, Some(TTL)).await.unwrap();
    until_expired(&store).await;
    assert!(clock.elapsed_since(&moment) >= TTL * 9 / 10);
}

#[tokio::test]
async fn a_record_expires_after_a_restart() {
    let (clock, tasks, disk) = (Clock::system(), Tasks::new(), SimulatedDisk::new());
    let open = || -> Arc<Engine> {
        Embedded::open_on(disk.to_disk(), Options::default(), &clock, &tasks).unwrap()
    };
    let store = open();
    store.put("/a", "1".into(), Expect::Absent, Some(TTL)).await.unwrap();
    store.close().await.unwrap();
    let store = open();
    if store.get("/a").await.unwrap().is_some() {
        until_expired(&store).await;
    }
    assert_eq!(store.get("/a").await.unwrap(), None);
    store.close().await.unwrap();
}
