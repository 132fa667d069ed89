//! [`WatchCache`]: all objects, and the recent history of every resource, in memory.
//!
//! A reflector ([`reflector`]) watches the store and applies each event to the cache of its
//! resource. Reads use a snapshot; watches read the log of changes. A consistent read waits until
//! the reflector has applied the current revision of the store, which takes microseconds for a store
//! in this process.
//!
//! ```text
//! store ── event ──▶ reflector ──▶ ResourceCache ── snapshot ──▶ get, list
//!                                               └── log ───────▶ watch
//! ```

mod byte_counter;
mod change_log;
mod compaction;
mod entry;
mod label_mask;
mod reflector;
mod resource_cache;
mod retained_snapshots;
mod snapshot;
mod subscription;
mod unreadable_objects;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use futures_util::StreamExt;
use tokio::sync::watch;

use informer::{ReflectorPhase, ReflectorStatus};
use keel::{Clock, Tasks};
use store::{Error, Event, Record, Revision, Store, Watch};

pub(crate) use change_log::{Change, EncodingKey};
pub(crate) use entry::{Entry, Head};
pub(crate) use label_mask::LabelMask;
pub(crate) use resource_cache::{Followed, LogPosition, ResourceCache};
pub(crate) use snapshot::Snapshot;
pub(crate) use subscription::Subscription;

/// The prefix of the keys of all API objects.
pub(crate) const ROOT: &str = "/registry/";

/// The limit on the memory of the histories of all resources. Beyond it, the largest one is reduced.
const MAX_HISTORY_BYTES: usize = 64 << 20;

/// See the [module documentation](self).
pub(crate) struct WatchCache {
    store: Arc<dyn Store>,
    caches: ArcSwap<HashMap<Arc<str>, Arc<ResourceCache>>>,
    /// Locked while a cache is added or removed.
    removals: Mutex<Removals>,
    /// The bytes that the histories of all resources keep in memory.
    history_bytes: Arc<AtomicUsize>,
    /// Every change up to this revision can be read.
    applied: watch::Sender<Revision>,
    /// The status of the reflector, once it runs.
    status: OnceLock<watch::Receiver<ReflectorStatus>>,
}

/// The removal of caches whose resource is no longer served.
#[derive(Default)]
struct Removals {
    /// Whether the store is being listed. It may have objects that are not in the cache, so that no
    /// cache is removed meanwhile.
    are_deferred: bool,
    /// The prefixes of the caches that are removed after the list.
    deferred: HashSet<Arc<str>>,
}

impl WatchCache {
    /// Loads all records and the history of the store, and applies its events from then on. The
    /// tasks of the cache end with `tasks`.
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        prefixes: &[String],
        clock: &Clock,
        tasks: &Tasks,
    ) -> Result<Arc<Self>, Error> {
        let cache = Arc::new(Self {
            store,
            caches: ArcSwap::default(),
            removals: Mutex::default(),
            history_bytes: Arc::default(),
            applied: watch::Sender::new(0),
            status: OnceLock::new(),
        });
        for prefix in prefixes {
            cache.get_or_create(prefix);
        }
        cache.load().await?;
        let mut status = reflector::spawn(&cache, cache.applied(), clock, tasks);
        let is_open = |status: &ReflectorStatus| status.phase == ReflectorPhase::Watching;
        status.wait_for(is_open).await.map_err(|_| Error::Closed)?;
        let _ = cache.status.set(status);
        let stop = tasks.shutdown();
        let compacting = compaction::compact_periodically(Arc::clone(&cache), clock.clone());
        tasks.spawn("compaction", async move {
            tokio::select! {
                () = compacting => {}
                () = stop => {}
            }
        });
        Ok(cache)
    }

    /// Loads the records, and the history that the store still has, so that a watch can resume at a
    /// revision from before a restart. The logs have the history before the first read, so that such
    /// a watch misses no event.
    async fn load(&self) -> Result<(), Error> {
        let (mut watch, floor) = self.watch_history().await?;
        let page = reflector::read_all(&*self.store).await?;
        for (cache, records) in self.by_resource(&page.records) {
            cache.load(records);
        }
        for cache in self.caches.load().values() {
            cache.finish_load(page.revision, floor);
        }
        self.applied.send_replace(floor);
        self.store.request_progress().await?;
        while self.applied() < page.revision {
            match watch.next().await.unwrap_or(Err(Error::Closed)) {
                Ok(response) => {
                    self.apply_events(&response.events);
                    self.set_applied(response.revision);
                }
                Err(Error::Closed) => return Err(Error::Closed),
                // The oldest events were compacted meanwhile, or the connection was lost.
                Err(_) => self.replace_content(&page.records, page.revision),
            }
        }
        Ok(())
    }

    /// A watch of all events in the history, and the revision after which it starts.
    async fn watch_history(&self) -> Result<(Watch, Revision), Error> {
        let mut floor = 0;
        loop {
            match self.store.watch(ROOT, floor).await {
                Err(Error::Compacted { oldest, .. }) if oldest > floor => floor = oldest,
                watch => return Ok((watch?, floor)),
            }
        }
    }

    /// Records by their resource. They are sorted by key, so those of a resource are contiguous.
    fn by_resource<'a>(
        &self,
        records: &'a [Arc<Record>],
    ) -> Vec<(Arc<ResourceCache>, &'a [Arc<Record>])> {
        let mut resources = Vec::new();
        let mut rest = records;
        while let Some(first) = rest.first() {
            let Some(cache) = self.of_key(&first.key) else {
                rest = &rest[1..];
                continue;
            };
            let count = rest.partition_point(|record| cache.owns_key(&record.key));
            resources.push((cache, &rest[..count]));
            rest = &rest[count..];
        }
        resources
    }

    /// Replaces the content of all caches with the records of the store at `revision`. No cache may
    /// be removed meanwhile.
    fn replace_content(&self, records: &[Arc<Record>], revision: Revision) {
        let listed = self.by_resource(records);
        for cache in self.caches.load().values() {
            let records = listed.iter().find(|(it, _)| Arc::ptr_eq(it, cache));
            cache.replace(records.map_or(&[], |(_, records)| records), revision);
        }
        self.applied.send_replace(revision);
        for cache in self.caches.load().values() {
            cache.wake();
        }
    }

    /// The phase of the reflector. The cache follows the store while the phase is `Watching`. A
    /// reflector that has panicked counts as stopped.
    pub(crate) fn phase(&self) -> ReflectorPhase {
        match self.status.get() {
            None => ReflectorPhase::Listing,
            Some(status) if status.has_changed().is_err() => ReflectorPhase::Stopped,
            Some(status) => status.borrow().phase,
        }
    }

    /// Applies events in the order of their revisions, and wakes the watchers of their resources.
    fn apply_events<'a>(&self, events: impl IntoIterator<Item = &'a Event>) {
        let mut changed: Vec<Arc<ResourceCache>> = Vec::new();
        let mut newest = 0;
        for event in events {
            newest = event.revision;
            let Some(cache) = self.apply_event(event) else { continue };
            if !changed.iter().any(|it| Arc::ptr_eq(it, &cache)) {
                changed.push(cache);
            }
        }
        self.set_applied(newest);
        for cache in changed {
            cache.wake();
        }
        self.limit_history();
    }

    /// Records that all events up to `revision` are applied.
    fn set_applied(&self, revision: Revision) {
        self.applied.send_if_modified(|applied| raise(applied, revision));
    }

    /// Applies an event to the cache of its resource, and returns the cache.
    fn apply_event(&self, event: &Event) -> Option<Arc<ResourceCache>> {
        loop {
            let cache = self.of_key(&event.key)?;
            if cache.apply(event).is_ok() {
                return Some(cache);
            }
            // The cache is being removed. Another one replaces it after the removal.
            drop(self.lock_removals());
        }
    }

    /// Reads the objects that cannot be decrypted again: a key or a plugin may have been added.
    pub(crate) async fn retry_unreadable(&self) -> Result<(), Error> {
        let caches = self.caches.load_full();
        for cache in caches.values().filter(|it| it.has_unreadable()) {
            for key in cache.snapshot().unreadable.keys() {
                if let Some(record) = self.store.get(key).await? {
                    cache.repair(&record);
                }
            }
            cache.wake();
            // Those who wait for changes of any resource have something to read as well.
            self.applied.send_modify(|_| {});
        }
        Ok(())
    }

    /// Reduces the largest histories until all of them together are within their limit.
    fn limit_history(&self) {
        while self.history_bytes.load(Ordering::Relaxed) > MAX_HISTORY_BYTES {
            let caches = self.caches.load();
            let largest = caches.values().max_by_key(|cache| cache.history_bytes());
            let Some(largest) = largest.filter(|cache| cache.history_bytes() > 0) else { return };
            largest.drop_older_half();
        }
    }

    /// Compacts the history up to `upto`, in the cache and in the store. The memory is freed even if
    /// the store cannot be compacted, because its disk is full or has failed.
    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        for cache in self.caches.load().values() {
            cache.compact(upto);
        }
        self.store.compact(upto).await
    }

    /// Drops the cache of a resource that is no longer served, unless it has objects. While the store
    /// is listed, the removal waits for the list.
    pub(crate) fn remove(&self, prefix: &str) {
        let mut removals = self.lock_removals();
        if removals.are_deferred {
            removals.deferred.insert(prefix.into());
        } else {
            self.drop_if_empty(prefix);
        }
    }

    /// Defers removals, after one that is running.
    fn defer_removals(&self) {
        self.lock_removals().are_deferred = true;
    }

    /// Removes the caches whose removal was deferred, and defers no others.
    fn apply_deferred_removals(&self) {
        let mut removals = self.lock_removals();
        removals.are_deferred = false;
        for prefix in removals.deferred.drain() {
            self.drop_if_empty(&prefix);
        }
    }

    /// Drops the cache of a resource if it is empty; only while `removals` is locked.
    fn drop_if_empty(&self, prefix: &str) {
        let mut caches = HashMap::clone(&self.caches.load());
        if caches.get(prefix).is_some_and(|cache| cache.retire_if_empty()) {
            caches.remove(prefix);
            self.caches.store(Arc::new(caches));
        }
    }

    fn lock_removals(&self) -> MutexGuard<'_, Removals> {
        self.removals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether objects are stored below `prefix`.
    pub(crate) fn has_objects(&self, prefix: &str) -> bool {
        self.caches.load().get(prefix).is_some_and(|cache| !cache.is_empty())
    }

    /// The cache of the resource with this prefix, which is created if it does not exist. Its
    /// deferred removal is canceled, since the resource is served again.
    pub(crate) fn get_or_create(&self, prefix: &str) -> Arc<ResourceCache> {
        let mut removals = self.lock_removals();
        removals.deferred.remove(prefix);
        let caches = self.caches.load();
        if let Some(found) = caches.get(prefix) {
            return Arc::clone(found);
        }
        let created =
            Arc::new(ResourceCache::new(prefix, *self.applied.borrow(), &self.history_bytes));
        let mut caches = HashMap::clone(&caches);
        caches.insert(Arc::from(prefix), Arc::clone(&created));
        self.caches.store(Arc::new(caches));
        created
    }

    /// The cache that `key` belongs to: `/registry/pods/…` or `/registry/<group>/<plural>/…`.
    fn of_key(&self, key: &str) -> Option<Arc<ResourceCache>> {
        let rest = key.strip_prefix(ROOT)?;
        let first = rest.find('/')?;
        let caches = self.caches.load();
        if let Some(found) = caches.get(&key[..ROOT.len() + first]) {
            return Some(Arc::clone(found));
        }
        let second = first + 1 + rest[first + 1..].find('/')?;
        let prefix = &key[..ROOT.len() + second];
        match caches.get(prefix) {
            Some(found) => Some(Arc::clone(found)),
            None => Some(self.get_or_create(prefix)),
        }
    }

    /// The revision up to which everything can be read.
    pub(crate) fn applied(&self) -> Revision {
        *self.applied.borrow()
    }

    /// A receiver of the revision up to which everything can be read.
    pub(crate) fn subscribe_applied(&self) -> watch::Receiver<Revision> {
        self.applied.subscribe()
    }

    /// Waits until `revision` can be read.
    pub(crate) async fn wait_for_revision(&self, revision: Revision) {
        if self.applied() < revision {
            // The sender lives in `self`, so the wait cannot fail.
            let _ = self.applied.subscribe().wait_for(|applied| *applied >= revision).await;
        }
    }

    /// Waits until everything that was written before this call can be read.
    pub(crate) async fn catch_up(&self) -> Result<(), Error> {
        let revision = self.store.revision().await?;
        if self.applied() < revision {
            // The newest write may be outside of `ROOT`, and has no event in its watch.
            self.store.request_progress().await?;
            self.wait_for_revision(revision).await;
        }
        Ok(())
    }
}

/// Raises `current` to `revision` if that is newer, and returns whether it is.
pub(crate) fn raise(current: &mut Revision, revision: Revision) -> bool {
    let is_newer = revision > *current;
    *current = revision.max(*current);
    is_newer
}

#[cfg(test)]
mod tests;
