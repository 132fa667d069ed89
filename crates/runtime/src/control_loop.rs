//! [`ControlLoop`]: so many workers on one queue, each taking a key, reconciling it, and deciding
//! from the outcome when it comes again.
//!
//! A panic stays with its key: it is caught, counted, and tried again like a failure. A key is
//! never with two workers at once, which is the queue's doing.

use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::FutureExt;
use informer::{
    WorkQueue,
    work_queue::{Ending, Histogram, Job},
};
use keel::{Clock, Tasks};

use crate::{
    Action, Failure, Request,
    reason::{Cause, Causes, Outcome, Reasons, Record},
    reconcile::Reconcile,
    source::Inlets,
};

/// Where the buckets of reconcile times end: as in controller-runtime, so that dashboards of both
/// show the same.
const DURATION_BUCKETS: [u64; 40] = nanos([
    5, 10, 25, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800, 900, 1_000, 1_250,
    1_500, 1_750, 2_000, 2_500, 3_000, 3_500, 4_000, 4_500, 5_000, 6_000, 7_000, 8_000, 9_000,
    10_000, 15_000, 20_000, 25_000, 30_000, 40_000, 50_000, 60_000,
]);

const fn nanos<const N: usize>(mut millis: [u64; N]) -> [u64; N] {
    let mut index = 0;
    while index < N {
        millis[index] *= 1_000_000;
        index += 1;
    }
    millis
}

/// A reconcile that took so long may have kept its thread all the time: the other workers get it, or
/// are seen to be waiting by another thread.
const LONG: Duration = Duration::from_micros(100);

/// See the [module documentation](self).
pub(crate) struct ControlLoop {
    pub(crate) name: String,
    pub(crate) workers: usize,
    pub(crate) queue: WorkQueue<Request>,
    pub(crate) reasons: Arc<Reasons>,
    pub(crate) reconcile: Reconcile,
    pub(crate) clock: Clock,
    /// Until it starts.
    pub(crate) inlets: Mutex<Option<Inlets>>,
    pub(crate) active: AtomicUsize,
}

/// What a panic has thrown.
type Panic = Box<dyn Any + Send>;

/// What a control loop has done so far.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    pub(crate) successes: u64,
    pub(crate) requeues: u64,
    pub(crate) requeues_after: u64,
    pub(crate) errors: u64,
    /// Among the errors.
    pub(crate) permanent_errors: u64,
    /// Among the errors.
    pub(crate) panics: u64,
    /// Reconciles that are under way.
    pub(crate) active: usize,
    pub(crate) durations: Histogram,
}

impl ControlLoop {
    /// Starts the workers; they end with `tasks`, each after the key that it has. What fills their
    /// queue ends with `inlet_tasks`.
    pub(crate) fn start(self: &Arc<Self>, tasks: &Tasks, inlet_tasks: &Tasks) {
        let inlets = self.inlets.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(inlets) = inlets {
            inlets.open(&self.queue, &self.reasons, inlet_tasks);
        }
        let (shutdown, queue) = (tasks.shutdown(), self.queue.clone());
        tasks.spawn(&format!("{}-stand-in", self.name), async move {
            tokio::select! {
                () = shutdown => {}
                () = queue.stand_in() => {}
            }
        });
        for number in 0..self.workers {
            let control_loop = Arc::clone(self);
            let (shutdown, group) = (tasks.shutdown(), tasks.clone());
            tasks.spawn(&format!("{}-{number}", self.name), async move {
                tokio::pin!(shutdown);
                let mut next = None;
                while !group.is_stopping() {
                    if next.is_none() {
                        next = tokio::select! {
                            biased;
                            () = &mut shutdown => None,
                            job = control_loop.queue.get() => job,
                        };
                    }
                    let Some(job) = next else { return };
                    next = control_loop.work(job).await;
                }
            });
        }
    }

    /// Gives the next key, if one waits.
    async fn work(&self, mut job: Job<Request>) -> Option<Job<Request>> {
        let request = job.key().clone();
        let causes = self.reasons.take(&request, job.was_due());
        let began = self.clock.moment();
        let seat = ActiveSeat::take(self);
        let ended = self.reconcile(&mut job).await;
        drop(seat);
        let took = self.clock.passed_since(&began);
        let outcome = Outcome::of(ended);
        self.log(&request, &causes, &outcome, took);
        let (ending, later) = self.decide(&request, &outcome);
        let (at, waited) = (began.shown(), job.waited());
        // Before the key may come again, with that cause.
        self.reasons.conclude(Record { request, causes, at, waited, took, outcome }, later);
        if took >= LONG {
            job.end(ending);
            tokio::task::yield_now().await;
            return None;
        }
        let next = job.next(ending);
        // Many short ones keep the thread as long as one that is long.
        tokio::task::coop::consume_budget().await;
        next
    }

    /// While it waits for something, others may get what is queued.
    async fn reconcile(&self, job: &mut Job<Request>) -> Result<Result<Action, Failure>, Panic> {
        let request = job.key().clone();
        // The call itself may panic as well as the future that it returns.
        let reconcile = async { (self.reconcile)(request).await };
        let mut reconcile = pin!(AssertUnwindSafe(reconcile).catch_unwind());
        let ended = poll_fn(|cx| {
            let ended = reconcile.as_mut().poll(cx);
            if ended.is_pending() {
                job.hand_on();
            }
            ended
        });
        ended.await
    }

    /// What becomes of the key, and the cause if it comes again by itself.
    fn decide(&self, request: &Request, outcome: &Outcome) -> (Ending, Option<Cause>) {
        match outcome {
            Outcome::Done | Outcome::FailedForGood(_) => (Ending::Success, None),
            Outcome::Requeue => (Ending::Failure, Some(Cause::Requeue)),
            Outcome::RequeueAfter(delay) => (Ending::Repetition(*delay), Some(Cause::Requeue)),
            Outcome::Failed(_) | Outcome::Panicked(_) => {
                let failures = self.queue.failures(request) + 1;
                (Ending::Failure, Some(Cause::Retry(failures)))
            }
        }
    }

    fn log(&self, request: &Request, causes: &Causes, outcome: &Outcome, took: Duration) {
        let controller = self.name.as_str();
        match outcome {
            Outcome::Failed(error) => {
                tracing::warn!(controller, object = %request, %causes, error, "a reconcile failed");
            }
            Outcome::FailedForGood(error) => {
                tracing::error!(controller, object = %request, %causes, error, "a reconcile failed for good");
            }
            Outcome::Panicked(error) => {
                tracing::error!(controller, object = %request, %causes, error, "a reconcile panicked");
            }
            Outcome::Done | Outcome::Requeue | Outcome::RequeueAfter(_) => {
                tracing::debug!(controller, object = %request, %causes, ?took, "reconciled");
            }
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { active: self.active.load(Relaxed), ..self.reasons.counts() }
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            successes: 0,
            requeues: 0,
            requeues_after: 0,
            errors: 0,
            permanent_errors: 0,
            panics: 0,
            active: 0,
            durations: Histogram::new(&DURATION_BUCKETS),
        }
    }
}

impl Counts {
    pub(crate) fn count(&mut self, outcome: &Outcome, took: Duration) {
        self.durations.observe(took);
        match outcome {
            Outcome::Done => self.successes += 1,
            Outcome::Requeue => self.requeues += 1,
            Outcome::RequeueAfter(_) => self.requeues_after += 1,
            Outcome::Failed(_) => self.errors += 1,
            Outcome::FailedForGood(_) => {
                self.errors += 1;
                self.permanent_errors += 1;
            }
            Outcome::Panicked(_) => {
                self.errors += 1;
                self.panics += 1;
            }
        }
    }
}

impl Outcome {
    fn of(ended: Result<Result<Action, Failure>, Panic>) -> Self {
        match ended {
            Ok(Ok(Action::Done)) => Self::Done,
            Ok(Ok(Action::Requeue)) => Self::Requeue,
            Ok(Ok(Action::RequeueAfter(delay))) => Self::RequeueAfter(delay),
            Ok(Err(failure)) if failure.is_permanent() => Self::FailedForGood(failure.to_string()),
            Ok(Err(failure)) => Self::Failed(failure.to_string()),
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                Self::Panicked(text.unwrap_or_else(|| "no message".to_owned()))
            }
        }
    }
}

/// Counts a worker as active, also if its task is aborted.
struct ActiveSeat<'a>(&'a ControlLoop);

impl<'a> ActiveSeat<'a> {
    fn take(control_loop: &'a ControlLoop) -> Self {
        control_loop.active.fetch_add(1, Relaxed);
        Self(control_loop)
    }
}

impl Drop for ActiveSeat<'_> {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Relaxed);
    }
}
