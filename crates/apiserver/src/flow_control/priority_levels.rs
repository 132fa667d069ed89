//! [`PriorityLevels`]: the seats of the server, divided among priority levels.
//!
//! A level has a nominal number of seats. A part of it is lendable: other levels may use these seats
//! while the level does not need them. A level always gets the seats that it does not lend. The
//! lendable seats of all levels are a pool, of which a level gets its own nominal number before any
//! other level borrows.
//!
//! ```text
//! nominal 49, lendable 25:   24 seats at once · up to 49 from the pool, as soon as borrowers return
//!                            some · beyond 49 while no other level waits for its nominal seats
//! ```
//!
//! Upstream computes the limits anew every ten seconds from the demand before. Here seats are lent when
//! they are needed, with the same bounds, so that a burst needs not wait for the next computation.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::fair_queues::{FairQueues, Queuing};
use super::work_estimate::WorkEstimate;

/// Identifies a level; a level that is created again has another one.
pub(super) type LevelId = u64;

/// The limits of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// The seats of the level.
    pub nominal: usize,
    /// The seats that the level does not lend.
    pub lower: usize,
    /// The seats that the level can have with those that it borrows.
    pub upper: usize,
    /// How requests wait; None if they are refused instead.
    pub queuing: Option<Queuing>,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct PriorityLevels {
    /// No other lock is taken while this one is held.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    levels: BTreeMap<LevelId, Level>,
    next_level: LevelId,
    next_waiter: u64,
    /// The number of requests that wait, of all levels.
    waiting: usize,
}

#[derive(Debug)]
struct Level {
    limits: Limits,
    /// Whether the level is removed as soon as it has no requests.
    is_removed: bool,
    /// The seats in use. It exceeds the limits only after these were lowered, after a loan was taken
    /// back, or if one request needs more than the limit.
    in_use: usize,
    requests: usize,
    queues: FairQueues,
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The queue is full.
    QueueFull,
    /// The level has no free seats and no queues.
    ConcurrencyLimit,
    /// The request has waited too long.
    TimeOut,
}

impl PriorityLevels {
    /// Without levels.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a level.
    pub(super) fn add(&self, limits: Limits) -> LevelId {
        let mut state = self.lock();
        let id = state.next_level;
        state.next_level += 1;
        let queues = FairQueues::new(Instant::now());
        let level = Level { limits, is_removed: false, in_use: 0, requests: 0, queues };
        state.levels.insert(id, level);
        id
    }

    /// Changes the limits of a level, and executes the requests that the new limits allow.
    pub(super) fn set(&self, id: LevelId, limits: Limits) {
        let mut state = self.lock();
        if let Some(level) = state.levels.get_mut(&id) {
            level.limits = limits;
        }
        state.dispatch(Instant::now());
    }

    /// Removes a level. Its requests are executed with its last limits.
    pub(super) fn remove(&self, id: LevelId) {
        let mut state = self.lock();
        if let Some(level) = state.levels.get_mut(&id) {
            level.is_removed = true;
        }
        state.remove_if_idle(id);
    }

    /// Takes seats of a level, or a place in a queue; None if the level was removed.
    pub(super) fn take(
        self: &Arc<Self>,
        id: LevelId,
        estimate: WorkEstimate,
        hash: impl FnOnce() -> u64,
    ) -> Option<Result<Taken, Refusal>> {
        let now = Instant::now();
        let seats = estimate.max_seats();
        let mut state = self.lock();
        let waiter = state.next_waiter;
        let may_start = state.levels.get(&id)?.queues.waiting() == 0 && state.has_seats(id, seats);
        let level = state.levels.get_mut(&id)?;
        let seat = |queue, is_waiting| LevelSeat {
            levels: Arc::clone(self),
            level: id,
            queue,
            estimate,
            waiter,
            started: now,
            executed: None,
            is_waiting,
            is_lent: AtomicBool::new(false),
        };
        let Some(queuing) = level.limits.queuing else {
            if !may_start {
                return Some(Err(Refusal::ConcurrencyLimit));
            }
            level.in_use += seats;
            level.requests += 1;
            return Some(Ok(Taken { seat: seat(None, false), woken: None }));
        };
        level.queues.advance(now, level.limits.nominal);
        let queue = level.queues.choose(hash(), queuing);
        if may_start {
            level.queues.start(queue, estimate);
            level.in_use += seats;
            level.requests += 1;
            return Some(Ok(Taken { seat: seat(Some(queue), false), woken: None }));
        }
        if level.queues.length(queue) >= queuing.length_limit {
            return Some(Err(Refusal::QueueFull));
        }
        let woken = level.queues.enqueue(queue, waiter, estimate);
        level.requests += 1;
        state.next_waiter += 1;
        state.waiting += 1;
        // The head of the queues may need more seats than are free, and this request fewer.
        state.dispatch(now);
        Some(Ok(Taken { seat: seat(Some(queue), true), woken: Some(woken) }))
    }

    /// The virtual times at which the next requests of the queues of a level start, by queue.
    pub(super) fn next_starts(&self, id: LevelId) -> HashMap<u32, f64> {
        self.lock().levels.get(&id).map(|it| it.queues.next_starts()).unwrap_or_default()
    }

    #[cfg(test)]
    fn in_use(&self, id: LevelId) -> usize {
        self.lock().levels[&id].in_use
    }
}

impl State {
    /// Whether a level has this many free seats.
    fn has_seats(&self, id: LevelId, seats: usize) -> bool {
        let Some(level) = self.levels.get(&id) else { return false };
        let Limits { nominal, lower, upper, .. } = level.limits;
        let wanted = level.in_use + seats;
        if upper == 0 {
            return false;
        }
        if wanted <= lower {
            return true;
        }
        let (mut total, mut lent) = (0, 0);
        let mut others_reclaim = false;
        for (other_id, other) in &self.levels {
            total += other.limits.nominal.saturating_sub(other.limits.lower);
            lent += other.in_use.saturating_sub(other.limits.lower);
            others_reclaim |= *other_id != id && other.reclaims();
        }
        let free = total.saturating_sub(lent);
        // A request that needs more seats than the level has is executed when it is alone.
        if level.in_use == 0 && wanted > lower + free.min(upper.saturating_sub(lower)) {
            return lower + free > 0;
        }
        let is_own = wanted <= nominal;
        let from_pool = wanted - lower.max(level.in_use);
        wanted <= upper && from_pool <= free && (is_own || !others_reclaim)
    }

    /// Executes waiting requests while there are seats for them: first those of levels that have less
    /// than their nominal seats.
    fn dispatch(&mut self, now: Instant) {
        while self.waiting > 0 {
            let ids: Vec<LevelId> = self.levels.keys().copied().collect();
            let mut has_progress = false;
            for id in &ids {
                while self.levels.get(id).is_some_and(Level::reclaims)
                    && self.dispatch_one(*id, now)
                {
                    has_progress = true;
                }
            }
            for id in ids {
                has_progress |= self.dispatch_one(id, now);
            }
            if !has_progress {
                return;
            }
        }
    }

    /// Executes the next request of a level, if there are seats for it.
    fn dispatch_one(&mut self, id: LevelId, now: Instant) -> bool {
        let Some(next) = self.levels.get(&id).and_then(|it| it.queues.next()) else { return false };
        if !self.has_seats(id, next.seats) {
            return false;
        }
        let Some(level) = self.levels.get_mut(&id) else { return false };
        level.queues.advance(now, level.limits.nominal);
        let Some(waiter) = level.queues.dispatch(next) else { return false };
        level.in_use += waiter.estimate.max_seats();
        self.waiting -= 1;
        // A request that is canceled at this moment releases its seats.
        let _ = waiter.wake.send(());
        true
    }

    fn remove_if_idle(&mut self, id: LevelId) {
        if self.levels.get(&id).is_some_and(|it| it.is_removed && it.requests == 0) {
            self.levels.remove(&id);
        }
    }
}

impl Level {
    /// Whether requests wait for seats that are the level's own.
    fn reclaims(&self) -> bool {
        self.queues.waiting() > 0 && self.in_use < self.limits.nominal
    }
}

/// Seats, or a place in a queue.
#[derive(Debug)]
pub(super) struct Taken {
    /// The seats. They are in use after [`Taken::wait`].
    seat: LevelSeat,
    /// Notified when a request that waits gets its seats.
    woken: Option<oneshot::Receiver<()>>,
}

impl Taken {
    /// The queue of the request, if its level has queues.
    pub(super) fn queue(&self) -> Option<u32> {
        self.seat.queue
    }

    /// Whether the request has to wait.
    pub(super) fn is_waiting(&self) -> bool {
        self.woken.is_some()
    }

    /// Waits for the seats until `limit`.
    pub(super) async fn wait(mut self, limit: Instant) -> Result<LevelSeat, Refusal> {
        let Some(woken) = self.woken.take() else { return Ok(self.seat) };
        let is_woken = matches!(tokio::time::timeout_at(limit, woken).await, Ok(Ok(())));
        if !is_woken {
            return Err(Refusal::TimeOut);
        }
        self.seat.is_waiting = false;
        self.seat.started = Instant::now();
        Ok(self.seat)
    }
}

/// The seats of a request, released when it is dropped.
#[derive(Debug)]
pub(super) struct LevelSeat {
    levels: Arc<PriorityLevels>,
    level: LevelId,
    queue: Option<u32>,
    estimate: WorkEstimate,
    /// Identifies the request in its queue.
    waiter: u64,
    started: Instant,
    /// The duration of the execution; None before the final stage.
    executed: Option<Duration>,
    /// Whether the request may wait in its queue.
    is_waiting: bool,
    is_lent: AtomicBool,
}

impl LevelSeat {
    /// Ends the execution; returns the time for which the seats stay in use.
    pub(super) fn end_execution(&mut self) -> Duration {
        self.executed = Some(self.started.elapsed());
        self.estimate.additional_latency
    }

    /// Releases the seats until [`LevelSeat::resume`]; false if they are lent already.
    pub(super) fn pause(&self) -> bool {
        let is_first = !self.is_lent.swap(true, Ordering::AcqRel);
        if is_first {
            let mut state = self.levels.lock();
            if let Some(level) = state.levels.get_mut(&self.level) {
                level.in_use -= self.estimate.max_seats();
            }
            state.dispatch(Instant::now());
        }
        is_first
    }

    /// Takes lent seats back, even if the limit is then exceeded: no request gets seats until it is
    /// not.
    pub(super) fn resume(&self) {
        if self.is_lent.swap(false, Ordering::AcqRel) {
            let mut state = self.levels.lock();
            if let Some(level) = state.levels.get_mut(&self.level) {
                level.in_use += self.estimate.max_seats();
            }
        }
    }
}

impl Drop for LevelSeat {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.levels.lock();
        let Some(level) = state.levels.get_mut(&self.level) else { return };
        level.requests -= 1;
        let mut was_waiting = false;
        if let Some(queue) = self.queue {
            level.queues.advance(now, level.limits.nominal);
            was_waiting = self.is_waiting && level.queues.remove(queue, self.waiter);
            if !was_waiting {
                let executed = self.executed.unwrap_or_else(|| now.duration_since(self.started));
                level.queues.finish(queue, self.estimate, executed);
            }
        }
        if was_waiting {
            state.waiting -= 1;
        } else if !*self.is_lent.get_mut() {
            level.in_use -= self.estimate.max_seats();
        }
        state.remove_if_idle(self.level);
        state.dispatch(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    const QUEUING: Queuing = Queuing { queues: 16, hand_size: 2, length_limit: 3 };

    fn limits(nominal: usize, lendable: usize, upper: usize) -> Limits {
        Limits { nominal, lower: nominal - lendable, upper, queuing: Some(QUEUING) }
    }

    fn take(levels: &Arc<PriorityLevels>, id: LevelId, seats: usize) -> Result<Taken, Refusal> {
        levels.take(id, WorkEstimate::of_seats(seats), || 7).unwrap()
    }

    /// As many seats as the level gives at once, one by one.
    fn take_all(levels: &Arc<PriorityLevels>, id: LevelId) -> Vec<LevelSeat> {
        let limit = Instant::now();
        std::iter::from_fn(|| {
            let taken = take(levels, id, 1).ok().filter(|it| !it.is_waiting())?;
            taken.wait(limit).now_or_never()?.ok()
        })
        .collect()
    }

    #[tokio::test]
    async fn a_level_borrows_what_others_lend_and_no_more() {
        let levels = PriorityLevels::new();
        let (a, b) = (levels.add(limits(10, 5, 100)), levels.add(limits(10, 4, 100)));
        let borrowed = take_all(&levels, a);
        assert_eq!(borrowed.len(), 14);
        assert_eq!(take_all(&levels, b).len(), 6, "what a level does not lend is always free");
        drop(borrowed);
        assert_eq!((levels.in_use(a), levels.in_use(b)), (0, 0));
    }

    #[tokio::test]
    async fn a_level_does_not_exceed_its_upper_limit() {
        let levels = PriorityLevels::new();
        let (a, _) = (levels.add(limits(10, 5, 12)), levels.add(limits(10, 10, 100)));
        assert_eq!(take_all(&levels, a).len(), 12);
    }

    #[tokio::test]
    async fn borrowed_seats_return_to_the_level_that_waits_for_its_own() {
        let levels = PriorityLevels::new();
        let (a, b) = (levels.add(limits(4, 0, 100)), levels.add(limits(4, 4, 100)));
        let mut borrowed = take_all(&levels, a);
        assert_eq!(borrowed.len(), 8);
        let waits = take(&levels, b, 1).unwrap();
        let also_waits = take(&levels, a, 1).unwrap();
        assert!(waits.is_waiting() && also_waits.is_waiting());
        borrowed.pop();
        let limit = Instant::now() + Duration::from_secs(5);
        assert!(waits.wait(limit).now_or_never().unwrap().is_ok());
        drop(borrowed);
        assert!(also_waits.wait(limit).now_or_never().unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_wide_request_is_executed_alone_if_the_level_has_too_few_seats() {
        let levels = PriorityLevels::new();
        let a = levels.add(limits(2, 0, 2));
        let narrow = take(&levels, a, 1).unwrap();
        let wide = take(&levels, a, 5).unwrap();
        assert!(wide.is_waiting());
        drop(narrow);
        let limit = Instant::now() + Duration::from_secs(5);
        let wide = wide.wait(limit).now_or_never().unwrap().unwrap();
        assert!(take(&levels, a, 1).unwrap().is_waiting());
        drop(wide);
        assert!(!take(&levels, a, 1).unwrap().is_waiting());
    }

    #[tokio::test]
    async fn a_level_without_seats_executes_nothing() {
        let levels = PriorityLevels::new();
        let (jail, _) = (levels.add(limits(0, 0, 0)), levels.add(limits(10, 10, 100)));
        assert!(take(&levels, jail, 1).unwrap().is_waiting());
    }

    #[tokio::test]
    async fn a_full_queue_refuses_and_a_level_without_queues_refuses_at_once() {
        let levels = PriorityLevels::new();
        let a = levels.add(limits(1, 0, 1));
        let _seat = take_all(&levels, a);
        let waiting: Vec<Taken> = std::iter::from_fn(|| take(&levels, a, 1).ok()).collect();
        // The flow has two queues with three places each.
        assert_eq!(waiting.len(), 6);
        assert_eq!(take(&levels, a, 1).unwrap_err(), Refusal::QueueFull);
        let b = levels.add(Limits { queuing: None, ..limits(1, 0, 1) });
        let _seat = take_all(&levels, b);
        assert_eq!(take(&levels, b, 1).unwrap_err(), Refusal::ConcurrencyLimit);
    }

    #[tokio::test]
    async fn a_request_that_waits_too_long_is_refused_and_leaves_its_queue() {
        let levels = PriorityLevels::new();
        let a = levels.add(limits(1, 0, 1));
        let seat = take_all(&levels, a);
        let waiting = take(&levels, a, 1).unwrap();
        let refused = waiting.wait(Instant::now() + Duration::from_millis(1)).await;
        assert_eq!(refused.unwrap_err(), Refusal::TimeOut);
        assert_eq!(levels.lock().waiting, 0);
        drop(seat);
        assert_eq!(take_all(&levels, a).len(), 1);
    }

    #[tokio::test]
    async fn a_request_that_is_canceled_after_it_was_dispatched_releases_its_seats() {
        let levels = PriorityLevels::new();
        let a = levels.add(limits(1, 0, 1));
        let seat = take_all(&levels, a);
        let waiting = take(&levels, a, 1).unwrap();
        drop(seat);
        assert_eq!(levels.in_use(a), 1);
        drop(waiting);
        assert_eq!(levels.in_use(a), 0);
    }

    #[tokio::test]
    async fn a_lent_seat_is_taken_back_even_if_the_limit_is_exceeded() {
        let levels = PriorityLevels::new();
        let a = levels.add(limits(1, 0, 1));
        let seat = take_all(&levels, a).pop().unwrap();
        assert!(seat.pause() && !seat.pause());
        let other = take_all(&levels, a);
        assert_eq!(other.len(), 1);
        seat.resume();
        assert_eq!(levels.in_use(a), 2);
        drop(other);
        assert!(take(&levels, a, 1).unwrap().is_waiting());
        drop(seat);
        assert_eq!(levels.in_use(a), 0);
    }

    #[tokio::test]
    async fn a_removed_level_executes_its_requests_before_it_disappears() {
        let levels = PriorityLevels::new();
        let a = levels.add(limits(1, 0, 1));
        let seat = take_all(&levels, a);
        let waiting = take(&levels, a, 1).unwrap();
        levels.remove(a);
        drop(seat);
        let limit = Instant::now() + Duration::from_secs(5);
        drop(waiting.wait(limit).now_or_never().unwrap().unwrap());
        assert!(levels.take(a, WorkEstimate::of_seats(1), || 7).is_none());
    }
}
