//! The reserve of disk space: its allocation, its release, and failures to write it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use crate::simulated_disk::{Faults, SimulatedDisk};
use keel::{Clock, Tasks, Timestamp};
use store::embedded::StoreFile;
use store::{Embedded, Engine, Error, Expect, Options, Store};

const RESERVE: usize = 2 << 20;

/// A store on a disk that can be full or fail.
struct TestDisk {
    disk: SimulatedDisk,
    clock: Clock,
    tasks: Tasks,
}

impl TestDisk {
    fn new() -> Self {
        let clock = Clock::manual(Timestamp::from_seconds(0));
        Self { disk: SimulatedDisk::new(), clock, tasks: Tasks::new() }
    }

    fn open(&self) -> Arc<Engine> {
        let reserve_bytes = u64::try_from(RESERVE).unwrap();
        let options = Options { reserve_bytes, ..Options::default() };
        Embedded::open_on(self.disk.to_disk(), options, &self.clock, &self.tasks).unwrap()
    }

    /// A store that holds `/a`, with a complete reserve.
    async fn open_with_reserve(&self) -> Arc<Engine> {
        let store = self.open();
        put(&store, "/a", 100).await.unwrap();
        until(|| self.disk.reserve() == Some(RESERVE)).await;
        store
    }

    /// Leaves no more space on the disk than is in use now.
    fn fill(&self) {
        let capacity = Some(self.disk.size());
        self.disk.set_faults(Faults { capacity, ..Faults::default() });
    }

    /// Puts a key each second until the error is not [`Error::Full`], and returns the outcome.
    async fn put_each_second(&self, store: &Engine, key: &str) -> Result<(), Error> {
        let outcome = async {
            loop {
                self.clock.advance(Duration::from_secs(1));
                match put(store, key, 100).await {
                    Err(Error::Full) => tokio::task::yield_now().await,
                    outcome => return outcome,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), outcome)
            .await
            .expect("the disk has space in time")
    }
}

async fn put(store: &Engine, key: &str, size: usize) -> Result<(), Error> {
    store.put(key, vec![7; size].into(), Expect::Any, None).await.map(drop)
}

/// Whether the store accepts writes. A store in this process answers at once.
fn is_healthy(store: &Engine) -> bool {
    store.check_health(Duration::MAX).now_or_never().is_some_and(|health| health.is_ok())
}

/// Waits until another thread has made the condition true.
async fn until(is_true: impl Fn() -> bool) {
    let waited = async {
        while !is_true() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waited)
        .await
        .expect("the condition becomes true");
}

fn assert_full(outcome: &Result<(), Error>) {
    assert!(matches!(outcome, Err(Error::Full)), "{outcome:?}");
}

fn assert_broken(outcome: &Result<(), Error>, cause: &str) {
    let Err(Error::Broken(source)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(source.to_string(), cause);
}

#[tokio::test]
async fn after_a_failed_fsync_on_a_full_disk_nothing_is_written() {
    let test = TestDisk::new();
    let store = test.open_with_reserve().await;
    test.fill();
    assert_full(&put(&store, "/big", 4 << 20).await);
    assert_eq!(test.disk.reserve(), Some(0));

    test.disk.set_faults(Faults { fail_sync: true, ..Faults::default() });
    let _ = store.delete("/a", Expect::Any).await;
    until(|| !is_healthy(&store) || test.disk.reserve() != Some(0)).await;
    for _ in 0..100 {
        test.clock.advance(Duration::from_secs(1));
        assert_broken(&put(&store, "/b", 100).await, "the disk lost a page");
        assert_eq!(test.disk.reserve(), Some(0));
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_reserve_without_space_at_the_start_is_allocated_later() {
    let test = TestDisk::new();
    test.open_with_reserve().await.close().await.unwrap();
    test.disk.remove_reserve();
    test.fill();

    let store = test.open();
    assert_full(&put(&store, "/big", 4 << 20).await);
    for _ in 0..10 {
        test.clock.advance(Duration::from_secs(1));
        assert_full(&put(&store, "/big", 4 << 20).await);
    }
    assert_eq!(test.disk.reserve(), None);
    test.disk.set_faults(Faults::default());
    test.put_each_second(&store, "/b").await.unwrap();
    assert_eq!(test.disk.reserve(), Some(RESERVE));
    store.close().await.unwrap();
}

#[tokio::test]
async fn the_error_of_a_deletion_without_a_reserve_names_the_reserve() {
    let test = TestDisk::new();
    let store = test.open_with_reserve().await;
    store.close().await.unwrap();
    test.disk.remove_reserve();
    test.disk.set_content(StoreFile::EvenLog, &[]);
    test.fill();

    let store = test.open();
    let refused = put(&store, "/b", 100).await.unwrap_err().to_string();
    assert!(refused.contains("all writes but deletions are refused"), "{refused}");
    let refused = store.delete("/a", Expect::Any).await.unwrap_err().to_string();
    assert!(refused.contains("none is in reserve for deletions"), "{refused}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_reserve_that_cannot_be_written_is_a_failure_of_the_disk() {
    let test = TestDisk::new();
    let store = test.open_with_reserve().await;
    test.fill();
    assert_full(&put(&store, "/big", 4 << 20).await);

    test.disk.set_faults(Faults { fail_reserve: true, ..Faults::default() });
    let refused = test.put_each_second(&store, "/b").await;
    assert_broken(&refused, "a sector cannot be written");
    assert_broken(&store.check_health(Duration::MAX).await, "a sector cannot be written");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_checked_for_space_once_a_second() {
    let test = TestDisk::new();
    let store = test.open_with_reserve().await;
    test.fill();
    assert_full(&put(&store, "/big", 4 << 20).await);

    for _ in 0..3 {
        let before = test.disk.reserve_tries();
        for _ in 0..200 {
            assert_full(&put(&store, "/big", 4 << 20).await);
        }
        assert_eq!(test.disk.reserve_tries(), before);
        // While space is freed in the background, the reserve is not checked.
        let checked = async {
            while test.disk.reserve_tries() == before {
                test.clock.advance(Duration::from_secs(1));
                let _ = put(&store, "/big", 4 << 20).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), checked)
            .await
            .expect("the space is checked again");
        assert_eq!(test.disk.reserve_tries(), before + 1);
    }
    store.close().await.unwrap();
}
