//! [`ThreadShare`]: the part of the runtime's threads that the tasks of one user may occupy.
//!
//! The runtime polls tasks in the order in which they become ready. A user with a hundred busy
//! connections has hundreds of ready tasks, each of which takes up to a millisecond to decrypt, parse
//! and answer requests, and the task of another user would wait behind all of them. So a task is
//! polled with a permit of its user. While other users are active too, a user has one permit fewer
//! than there are threads, and tasks without a permit wait in a queue of their user:
//!
//! ```text
//! ready tasks      a1 a2 a3 … a99  b1          in the order of the runtime, on two threads
//! thread 1         a1 ───────────▶ a2 ──▶ …    the permit of user a, passed on to the next one
//! thread 2         (a2 … a99 wait) b1          no permit: they return at once, and b1 is polled
//! ```
//!
//! A user who is alone uses all threads. A connection has a user from its first request on; until then
//! it has a share that leaves a thread to users but does not count as one, so that the connections which
//! a user opens do not take a thread from that user. Permits are granted in the order of waiting. A poll that waits
//! for a disk or a pipe ([`blocking_io`](crate::blocking_io)) has given back its permit; a poll that
//! computes keeps it.
//!
//! The controllers and nodes of a plane have one share together. It leaves a thread to users and new
//! connections as long as any of them is active, and takes none from them. With two threads it uses
//! both: a single one would halve what controllers do while somebody waits for them, and since no more
//! than two of their tasks are ready at a time, the task of a user does not wait for thousands.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::held::{Held, while_held};

/// The time for which a user counts as active after a poll.
const ACTIVE: Duration = Duration::from_secs(1);

/// The threads of the runtime, and whether several users are active on them.
#[derive(Debug)]
pub struct Threads {
    count: usize,
    started: Instant,
    next_share: AtomicU64,
    /// The share of the user that was polled last.
    last_share: AtomicU64,
    /// The time of the last poll of another user than the one before, in milliseconds from the start.
    last_change: AtomicU64,
    /// The polls of users.
    users: Activity,
    /// The polls of users and of connections without one.
    connections: Activity,
}

/// Polls of some tasks, for others that leave a thread to them.
#[derive(Debug, Default)]
struct Activity {
    /// Whether a task was polled since `last_seen` was set.
    was_polled: AtomicBool,
    /// The time at which another task saw that one was polled, in milliseconds from the start.
    last_seen: AtomicU64,
}

impl Activity {
    fn record(&self) {
        // A load only, while the tasks are active.
        if !self.was_polled.load(Ordering::Relaxed) {
            self.was_polled.store(true, Ordering::Relaxed);
        }
    }

    /// The time of the last poll that was seen, which is `now` if there was one since the last call.
    fn last_seen(&self, now: impl FnOnce() -> u64) -> u64 {
        if self.was_polled.swap(false, Ordering::Relaxed) {
            self.last_seen.store(now(), Ordering::Relaxed);
        }
        self.last_seen.load(Ordering::Relaxed)
    }
}

/// Whose tasks are polled within a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// A user, who leaves a thread to other users.
    User,
    /// A user who is active for the others, but uses all threads at any time.
    UnlimitedUser,
    /// Connections without a user, which leave a thread to users.
    Unauthenticated,
    /// The components of the plane, which leave a thread to users and connections if there are more
    /// than two.
    Components,
}

impl Threads {
    /// The threads of the current runtime. Outside of a runtime there is one.
    pub fn current() -> Arc<Self> {
        Self::new(Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers()))
    }

    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            count,
            started: Instant::now(),
            next_share: AtomicU64::new(1),
            last_share: AtomicU64::new(0),
            last_change: AtomicU64::new(0),
            users: Activity::default(),
            connections: Activity::default(),
        })
    }

    /// The share of another user.
    pub fn share(self: &Arc<Self>) -> Arc<ThreadShare> {
        self.new_share(Owner::User)
    }

    /// A share that counts as an active user, but uses all threads at any time.
    pub fn unlimited_share(self: &Arc<Self>) -> Arc<ThreadShare> {
        self.new_share(Owner::UnlimitedUser)
    }

    /// A share of connections without a user, which leave a thread to users but do not count as one.
    pub fn unauthenticated_share(self: &Arc<Self>) -> Arc<ThreadShare> {
        self.new_share(Owner::Unauthenticated)
    }

    /// A share of components of the plane, which leave a thread to users but do not count as one.
    pub fn component_share(self: &Arc<Self>) -> Arc<ThreadShare> {
        self.new_share(Owner::Components)
    }

    fn new_share(self: &Arc<Self>, owner: Owner) -> Arc<ThreadShare> {
        Arc::new(ThreadShare {
            id: self.next_share.fetch_add(1, Ordering::Relaxed),
            owner,
            threads: Arc::clone(self),
            permits: Mutex::default(),
        })
    }

    /// Records a poll of a share.
    fn record_poll(&self, share: &ThreadShare) {
        match share.owner {
            Owner::Components => return,
            Owner::Unauthenticated => return self.connections.record(),
            Owner::User | Owner::UnlimitedUser => {}
        }
        self.users.record();
        self.connections.record();
        // A load only, if the user is alone; a race between two users records one of them.
        if self.last_share.load(Ordering::Relaxed) != share.id
            && self.last_share.swap(share.id, Ordering::Relaxed) != 0
        {
            self.last_change.store(self.now(), Ordering::Relaxed);
        }
    }

    /// The number of permits that a share may have now.
    fn permits(&self, owner: Owner) -> usize {
        let last_of_others = match owner {
            Owner::UnlimitedUser => 0,
            Owner::User => self.last_change.load(Ordering::Relaxed),
            Owner::Unauthenticated => self.users.last_seen(|| self.now()),
            Owner::Components => self.connections.last_seen(|| self.now()),
        };
        let window = u64::try_from(ACTIVE.as_millis()).unwrap_or(u64::MAX);
        let is_shared = last_of_others > 0 && self.now() < last_of_others + window;
        let least = if owner == Owner::Components { 2 } else { 1 };
        if is_shared { self.count.saturating_sub(1).max(least) } else { usize::MAX }
    }

    /// Milliseconds since the start, at least 1.
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }
}

/// See the [module documentation](self).
#[derive(Debug)]
pub struct ThreadShare {
    id: u64,
    owner: Owner,
    threads: Arc<Threads>,
    permits: Mutex<Permits>,
}

/// Invariants: if a task waits, another one has a permit; a task is in `waiting` at most once, and
/// exactly while its state is `Waiting`.
#[derive(Debug, Default)]
struct Permits {
    /// The number of tasks that are being polled, or are about to be.
    taken: usize,
    waiting: VecDeque<Arc<Waiter>>,
}

/// One task among those of its share.
#[derive(Debug)]
struct Waiter {
    share: Arc<ThreadShare>,
    /// Locked after the permits of the share.
    state: Mutex<WaiterState>,
}

#[derive(Debug, Default)]
enum WaiterState {
    /// The task has no permit and does not wait for one.
    #[default]
    Idle,
    /// The task waits; it is woken when it gets a permit.
    Waiting(Waker),
    /// The task has a permit.
    Permitted,
}

impl ThreadShare {
    /// Grants free permits to the tasks that wait, and returns their wakers.
    fn grant(&self, permits: &mut Permits) -> Vec<Waker> {
        let mut woken = Vec::new();
        while !permits.waiting.is_empty() && permits.taken < self.threads.permits(self.owner) {
            let Some(next) = permits.waiting.pop_front() else { break };
            permits.taken += 1;
            let before = std::mem::replace(&mut *next.lock(), WaiterState::Permitted);
            if let WaiterState::Waiting(waker) = before {
                woken.push(waker);
            }
        }
        woken
    }

    /// The number of permits that tasks have.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.lock().taken
    }

    fn lock(&self) -> MutexGuard<'_, Permits> {
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    fn new(share: Arc<ThreadShare>) -> Arc<Self> {
        Arc::new(Self { share, state: Mutex::default() })
    }

    fn is_idle(&self) -> bool {
        matches!(*self.lock(), WaiterState::Idle)
    }

    /// Takes a permit, or the place at the end of the queue; returns whether the task has a permit.
    fn begin(self: &Arc<Self>, cx: &Context<'_>) -> bool {
        let share = &self.share;
        let mut permits = share.lock();
        let mut state = self.lock();
        match &mut *state {
            WaiterState::Permitted => return true,
            WaiterState::Waiting(waker) => {
                waker.clone_from(cx.waker());
                return false;
            }
            WaiterState::Idle => {}
        }
        // The time is read only if the share has permits already.
        let is_free = permits.taken == 0 || permits.taken < share.threads.permits(share.owner);
        if permits.waiting.is_empty() && is_free {
            permits.taken += 1;
            *state = WaiterState::Permitted;
            return true;
        }
        *state = WaiterState::Waiting(cx.waker().clone());
        drop(state);
        permits.waiting.push_back(Arc::clone(self));
        // The share may have more permits than before: others have become idle.
        let woken = share.grant(&mut permits);
        drop(permits);
        woken.into_iter().for_each(Waker::wake);
        false
    }

    /// Gives back the permit or the place in the queue, and grants free permits.
    fn end(self: &Arc<Self>) {
        let mut permits = self.share.lock();
        match std::mem::take(&mut *self.lock()) {
            WaiterState::Idle => return,
            WaiterState::Waiting(_) => permits.waiting.retain(|other| !Arc::ptr_eq(other, self)),
            WaiterState::Permitted => permits.taken -= 1,
        }
        let woken = self.share.grant(&mut permits);
        drop(permits);
        woken.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, WaiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held for Waiter {
    fn release(self: Arc<Self>) {
        self.end();
    }
}

/// A future that is polled only with permits of its share.
///
/// `share` returns the share at each poll: the user of a connection is known only after some requests.
pub struct WithinShare<F, S> {
    future: F,
    share: S,
    /// The task in the share with which it was polled last.
    waiter: Option<Arc<Waiter>>,
}

impl<F: Future + Unpin, S: Fn() -> Arc<ThreadShare> + Unpin> WithinShare<F, S> {
    /// Polls `future` with permits of the share that `share` returns.
    pub fn new(future: F, share: S) -> Self {
        Self { future, share, waiter: None }
    }

    /// The task in its share, or `None` if it needs no permit. A task that waits stays in its queue
    /// also if its user becomes known meanwhile.
    fn waiter(&mut self, share: Arc<ThreadShare>) -> Option<Arc<Waiter>> {
        match &self.waiter {
            Some(waiter) if Arc::ptr_eq(&waiter.share, &share) || !waiter.is_idle() => {}
            _ if share.owner == Owner::UnlimitedUser => return None,
            _ => self.waiter = Some(Waiter::new(share)),
        }
        self.waiter.clone()
    }
}

impl<F: Future + Unpin, S: Fn() -> Arc<ThreadShare> + Unpin> Future for WithinShare<F, S> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let share = (self.share)();
        share.threads.record_poll(&share);
        let Some(waiter) = self.waiter(share) else {
            return Pin::new(&mut self.future).poll(cx);
        };
        if !waiter.begin(cx) {
            return Poll::Pending;
        }
        // Ends the permit also if the poll panics.
        let end = EndOfPoll(waiter);
        let held: Arc<dyn Held> = Arc::<Waiter>::clone(&end.0);
        while_held(held, || Pin::new(&mut self.future).poll(cx))
    }
}

impl<F, S> Drop for WithinShare<F, S> {
    fn drop(&mut self) {
        if let Some(waiter) = &self.waiter {
            waiter.end();
        }
    }
}

/// Gives back the permit of one poll.
struct EndOfPoll(Arc<Waiter>);

impl Drop for EndOfPoll {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use futures_util::FutureExt;

    use super::*;

    /// Counts wakes.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Two threads that two users have used just now.
    fn shared_threads() -> Arc<Threads> {
        let threads = Threads::new(2);
        for share in [threads.share(), threads.share()] {
            assert!(is_polled(&share));
        }
        threads
    }

    /// Whether a task of `share` would be polled now.
    fn is_polled(share: &Arc<ThreadShare>) -> bool {
        WithinShare::new(Box::pin(async {}), || Arc::clone(share)).now_or_never().is_some()
    }

    /// A task that polls `inner` while it has a permit.
    fn while_polled<T>(share: &Arc<ThreadShare>, mut inner: impl FnMut() -> T) -> T {
        let outer = poll_fn(|_| Poll::Ready(inner()));
        WithinShare::new(outer, || Arc::clone(share))
            .now_or_never()
            .expect("the share has a permit")
    }

    #[test]
    fn a_user_beside_others_leaves_one_thread_to_them() {
        let threads = shared_threads();
        let (alice, bob) = (threads.share(), threads.share());
        while_polled(&alice, || {
            assert!(!is_polled(&alice), "it has the permit for one of two threads");
            assert!(is_polled(&bob));
        });
        assert!(is_polled(&alice), "the permit was given back");
    }

    #[test]
    fn a_user_who_is_alone_uses_all_threads() {
        let threads = Threads::new(2);
        let alice = threads.share();
        while_polled(&alice, || assert!(is_polled(&alice)));
    }

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_user_leave_one_thread_to_users_and_take_none_from_them() {
        let threads = Threads::new(2);
        let (unauthenticated, alice) = (threads.unauthenticated_share(), threads.share());
        while_polled(&unauthenticated, || {
            assert!(is_polled(&unauthenticated), "no user is active");
        });
        while_polled(&alice, || assert!(is_polled(&alice), "the user is alone"));
        while_polled(&unauthenticated, || assert!(!is_polled(&unauthenticated)));
        tokio::time::advance(ACTIVE * 2).await;
        while_polled(&unauthenticated, || assert!(is_polled(&unauthenticated)));
    }

    #[test]
    fn components_leave_one_thread_to_connections() {
        let threads = Threads::new(3);
        assert!(is_polled(&threads.unauthenticated_share()));
        let components = threads.component_share();
        while_polled(&components, || {
            while_polled(&components, || assert!(!is_polled(&components)));
        });
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_whose_neighbors_are_idle_uses_all_threads_again() {
        let threads = shared_threads();
        let alice = threads.share();
        while_polled(&alice, || assert!(!is_polled(&alice)));
        tokio::time::advance(ACTIVE * 2).await;
        while_polled(&alice, || assert!(is_polled(&alice)));
    }

    #[test]
    fn masters_use_all_threads_and_count_as_active() {
        let threads = Threads::new(2);
        let (alice, masters) = (threads.share(), threads.unlimited_share());
        assert!(is_polled(&alice));
        while_polled(&masters, || assert!(is_polled(&masters)));
        while_polled(&alice, || assert!(!is_polled(&alice)));
    }

    #[test]
    fn permits_are_granted_in_the_order_of_waiting() {
        let threads = shared_threads();
        let alice = threads.share();
        let wakes: Vec<Arc<Wakes>> = (0..3).map(|_| Arc::default()).collect();
        let woken =
            || -> Vec<usize> { wakes.iter().map(|it| it.0.load(Ordering::Relaxed)).collect() };
        let share = || Arc::clone(&alice);
        let mut tasks: Vec<_> =
            (0..3).map(|_| WithinShare::new(Box::pin(async {}), share)).collect();
        let poll = |task: &mut WithinShare<_, _>, number: usize| {
            let waker = Waker::from(Arc::clone(&wakes[number]));
            task.poll_unpin(&mut Context::from_waker(&waker))
        };
        while_polled(&alice, woken);
        let outer = poll_fn(|_| {
            for (number, task) in tasks.iter_mut().enumerate() {
                assert!(poll(task, number).is_pending());
                assert!(poll(task, number).is_pending(), "a task waits once");
            }
            Poll::Ready(())
        });
        WithinShare::new(outer, share).now_or_never().unwrap();
        assert_eq!(woken(), [1, 0, 0]);
        drop(tasks.remove(1));
        assert!(poll(&mut tasks[0], 0).is_ready());
        assert_eq!(woken(), [1, 0, 1], "the second task has left the queue");
        assert!(poll(&mut tasks[1], 2).is_ready());
        assert_eq!(alice.taken(), 0);
    }

    #[test]
    fn a_task_that_waits_is_woken_by_its_last_waker() {
        let threads = shared_threads();
        let alice = threads.share();
        let [first, last] = [(); 2].map(|()| Arc::<Wakes>::default());
        let mut waiting = WithinShare::new(Box::pin(async {}), || Arc::clone(&alice));
        while_polled(&alice, || {
            for wakes in [&first, &last] {
                let waker = Waker::from(Arc::clone(wakes));
                assert!(waiting.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
            }
        });
        assert_eq!([&first, &last].map(|it| it.0.load(Ordering::Relaxed)), [0, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_comes_later_does_not_overtake_those_that_wait() {
        let threads = shared_threads();
        let alice = threads.share();
        let share = || Arc::clone(&alice);
        let wakes: [Arc<Wakes>; 2] = Default::default();
        let [mut first, mut later] = [(); 2].map(|()| WithinShare::new(Box::pin(async {}), share));
        let poll = |task: &mut WithinShare<_, _>, wakes: &Arc<Wakes>| {
            task.poll_unpin(&mut Context::from_waker(&Waker::from(Arc::clone(wakes))))
        };
        while_polled(&alice, || {
            assert!(poll(&mut first, &wakes[0]).is_pending());
            // The first poll of this future advances the clock.
            assert!(tokio::time::advance(ACTIVE * 2).now_or_never().is_none());
            assert!(poll(&mut later, &wakes[1]).is_pending(), "there is a free permit");
        });
        assert_eq!([0, 1].map(|task| wakes[task].0.load(Ordering::Relaxed)), [1, 1]);
        assert!(poll(&mut first, &wakes[0]).is_ready() && poll(&mut later, &wakes[1]).is_ready());
        assert_eq!(alice.taken(), 0);
    }

    #[test]
    fn a_task_that_waits_for_a_disk_has_no_permit() {
        let threads = shared_threads();
        let alice = threads.share();
        while_polled(&alice, || {
            crate::blocking(|| assert!(!is_polled(&alice), "a computation keeps the permit"));
            crate::blocking_io(|| assert!(is_polled(&alice)));
            assert!(is_polled(&alice), "the permit was given back for the rest of the poll");
        });
        assert_eq!(alice.taken(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_wait_get_permits_when_the_neighbors_have_become_idle() {
        let threads = shared_threads();
        let alice = threads.share();
        let share = || Arc::clone(&alice);
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(Arc::clone(&wakes));
        let mut waiting = WithinShare::new(Box::pin(async {}), share);
        while_polled(&alice, || {
            assert!(waiting.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        });
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "the permit was passed on");
        // The task has the permit, and is not polled yet, when another one comes.
        assert!(!is_polled(&alice));
        tokio::time::advance(ACTIVE * 2).await;
        assert!(is_polled(&alice), "the user is alone");
        assert!(waiting.now_or_never().is_some());
        assert_eq!(alice.taken(), 0);
    }

    #[test]
    fn a_task_that_is_dropped_with_a_permit_passes_it_on() {
        let threads = shared_threads();
        let alice = threads.share();
        let share = || Arc::clone(&alice);
        let mut first = WithinShare::new(Box::pin(async {}), share);
        let mut second = WithinShare::new(Box::pin(async {}), share);
        while_polled(&alice, || ());
        let outer = poll_fn(|cx| {
            assert!(first.poll_unpin(cx).is_pending() && second.poll_unpin(cx).is_pending());
            Poll::Ready(())
        });
        WithinShare::new(outer, share).now_or_never().unwrap();
        drop(first);
        assert!(second.now_or_never().is_some());
        assert!(is_polled(&alice));
    }

    #[tokio::test(start_paused = true)]
    async fn components_leave_one_thread_to_users_while_any_is_active() {
        let threads = Threads::new(3);
        let (components, alice) = (threads.component_share(), threads.share());
        let is_third_polled =
            || while_polled(&components, || while_polled(&components, || is_polled(&components)));
        assert!(is_third_polled(), "no user is active");
        assert!(is_polled(&alice));
        assert!(!is_third_polled());
        while_polled(&components, || {
            while_polled(&alice, || {
                assert!(is_polled(&alice), "components take no thread from users");
            });
        });
        // The poll of alice is noticed when a third component needs a thread.
        tokio::time::advance(ACTIVE * 2).await;
        assert!(!is_third_polled());
        tokio::time::advance(ACTIVE * 2).await;
        assert!(is_third_polled());
    }

    #[test]
    fn components_use_both_of_two_threads() {
        let threads = Threads::new(2);
        let components = threads.component_share();
        assert!(is_polled(&threads.share()));
        while_polled(&components, || {
            while_polled(&components, || assert!(!is_polled(&components), "more would wait"));
        });
    }

    #[test]
    fn a_task_with_a_permit_keeps_it_when_its_user_becomes_known() {
        let threads = shared_threads();
        let (unknown, alice) = (threads.share(), threads.share());
        let user = Mutex::new(Arc::clone(&unknown));
        let mut task =
            WithinShare::new(Box::pin(async {}), || Arc::clone(&user.lock().expect("it is free")));
        while_polled(&unknown, || {
            assert!((&mut task).now_or_never().is_none(), "it waits for a permit");
        });
        assert_eq!(unknown.taken(), 1, "the permit was passed on");
        *user.lock().expect("it is free") = Arc::clone(&alice);
        assert!((&mut task).now_or_never().is_some());
        assert_eq!([unknown.taken(), alice.taken()], [0, 0]);
    }
}
