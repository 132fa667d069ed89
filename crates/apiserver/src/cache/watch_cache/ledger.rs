//! [`Ledger`]: counts the bytes that one part of the cache keeps alive, and those of all parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// See the [module documentation](self). What it still counts at its end is no longer part of the
/// total.
#[derive(Debug)]
pub(super) struct Ledger {
    bytes: AtomicUsize,
    total: Arc<AtomicUsize>,
}

impl Ledger {
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

impl Drop for Ledger {
    fn drop(&mut self) {
        self.total.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}
