//! [`Held`]: what a task holds while it is polled, and gives back before it waits for a disk or a pipe.
//!
//! A task that holds a share of the runtime's threads and blocks its thread would keep the share from
//! others for as long as it blocks.

use std::cell::RefCell;
use std::sync::Arc;

use crate::blocking;

thread_local! {
    /// What the task that this thread polls holds.
    static HELD: RefCell<Option<Arc<dyn Held>>> = const { RefCell::new(None) };
}

/// See the [module documentation](self).
pub trait Held {
    /// Gives it back. What follows in the same poll runs without it.
    fn release(self: Arc<Self>);
}

/// Runs `poll`, and releases `held` if it calls [`blocking_io`].
pub fn while_held<T>(held: Arc<dyn Held>, poll: impl FnOnce() -> T) -> T {
    let _outer = Outer(HELD.replace(Some(held)));
    poll()
}

/// Runs work that waits for a disk or a pipe, as [`blocking`] does, after the task has given back what
/// it holds.
pub fn blocking_io<T>(work: impl FnOnce() -> T) -> T {
    if let Some(held) = HELD.take() {
        held.release();
    }
    blocking(work)
}

/// What the outer poll holds, which is restored when this is dropped.
struct Outer(Option<Arc<dyn Held>>);

impl Drop for Outer {
    fn drop(&mut self) {
        HELD.set(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Releases(AtomicUsize);

    impl Held for Releases {
        fn release(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn work_that_waits_releases_what_its_own_poll_holds() {
        let (outer, inner) = (Arc::<Releases>::default(), Arc::<Releases>::default());
        let releases = || [&outer, &inner].map(|it| it.0.load(Ordering::Relaxed));
        let (outer_held, inner_held): (Arc<dyn Held>, Arc<dyn Held>) =
            (Arc::<Releases>::clone(&outer), Arc::<Releases>::clone(&inner));
        while_held(outer_held, || {
            while_held(inner_held, || {
                blocking(|| ());
                assert_eq!(releases(), [0, 0], "a computation keeps it");
                blocking_io(|| ());
                blocking_io(|| ());
            });
            assert_eq!(releases(), [0, 1]);
            blocking_io(|| ());
        });
        assert_eq!(releases(), [1, 1]);
        blocking_io(|| ());
        assert_eq!(releases(), [1, 1], "no poll holds anything");
    }
}
