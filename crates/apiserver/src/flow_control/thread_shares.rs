//! [`ThreadShare`]: the part of the runtime's threads that the connections of one user may occupy.
//!
//! The runtime polls tasks in the order in which they become ready. A user with a hundred busy
//! connections has hundreds of ready tasks, each of which takes up to a millisecond to decrypt, parse
//! and answer requests, and the task of another user would wait behind all of them. So a task polls
//! its work within a turn of its user. While other users are active too, a user has one turn fewer
//! than there are threads, and tasks without a turn wait in a queue of their user:
//!
//! ```text
//! ready tasks      a1 a2 a3 … a99  b1          in the order of the runtime, on two threads
//! thread 1         a1 ───────────▶ a2 ──▶ …    the turn of user a, passed on to the next one
//! thread 2         (a2 … a99 wait) b1          no turn: they return at once, and b1 is polled
//! ```
//!
//! A user who is alone uses all threads. The turn is passed on in the order of waiting. A poll that waits
//! for a disk or a pipe ([`keel::blocking_io`]) has given back its turn; a poll that computes keeps it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use keel::{Held, while_held};

/// The time for which a user counts as active after a poll.
const ACTIVE: Duration = Duration::from_secs(1);

/// The threads of the runtime, and whether several users are active on them.
#[derive(Debug)]
pub(crate) struct Threads {
    count: usize,
    started: Instant,
    next_share: AtomicU64,
    /// The share that was polled last.
    last_share: AtomicU64,
    /// The time of the last poll of another share than the one before, in milliseconds from the start.
    last_change: AtomicU64,
}

impl Threads {
    /// The threads of the current runtime. Outside of a runtime there is one.
    pub(crate) fn current() -> Arc<Self> {
        Self::new(Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers()))
    }

    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            count,
            started: Instant::now(),
            next_share: AtomicU64::new(1),
            last_share: AtomicU64::new(0),
            last_change: AtomicU64::new(0),
        })
    }

    /// The share of another user.
    pub(crate) fn share(self: &Arc<Self>) -> Arc<ThreadShare> {
        self.new_share(true)
    }

    /// A share that counts as an active user, but uses all threads at any time.
    pub(crate) fn unlimited_share(self: &Arc<Self>) -> Arc<ThreadShare> {
        self.new_share(false)
    }

    fn new_share(self: &Arc<Self>, is_limited: bool) -> Arc<ThreadShare> {
        Arc::new(ThreadShare {
            id: self.next_share.fetch_add(1, Ordering::Relaxed),
            is_limited,
            threads: Arc::clone(self),
            turns: Mutex::default(),
        })
    }

    /// Records a poll of a share.
    fn record_poll(&self, share: u64) {
        // Two loads for a user who is alone; a race between two users records one of them.
        if self.last_share.load(Ordering::Relaxed) != share
            && self.last_share.swap(share, Ordering::Relaxed) != 0
        {
            self.last_change.store(self.now(), Ordering::Relaxed);
        }
    }

    /// The number of turns that one user may have now.
    fn turns(&self) -> usize {
        let change = self.last_change.load(Ordering::Relaxed);
        let window = u64::try_from(ACTIVE.as_millis()).unwrap_or(u64::MAX);
        let is_shared = change > 0 && self.now() < change + window;
        if is_shared { self.count.saturating_sub(1).max(1) } else { usize::MAX }
    }

    /// Milliseconds since the start, at least 1.
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct ThreadShare {
    id: u64,
    is_limited: bool,
    threads: Arc<Threads>,
    turns: Mutex<Turns>,
}

/// Invariants: if a task waits, another one has a turn; a ticket is in `waiting` at most once, and
/// exactly while its position is `Waiting`.
#[derive(Debug, Default)]
struct Turns {
    /// The number of tasks that are being polled, or are about to be.
    taken: usize,
    waiting: VecDeque<Arc<Ticket>>,
}

/// The place of one task among those of its user.
#[derive(Debug, Default)]
struct Ticket(Mutex<Position>);

/// A turn that a poll gives back before it waits.
#[derive(Debug)]
struct Turn {
    share: Arc<ThreadShare>,
    ticket: Arc<Ticket>,
}

#[derive(Debug, Default)]
enum Position {
    /// The task has no turn and does not wait for one.
    #[default]
    Idle,
    /// The task waits; it is woken when it gets a turn.
    Waiting(Waker),
    /// The task has a turn.
    InTurn,
}

impl ThreadShare {
    /// Takes a turn, or the place at the end of the queue; returns whether the task has a turn.
    fn begin(&self, ticket: &Arc<Ticket>, cx: &Context<'_>) -> bool {
        self.threads.record_poll(self.id);
        if !self.is_limited {
            return true;
        }
        let mut turns = self.lock();
        let mut position = ticket.lock();
        match &mut *position {
            Position::InTurn => return true,
            Position::Waiting(waker) => {
                waker.clone_from(cx.waker());
                return false;
            }
            Position::Idle => {}
        }
        // The time is read only if the user has turns already.
        if turns.waiting.is_empty() && (turns.taken == 0 || turns.taken < self.threads.turns()) {
            turns.taken += 1;
            *position = Position::InTurn;
            return true;
        }
        *position = Position::Waiting(cx.waker().clone());
        drop(position);
        turns.waiting.push_back(Arc::clone(ticket));
        // The user may have more turns than before: others have become idle.
        let woken = self.pass_on(&mut turns);
        drop(turns);
        woken.into_iter().for_each(Waker::wake);
        false
    }

    /// Gives back the turn or the place in the queue, and passes free turns on.
    fn end(&self, ticket: &Arc<Ticket>) {
        if !self.is_limited {
            return;
        }
        let mut turns = self.lock();
        match std::mem::take(&mut *ticket.lock()) {
            Position::Idle => return,
            Position::Waiting(_) => turns.waiting.retain(|it| !Arc::ptr_eq(it, ticket)),
            Position::InTurn => turns.taken -= 1,
        }
        let woken = self.pass_on(&mut turns);
        drop(turns);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Gives free turns to the tasks that wait, and returns their wakers.
    fn pass_on(&self, turns: &mut Turns) -> Vec<Waker> {
        let mut woken = Vec::new();
        while !turns.waiting.is_empty() && turns.taken < self.threads.turns() {
            let Some(next) = turns.waiting.pop_front() else { break };
            turns.taken += 1;
            if let Position::Waiting(waker) = std::mem::replace(&mut *next.lock(), Position::InTurn)
            {
                woken.push(waker);
            }
        }
        woken
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Locked after the turns of the share.
    fn lock(&self) -> MutexGuard<'_, Position> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A future that is polled only within turns of its user.
///
/// `share` returns the share of the user, who may be known only after some requests.
pub(crate) struct InTurn<F, S> {
    future: Pin<Box<F>>,
    share: S,
    /// The share in whose queue the ticket is.
    waits_in: Option<Arc<ThreadShare>>,
    ticket: Arc<Ticket>,
}

impl<F: Future, S: Fn() -> Arc<ThreadShare> + Unpin> InTurn<F, S> {
    /// Polls `future` in turns of the user whose share `share` returns.
    pub(crate) fn new(future: F, share: S) -> Self {
        Self { future: Box::pin(future), share, waits_in: None, ticket: Arc::default() }
    }
}

impl<F: Future, S: Fn() -> Arc<ThreadShare> + Unpin> Future for InTurn<F, S> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // A task that waits stays in its queue also if its user becomes known meanwhile.
        let share = self.waits_in.take().unwrap_or_else(|| (self.share)());
        if !share.begin(&self.ticket, cx) {
            self.waits_in = Some(share);
            return Poll::Pending;
        }
        let turn = Arc::new(Turn { share, ticket: Arc::clone(&self.ticket) });
        // Ends the turn also if the poll panics.
        let _end = EndOfTurn(&turn);
        let held: Arc<dyn Held> = Arc::<Turn>::clone(&turn);
        while_held(held, || self.future.as_mut().poll(cx))
    }
}

impl<F, S> Drop for InTurn<F, S> {
    fn drop(&mut self) {
        if let Some(share) = &self.waits_in {
            share.end(&self.ticket);
        }
    }
}

impl Held for Turn {
    fn release(&self) {
        self.share.end(&self.ticket);
    }
}

/// Ends the turn of one poll.
struct EndOfTurn<'a>(&'a Turn);

impl Drop for EndOfTurn<'_> {
    fn drop(&mut self) {
        self.0.release();
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
            assert!(share.begin(&Arc::default(), &Context::from_waker(Waker::noop())));
        }
        threads
    }

    /// Whether a task of `share` would be polled now.
    fn is_polled(share: &Arc<ThreadShare>) -> bool {
        InTurn::new(async {}, || Arc::clone(share)).now_or_never().is_some()
    }

    /// A task that polls `inner` within its own turn.
    fn within_turn<T>(share: &Arc<ThreadShare>, mut inner: impl FnMut() -> T) -> T {
        let outer = poll_fn(|_| Poll::Ready(inner()));
        InTurn::new(outer, || Arc::clone(share)).now_or_never().expect("the share has a turn")
    }

    #[test]
    fn a_user_beside_others_leaves_one_thread_to_them() {
        let threads = shared_threads();
        let (alice, bob) = (threads.share(), threads.share());
        within_turn(&alice, || {
            assert!(!is_polled(&alice), "it has the turn of one of two threads");
            assert!(is_polled(&bob));
        });
        assert!(is_polled(&alice), "the turn was given back");
    }

    #[test]
    fn a_user_who_is_alone_uses_all_threads() {
        let threads = Threads::new(2);
        let alice = threads.share();
        within_turn(&alice, || assert!(is_polled(&alice)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_whose_neighbors_are_idle_uses_all_threads_again() {
        let threads = shared_threads();
        let alice = threads.share();
        within_turn(&alice, || assert!(!is_polled(&alice)));
        tokio::time::advance(ACTIVE * 2).await;
        within_turn(&alice, || assert!(is_polled(&alice)));
    }

    #[test]
    fn masters_use_all_threads_and_count_as_active() {
        let threads = Threads::new(2);
        let (alice, masters) = (threads.share(), threads.unlimited_share());
        assert!(is_polled(&alice));
        within_turn(&masters, || assert!(is_polled(&masters)));
        within_turn(&alice, || assert!(!is_polled(&alice)));
    }

    #[test]
    fn turns_are_passed_on_in_the_order_of_waiting() {
        let threads = shared_threads();
        let alice = threads.share();
        let wakes: Vec<Arc<Wakes>> = (0..3).map(|_| Arc::default()).collect();
        let woken =
            || -> Vec<usize> { wakes.iter().map(|it| it.0.load(Ordering::Relaxed)).collect() };
        let share = || Arc::clone(&alice);
        let mut tasks: Vec<_> = (0..3).map(|_| InTurn::new(async {}, share)).collect();
        let poll = |task: &mut InTurn<_, _>, number: usize| {
            let waker = Waker::from(Arc::clone(&wakes[number]));
            task.poll_unpin(&mut Context::from_waker(&waker))
        };
        within_turn(&alice, woken);
        let outer = poll_fn(|_| {
            for (number, task) in tasks.iter_mut().enumerate() {
                assert!(poll(task, number).is_pending());
                assert!(poll(task, number).is_pending(), "a task waits once");
            }
            Poll::Ready(())
        });
        InTurn::new(outer, share).now_or_never().unwrap();
        assert_eq!(woken(), [1, 0, 0]);
        drop(tasks.remove(1));
        assert!(poll(&mut tasks[0], 0).is_ready());
        assert_eq!(woken(), [1, 0, 1], "the second task has left the queue");
        assert!(poll(&mut tasks[1], 2).is_ready());
        assert_eq!(alice.lock().taken, 0);
    }

    #[test]
    fn a_task_that_waits_for_a_disk_has_no_turn() {
        let threads = shared_threads();
        let alice = threads.share();
        within_turn(&alice, || {
            keel::blocking(|| assert!(!is_polled(&alice), "a computation keeps the turn"));
            keel::blocking_io(|| assert!(is_polled(&alice)));
            assert!(is_polled(&alice), "the turn was given back for the rest of the poll");
        });
        assert_eq!(alice.lock().taken, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_wait_get_their_turns_when_the_neighbors_have_become_idle() {
        let threads = shared_threads();
        let alice = threads.share();
        let share = || Arc::clone(&alice);
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(Arc::clone(&wakes));
        let mut waiting = InTurn::new(async {}, share);
        within_turn(&alice, || {
            assert!(waiting.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        });
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "the turn was passed on");
        // The task has the turn, and is not polled yet, when another one comes.
        assert!(!is_polled(&alice));
        tokio::time::advance(ACTIVE * 2).await;
        assert!(is_polled(&alice), "the user is alone");
        assert!(waiting.now_or_never().is_some());
        assert_eq!(alice.lock().taken, 0);
    }

    #[test]
    fn a_task_that_is_dropped_in_its_turn_passes_it_on() {
        let threads = shared_threads();
        let alice = threads.share();
        let share = || Arc::clone(&alice);
        let mut first = InTurn::new(async {}, share);
        let mut second = InTurn::new(async {}, share);
        within_turn(&alice, || ());
        let outer = poll_fn(|cx| {
            assert!(first.poll_unpin(cx).is_pending() && second.poll_unpin(cx).is_pending());
            Poll::Ready(())
        });
        InTurn::new(outer, share).now_or_never().unwrap();
        drop(first);
        assert!(second.now_or_never().is_some());
        assert!(is_polled(&alice));
    }
}
