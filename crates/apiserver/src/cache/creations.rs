//! [`Creations`]: the number of custom resources of one definition that are being created.
//!
//! A definition that is being deleted closes it and waits until it is idle. Without that, a creation
//! that waits for a webhook could be stored after the definition is gone, and its object would come
//! back with the next definition of the same name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const CLOSED: usize = 1;
const ONE: usize = 2;

/// See the [module documentation](self). The lowest bit is set once it is closed, the others are
/// the number.
#[derive(Debug, Default)]
pub(crate) struct Creations(AtomicUsize);

/// A creation that is under way; dropping it ends it.
#[derive(Debug, Default)]
pub(crate) struct Creation(Option<Arc<Creations>>);

impl Creations {
    /// Begins a creation, unless this is closed.
    pub(crate) fn begin(this: &Arc<Self>) -> Option<Creation> {
        let before = this.0.fetch_add(ONE, Ordering::SeqCst);
        let creation = Creation(Some(Arc::clone(this)));
        (before & CLOSED == 0).then_some(creation)
    }

    /// Lets no further creation begin.
    pub(crate) fn close(&self) {
        self.0.fetch_or(CLOSED, Ordering::SeqCst);
    }

    /// Whether no creation is under way.
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
    fn a_creation_that_has_begun_is_waited_for_and_none_begins_after_the_close() {
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
