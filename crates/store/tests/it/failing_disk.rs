//! A disk that fails while the store runs: it is full, or an fsync fails.

use std::sync::Arc;
use std::time::Duration;

use crate::simulated_disk::{Faults, SimulatedDisk};
use crate::watched_events::take_events;
use keel::{Clock, Tasks, Timestamp};
use store::{Embedded, Engine, Error, Expect, Options, Revision, Store};

fn open(disk: &SimulatedDisk, tasks: &Tasks) -> Arc<Engine> {
    open_with(disk, Options::default(), tasks)
}

fn open_with(disk: &SimulatedDisk, options: Options, tasks: &Tasks) -> Arc<Engine> {
    open_at(disk, options, &Clock::manual(Timestamp::from_seconds(0)), tasks)
}

fn open_at(disk: &SimulatedDisk, options: Options, clock: &Clock, tasks: &Tasks) -> Arc<Engine> {
    Embedded::open_on(disk.to_disk(), options, clock, tasks).unwrap()
}

async fn put(store: &Engine, key: &str, size: usize) -> Result<Revision, Error> {
    let value = vec![7; size].into();
    Ok(store.put(key, value, Expect::Any, None).await?.modified)
}

/// Puts a key until it is accepted. Puts are refused until space is freed in the background, and the
/// store checks for free space once a second.
async fn put_when_space_is_free(store: &Engine, clock: &Clock, key: &str, size: usize) -> Revision {
    let accepted = async {
        loop {
            match put(store, key, size).await {
                Ok(revision) => return revision,
                Err(Error::Full) => {
                    clock.advance(Duration::from_secs(1));
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(1), accepted).await.expect("space is freed")
}

async fn keys(store: &Engine) -> Vec<String> {
    let page = store.range("", None, usize::MAX, None).await.unwrap();
    page.records.iter().map(|record| record.key.to_string()).collect()
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_it_has_space_again() {
    let (disk, tasks) = (SimulatedDisk::new(), Tasks::new());
    let clock = Clock::manual(Timestamp::from_seconds(0));
    let store = open_at(&disk, Options::default(), &clock, &tasks);
    let first = put(&store, "/a", 100).await.unwrap();
    let mut watch = store.watch("", first).await.unwrap();

    disk.set_faults(Faults { capacity: Some(disk.size()), ..Faults::default() });
    for _ in 0..3 {
        let refused = put(&store, "/big", 2 << 20).await;
        assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
        assert!(store.check_health(Duration::MAX).await.is_ok());
        assert_eq!(keys(&store).await, ["/a"]);
    }
    assert_eq!(take_events(&mut watch), []);

    disk.set_faults(Faults::default());
    let second = put_when_space_is_free(&store, &clock, "/big", 2 << 20).await;
    assert!(second > first);
    assert_eq!(take_events(&mut watch).len(), 1);
    store.close().await.unwrap();

    let store = open(&disk, &tasks);
    assert_eq!(keys(&store).await, ["/a", "/big"]);
    assert_eq!(store.revision().await.unwrap(), second);
    store.close().await.unwrap();
}

#[tokio::test]
async fn writes_are_refused_while_the_disk_has_no_space_for_a_checkpoint() {
    let (disk, tasks) = (SimulatedDisk::new(), Tasks::new());
    let clock = Clock::manual(Timestamp::from_seconds(0));
    let options = Options { log_bytes: 60_000, ..Options::default() };
    let store = open_at(&disk, options, &clock, &tasks);
    // After both files of the log are allocated, only the database grows.
    let mut written: Vec<String> = Vec::new();
    for n in 0..30 {
        written.push(format!("/{n:04}"));
        put(&store, &written[n], 5000).await.unwrap();
    }
    disk.set_faults(Faults { capacity: Some(disk.size()), ..Faults::default() });
    let refused = loop {
        let key = format!("/{:04}", written.len());
        match put(&store, &key, 5000).await {
            Ok(_) => written.push(key),
            Err(error) => break error,
        }
        assert!(written.len() < 2000, "the disk never got full");
    };
    assert!(matches!(refused, Error::Full), "{refused:?}");
    let refused = put(&store, "/x", 5000).await;
    assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
    assert_eq!(keys(&store).await, written);

    disk.set_faults(Faults::default());
    let last = store.revision().await.unwrap();
    assert!(put_when_space_is_free(&store, &clock, "/x", 5000).await > last);
    store.close().await.unwrap();

    let store = open_with(&disk, options, &tasks);
    written.push("/x".to_owned());
    assert_eq!(keys(&store).await, written);
    store.close().await.unwrap();
}

#[tokio::test]
async fn writes_without_a_checkpoint_on_a_full_disk_survive_a_restart() {
    let (disk, tasks) = (SimulatedDisk::new(), Tasks::new());
    let store = open(&disk, &tasks);
    put(&store, "/a", 100).await.unwrap();
    put(&store, "/b", 1 << 20).await.unwrap();
    disk.set_faults(Faults { capacity: Some(disk.size()), ..Faults::default() });
    put(&store, "/c", 100).await.unwrap();
    store.close().await.unwrap();

    disk.set_faults(Faults::default());
    let store = open(&disk, &tasks);
    assert_eq!(keys(&store).await, ["/a", "/b", "/c"]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_failed_sync_of_the_database_refuses_writes_and_loses_none() {
    let (disk, tasks) = (SimulatedDisk::new(), Tasks::new());
    let options = Options { log_bytes: 20_000, ..Options::default() };
    let store = open_with(&disk, options, &tasks);
    let mut written = Vec::new();
    let refused = loop {
        // The fault makes one fsync fail. It is set before each write, so that every checkpoint
        // fails.
        disk.set_faults(Faults { fail_database_sync: true, ..Faults::default() });
        let key = format!("/{:04}", written.len());
        match put(&store, &key, 5000).await {
            Ok(_) => written.push(key),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Broken(_)), "{refused:?}");
    assert_eq!(keys(&store).await, written);
    store.close().await.unwrap();

    disk.crash(&keel::Entropy::seeded(1));
    let store = open_with(&disk, options, &tasks);
    assert_eq!(keys(&store).await, written);
    store.close().await.unwrap();
}

#[tokio::test]
async fn after_a_failed_fsync_writes_are_refused_and_reads_continue() {
    let (disk, tasks) = (SimulatedDisk::new(), Tasks::new());
    let store = open(&disk, &tasks);
    let first = put(&store, "/a", 100).await.unwrap();
    disk.set_faults(Faults { fail_sync: true, ..Faults::default() });
    for key in ["/b", "/c"] {
        // The next fsync of the disk would succeed, but is not attempted.
        let refused = put(&store, key, 100).await;
        let Err(Error::Broken(cause)) = refused else { panic!("{refused:?}") };
        assert_eq!(cause.to_string(), "the disk lost a page");
        let checked = store.check_health(Duration::MAX).await;
        assert!(matches!(checked, Err(Error::Broken(_))), "{checked:?}");
    }
    let refused = store.compact(first).await;
    assert!(matches!(refused, Err(Error::Broken(_))), "{refused:?}");
    assert_eq!(keys(&store).await, ["/a"]);
    assert_eq!(store.revision().await.unwrap(), first);
    store.close().await.unwrap();

    disk.crash(&keel::Entropy::seeded(1));
    let store = open(&disk, &tasks);
    // "/b" was written but not synced: it may have survived the crash or not.
    assert!(keys(&store).await.contains(&"/a".to_owned()));
    let next = put(&store, "/d", 100).await.unwrap();
    assert!(next > first);
    store.close().await.unwrap();
}
