//! [`ByteCounter`]: counts the memory of one part of the cache, and adds it to a total of all parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// See the [module documentation](self). A dropped counter is subtracted from the total.
#[derive(Debug)]
pub(super) struct ByteCounter {
    bytes: AtomicUsize,
    total: Arc<AtomicUsize>,
}

impl ByteCounter {
    pub(super) fn new(total: &Arc<AtomicUsize>) -> Self {
        Self { bytes: AtomicUsize::new(0), total: Arc::clone(total) }
    }

    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for ByteCounter {
    fn drop(&mut self) {
        self.total.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}
