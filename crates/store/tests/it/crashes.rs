//! After a crash every acknowledged write exists, and every other one exists completely or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::simulated_disk::{Faults, SimulatedDisk};
use crate::watched_events::past_events;
use keel::{Clock, Entropy, Tasks, Timestamp};
use store::{Embedded, Engine, Error, Expect, Options, Revision, Store};

const SEEDS: u64 = 25;
const RUNS: u64 = 5;
const KEYS: u64 = 12;

/// A key and its new value; `None` for a deletion.
type Write = (String, Option<Bytes>);

/// A store that crashes several times, and its writes.
struct CrashTest {
    disk: SimulatedDisk,
    entropy: Entropy,
    options: Options,
    acknowledged: BTreeMap<Revision, Write>,
    clock: Clock,
    /// The size of a small disk. Time passes in its tests, so that maintenance runs.
    capacity: Option<usize>,
    /// Writes that failed: they may have been stored or not.
    undecided: Vec<Write>,
    written: u64,
    /// The number of writes that were refused on a full disk.
    refused: u64,
}

#[tokio::test]
async fn acknowledged_writes_survive_any_crash() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let options = Options::default();
        CrashTest::new(seed, options).run_with_crashes(&Tasks::new()).await;
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_crashes_during_compaction() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let options = Options { history_events: 5, ..Options::default() };
        CrashTest::new(seed, options).run_with_crashes(&Tasks::new()).await;
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_crashes_during_checkpoints() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        CrashTest::new(seed, options_with_small_segments(5)).run_with_crashes(&Tasks::new()).await;
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_crashes_during_maintenance_of_a_full_disk() {
    let mut refused = 0;
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let options = Options { reserve_bytes: 200_000, ..options_with_small_segments(1000) };
        let mut test = CrashTest::new(seed, options);
        test.capacity = Some(800_000);
        refused += test.run_with_crashes(&Tasks::new()).await;
    }
    // The exact number depends on the time at which space is freed in the background.
    assert!(refused > 0, "the disk was never full");
}

#[tokio::test]
async fn a_crash_at_any_operation_of_a_run_or_of_its_recovery_loses_nothing() {
    for operations in 0.. {
        println!("operation {operations}");
        let mut test = CrashTest::new(operations, options_with_small_segments(1000));
        let tasks = Tasks::new();
        test.open(&tasks).close().await.unwrap();
        if test.run_until(operations, &tasks).await {
            assert!(operations > 100, "the run had too few operations");
            return;
        }
        for _ in 0..3 {
            test.run_until(test.entropy.below(20), &tasks).await;
        }
        test.disk.crash(&test.entropy);
        let store = test.open(&tasks);
        test.check(&store).await;
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn compactions_and_expiries_survive_a_crash() {
    let (test, tasks) = (CrashTest::new(1, Options::default()), Tasks::new());
    let store = test.open(&tasks);
    let minute = Duration::from_mins(1);
    let expiring = store.put("/a", "1".into(), Expect::Any, Some(minute)).await.unwrap();
    for _ in 0..4 {
        store.put("/b", "1".into(), Expect::Any, None).await.unwrap();
    }
    store.compact(4).await.unwrap();
    test.disk.set_faults(Faults { operations_until_crash: Some(0), ..Faults::default() });
    let _ = store.close().await;
    test.disk.crash(&test.entropy);

    // Twice: from the log, and from the database.
    for _ in 0..2 {
        let store = test.open(&tasks);
        assert_eq!(store.get("/a").await.unwrap().as_ref(), Some(&expiring));
        assert_eq!(store.revision().await.unwrap(), 5);
        assert_eq!(past_events(&*store, 4).await.unwrap().len(), 1);
        assert!(matches!(past_events(&*store, 3).await, Err(Error::Compacted { .. })));
        store.close().await.unwrap();
    }
}

/// Options with segments of a few batches, so that checkpoints are frequent.
fn options_with_small_segments(history_events: usize) -> Options {
    Options { history_events, log_bytes: 20_000, ..Options::default() }
}

impl CrashTest {
    fn new(seed: u64, options: Options) -> Self {
        Self {
            disk: SimulatedDisk::new(),
            entropy: Entropy::seeded(seed),
            options,
            clock: Clock::manual(Timestamp::from_seconds(0)),
            capacity: None,
            acknowledged: BTreeMap::new(),
            undecided: Vec::new(),
            written: 0,
            refused: 0,
        }
    }

    /// Returns the number of writes that were refused on a full disk.
    async fn run_with_crashes(mut self, tasks: &Tasks) -> u64 {
        // The creation of a store is atomic, so the first run begins after it.
        self.open(tasks).close().await.unwrap();
        for _ in 0..RUNS {
            let store = self.open(tasks);
            self.check(&store).await;
            let operations_until_crash = Some(self.entropy.below(self.max_operations()));
            let capacity = self.capacity;
            let faults = Faults { operations_until_crash, capacity, ..Faults::default() };
            self.disk.set_faults(faults);
            while self.write_some(&store, tasks).await {}
            // The disk is powered off: the close has no effect.
            let _ = store.close().await;
            self.disk.crash(&self.entropy);
        }
        let store = self.open(tasks);
        self.check(&store).await;
        store.close().await.unwrap();
        self.refused
    }

    /// Opens, writes and closes, for a number of operations of the disk. Then the power fails, or the
    /// process is killed and its unsynced writes stay visible. Returns whether it was completed.
    async fn run_until(&mut self, operations: u64, tasks: &Tasks) -> bool {
        let operations_until_crash = Some(operations);
        self.disk.set_faults(Faults { operations_until_crash, ..Faults::default() });
        if let Ok(store) = self.try_open(tasks) {
            self.check(&store).await;
            let mut rounds = 0..30;
            while rounds.next().is_some() && self.write_some(&store, tasks).await {}
            let _ = store.close().await;
        }
        let survived = !self.disk.is_powered_off();
        if self.entropy.below(2) == 0 {
            self.disk.crash(&self.entropy);
        } else {
            self.disk.set_faults(Faults::default());
        }
        survived
    }

    /// A small disk is full after more operations.
    fn max_operations(&self) -> u64 {
        if self.capacity.is_some() { 600 } else { 60 }
    }

    fn open(&self, tasks: &Tasks) -> Arc<Engine> {
        self.try_open(tasks).unwrap()
    }

    fn try_open(&self, tasks: &Tasks) -> Result<Arc<Engine>, Error> {
        Embedded::open_on(self.disk.to_disk(), self.options, &self.clock, tasks)
    }

    /// Starts a few concurrent writes, and returns whether the disk works.
    async fn write_some(&mut self, store: &Arc<Engine>, tasks: &Tasks) -> bool {
        let mut started = Vec::new();
        if self.capacity.is_some() {
            self.clock.advance(Duration::from_secs(1));
        }
        if self.capacity.is_some() && self.entropy.below(10) == 0 {
            self.clock.advance(Duration::from_mins(5));
            let revision = store.revision().await.unwrap();
            let compacted = store.compact(revision).await;
            let is_known = matches!(compacted, Ok(()) | Err(Error::Full | Error::Broken(_)));
            assert!(is_known, "{compacted:?}");
        }
        for _ in 0..=self.entropy.below(3) {
            self.written += 1;
            let key = format!("/{}", self.entropy.below(KEYS));
            let delete = self.entropy.below(4) == 0;
            let mut value = vec![0; usize::try_from(self.entropy.below(6000)).unwrap()];
            self.entropy.fill(&mut value);
            value.extend(self.written.to_le_bytes());
            let value = (!delete).then(|| Bytes::from(value));
            let attempt = attempt(Arc::clone(store), key.clone(), value.clone());
            started.push(((key, value), tasks.spawn("writer", attempt)));
        }
        let mut works = true;
        for (write, task) in started {
            match task.await.unwrap() {
                Ok(revision) => {
                    let before = self.acknowledged.insert(revision, write);
                    assert_eq!(before, None, "revision {revision} was assigned twice");
                }
                Err(Error::NotFound { .. }) => {}
                Err(Error::Full) if self.capacity.is_some() => self.refused += 1,
                Err(Error::Broken(_)) => {
                    self.undecided.push(write);
                    works = false;
                }
                Err(error) => panic!("{error}"),
            }
        }
        works
    }

    /// Compares the records of the store with the acknowledged and the undecided writes.
    async fn check(&mut self, store: &Engine) {
        self.adopt_undecided(store).await;
        let mut state = BTreeMap::new();
        for (revision, (key, value)) in &self.acknowledged {
            match value {
                Some(value) => state.insert(key.clone(), (*revision, value.clone())),
                None => state.remove(key),
            };
        }
        let page = store.range("", None, usize::MAX, None).await.unwrap();
        let found = page.records.into_iter();
        let found: BTreeMap<String, (Revision, Bytes)> = found
            .map(|record| (record.key.to_string(), (record.modified, record.value.clone())))
            .collect();
        assert_eq!(found, state);
        let newest = self.acknowledged.keys().next_back().copied().unwrap_or(0);
        assert_eq!(page.revision, newest);
    }

    /// Treats undecided writes that are in the history as acknowledged.
    async fn adopt_undecided(&mut self, store: &Engine) {
        let newest = self.acknowledged.keys().next_back().copied().unwrap_or(0);
        let events = match past_events(store, newest).await {
            Ok(events) => events,
            Err(Error::Future { current, .. }) => {
                panic!("revision {newest} was acknowledged, but the newest is {current}")
            }
            Err(error) => panic!("{error}"),
        };
        for event in events {
            let value = event.new.map(|record| record.value.clone());
            let write = (event.key.to_string(), value);
            let known = self.undecided.iter().position(|undecided| *undecided == write);
            assert!(known.is_some(), "no write has revision {}: {write:?}", event.revision);
            self.acknowledged.insert(event.revision, write);
        }
    }
}

async fn attempt(store: Arc<Engine>, key: String, value: Option<Bytes>) -> Result<Revision, Error> {
    match value {
        Some(value) => Ok(store.put(&key, value, Expect::Any, None).await?.modified),
        None => Ok(store.delete(&key, Expect::Any).await?.revision),
    }
}
