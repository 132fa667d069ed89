//! [`Bell`] and [`Subscription`]: how a resource's watchers learn that something has changed.
//!
//! A thousand may wait for one bell, so to wait costs one place in a list, and to ring it takes the
//! wakers out under the lock and wakes them after it. A bell does not say what has happened, only
//! that the log should be looked at.
//!
//! ```text
//! subscriber:  mark_seen   read the log   poll_changed → pending   (woken)   poll_changed → ready
//! bell:                                                          ring
//! ```
//!
//! A ring between `mark_seen` and `poll_changed` is not missed: it makes the latter ready at once.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Bell {
    /// How often it has rung; changed under the lock of `places`.
    rung: AtomicU64,
    places: Mutex<Places>,
}

/// One place for each subscription, in the order in which they came, as far as none has left.
#[derive(Default)]
struct Places {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

/// Somebody who waits for the bell, again and again.
pub(crate) struct Subscription {
    bell: Arc<Bell>,
    place: usize,
    seen: u64,
}

impl Bell {
    /// Wakes everybody who waits.
    pub(crate) fn ring(&self) {
        let waiting: Vec<Waker> = {
            let mut places = self.lock();
            self.rung.fetch_add(1, Ordering::SeqCst);
            places.wakers.iter_mut().filter_map(Option::take).collect()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits for rings from now on.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription {
        let mut places = self.lock();
        let place = places.free.pop().unwrap_or_else(|| {
            places.wakers.push(None);
            places.wakers.len() - 1
        });
        let seen = self.rung.load(Ordering::SeqCst);
        Subscription { bell: Arc::clone(self), place, seen }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().expect("nothing panics while it holds the places")
    }
}

impl Subscription {
    /// Whatever has happened so far is no news.
    pub(crate) fn mark_seen(&mut self) {
        self.seen = self.bell.rung.load(Ordering::SeqCst);
    }

    /// Ready when the bell has rung since [`mark_seen`](Self::mark_seen).
    pub(crate) fn poll_changed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let news = || self.bell.rung.load(Ordering::SeqCst) != self.seen;
        if news() {
            return Poll::Ready(());
        }
        let mut places = self.bell.lock();
        if news() {
            return Poll::Ready(());
        }
        places.wakers[self.place] = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits until the bell has rung since [`mark_seen`](Self::mark_seen).
    pub(crate) async fn changed(&self) {
        poll_fn(|cx| self.poll_changed(cx)).await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut places = self.bell.lock();
        places.wakers[self.place] = None;
        places.free.push(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn woken(subscription: &Subscription) -> bool {
        subscription.changed().now_or_never().is_some()
    }

    #[test]
    fn a_ring_is_heard_until_it_is_marked_as_seen() {
        let bell = Arc::new(Bell::default());
        let mut subscription = bell.subscribe();
        assert!(!woken(&subscription));
        bell.ring();
        assert!(woken(&subscription));
        assert!(woken(&subscription));
        subscription.mark_seen();
        assert!(!woken(&subscription));
    }

    #[test]
    fn who_comes_later_does_not_hear_what_was_before() {
        let bell = Arc::new(Bell::default());
        bell.ring();
        assert!(!woken(&bell.subscribe()));
    }

    #[test]
    fn the_place_of_who_leaves_is_taken_by_who_comes() {
        let bell = Arc::new(Bell::default());
        let (first, second) = (bell.subscribe(), bell.subscribe());
        drop(first);
        let third = bell.subscribe();
        assert_eq!(bell.lock().wakers.len(), 2);
        bell.ring();
        assert!(woken(&second) && woken(&third));
    }
}
