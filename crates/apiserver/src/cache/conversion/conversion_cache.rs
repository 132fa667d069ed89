//! [`ConversionCache`]: converted objects, so that a webhook is asked once for all who read or watch.

use crate::cache::watch_cache::Entry;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use store::Revision;

/// Bytes in each of the two generations.
const GENERATION_BYTES: usize = 64 << 20;

/// See the [module documentation](self). It ends with the definition that says how to convert.
///
/// There are two generations: what is asked for moves to the young one, and when that is full, it takes
/// the place of the old one. So what nobody has asked for lately is forgotten.
#[derive(Default)]
pub(super) struct ConversionCache(Mutex<Generations>);

/// A version, a key, and the revision at which an object was written.
type Key = (usize, Arc<str>, Revision);

#[derive(Default)]
struct Generations {
    young: HashMap<Key, ConvertedEntry>,
    old: HashMap<Key, ConvertedEntry>,
    /// In `young`.
    bytes: usize,
}

/// An object as it is stored, and as it was converted. A changed definition shows other defaults in
/// what was stored before, so the place and the revision do not tell all of the content.
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
    /// A stored object in `version`, if somebody has converted it.
    pub(super) fn get(&self, version: usize, stored: &Entry) -> Option<Arc<Entry>> {
        let key = (version, Arc::clone(&stored.key), stored.revision);
        let mut generations = self.lock();
        if !generations.young.contains_key(&key) {
            let found = generations.old.remove(&key)?;
            generations.insert(key.clone(), found);
        }
        let found = generations.young.get(&key)?;
        found.stored.is_like(stored).then(|| Arc::clone(&found.converted))
    }

    /// Keeps an object that was converted to `version`.
    pub(super) fn put(&self, version: usize, stored: Arc<Entry>, converted: Arc<Entry>) {
        let key = (version, Arc::clone(&stored.key), stored.revision);
        self.lock().insert(key, ConvertedEntry { stored, converted });
    }

    /// Forgets a stored object in `version`.
    pub(super) fn remove(&self, version: usize, stored: &Entry) {
        let key = (version, Arc::clone(&stored.key), stored.revision);
        let mut generations = self.lock();
        generations.old.remove(&key);
        if let Some(removed) = generations.young.remove(&key) {
            generations.bytes = generations.bytes.saturating_sub(removed.size());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        self.0.lock().expect("nothing panics while it looks for what was converted")
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
        assert!(cache.get(1, &entry("a", 7, 1)).is_none(), "it has another content");
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let cache = ConversionCache::default();
        let (wanted, forgotten) = (entry("wanted", 1, 0), entry("forgotten", 1, 0));
        cache.put(0, Arc::clone(&wanted), Arc::clone(&wanted));
        cache.put(0, Arc::clone(&forgotten), Arc::clone(&forgotten));
        for revision in 0..4 {
            let large = entry("large", revision, GENERATION_BYTES / 4);
            cache.put(0, Arc::clone(&large), large);
            assert!(cache.get(0, &wanted).is_some(), "{revision}");
        }
        assert!(cache.get(0, &forgotten).is_none());
    }
}
