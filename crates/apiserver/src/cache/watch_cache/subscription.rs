//! [`WakerSet`] and [`Subscription`]: notify the watchers of a resource of changes.
//!
//! A set may have thousands of subscriptions. Each is one slot in a list; a notification takes the
//! wakers out of the slots under the lock, and wakes them after it. A notification has no content:
//! the subscriber reads the log.
//!
//! ```text
//! subscriber:  mark_seen   read the log   poll_changed → pending   (woken)   poll_changed → ready
//! set:                                                         wake_all
//! ```
//!
//! A notification between `mark_seen` and `poll_changed` is not missed: the latter is ready at once.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct WakerSet {
    /// The number of notifications; changed under the lock of `slots`.
    generation: AtomicU64,
    slots: Mutex<Slots>,
}

/// One slot for each subscription. The slots of dropped subscriptions are used again.
#[derive(Default)]
struct Slots {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

/// Waits for the notifications of a [`WakerSet`].
pub(crate) struct Subscription {
    set: Arc<WakerSet>,
    slot: usize,
    seen: u64,
}

impl WakerSet {
    /// Notifies all subscriptions.
    pub(crate) fn wake_all(&self) {
        let waiting: Vec<Waker> = {
            let mut slots = self.lock();
            self.generation.fetch_add(1, Ordering::SeqCst);
            slots.wakers.iter_mut().filter_map(Option::take).collect()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// A subscription to the notifications from now on.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription {
        let mut slots = self.lock();
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.wakers.push(None);
            slots.wakers.len() - 1
        });
        let seen = self.generation.load(Ordering::SeqCst);
        Subscription { set: Arc::clone(self), slot, seen }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// Marks all notifications so far as seen.
    pub(crate) fn mark_seen(&mut self) {
        self.seen = self.set.generation.load(Ordering::SeqCst);
    }

    /// Ready if there was a notification since [`mark_seen`](Self::mark_seen).
    pub(crate) fn poll_changed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let is_notified = || self.set.generation.load(Ordering::SeqCst) != self.seen;
        if is_notified() {
            return Poll::Ready(());
        }
        let mut slots = self.set.lock();
        if is_notified() {
            return Poll::Ready(());
        }
        slots.wakers[self.slot] = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits for a notification since [`mark_seen`](Self::mark_seen).
    pub(crate) async fn changed(&self) {
        poll_fn(|cx| self.poll_changed(cx)).await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut slots = self.set.lock();
        slots.wakers[self.slot] = None;
        slots.free.push(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn woken(subscription: &Subscription) -> bool {
        subscription.changed().now_or_never().is_some()
    }

    #[test]
    fn a_notification_is_ready_until_it_is_marked_as_seen() {
        let set = Arc::new(WakerSet::default());
        let mut subscription = set.subscribe();
        assert!(!woken(&subscription));
        set.wake_all();
        assert!(woken(&subscription));
        assert!(woken(&subscription));
        subscription.mark_seen();
        assert!(!woken(&subscription));
    }

    #[test]
    fn a_subscription_does_not_get_earlier_notifications() {
        let set = Arc::new(WakerSet::default());
        set.wake_all();
        assert!(!woken(&set.subscribe()));
    }

    #[test]
    fn the_slot_of_a_dropped_subscription_is_used_again() {
        let set = Arc::new(WakerSet::default());
        let (first, second) = (set.subscribe(), set.subscribe());
        drop(first);
        let third = set.subscribe();
        assert_eq!(set.lock().wakers.len(), 2);
        set.wake_all();
        assert!(woken(&second) && woken(&third));
    }
}
