//! The conformance suite on real files, restarts, and locks.

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::database::Database;
use super::*;
use crate::conformance::{Fixture, Watcher, show, show_events};
use crate::{Event, Expect, Store};
use keel::Timestamp;

fn fixture() -> Fixture {
    Fixture::with_manual_clock(|clock, tasks| {
        let directory = TempDir::new().unwrap();
        let store = Embedded::open(directory.path(), Options::default(), clock, tasks).unwrap();
        (store, directory)
    })
}

crate::conformance!(conformance, fixture());

/// A directory whose store is opened several times.
struct RestartedStore {
    directory: TempDir,
    options: Options,
    clock: Clock,
}

impl RestartedStore {
    fn new(history_events: usize) -> Self {
        Self {
            directory: TempDir::new().unwrap(),
            options: Options { history_events, ..Options::default() },
            clock: Clock::manual(Timestamp::from_seconds(1_700_000_000)),
        }
    }

    fn try_open(&self) -> Result<Arc<Engine>, Error> {
        Embedded::open(self.directory.path(), self.options, &self.clock, &Tasks::new())
    }

    fn open(&self) -> Arc<Engine> {
        self.try_open().unwrap()
    }
}

async fn set(store: &Engine, key: &str, value: &'static str) -> u64 {
    store.put(key, value.into(), Expect::Any, None).await.unwrap().modified
}

async fn events(store: &Engine, after: u64) -> Vec<Event> {
    Watcher::open(store, "", after).await.unwrap().catch_up(store).await.unwrap()
}

async fn all(store: &Engine, at: Option<u64>) -> Vec<String> {
    show(&store.range("", None, usize::MAX, at).await.unwrap().records)
}

#[tokio::test]
async fn state_and_history_survive_a_restart() {
    let restarts = RestartedStore::new(100);
    let store = restarts.open();
    let first = set(&store, "/a", "1").await;
    set(&store, "/a", "2").await;
    let kept = store.put("/b", "1".into(), Expect::Any, None).await.unwrap();
    let last = store.delete("/a", Expect::Any).await.unwrap().revision;
    store.close().await.unwrap();

    let store = restarts.open();
    assert_eq!(store.revision().await.unwrap(), last);
    assert_eq!(store.get("/b").await.unwrap(), Some(kept));
    assert_eq!(all(&store, Some(first)).await, ["/a=1"]);
    assert_eq!(show_events(&events(&store, first).await), ["2+/a=2", "3+/b=1", "4-/a"]);
    assert_eq!(set(&store, "/c", "1").await, last + 1);
    store.close().await.unwrap();
}

/// Advances the clock for `rounds` of maintenance, each after the previous one has ended.
async fn pass_maintenance_rounds(clock: &Clock, rounds: usize) {
    for _ in 0..rounds {
        let over = async {
            while clock.next_deadline().is_none() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), over).await.expect("the round ends");
        clock.advance(crate::maintenance::INTERVAL);
    }
}

#[tokio::test]
async fn history_survives_a_restart_until_it_is_compacted() {
    let restarts = RestartedStore::new(100);
    let store = restarts.open();
    let first = set(&store, "/a", "1").await;
    let second = set(&store, "/a", "2").await;
    let third = set(&store, "/a", "3").await;
    pass_maintenance_rounds(&restarts.clock, 4).await;
    store.close().await.unwrap();

    let store = restarts.open();
    assert_eq!(all(&store, Some(first)).await, ["/a=1"]);
    store.compact(second).await.unwrap();
    pass_maintenance_rounds(&restarts.clock, 2).await;
    store.close().await.unwrap();

    let store = restarts.open();
    assert!(matches!(store.watch("", first).await.err(), Some(Error::Compacted { .. })));
    assert_eq!(all(&store, Some(second)).await, ["/a=2"]);
    assert_eq!(all(&store, Some(third)).await, ["/a=3"]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn compactions_and_deletions_survive_restarts() {
    let restarts = RestartedStore::new(100);
    let store = restarts.open();
    for round in 0..400 {
        set(&store, &format!("/{}", round % 5), "1").await;
        if round % 7 == 0 {
            store.delete(&format!("/{}", round % 5), Expect::Any).await.unwrap();
        }
    }
    let last = store.revision().await.unwrap();
    let state = all(&store, None).await;
    store.compact(last).await.unwrap();
    for _ in 0..3 {
        store.close().await.unwrap();
        drop(restarts.open().close().await);
        let store = restarts.open();
        assert_eq!(all(&store, None).await, state);
        let refused = store.watch("/", last - 1).await.err();
        assert!(matches!(refused, Some(Error::Compacted { .. })), "{refused:?}");
        assert_eq!(store.revision().await.unwrap(), last);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn superseded_writes_leave_the_disk() {
    let restarts = RestartedStore::new(10);
    let store = restarts.open();
    for _ in 0..300 {
        set(&store, "/a", "1").await;
    }
    store.close().await.unwrap();
    let directory = Directory::lock(restarts.directory.path()).unwrap();
    let disk = Arc::new(directory.into_disk().unwrap());
    let (_, loader) = Database::open(disk, restarts.options.bounds()).unwrap();
    // The writes that the last commit superseded are removed by the next checkpoint.
    let garbage = loader.finish().garbage;
    assert!(garbage.len() <= 1, "{garbage:?}");
}

#[tokio::test]
async fn a_shorter_history_after_a_restart_can_be_read() {
    let mut restarts = RestartedStore::new(100);
    let store = restarts.open();
    for round in 0..50 {
        set(&store, &format!("/{}", round % 3), "1").await;
    }
    let state = all(&store, None).await;
    store.close().await.unwrap();
    restarts.options.history_events = 5;
    for _ in 0..3 {
        let store = restarts.open();
        assert_eq!(all(&store, None).await, state);
        assert_eq!(events(&store, 45).await.len(), 5);
        assert!(matches!(store.watch("", 44).await.err(), Some(Error::Compacted { .. })));
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn an_expiry_survives_a_restart() {
    let restarts = RestartedStore::new(100);
    let store = restarts.open();
    let minute = Duration::from_mins(1);
    let record = store.put("/a", "1".into(), Expect::Any, Some(minute)).await.unwrap();
    store.close().await.unwrap();

    let store = restarts.open();
    assert_eq!(store.get("/a").await.unwrap(), Some(record));
    let mut watch = Watcher::open(&*store, "/", 1).await.unwrap();
    restarts.clock.advance(minute);
    assert_eq!(watch.lines(1).await, ["2-/a"]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_directory_in_use_is_refused_with_its_holder() {
    let restarts = RestartedStore::new(100);
    let store = restarts.open();
    let Err(refused) = restarts.try_open() else { panic!("two stores in one directory") };
    let directory = restarts.directory.path().display();
    let holder = format!("process {}", std::process::id());
    assert_eq!(
        refused.to_string(),
        format!("{directory} is in use by {holder}; stop that, or choose another directory")
    );
    store.close().await.unwrap();
    restarts.open().close().await.unwrap();
}

#[tokio::test]
async fn stopping_the_tasks_closes_the_store() {
    let restarts = RestartedStore::new(100);
    let tasks = Tasks::new();
    let (path, clock) = (restarts.directory.path(), &restarts.clock);
    let store = Embedded::open(path, restarts.options, clock, &tasks).unwrap();
    set(&store, "/a", "1").await;
    tasks.stop(Duration::from_secs(10)).await.unwrap();
    assert!(matches!(store.get("/a").await, Err(Error::Closed)));
    let store = restarts.open();
    assert_eq!(all(&store, None).await, ["/a=1"]);
    store.close().await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn the_directory_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let restarts = RestartedStore::new(100);
    let nested: PathBuf = restarts.directory.path().join("data/store");
    let tasks = Tasks::new();
    let store = Embedded::open(&nested, restarts.options, &Clock::system(), &tasks).unwrap();
    assert_eq!(nested.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    store.close().await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn files_that_are_readable_by_others_become_private() {
    use std::os::unix::fs::PermissionsExt;
    let restarts = RestartedStore::new(100);
    let directory = restarts.directory.path();
    let store = restarts.open();
    set(&store, "/a", "1").await;
    store.close().await.unwrap();
    let files = || {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries.collect::<Vec<PathBuf>>()
    };
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let private = |path: &PathBuf| mode(path) == 0o600;
    assert!(files().len() >= 4 && files().iter().all(private), "{:?}", files());

    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(directory, 0o755);
    for path in files() {
        set_mode(&path, 0o644);
    }
    let store = restarts.open();
    store.maintain().await.unwrap();
    store.close().await.unwrap();
    assert_eq!(mode(directory), 0o700);
    assert!(files().iter().all(private), "{:?}", files());
}

#[tokio::test]
async fn an_incomplete_database_is_created_again() {
    let restarts = RestartedStore::new(100);
    std::fs::write(restarts.directory.path().join("store.redb.new"), b"half").unwrap();
    restarts.open().close().await.unwrap();
}
