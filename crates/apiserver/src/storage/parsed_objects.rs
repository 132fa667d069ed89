//! [`ParsedObjects`]: the parsed form of the objects of one namespaced resource. An object is parsed
//! when a request of its namespace needs it; the result is cached until the object changes.
//!
//! Invariants:
//! - an object is parsed once for each of its revisions, even if several requests need it at once,
//!   unless it is large and the cache has no room for it, or a newer revision has been parsed;
//! - the objects of other namespaces are not read;
//! - the total size of the cached large objects, measured by their JSON, is limited;
//! - the cache has at most as many outdated entries (of changed or deleted objects) as current ones.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::cache::watch_cache::{Entry, ResourceCache, Snapshot};
use crate::storage::{Storage, unreadable_error};
use keel::blocking;
use machinery::{Object, Status};
use store::Revision;

/// An object with more bytes than this counts as large.
const LARGE_OBJECT_BYTES: usize = 64 << 10;

/// The maximum total size of the large objects whose parsed forms are cached.
const MAX_LARGE_BYTES: usize = 32 << 20;

/// See the [module documentation](self).
pub(crate) struct ParsedObjects<T> {
    group: &'static str,
    plural: &'static str,
    parse: fn(&Object) -> T,
    source: OnceLock<Source>,
    /// Held for lookups only, never while an object is parsed.
    cached: Mutex<ParsedCache<T>>,
}

/// The cache of the objects, which is the same during the life of the plane.
struct Source {
    cache: Arc<ResourceCache>,
    /// The prefix of their keys, with a trailing slash.
    prefix: String,
}

struct ParsedCache<T> {
    by_key: HashMap<Arc<str>, Parsed<T>>,
    /// The size of the large objects in `by_key`.
    large_bytes: usize,
    /// The number of objects that were added since outdated entries were last removed.
    added: usize,
}

struct Parsed<T> {
    /// The revisions of the object of which this is the parsed form.
    revisions: RangeInclusive<Revision>,
    /// The size of the source.
    size: usize,
    /// Empty until the first request that needs it has parsed the object.
    value: Arc<OnceLock<Arc<T>>>,
}

impl<T> ParsedObjects<T> {
    /// The objects of a built-in resource, parsed by `parse`.
    pub(crate) fn new(group: &'static str, plural: &'static str, parse: fn(&Object) -> T) -> Self {
        let cached = ParsedCache { by_key: HashMap::new(), large_bytes: 0, added: 0 };
        Self { group, plural, parse, source: OnceLock::new(), cached: Mutex::new(cached) }
    }

    /// The objects of a namespace, in the order of their names. Fails if one of them cannot be
    /// decrypted: a request must not go on without it.
    pub(crate) fn of(&self, storage: &Storage, namespace: &str) -> Result<Vec<Arc<T>>, Status> {
        self.matching(storage, namespace, |_| true)
    }

    /// Like [`ParsedObjects::of`], without the objects that have pending initializers.
    pub(crate) fn initialized(
        &self,
        storage: &Storage,
        namespace: &str,
    ) -> Result<Vec<Arc<T>>, Status> {
        self.matching(storage, namespace, |entry| !entry.uninitialized)
    }

    /// The parsed form of an entry of `snapshot`.
    pub(crate) fn get(&self, snapshot: &Snapshot, entry: &Entry) -> Arc<T> {
        let value = self.lock().slot(snapshot, entry);
        if let Some(parsed) = value.get() {
            return Arc::clone(parsed);
        }
        let parse = || {
            let parsed = value.get_or_init(|| Arc::new((self.parse)(&entry.object_as_stored())));
            Arc::clone(parsed)
        };
        if entry.len() > LARGE_OBJECT_BYTES { blocking(parse) } else { parse() }
    }

    /// Uses the parsed form of an object at revision `from` for revision `to` as well. The caller
    /// ensures that only fields that `parse` does not read have changed between them.
    pub(crate) fn carry_over(&self, key: &str, from: Revision, to: Revision) {
        if let Some(parsed) = self.lock().by_key.get_mut(key).filter(|it| it.is_newest(from)) {
            parsed.revisions = *parsed.revisions.start()..=to;
        }
    }

    fn matching(
        &self,
        storage: &Storage,
        namespace: &str,
        matches: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Arc<T>>, Status> {
        let source = self.source(storage);
        if source.cache.is_empty() {
            return Ok(Vec::new());
        }
        let prefix = format!("{}{namespace}/", source.prefix);
        let snapshot = source.cache.snapshot();
        unreadable_error::check_list(&snapshot, &prefix)?;
        Ok(self.under(&snapshot, &prefix, matches))
    }

    /// The objects of `snapshot` whose keys begin with `prefix`.
    fn under(
        &self,
        snapshot: &Snapshot,
        prefix: &str,
        matches: impl Fn(&Entry) -> bool,
    ) -> Vec<Arc<T>> {
        let entries = snapshot.under(prefix, None).filter(|entry| matches(entry));
        entries.map(|entry| self.get(snapshot, entry)).collect()
    }

    fn source(&self, storage: &Storage) -> &Source {
        self.source.get_or_init(|| {
            let catalog = storage.catalog.load();
            let served = catalog.resource(self.group, self.plural).expect("the kind is built in");
            Source { cache: Arc::clone(&served.cache), prefix: served.key("", "") }
        })
    }

    fn lock(&self) -> MutexGuard<'_, ParsedCache<T>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Parsed<T> {
    fn is_newest(&self, revision: Revision) -> bool {
        *self.revisions.end() == revision
    }
}

impl<T> ParsedCache<T> {
    /// The slot of the parsed form of an entry, which is empty if the entry has not been parsed.
    fn slot(&mut self, snapshot: &Snapshot, entry: &Entry) -> Arc<OnceLock<Arc<T>>> {
        match self.by_key.get(&entry.key) {
            Some(found) if found.revisions.contains(&entry.revision) => {
                return Arc::clone(&found.value);
            }
            // The snapshot is older than that of another request.
            Some(found) if *found.revisions.start() > entry.revision => return Arc::default(),
            Some(_) | None => {}
        }
        let (value, size) = (Arc::default(), entry.len());
        let revisions = entry.revision..=entry.revision;
        let parsed = Parsed { revisions, size, value: Arc::clone(&value) };
        self.remove(&entry.key);
        let is_large = size > LARGE_OBJECT_BYTES;
        if self.added > snapshot.entries.len() || is_large && !self.has_room(size) {
            self.remove_outdated(snapshot);
        }
        if is_large {
            if !self.has_room(size) {
                return value;
            }
            self.large_bytes += size;
        }
        self.added += 1;
        self.by_key.insert(Arc::clone(&entry.key), parsed);
        value
    }

    fn has_room(&self, size: usize) -> bool {
        self.large_bytes + size <= MAX_LARGE_BYTES
    }

    fn remove(&mut self, key: &str) {
        if let Some(removed) = self.by_key.remove(key).filter(|it| it.size > LARGE_OBJECT_BYTES) {
            self.large_bytes -= removed.size;
        }
    }

    /// Removes the parsed forms of objects that were changed or deleted. Those newer than the snapshot
    /// stay.
    fn remove_outdated(&mut self, snapshot: &Snapshot) {
        self.by_key.retain(|key, parsed| {
            let entry = snapshot.entries.get(key);
            *parsed.revisions.end() > snapshot.revision
                || entry.is_some_and(|entry| parsed.revisions.contains(&entry.revision))
        });
        let large =
            self.by_key.values().map(|it| it.size).filter(|size| *size > LARGE_OBJECT_BYTES);
        self.large_bytes = large.sum();
        self.added = 0;
    }
}

#[cfg(test)]
mod tests;
