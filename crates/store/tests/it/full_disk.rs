//! A full disk: puts are refused, deletions succeed, and the freed space is used without a restart.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::simulated_disk::{Faults, SimulatedDisk};
use keel::{Clock, Tasks, Timestamp};
use store::{Embedded, Engine, Error, Expect, Options, Store};

const VALUE: usize = 20_000;

async fn put(store: &Engine, key: &str) -> Result<(), Error> {
    store.put(key, vec![7; VALUE].into(), Expect::Any, None).await.map(drop)
}

fn key(index: usize) -> String {
    format!("/{index:05}")
}

/// Puts new keys until the disk is full, and returns their number.
async fn fill(store: &Engine) -> usize {
    for index in 0..10_000 {
        match put(store, &key(index)).await {
            Ok(()) => {}
            Err(Error::Full) => return index,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disk never got full")
}

/// Puts a key until it is accepted. Space is freed in the background, and the store checks for free
/// space once a second.
async fn put_when_possible(store: &Engine, clock: &Clock, key: &str) {
    let possible = async {
        while let Err(error) = put(store, key).await {
            assert!(matches!(error, Error::Full), "{error}");
            clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), possible).await.expect("space is freed");
}

async fn keys(store: &Engine) -> Vec<String> {
    let page = store.range("", None, usize::MAX, None).await.unwrap();
    page.records.iter().map(|record| record.key.to_string()).collect()
}

/// Fills the disk, deletes all but every tenth key, and fills half of the freed space.
async fn fill_delete_and_fill(store: &Engine, clock: &Clock) -> Vec<String> {
    let count = fill(store).await;
    assert!(count > 20, "{count}");
    assert!(matches!(put(store, "/x").await, Err(Error::Full)));
    let mut left = Vec::new();
    for index in 0..count {
        if index % 10 == 0 {
            left.push(key(index));
        } else {
            store.delete(&key(index), Expect::Any).await.unwrap();
        }
    }
    assert_eq!(keys(store).await, left);
    for index in 0..count / 2 {
        let key = format!("/again/{index:05}");
        put_when_possible(store, clock, &key).await;
        left.push(key);
    }
    left.sort();
    assert_eq!(keys(store).await, left);
    left
}

#[tokio::test]
async fn deletions_succeed_on_a_full_disk_and_free_space() {
    let (disk, tasks) = (SimulatedDisk::new(), Tasks::new());
    let clock = Clock::manual(Timestamp::from_seconds(0));
    let options = Options { log_bytes: 100_000, reserve_bytes: 2 << 20, ..Options::default() };
    disk.set_faults(Faults { capacity: Some(12 << 20), ..Faults::default() });
    let store = Embedded::open_on(disk.to_disk(), options, &clock, &tasks).unwrap();
    let left = fill_delete_and_fill(&store, &clock).await;
    store.close().await.unwrap();

    let store = Embedded::open_on(disk.to_disk(), options, &clock, &tasks).unwrap();
    assert_eq!(keys(&store).await, left);
    store.close().await.unwrap();
}

/// A small file system in memory.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let size = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path());
        let mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("SKIPPED: a file system can be mounted by root only");
        }
        mounted.then_some(Self(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

fn open(directory: &Path, options: Options, clock: &Clock, tasks: &Tasks) -> Arc<Engine> {
    Embedded::open(&directory.join("store"), options, clock, tasks).unwrap()
}

#[tokio::test]
async fn deletions_succeed_on_a_full_file_system_and_free_space() {
    let Some(disk) = SmallDisk::mount("24m") else { return };
    let (clock, tasks) = (Clock::manual(Timestamp::from_seconds(0)), Tasks::new());
    let options = Options { log_bytes: 1 << 20, reserve_bytes: 4 << 20, ..Options::default() };
    let store = open(disk.path(), options, &clock, &tasks);
    let left = fill_delete_and_fill(&store, &clock).await;
    store.close().await.unwrap();
    let store = open(disk.path(), options, &clock, &tasks);
    assert_eq!(keys(&store).await, left);
    store.close().await.unwrap();
}

#[tokio::test]
async fn deletions_free_space_on_a_disk_that_is_too_small_for_a_whole_reserve() {
    for capacity in [6, 12, 20] {
        let (disk, tasks) = (SimulatedDisk::new(), Tasks::new());
        let clock = Clock::manual(Timestamp::from_seconds(0));
        disk.set_faults(Faults { capacity: Some(capacity << 20), ..Faults::default() });
        let store = Embedded::open_on(disk.to_disk(), Options::default(), &clock, &tasks).unwrap();
        let left = fill_delete_and_fill(&store, &clock).await;
        store.close().await.unwrap();

        let store = Embedded::open_on(disk.to_disk(), Options::default(), &clock, &tasks).unwrap();
        assert_eq!(keys(&store).await, left);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn deletions_free_space_on_a_file_system_that_is_too_small_for_a_whole_reserve() {
    let Some(disk) = SmallDisk::mount("12m") else { return };
    let (clock, tasks) = (Clock::manual(Timestamp::from_seconds(0)), Tasks::new());
    let store = open(disk.path(), Options::default(), &clock, &tasks);
    let left = fill_delete_and_fill(&store, &clock).await;
    store.close().await.unwrap();
    let store = open(disk.path(), Options::default(), &clock, &tasks);
    assert_eq!(keys(&store).await, left);
    store.close().await.unwrap();
}

#[tokio::test]
async fn space_that_another_program_frees_is_used_without_a_restart() {
    let Some(disk) = SmallDisk::mount("24m") else { return };
    let (clock, tasks) = (Clock::manual(Timestamp::from_seconds(0)), Tasks::new());
    let options = Options { log_bytes: 1 << 20, reserve_bytes: 4 << 20, ..Options::default() };
    std::fs::write(disk.path().join("other"), vec![1; 8 << 20]).unwrap();
    let store = open(disk.path(), options, &clock, &tasks);
    fill(&store).await;
    store.delete(&key(0), Expect::Any).await.unwrap();
    std::fs::remove_file(disk.path().join("other")).unwrap();
    put_when_possible(&store, &clock, "/x").await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn the_files_shrink_after_large_deletions() {
    let directory = TempDir::new().unwrap();
    let tasks = Tasks::new();
    let clock = Clock::manual(Timestamp::from_seconds(0));
    let options = Options { log_bytes: 1 << 20, reserve_bytes: 0, ..Options::default() };
    let store = Embedded::open(directory.path(), options, &clock, &tasks).unwrap();
    for index in 0..3000 {
        put(&store, &key(index)).await.unwrap();
    }
    let size = || directory.path().join("store.redb").metadata().unwrap().len();
    for index in 1..3000 {
        store.delete(&key(index), Expect::Any).await.unwrap();
    }
    assert!(size() > 50 << 20, "{}", size());
    store.compact(store.revision().await.unwrap()).await.unwrap();
    let shrunk = async {
        while size() > 8 << 20 {
            clock.advance(Duration::from_mins(5));
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), shrunk).await.expect("it shrinks in time");
    assert_eq!(keys(&store).await, [key(0)]);
    store.close().await.unwrap();
    let store = Embedded::open(directory.path(), options, &clock, &tasks).unwrap();
    assert_eq!(keys(&store).await, [key(0)]);
    store.close().await.unwrap();
}
