//! [`Kept`]: converted objects, so that a webhook is asked once for all who read or watch.

use crate::cache::watch_cache::Entry;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use store::Revision;

/// Bytes in each of the two halves.
const HALF: usize = 64 << 20;

/// See the [module documentation](self). It ends with the definition that says how to convert.
///
/// There are two halves: what is asked for moves to the young one, and when that is full, it takes
/// the place of the old one. So what nobody has asked for lately is forgotten.
#[derive(Default)]
pub(super) struct Kept(Mutex<Halves>);

/// A version, a key, and the revision at which an object was written.
type Key = (usize, Arc<str>, Revision);

#[derive(Default)]
struct Halves {
    young: HashMap<Key, Pair>,
    old: HashMap<Key, Pair>,
    /// In `young`.
    bytes: usize,
}

/// An object as it is stored, and as it was converted. A changed definition shows other defaults in
/// what was stored before, so the place and the revision do not tell all of the content.
struct Pair {
    stored: Arc<Entry>,
    converted: Arc<Entry>,
}

impl Pair {
    fn size(&self) -> usize {
        self.stored.len() + self.converted.len()
    }
}

impl Kept {
    /// A stored object in `version`, if somebody has converted it.
    pub(super) fn get(&self, version: usize, stored: &Entry) -> Option<Arc<Entry>> {
        let key = (version, Arc::clone(&stored.key), stored.revision);
        let mut halves = self.lock();
        if !halves.young.contains_key(&key) {
            let found = halves.old.remove(&key)?;
            halves.insert(key.clone(), found);
        }
        let found = halves.young.get(&key)?;
        found.stored.is_like(stored).then(|| Arc::clone(&found.converted))
    }

    /// Keeps an object that was converted to `version`.
    pub(super) fn put(&self, version: usize, stored: Arc<Entry>, converted: Arc<Entry>) {
        let key = (version, Arc::clone(&stored.key), stored.revision);
        self.lock().insert(key, Pair { stored, converted });
    }

    /// Forgets a stored object in `version`.
    pub(super) fn remove(&self, version: usize, stored: &Entry) {
        let key = (version, Arc::clone(&stored.key), stored.revision);
        let mut halves = self.lock();
        halves.old.remove(&key);
        if let Some(removed) = halves.young.remove(&key) {
            halves.bytes = halves.bytes.saturating_sub(removed.size());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Halves> {
        self.0.lock().expect("nothing panics while it looks for what was converted")
    }
}

impl Halves {
    fn insert(&mut self, key: Key, pair: Pair) {
        let size = pair.size();
        self.bytes += size;
        if self.bytes > HALF {
            self.old = std::mem::take(&mut self.young);
            self.bytes = size;
        }
        self.young.insert(key, pair);
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
        let kept = Kept::default();
        kept.put(1, entry("a", 7, 0), entry("a", 7, 0));
        assert!(kept.get(1, &entry("a", 7, 0)).is_some());
        assert!(kept.get(0, &entry("a", 7, 0)).is_none());
        assert!(kept.get(1, &entry("a", 8, 0)).is_none());
        assert!(kept.get(1, &entry("a", 7, 1)).is_none(), "it has another content");
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let kept = Kept::default();
        let (wanted, forgotten) = (entry("wanted", 1, 0), entry("forgotten", 1, 0));
        kept.put(0, Arc::clone(&wanted), Arc::clone(&wanted));
        kept.put(0, Arc::clone(&forgotten), Arc::clone(&forgotten));
        for revision in 0..4 {
            let large = entry("large", revision, HALF / 4);
            kept.put(0, Arc::clone(&large), large);
            assert!(kept.get(0, &wanted).is_some(), "{revision}");
        }
        assert!(kept.get(0, &forgotten).is_none());
    }
}
