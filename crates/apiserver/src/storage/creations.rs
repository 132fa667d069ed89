//! [`Creations`]: counts the creations in progress of the custom resources of one CRD.
//!
//! The deletion of a CRD closes the counter and waits until it is idle. Otherwise a creation that
//! waits for a webhook could be stored after the CRD was deleted, and its object would reappear with
//! the next CRD of the same name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const CLOSED: usize = 1;
const ONE: usize = 2;

/// See the [module documentation](self). The lowest bit is set when the counter is closed, the other
/// bits are the count.
#[derive(Debug, Default)]
pub(crate) struct Creations(AtomicUsize);

/// A creation in progress; dropping it ends it.
#[derive(Debug, Default)]
pub(crate) struct Creation(Option<Arc<Creations>>);

impl Creations {
    /// Begins a creation, unless the counter is closed.
    pub(crate) fn begin(this: &Arc<Self>) -> Option<Creation> {
        let before = this.0.fetch_add(ONE, Ordering::SeqCst);
        let creation = Creation(Some(Arc::clone(this)));
        (before & CLOSED == 0).then_some(creation)
    }

    /// Refuses further creations.
    pub(crate) fn close(&self) {
        self.0.fetch_or(CLOSED, Ordering::SeqCst);
    }

    /// Whether no creation is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.load(Ordering::SeqCst) < ONE
    }
}

impl Drop for Creation {
    fn drop(&mut self) {
        if let Some(creations) = &self.0 {
            creations.0.fetch_sub(ONE, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_counter_is_idle_after_the_creations_in_progress_and_refuses_new_ones() {
        let creations = Arc::<Creations>::default();
        let creation = Creations::begin(&creations);
        assert!(creation.is_some());
        creations.close();
        assert!(!creations.is_idle());
        assert!(Creations::begin(&creations).is_none());
        drop(creation);
        assert!(creations.is_idle());
    }
}
