//! [`EncodedItems`]: the encodings of large items in lists that are being sent.
//!
//! A large item is sent in parts. Its encoding is needed until the last part is sent, but a client
//! that does not read must not keep it in memory. The encodings of all lists therefore share a
//! limited cache, which evicts the least recently used one; a list whose encoding was evicted
//! encodes the item again for the next part.
//!
//! ```text
//! limit 2     a: put   b: put   a: next part   c: put, evicts b   b: next part, encodes again
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct EncodedItems {
    /// The maximum size of all encodings. One that is larger is cached alone.
    limit: usize,
    cached: Mutex<Cached>,
}

/// Invariant: `bytes` is the total size of `by_use`.
#[derive(Debug, Default)]
struct Cached {
    /// The encodings by the number of their last use.
    by_use: BTreeMap<u64, Bytes>,
    bytes: usize,
    uses: u64,
}

impl Cached {
    /// Adds an encoding as the most recently used one; returns the number of the use.
    fn insert(&mut self, encoding: Bytes) -> u64 {
        self.uses += 1;
        self.bytes += encoding.len();
        self.by_use.insert(self.uses, encoding);
        self.uses
    }

    fn remove(&mut self, last_use: u64) -> Option<Bytes> {
        let encoding = self.by_use.remove(&last_use)?;
        self.bytes -= encoding.len();
        Some(encoding)
    }
}

impl EncodedItems {
    /// An empty cache.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, cached: Mutex::default() })
    }

    /// Caches an encoding.
    pub(crate) fn put(self: &Arc<Self>, encoding: Bytes) -> EncodedItem {
        let mut cached = self.lock();
        while cached.bytes + encoding.len() > self.limit
            && let Some((_, evicted)) = cached.by_use.pop_first()
        {
            cached.bytes -= evicted.len();
        }
        let last_use = cached.insert(encoding);
        drop(cached);
        EncodedItem { items: Arc::clone(self), last_use }
    }

    fn lock(&self) -> MutexGuard<'_, Cached> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An encoding that is in the cache unless it was evicted. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct EncodedItem {
    items: Arc<EncodedItems>,
    last_use: u64,
}

impl EncodedItem {
    /// The encoding; `encode` is called if it was evicted.
    pub(crate) fn get_or_encode(&mut self, encode: impl FnOnce() -> Bytes) -> Bytes {
        let mut cached = self.items.lock();
        if let Some(encoding) = cached.remove(self.last_use) {
            self.last_use = cached.insert(encoding.clone());
            return encoding;
        }
        drop(cached);
        let encoding = encode();
        *self = self.items.put(encoding.clone());
        encoding
    }
}

impl Drop for EncodedItem {
    fn drop(&mut self) {
        self.items.lock().remove(self.last_use);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    /// Whether the item is in the cache. It counts as used.
    fn is_cached(item: &mut EncodedItem) -> bool {
        let mut is_cached = true;
        item.get_or_encode(|| {
            is_cached = false;
            encoding("again")
        });
        is_cached
    }

    #[test]
    fn the_least_recently_used_encoding_is_evicted_and_encoded_again() {
        let items = EncodedItems::new(10);
        let [mut a, mut b] = ["aaaaa", "bbbbb"].map(|it| items.put(encoding(it)));
        assert!(is_cached(&mut a));
        let mut c = items.put(encoding("ccccc"));
        assert!(is_cached(&mut c) && is_cached(&mut a));
        assert!(!is_cached(&mut b), "it was evicted");
        assert!(is_cached(&mut b) && !is_cached(&mut c));
    }

    #[test]
    fn the_cache_has_no_more_than_its_limit_and_nothing_after_the_lists() {
        let items = EncodedItems::new(10);
        let all: Vec<EncodedItem> = (0..100).map(|_| items.put(encoding("four"))).collect();
        assert_eq!(items.lock().bytes, 8);
        let large = items.put(encoding("more than ten"));
        assert_eq!(items.lock().by_use.len(), 1);
        drop((all, large));
        let cached = items.lock();
        assert_eq!((cached.bytes, cached.by_use.len()), (0, 0));
    }
}
