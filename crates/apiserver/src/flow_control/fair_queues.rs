//! [`FairQueues`]: the requests of one priority level, in queues that are served fairly.
//!
//! Every queue has a virtual time at which its next request starts. It advances by the work of each
//! request that the queue starts: seats times duration, estimated at the start and corrected at the
//! end. The next request is the one that would be finished first in virtual time, so that a queue with
//! much work cannot delay a queue with little.
//!
//! ```text
//! queue a: 1000 requests wait, next at 0.030      queue b: one request arrives at 0.012
//! dispatched: b, then a at 0.030, 0.033, …
//! ```
//!
//! Only queues with requests are stored, so that the number of queues of a level costs no memory.
//!
//! Upstream: util/flowcontrol/fairqueuing/queueset

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::shuffle_sharding;
use super::work_estimate::WorkEstimate;

/// The duration of a request that is assumed when it starts, in seconds.
pub(super) const ESTIMATED_DURATION: f64 = 0.003;

/// How the requests of a level wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Queuing {
    /// The number of queues.
    pub queues: u32,
    /// The number of queues of a flow.
    pub hand_size: u32,
    /// The maximum number of requests that wait in one queue.
    pub length_limit: usize,
}

/// See the [module documentation](self).
///
/// Invariants: every queue has a request that waits or is executed; `waiting` and `seats` are the sums
/// over all queues.
#[derive(Debug)]
pub(super) struct FairQueues {
    queues: HashMap<u32, Queue>,
    /// The number of requests that wait.
    waiting: usize,
    /// The seats of the requests that wait or are executed.
    seats: usize,
    /// The virtual time, in seconds.
    now: f64,
    /// The real time of `now`.
    updated: Instant,
    /// The queue that was served last: among equals, the next one is served.
    served: u32,
    /// The number of choices so far, so that a flow begins with another queue each time.
    choices: usize,
}

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Waiter>,
    executing: usize,
    /// The seats of the requests that wait.
    seats_waiting: usize,
    /// The virtual time at which the next request starts.
    next_start: f64,
}

/// A request that waits in a queue.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Identifies the request.
    pub id: u64,
    /// The seats that the request needs.
    pub estimate: WorkEstimate,
    /// Notifies the request that it is executed.
    pub wake: oneshot::Sender<()>,
    /// The virtual time of the arrival.
    arrival: f64,
}

/// The request that a level executes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    queue: u32,
    /// The seats that the request needs.
    pub seats: usize,
}

impl FairQueues {
    /// Queues without requests.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            queues: HashMap::new(),
            waiting: 0,
            seats: 0,
            now: 0.0,
            updated: now,
            served: 0,
            choices: 0,
        }
    }

    /// The number of requests that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Advances the virtual time: the queues with requests share the level's seats.
    #[allow(clippy::cast_precision_loss, reason = "numbers of seats and of queues are small")]
    pub(super) fn advance(&mut self, now: Instant, limit: usize) {
        let elapsed = now.saturating_duration_since(self.updated).as_secs_f64();
        self.updated = now;
        if self.queues.is_empty() {
            // Without requests, no virtual time is stored elsewhere.
            self.now = 0.0;
            return;
        }
        self.now += elapsed * self.seats.min(limit) as f64 / self.queues.len() as f64;
    }

    /// The queue of a new request: the one with the least waiting work of those of its flow.
    pub(super) fn choose(&mut self, hash: u64, queuing: Queuing) -> u32 {
        let hand = shuffle_sharding::deal(hash, queuing.queues, queuing.hand_size);
        let offset = self.choices % hand.len().max(1);
        self.choices = self.choices.wrapping_add(1);
        let waiting = |queue: &u32| self.queues.get(queue).map_or(0, |it| it.seats_waiting);
        let (before, after) = hand.split_at(offset);
        after.iter().chain(before).copied().min_by_key(waiting).unwrap_or(0)
    }

    /// The number of requests that wait in a queue.
    pub(super) fn length(&self, queue: u32) -> usize {
        self.queues.get(&queue).map_or(0, |it| it.waiting.len())
    }

    /// Adds a request to a queue; returns what is notified when it is executed.
    pub(super) fn enqueue(
        &mut self,
        queue: u32,
        id: u64,
        estimate: WorkEstimate,
    ) -> oneshot::Receiver<()> {
        let seats = estimate.max_seats();
        let (wake, woken) = oneshot::channel();
        let arrival = self.now;
        let queue = self.active(queue);
        queue.waiting.push_back(Waiter { id, estimate, wake, arrival });
        queue.seats_waiting += seats;
        queue.bound();
        self.waiting += 1;
        self.seats += seats;
        woken
    }

    /// Counts a request that is executed without waiting.
    pub(super) fn start(&mut self, queue: u32, estimate: WorkEstimate) {
        let queue = self.active(queue);
        queue.executing += 1;
        queue.next_start += estimate.work(ESTIMATED_DURATION);
        self.seats += estimate.max_seats();
    }

    /// The request that is executed next.
    pub(super) fn next(&self) -> Option<Next> {
        if self.waiting == 0 {
            return None;
        }
        let candidates = self.queues.iter().filter_map(|(number, queue)| {
            let first = queue.waiting.front()?;
            let finish = queue.next_start + first.estimate.work(ESTIMATED_DURATION);
            let turn = number.wrapping_sub(self.served).wrapping_sub(1);
            Some((finish, turn, Next { queue: *number, seats: first.estimate.max_seats() }))
        });
        let first = candidates.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        first.map(|(.., next)| next)
    }

    /// Takes the request `next` out of its queue; it is executed now.
    pub(super) fn dispatch(&mut self, next: Next) -> Option<Waiter> {
        let queue = self.queues.get_mut(&next.queue)?;
        let waiter = queue.waiting.pop_front()?;
        queue.seats_waiting -= waiter.estimate.max_seats();
        queue.executing += 1;
        queue.next_start += waiter.estimate.work(ESTIMATED_DURATION);
        queue.bound();
        self.waiting -= 1;
        self.served = next.queue;
        Some(waiter)
    }

    /// Removes a request that waits; false if it does not wait any more.
    pub(super) fn remove(&mut self, number: u32, id: u64) -> bool {
        let Some(queue) = self.queues.get_mut(&number) else { return false };
        let Some(at) = queue.waiting.iter().position(|it| it.id == id) else { return false };
        let Some(waiter) = queue.waiting.remove(at) else { return false };
        let seats = waiter.estimate.max_seats();
        queue.seats_waiting -= seats;
        queue.bound();
        self.waiting -= 1;
        self.seats -= seats;
        self.remove_if_idle(number);
        true
    }

    /// Counts that a request of a queue was executed in this time, before its final stage.
    pub(super) fn finish(&mut self, number: u32, estimate: WorkEstimate, duration: Duration) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        queue.executing -= 1;
        queue.next_start -=
            estimate.work(ESTIMATED_DURATION) - estimate.work(duration.as_secs_f64());
        queue.bound();
        self.seats -= estimate.max_seats();
        self.remove_if_idle(number);
    }

    /// The virtual times at which the next requests of the queues start, by queue.
    pub(super) fn next_starts(&self) -> HashMap<u32, f64> {
        self.queues.iter().map(|(number, queue)| (*number, queue.next_start)).collect()
    }

    fn remove_if_idle(&mut self, number: u32) {
        if self.queues.get(&number).is_some_and(|it| it.executing == 0 && it.waiting.is_empty()) {
            self.queues.remove(&number);
        }
    }

    /// A queue that is about to have a request. One that had none starts now.
    fn active(&mut self, number: u32) -> &mut Queue {
        let next_start = self.now;
        self.queues.entry(number).or_insert_with(|| Queue {
            waiting: VecDeque::new(),
            executing: 0,
            seats_waiting: 0,
            next_start,
        })
    }
}

impl Queue {
    /// A request does not start before its arrival: a queue gets no credit for a time in which it had
    /// no requests.
    fn bound(&mut self) {
        if let Some(first) = self.waiting.front() {
            self.next_start = self.next_start.max(first.arrival);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 10;

    fn dispatch(queues: &mut FairQueues) -> Option<u64> {
        let next = queues.next()?;
        queues.dispatch(next).map(|it| it.id)
    }

    #[test]
    fn a_queue_with_one_request_is_served_before_the_rest_of_a_full_queue() {
        let mut queues = FairQueues::new(Instant::now());
        let _waiting: Vec<_> =
            (0..100).map(|id| queues.enqueue(1, id, WorkEstimate::of_seats(1))).collect();
        assert_eq!(dispatch(&mut queues), Some(0));
        assert_eq!(dispatch(&mut queues), Some(1));
        let _other = queues.enqueue(2, 500, WorkEstimate::of_seats(1));
        assert_eq!(dispatch(&mut queues), Some(500));
        assert_eq!(dispatch(&mut queues), Some(2));
    }

    #[test]
    fn queues_share_seats_and_not_requests() {
        let mut queues = FairQueues::new(Instant::now());
        let _wide: Vec<_> =
            (0..10).map(|id| queues.enqueue(1, id, WorkEstimate::of_seats(10))).collect();
        let _narrow: Vec<_> =
            (100..200).map(|id| queues.enqueue(2, id, WorkEstimate::of_seats(1))).collect();
        let dispatched: Vec<u64> = (0..44).filter_map(|_| dispatch(&mut queues)).collect();
        let wide = dispatched.iter().filter(|it| **it < 100).count();
        assert_eq!(wide, 4, "a wide request counts like ten others: {dispatched:?}");
    }

    #[test]
    fn requests_that_take_longer_than_estimated_delay_their_own_queue() {
        let start = Instant::now();
        let mut queues = FairQueues::new(start);
        queues.start(1, WorkEstimate::of_seats(1));
        let _a: Vec<_> =
            (0..3).map(|id| queues.enqueue(1, id, WorkEstimate::of_seats(1))).collect();
        let _b: Vec<_> =
            (10..13).map(|id| queues.enqueue(2, id, WorkEstimate::of_seats(1))).collect();
        queues.advance(start + Duration::from_millis(1), LIMIT);
        queues.finish(1, WorkEstimate::of_seats(1), Duration::from_secs(1));
        let dispatched: Vec<u64> = (0..6).filter_map(|_| dispatch(&mut queues)).collect();
        assert_eq!(dispatched, [10, 11, 12, 0, 1, 2]);
    }

    #[test]
    fn a_queue_that_was_idle_has_no_credit_before_one_that_waited() {
        let start = Instant::now();
        let mut queues = FairQueues::new(start);
        let _a: Vec<_> =
            (0..100).map(|id| queues.enqueue(1, id, WorkEstimate::of_seats(1))).collect();
        for _ in 0..10 {
            dispatch(&mut queues);
        }
        queues.advance(start + Duration::from_secs(10), LIMIT);
        let _b: Vec<_> =
            (500..600).map(|id| queues.enqueue(2, id, WorkEstimate::of_seats(1))).collect();
        let dispatched: Vec<u64> = (0..20).filter_map(|_| dispatch(&mut queues)).collect();
        assert!(dispatched.iter().all(|it| *it < 500), "{dispatched:?}");
    }

    #[test]
    fn a_removed_request_is_not_dispatched_and_empty_queues_are_removed() {
        let mut queues = FairQueues::new(Instant::now());
        let _a = queues.enqueue(1, 1, WorkEstimate::of_seats(2));
        let _b = queues.enqueue(1, 2, WorkEstimate::of_seats(3));
        assert!(queues.remove(1, 1));
        assert!(!queues.remove(1, 1));
        assert_eq!(dispatch(&mut queues), Some(2));
        assert!(!queues.remove(1, 2), "it is executed");
        queues.finish(1, WorkEstimate::of_seats(3), Duration::ZERO);
        assert_eq!((queues.waiting, queues.seats, queues.queues.len()), (0, 0, 0));
    }

    #[test]
    fn a_flow_fills_its_own_queues_evenly() {
        let queuing = Queuing { queues: 64, hand_size: 6, length_limit: 50 };
        let mut queues = FairQueues::new(Instant::now());
        let mut waiting = Vec::new();
        for id in 0..60 {
            let queue = queues.choose(12345, queuing);
            waiting.push(queues.enqueue(queue, id, WorkEstimate::of_seats(1)));
        }
        assert_eq!(queues.queues.len(), 6);
        assert!(queues.queues.values().all(|it| it.waiting.len() == 10));
    }
}
