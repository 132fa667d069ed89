//! The reserve of disk space: when it is taken, when it is given up, and what happens when it
//! cannot be written.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use keel::{Clock, Tasks, Timestamp};
use store::{Embedded, Engine, Error, Expect, Options, Store, embedded::Part};

use crate::simulated_disk::{Faults, SimulatedDisk};

const RESERVE: usize = 2 << 20;

/// A store on a disk that can be full or fail.
struct World {
    disk: SimulatedDisk,
    clock: Clock,
    tasks: Tasks,
}

impl World {
    fn new() -> Self {
        let clock = Clock::manual(Timestamp::from_seconds(0));
        Self { disk: SimulatedDisk::new(), clock, tasks: Tasks::new() }
    }

    fn open(&self) -> Arc<Engine> {
        let reserve_bytes = u64::try_from(RESERVE).unwrap();
        let options = Options { reserve_bytes, ..Options::default() };
        Embedded::open_on(self.disk.plug(), options, &self.clock, &self.tasks).unwrap()
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

    /// Puts a key, a second after the one before, until the outcome is not that the disk is full.
    async fn put_each_second(&self, store: &Engine, key: &str) -> Result<(), Error> {
        let decided = async {
            loop {
                self.clock.advance(Duration::from_secs(1));
                match put(store, key, 100).await {
                    Err(Error::Full) => tokio::task::yield_now().await,
                    outcome => return outcome,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), decided).await.expect("it is decided")
    }
}

async fn put(store: &Engine, key: &str, size: usize) -> Result<(), Error> {
    store.put(key, vec![7; size].into(), Expect::Any, None).await.map(drop)
}

/// Whether the store accepts writes. A store in this process answers at once.
fn is_healthy(store: &Engine) -> bool {
    store.check_health(Duration::MAX).now_or_never().is_some_and(|health| health.is_ok())
}

/// Waits for what another thread does.
async fn until(is_true: impl Fn() -> bool) {
    let waited = async {
        while !is_true() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waited).await.expect("it becomes true");
}

fn assert_full(outcome: &Result<(), Error>) {
    assert!(matches!(outcome, Err(Error::Full)), "{outcome:?}");
}

fn assert_broken(outcome: &Result<(), Error>, cause: &str) {
    let Err(Error::Broken(source)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(source.to_string(), cause);
}

#[tokio::test]
async fn a_disk_that_fails_while_it_is_full_is_not_written_again() {
    let world = World::new();
    let store = world.open_with_reserve().await;
    world.fill();
    assert_full(&put(&store, "/big", 4 << 20).await);
    assert_eq!(world.disk.reserve(), Some(0));

    world.disk.set_faults(Faults { fail_sync: true, ..Faults::default() });
    let _ = store.delete("/a", Expect::Any).await;
    until(|| !is_healthy(&store) || world.disk.reserve() != Some(0)).await;
    for _ in 0..100 {
        world.clock.advance(Duration::from_secs(1));
        assert_broken(&put(&store, "/b", 100).await, "the disk lost a page");
        assert_eq!(world.disk.reserve(), Some(0));
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_reserve_that_found_no_room_at_the_start_is_made_once_there_is_some() {
    let world = World::new();
    world.open_with_reserve().await.close().await.unwrap();
    world.disk.remove_reserve();
    world.fill();

    let store = world.open();
    assert_full(&put(&store, "/big", 4 << 20).await);
    for _ in 0..10 {
        world.clock.advance(Duration::from_secs(1));
        assert_full(&put(&store, "/big", 4 << 20).await);
    }
    assert_eq!(world.disk.reserve(), None);
    world.disk.set_faults(Faults::default());
    world.put_each_second(&store, "/b").await.unwrap();
    assert_eq!(world.disk.reserve(), Some(RESERVE));
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_deletion_without_a_reserve_is_not_said_to_be_possible() {
    let world = World::new();
    let store = world.open_with_reserve().await;
    store.close().await.unwrap();
    world.disk.remove_reserve();
    world.disk.set_content(Part::EvenLog, &[]);
    world.fill();

    let store = world.open();
    let refused = put(&store, "/b", 100).await.unwrap_err().to_string();
    assert!(refused.contains("all writes but deletions are refused"), "{refused}");
    let refused = store.delete("/a", Expect::Any).await.unwrap_err().to_string();
    assert!(refused.contains("none is in reserve for deletions"), "{refused}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_reserve_that_cannot_be_written_is_a_failure_of_the_disk() {
    let world = World::new();
    let store = world.open_with_reserve().await;
    world.fill();
    assert_full(&put(&store, "/big", 4 << 20).await);

    world.disk.set_faults(Faults { fail_reserve: true, ..Faults::default() });
    let refused = world.put_each_second(&store, "/b").await;
    assert_broken(&refused, "a sector cannot be written");
    assert_broken(&store.check_health(Duration::MAX).await, "a sector cannot be written");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_looked_at_for_room_once_a_second() {
    let world = World::new();
    let store = world.open_with_reserve().await;
    world.fill();
    assert_full(&put(&store, "/big", 4 << 20).await);

    for _ in 0..3 {
        let before = world.disk.reserve_tries();
        for _ in 0..200 {
            assert_full(&put(&store, "/big", 4 << 20).await);
        }
        assert_eq!(world.disk.reserve_tries(), before);
        // While space is being freed in the background, there is no look at the reserve.
        let looked = async {
            while world.disk.reserve_tries() == before {
                world.clock.advance(Duration::from_secs(1));
                let _ = put(&store, "/big", 4 << 20).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), looked).await.expect("it looks again");
        assert_eq!(world.disk.reserve_tries(), before + 1);
    }
    store.close().await.unwrap();
}
