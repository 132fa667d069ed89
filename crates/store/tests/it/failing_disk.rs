//! A disk that fails while the store goes on: full, or unable to sync.

use std::sync::Arc;

use keel::{Clock, Tasks, Timestamp};
use store::{Embedded, Engine, Error, Expect, Options, Revision, Store};

use crate::simulated_disk::{Faults, SimulatedDisk};

fn open(disk: &SimulatedDisk, tasks: &Tasks) -> Arc<Engine> {
    let clock = Clock::manual(Timestamp::from_seconds(0));
    Embedded::open_on(disk.plug(), Options::default(), &clock, tasks).unwrap()
}

async fn put(store: &Engine, key: &str, size: usize) -> Result<Revision, Error> {
    let value = vec![7; size].into();
    Ok(store.put(key, value, Expect::Any, None).await?.modified)
}

async fn keys(store: &Engine) -> Vec<String> {
    let page = store.range("", None, usize::MAX, None).await.unwrap();
    page.records.iter().map(|record| record.key.to_string()).collect()
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_room_again() {
    let (disk, tasks) = (SimulatedDisk::new(), Tasks::new());
    let store = open(&disk, &tasks);
    let first = put(&store, "/a", 100).await.unwrap();
    let mut watch = store.watch("", first).unwrap();

    disk.set_faults(Faults { capacity: Some(disk.size()), ..Faults::default() });
    for _ in 0..3 {
        let refused = put(&store, "/big", 2 << 20).await;
        assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
        assert_eq!(keys(&store).await, ["/a"]);
    }
    assert_eq!(watch.take().unwrap(), []);

    disk.set_faults(Faults::default());
    let second = put(&store, "/big", 2 << 20).await.unwrap();
    assert!(second > first);
    assert_eq!(watch.take().unwrap().len(), 1);
    store.close().await.unwrap();

    let store = open(&disk, &tasks);
    assert_eq!(keys(&store).await, ["/a", "/big"]);
    assert_eq!(store.revision().await.unwrap(), second);
    store.close().await.unwrap();
}

#[tokio::test]
async fn after_a_failed_fsync_no_write_is_believed_but_reads_go_on() {
    let (disk, tasks) = (SimulatedDisk::new(), Tasks::new());
    let store = open(&disk, &tasks);
    let first = put(&store, "/a", 100).await.unwrap();
    disk.set_faults(Faults { fail_sync: true, ..Faults::default() });
    for key in ["/b", "/c"] {
        // The second one would succeed if the disk were asked: its next fsync works.
        let refused = put(&store, key, 100).await;
        let Err(Error::Broken(cause)) = refused else { panic!("{refused:?}") };
        assert_eq!(cause.to_string(), "the disk lost a page");
    }
    assert_eq!(keys(&store).await, ["/a"]);
    assert_eq!(store.revision().await.unwrap(), first);
    store.close().await.unwrap();

    disk.crash(&keel::Entropy::seeded(1));
    let store = open(&disk, &tasks);
    assert!(keys(&store).await.contains(&"/a".to_owned()));
    let next = put(&store, "/d", 100).await.unwrap();
    assert!(next > first);
    store.close().await.unwrap();
}
