//! Tests of the caches of all resources together, on a store in memory.

use super::*;
use keel::Timestamp;
use store::{Expect, Memory, Options};

const MEGABYTE: usize = 1 << 20;

/// Sufficient on a slow machine.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

struct Fixture {
    store: Arc<dyn Store>,
    cache: Arc<WatchCache>,
    clock: Clock,
    _tasks: Tasks,
}

async fn fixture() -> Fixture {
    let (clock, tasks) = (Clock::manual(Timestamp::from_seconds(0)), Tasks::new());
    let store: Arc<dyn Store> = Memory::open(Options::default(), &clock, &tasks);
    let cache = WatchCache::start(Arc::clone(&store), &[], &clock, &tasks).await.unwrap();
    Fixture { store, cache, clock, _tasks: tasks }
}

impl Fixture {
    async fn put(&self, key: &str, size: usize) {
        let bulk = "x".repeat(size);
        let value = format!(
            r#"{{"apiVersion":"v1","kind":"T","metadata":{{"name":"a"}},"bulk":"{bulk}"}}"#
        );
        self.store.put(key, value.into(), Expect::Any, None).await.unwrap();
        self.cache.catch_up().await.unwrap();
    }

    /// Lets the tasks run until the compaction sleeps, as the only task.
    async fn until_asleep(&self) {
        for _ in 0..1000 {
            if self.clock.next_deadline().is_some() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("the compaction does not sleep");
    }

    async fn delete(&self, key: &str) {
        self.store.delete(key, Expect::Any).await.unwrap();
        self.cache.catch_up().await.unwrap();
    }
}

#[tokio::test]
async fn a_consistent_read_does_not_wait_for_an_event_of_a_key_outside_of_the_registry() {
    let it = fixture().await;
    let record = it.store.put("/elsewhere/a", "1".into(), Expect::Any, None).await.unwrap();
    let caught_up = tokio::time::timeout(TIMEOUT, it.cache.catch_up()).await;
    caught_up.expect("the cache catches up").unwrap();
    assert_eq!(it.cache.applied(), record.modified);
}

#[tokio::test]
async fn the_histories_of_all_resources_together_are_bounded() {
    let it = fixture().await;
    for resource in 0..8 {
        let key = format!("/registry/group/r{resource}/a");
        for _ in 0..50 {
            it.put(&key, MEGABYTE).await;
        }
    }
    assert!(it.cache.history_bytes.load(Ordering::Relaxed) <= MAX_HISTORY_BYTES);
    let recent = it.cache.get_or_create("/registry/group/r7");
    assert!(recent.after(it.cache.applied() - 5, 10).is_ok(), "recent changes are kept");
}

#[tokio::test]
async fn deleted_objects_leave_the_history_after_ten_minutes_without_a_write() {
    let it = fixture().await;
    it.put("/registry/group/r/a", MEGABYTE).await;
    it.delete("/registry/group/r/a").await;
    assert!(it.cache.history_bytes.load(Ordering::Relaxed) > MEGABYTE);
    for _ in 0..2 {
        it.until_asleep().await;
        it.clock.advance(compaction::INTERVAL);
        it.until_asleep().await;
    }
    assert_eq!(it.cache.history_bytes.load(Ordering::Relaxed), 0);
    let compacted = it.store.watch("/", 1).await.err();
    assert!(matches!(compacted, Some(Error::Compacted { .. })), "{compacted:?}");
}

#[tokio::test]
async fn the_cache_of_a_removed_resource_is_dropped_and_created_again_by_a_later_event() {
    let it = fixture().await;
    let (prefix, key) = ("/registry/group/r", "/registry/group/r/a");
    it.put(key, MEGABYTE).await;
    let removed = Arc::downgrade(&it.cache.get_or_create(prefix));
    it.cache.remove(prefix);
    assert!(removed.upgrade().is_some(), "a cache with objects is not removed");
    it.delete(key).await;
    it.cache.remove(prefix);
    assert!(removed.upgrade().is_none());
    assert_eq!(it.cache.history_bytes.load(Ordering::Relaxed), 0);
    it.put(key, 10).await;
    assert!(it.cache.get_or_create(prefix).get(key).is_some());
}

#[tokio::test]
async fn a_resource_that_is_removed_during_a_relist_is_dropped_after_it_unless_served_again() {
    let it = fixture().await;
    let prefixes = ["/registry/group/removed", "/registry/group/served", "/registry/group/full"];
    it.put("/registry/group/full/a", 10).await;
    it.cache.defer_removals();
    for prefix in prefixes {
        it.cache.get_or_create(prefix);
        it.cache.remove(prefix);
    }
    assert_eq!(
        it.cache.caches.load().len(),
        3,
        "the store may have objects that are not listed yet"
    );
    it.cache.get_or_create(prefixes[1]);
    it.cache.apply_deferred_removals();
    let caches = it.cache.caches.load();
    assert_eq!(prefixes.map(|prefix| caches.contains_key(prefix)), [false, true, true]);
}

#[tokio::test]
async fn the_cache_of_a_closed_store_is_stopped() {
    let it = fixture().await;
    assert_eq!(it.cache.phase(), ReflectorPhase::Watching);
    it.store.close().await.unwrap();
    let stopped = async {
        while it.cache.phase() != ReflectorPhase::Stopped {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, stopped).await.expect("the reflector stops");
    assert!(matches!(it.cache.catch_up().await, Err(Error::Closed)));
}
