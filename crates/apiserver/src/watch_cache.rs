//! What the server reads from: every object, and the recent history of every resource, in memory.
//!
//! One task follows the store's log ([`sync`]) and applies each change to the cache of the resource
//! that it belongs to. Reads take a snapshot; watches read the log of changes. A read that
//! must be current waits until that task has applied the store's current revision, which for a
//! store in this process is next to no time.
//!
//! ```text
//! store ── event ──▶ follow ──▶ ResourceCache ── snapshot ──▶ get, list
//!                                            └── log ───────▶ watch
//! ```

mod change_log;
mod compaction;
mod entry;
mod label_mask;
mod ledger;
mod pinned;
mod resource_cache;
mod snapshot;
mod subscription;
mod sync;

pub(crate) use change_log::{Change, EncodingKey};
pub(crate) use entry::{Entry, Head};
pub(crate) use label_mask::LabelMask;
pub(crate) use resource_cache::ResourceCache;
pub(crate) use snapshot::Snapshot;
pub(crate) use subscription::Subscription;
pub(crate) use sync::SyncState;

use arc_swap::ArcSwap;
use keel::{Clock, Tasks};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use store::{Error, Event, Page, Record, Revision, Store, WatchResponse};
use tokio::sync::watch;

/// All keys of the API live below this one.
pub(crate) const ROOT: &str = "/registry/";

/// When the histories of all resources together keep more bytes alive than this, the largest one
/// is cut down.
const MAX_HISTORY_BYTES: usize = 64 << 20;

/// See the [module documentation](self).
pub(crate) struct WatchCache {
    store: Arc<dyn Store>,
    caches: ArcSwap<HashMap<Arc<str>, Arc<ResourceCache>>>,
    /// Held while a cache is added or removed. The prefixes of the caches whose removal waits until
    /// the cache is in sync with the store.
    pending_removals: Mutex<HashSet<Arc<str>>>,
    /// The bytes that the histories of all resources keep alive.
    history_bytes: Arc<AtomicUsize>,
    /// Every change up to this revision can be read.
    applied: watch::Sender<Revision>,
    sync_state: Mutex<SyncState>,
}

impl WatchCache {
    /// Loads everything, keeps up with the store from then on, and ends with `tasks`.
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        prefixes: &[String],
        clock: &Clock,
        tasks: &Tasks,
    ) -> Result<Arc<Self>, Error> {
        let cache = Arc::new(Self {
            store: Arc::clone(&store),
            caches: ArcSwap::default(),
            pending_removals: Mutex::default(),
            history_bytes: Arc::default(),
            applied: watch::Sender::new(0),
            sync_state: Mutex::new(SyncState::Synced),
        });
        // As much history as the store still has, so that a watch may resume from before a restart.
        let (mut events, floor) = match store.watch(ROOT, 0).await {
            Err(Error::Compacted { oldest, .. }) => (store.watch(ROOT, oldest).await?, oldest),
            other => (other?, 0),
        };
        for prefix in prefixes {
            cache.of_prefix(prefix);
        }
        let page = store.range(ROOT, None, usize::MAX, None).await?;
        for (of, records) in cache.by_resource(&page) {
            of.load(records);
        }
        for of in cache.caches.load().values() {
            of.loaded(page.revision, floor);
        }
        // The history goes to the log before anybody reads: a watch that resumes in it must not be
        // told that nothing has happened since.
        cache.applied.send_replace(floor);
        store.request_progress().await?;
        while cache.applied() < page.revision {
            match sync::next(&mut events).await {
                Ok(response) => cache.apply(&response),
                // A write at this moment has pushed the oldest events out of a full history.
                Err(Error::Compacted { .. }) => events = sync::relist(&cache, clock).await?,
                Err(error) => return Err(error),
            }
        }
        let stop = tasks.shutdown();
        let following = sync::follow(Arc::clone(&cache), events, clock.clone());
        tasks.spawn("watch-cache", async move {
            tokio::select! {
                () = following => {}
                () = stop => {}
            }
        });
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

    /// The records of a page, by the resource that they belong to. Records come in the order of
    /// their keys, so those of a resource come together.
    fn by_resource<'a>(&self, page: &'a Page) -> Vec<(Arc<ResourceCache>, &'a [Arc<Record>])> {
        let mut resources = Vec::new();
        let mut rest = &page.records[..];
        while let Some(first) = rest.first() {
            let Some(of) = self.of_key(&first.key) else {
                rest = &rest[1..];
                continue;
            };
            let count = rest.partition_point(|record| of.holds(&record.key));
            resources.push((of, &rest[..count]));
            rest = &rest[count..];
        }
        resources
    }

    /// Puts the state of `page` in the place of all that is here.
    fn replace(&self, page: &Page) {
        // A removal that is under way ends first; while the cache lists, none begins.
        drop(self.lock_caches());
        let listed = self.by_resource(page);
        for of in self.caches.load().values() {
            let records = listed.iter().find(|(it, _)| Arc::ptr_eq(it, of));
            of.replace(records.map_or(&[], |(_, records)| records), page.revision);
        }
        self.applied.send_replace(page.revision);
        for of in self.caches.load().values() {
            of.wake();
        }
    }

    /// Whether the cache shows what is in the store.
    pub(crate) fn sync_state(&self) -> SyncState {
        *self.sync_state.lock().expect("nothing panics while it holds the state")
    }

    fn set_sync_state(&self, state: SyncState) {
        *self.sync_state.lock().expect("nothing panics while it holds the state") = state;
    }

    fn apply(&self, response: &WatchResponse) {
        let mut touched: Vec<Arc<ResourceCache>> = Vec::new();
        for event in &response.events {
            let Some(of) = self.apply_event(event) else { continue };
            if !touched.iter().any(|it| Arc::ptr_eq(it, &of)) {
                touched.push(of);
            }
        }
        self.applied.send_if_modified(|applied| raise(applied, response.revision));
        for of in touched {
            of.wake();
        }
        self.shed();
    }

    /// Applies an event to the cache of its resource, and returns that.
    fn apply_event(&self, event: &Event) -> Option<Arc<ResourceCache>> {
        loop {
            let of = self.of_key(&event.key)?;
            if of.apply(event).is_ok() {
                return Some(of);
            }
            // It is being removed; another takes its place once that is done.
            drop(self.lock_caches());
        }
    }

    /// Cuts down the largest histories until all of them together are within their bound.
    fn shed(&self) {
        while self.history_bytes.load(Ordering::Relaxed) > MAX_HISTORY_BYTES {
            let caches = self.caches.load();
            let largest = caches.values().max_by_key(|of| of.history_bytes());
            let Some(largest) = largest.filter(|of| of.history_bytes() > 0) else { return };
            largest.shed();
        }
    }

    /// Forgets what happened up to `upto`, here and in the store. The memory is freed also if the
    /// store cannot be compacted, because its disk is full or has failed.
    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        for of in self.caches.load().values() {
            of.compact(upto);
        }
        self.store.compact(upto).await
    }

    /// Drops the cache of a resource that is no longer served, unless there still are objects. If
    /// there may be some in the store that are not known here, this waits for the end of the relist.
    pub(crate) fn remove(&self, prefix: &str) {
        let mut pending = self.lock_caches();
        match self.sync_state() {
            SyncState::Synced => self.drop_if_empty(prefix),
            SyncState::Relisting => {
                pending.insert(prefix.into());
            }
            SyncState::Stopped => {}
        }
    }

    /// Ends a relist: the cache is in sync with the store, and removals no longer wait.
    fn end_relist(&self) {
        let mut pending = self.lock_caches();
        self.set_sync_state(SyncState::Synced);
        for prefix in pending.drain() {
            self.drop_if_empty(&prefix);
        }
    }

    /// Drops the cache of a resource if it is empty; only while the caches are locked.
    fn drop_if_empty(&self, prefix: &str) {
        let mut caches = HashMap::clone(&self.caches.load());
        if caches.get(prefix).is_some_and(|of| of.retire_if_empty()) {
            caches.remove(prefix);
            self.caches.store(Arc::new(caches));
        }
    }

    fn lock_caches(&self) -> MutexGuard<'_, HashSet<Arc<str>>> {
        self.pending_removals.lock().expect("nothing panics while it changes the caches")
    }

    /// Whether objects are stored below `prefix`.
    pub(crate) fn has_objects(&self, prefix: &str) -> bool {
        self.caches.load().get(prefix).is_some_and(|of| !of.is_empty())
    }

    /// The cache of the resource whose objects are kept below `prefix`, made if there is none. A
    /// removal of it that is pending is canceled, since the resource is served again.
    pub(crate) fn of_prefix(&self, prefix: &str) -> Arc<ResourceCache> {
        let mut pending = self.lock_caches();
        pending.remove(prefix);
        let caches = self.caches.load();
        if let Some(found) = caches.get(prefix) {
            return Arc::clone(found);
        }
        let made =
            Arc::new(ResourceCache::new(prefix, *self.applied.borrow(), &self.history_bytes));
        let mut more = HashMap::clone(&caches);
        more.insert(Arc::from(prefix), Arc::clone(&made));
        self.caches.store(Arc::new(more));
        made
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
            None => Some(self.of_prefix(prefix)),
        }
    }

    /// The revision up to which everything can be read.
    pub(crate) fn applied(&self) -> Revision {
        *self.applied.borrow()
    }

    /// Hears of every revision that can be read.
    pub(crate) fn follow(&self) -> watch::Receiver<Revision> {
        self.applied.subscribe()
    }

    /// Waits until `revision` can be read.
    pub(crate) async fn reach(&self, revision: Revision) {
        if self.applied() < revision {
            // The sender lives in `self`, so the wait cannot fail.
            let _ = self.applied.subscribe().wait_for(|applied| *applied >= revision).await;
        }
    }

    /// Waits until everything that was written before this call can be read.
    pub(crate) async fn catch_up(&self) -> Result<(), Error> {
        let revision = self.store.revision().await?;
        if self.applied() < revision {
            // The newest write may be outside of `ROOT`, whose watch does not show it.
            self.store.request_progress().await?;
            self.reach(revision).await;
        }
        Ok(())
    }
}

/// Raises `known` to `revision` if that is newer, and returns whether it is.
pub(crate) fn raise(known: &mut Revision, revision: Revision) -> bool {
    let is_newer = revision > *known;
    *known = revision.max(*known);
    is_newer
}

#[cfg(test)]
mod tests;
