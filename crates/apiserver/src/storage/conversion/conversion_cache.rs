//! [`ConversionCache`]: converted objects, so that a webhook converts an object once for all reads and
//! watches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cache::watch_cache::Entry;
use store::Revision;

/// The maximum size of each of the two generations, in bytes.
const GENERATION_BYTES: usize = 64 << 20;

/// See the [module documentation](self). A changed CRD has a new cache.
///
/// An entry that is read moves to the young generation. When the young generation is full, it replaces
/// the old one, so entries that were not read recently are removed.
#[derive(Default)]
pub(super) struct ConversionCache(Mutex<Generations>);

/// The index of a version, the key of an object, and the revision of its last write.
type Key = (usize, Arc<str>, Revision);

#[derive(Default)]
struct Generations {
    young: HashMap<Key, ConvertedEntry>,
    old: HashMap<Key, ConvertedEntry>,
    /// The size of the entries in `young`.
    bytes: usize,
}

/// A stored object and its conversion. A changed CRD adds defaults to stored objects without a new
/// revision, so key and revision alone do not identify the content.
struct ConvertedEntry {
    stored: Arc<Entry>,
    converted: Arc<Entry>,
}

impl ConvertedEntry {
    fn size(&self) -> usize {
        self.stored.len() + self.converted.len()
    }
}

impl ConversionCache {
    /// The cached conversion of a stored object to `version`.
    pub(super) fn get(&self, version: usize, stored: &Entry) -> Option<Arc<Entry>> {
        let key = (version, Arc::clone(&stored.key), stored.revision);
        let mut generations = self.lock();
        if !generations.young.contains_key(&key) {
            let found = generations.old.remove(&key)?;
            generations.insert(key.clone(), found);
        }
        let found = generations.young.get(&key)?;
        found.stored.has_same_bytes(stored).then(|| Arc::clone(&found.converted))
    }

    /// Adds the conversion of a stored object to `version`.
    pub(super) fn put(&self, version: usize, stored: Arc<Entry>, converted: Arc<Entry>) {
        let key = (version, Arc::clone(&stored.key), stored.revision);
        self.lock().insert(key, ConvertedEntry { stored, converted });
    }

    /// Removes the conversion of a stored object to `version`.
    pub(super) fn remove(&self, version: usize, stored: &Entry) {
        let key = (version, Arc::clone(&stored.key), stored.revision);
        let mut generations = self.lock();
        generations.old.remove(&key);
        if let Some(removed) = generations.young.remove(&key) {
            generations.bytes = generations.bytes.saturating_sub(removed.size());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn insert(&mut self, key: Key, converted_entry: ConvertedEntry) {
        let size = converted_entry.size();
        self.bytes += size;
        if self.bytes > GENERATION_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.bytes = size;
        }
        self.young.insert(key, converted_entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Record;

    fn entry(name: &str, revision: Revision, size: usize) -> Arc<Entry> {
        let filler = "x".repeat(size);
        let value = format!(
            r#"{{"apiVersion":"v1","kind":"T","metadata":{{"name":"{name}"}},"x":"{filler}"}}"#
        );
        let key = format!("/registry/things/{name}").into();
        let record =
            Record { key, value: value.into(), created: 1, modified: revision, expires: None };
        Arc::new(Entry::of(&record, "/registry/things".len()))
    }

    #[test]
    fn an_object_is_found_in_its_version_at_its_revision() {
        let cache = ConversionCache::default();
        cache.put(1, entry("a", 7, 0), entry("a", 7, 0));
        assert!(cache.get(1, &entry("a", 7, 0)).is_some());
        assert!(cache.get(0, &entry("a", 7, 0)).is_none());
        assert!(cache.get(1, &entry("a", 8, 0)).is_none());
        assert!(cache.get(1, &entry("a", 7, 1)).is_none(), "the content differs");
    }

    #[test]
    fn entries_that_are_not_read_are_removed() {
        let cache = ConversionCache::default();
        let (read, unread) = (entry("read", 1, 0), entry("unread", 1, 0));
        cache.put(0, Arc::clone(&read), Arc::clone(&read));
        cache.put(0, Arc::clone(&unread), Arc::clone(&unread));
        for revision in 0..4 {
            let large = entry("large", revision, GENERATION_BYTES / 4);
            cache.put(0, Arc::clone(&large), large);
            assert!(cache.get(0, &read).is_some(), "{revision}");
        }
        assert!(cache.get(0, &unread).is_none());
    }
}
