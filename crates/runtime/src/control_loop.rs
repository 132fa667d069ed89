//! [`ControlLoop`]: the workers of a controller. Each takes a key from the queue, reconciles it, and
//! requeues it according to the outcome.
//!
//! At most some of them reconcile objects of one namespace, if there is a [`NamespaceLimit`].
//!
//! A panic is caught, counted, and retried like a failure. The queue guarantees that a key is never
//! reconciled by two workers at once.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use prometheus_client::metrics::histogram::Histogram;
use tracing::{Instrument, Span};

use crate::event_source::EventSources;
use crate::fence::Fence;
use crate::manager::CacheGroup;
use crate::metrics::{DurationHistogram, reconcile_histogram};
use crate::namespace_limit::NamespaceLimit;
use crate::reconcile::Reconcile;
use crate::reconcile_history::{Cause, Causes, ReconcileHistory, ReconcileOutcome, Record};
use crate::{Action, Failure, Request};
use informer::WorkQueue;
use informer::work_queue::{Job, JobOutcome, RateLimits};
use keel::{Clock, Tasks};

/// A worker yields to the other tasks of its thread after a reconcile that took at least this long.
const LONG_RECONCILE: Duration = Duration::from_micros(100);

/// See the [module documentation](self).
pub(crate) struct ControlLoop {
    pub(crate) name: String,
    /// The caches that must be complete before the workers start.
    pub(crate) caches: Arc<CacheGroup>,
    pub(crate) workers: usize,
    pub(crate) namespace_limit: Option<NamespaceLimit>,
    pub(crate) queue: WorkQueue<Request>,
    /// The limits of the queue.
    pub(crate) limits: RateLimits,
    /// The times for which keys wait in the queue.
    pub(crate) latency: DurationHistogram,
    /// The times for which workers have keys.
    pub(crate) work_duration: DurationHistogram,
    pub(crate) history: Arc<ReconcileHistory>,
    pub(crate) reconcile: Reconcile,
    pub(crate) clock: Clock,
    pub(crate) fence: Fence,
    /// `None` after the start.
    pub(crate) event_sources: Mutex<Option<EventSources>>,
    pub(crate) active: AtomicUsize,
}

/// Puts the task at the end of the run queue of its thread, from which other threads may take it. A
/// task that yields, in contrast, stays with its thread until that has run its next task.
async fn move_to_run_queue() {
    let mut is_moved = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_moved, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The span of one reconcile, in which everything that it logs names its controller and its object.
/// Without a subscriber of its level, nothing is formatted.
pub(crate) fn reconcile_span(controller: &str, request: &Request) -> Span {
    tracing::info_span!("reconcile", controller, object = %request)
}

/// The payload of a panic.
type Panic = Box<dyn Any + Send>;

/// The number of reconciles by outcome, and their durations.
#[derive(Debug, Clone)]
pub(crate) struct ReconcileCounts {
    pub(crate) successes: u64,
    pub(crate) requeues: u64,
    pub(crate) requeues_after: u64,
    pub(crate) errors: u64,
    /// Included in `errors`.
    pub(crate) permanent_errors: u64,
    /// Included in `errors`.
    pub(crate) panics: u64,
    /// The number of reconciles under way.
    pub(crate) active: usize,
    pub(crate) durations: Histogram,
}

impl ControlLoop {
    /// Starts the workers, which end with `tasks`, each after its present key. The sources of the
    /// queue end with `source_tasks`.
    pub(crate) fn start(self: &Arc<Self>, tasks: &Tasks, source_tasks: &Tasks) {
        let event_sources =
            self.event_sources.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(event_sources) = event_sources {
            event_sources.open(&self.queue, &self.history, source_tasks);
        }
        for number in 0..self.workers {
            let control_loop = Arc::clone(self);
            let (shutdown, group) = (tasks.shutdown(), tasks.clone());
            tasks.spawn(&format!("{}-{number}", self.name), async move {
                tokio::pin!(shutdown);
                while !group.is_stopping() {
                    let mut polls = 0;
                    let mut next = pin!(control_loop.queue.get());
                    let next = poll_fn(|context| {
                        polls += 1;
                        next.as_mut().poll(context)
                    });
                    let job = tokio::select! {
                        biased;
                        () = &mut shutdown => None,
                        job = next => job,
                    };
                    let Some(job) = job else { return };
                    // The queue has woken another worker for the next key, which tokio runs on this
                    // thread and on no other one. So that a reconcile that blocks the thread does
                    // not block the other worker, this one may go on on another thread.
                    if polls > 1 && control_loop.queue.metrics().depth > 0 {
                        move_to_run_queue().await;
                    }
                    // A reconcile that begins before the lease is renewed could not write.
                    tokio::select! {
                        biased;
                        () = control_loop.fence.await_overdue_renewal() => {}
                        () = &mut shutdown => return,
                    }
                    control_loop.take(job).await;
                }
            });
        }
    }

    /// Processes a key, unless it must wait for other keys of its namespace.
    async fn take(&self, job: Job<Request>) {
        let Some(limit) = &self.namespace_limit else { return self.process(job).await };
        if !limit.begin(job.key(), job.priority()) {
            return;
        }
        let request = job.key().clone();
        self.process(job).await;
        if let Some((next, priority)) = limit.end(&request) {
            self.queue.add_with_priority(next, priority);
        }
    }

    async fn process(&self, job: Job<Request>) {
        let request = job.key().clone();
        let causes = self.history.take(&request, job.was_delayed());
        let began = self.clock.instant();
        let active = ActiveWorker::new(self);
        // The call may panic as well as the future that it returns.
        let reconcile = async { (self.reconcile)(request.clone()).await };
        let reconcile = reconcile.instrument(reconcile_span(&self.name, &request));
        let result = AssertUnwindSafe(reconcile).catch_unwind().await;
        drop(active);
        let took = self.clock.elapsed_since(&began);
        // The object has changed since the cache was read, which the next reconcile will see.
        let is_first_conflict = matches!(&result, Ok(Err(failure)) if failure.is_conflict())
            && self.queue.failures(&request) == 0;
        let outcome = ReconcileOutcome::of(result);
        self.log(&request, &causes, &outcome, is_first_conflict, took);
        let (job_outcome, later) = self.decide(&request, &outcome);
        let (at, waited) = (began.wall_time(), job.waited());
        // Before `job.end`, after which the key can be handed out again with the cause `later`.
        self.history.add_record(Record { request, causes, at, waited, took, outcome }, later);
        job.end(job_outcome);
        if took >= LONG_RECONCILE {
            tokio::task::yield_now().await;
        } else {
            // Many short reconciles in a row must not block the thread either.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// The outcome for the queue, and the cause of the next reconcile if the key is requeued.
    fn decide(&self, request: &Request, outcome: &ReconcileOutcome) -> (JobOutcome, Option<Cause>) {
        match outcome {
            ReconcileOutcome::Done | ReconcileOutcome::FailedPermanently(_) => {
                (JobOutcome::Success, None)
            }
            ReconcileOutcome::Requeue => (JobOutcome::Failure, Some(Cause::Requeue)),
            ReconcileOutcome::RequeueAfter(delay) => {
                (JobOutcome::RequeueAfter(*delay), Some(Cause::Requeue))
            }
            ReconcileOutcome::Failed(_) | ReconcileOutcome::Panicked(_) => {
                let failures = self.queue.failures(request) + 1;
                (JobOutcome::Failure, Some(Cause::Retry(failures)))
            }
        }
    }

    fn log(
        &self,
        request: &Request,
        causes: &Causes,
        outcome: &ReconcileOutcome,
        is_first_conflict: bool,
        took: Duration,
    ) {
        let controller = self.name.as_str();
        match outcome {
            ReconcileOutcome::Failed(error) if is_first_conflict => {
                tracing::debug!(controller, object = %request, %causes, error, "a conflict is retried");
            }
            ReconcileOutcome::Failed(error) => {
                tracing::warn!(controller, object = %request, %causes, error, "a reconcile failed");
            }
            ReconcileOutcome::FailedPermanently(error) => {
                tracing::error!(controller, object = %request, %causes, error, "a reconcile failed permanently");
            }
            ReconcileOutcome::Panicked(error) => {
                tracing::error!(controller, object = %request, %causes, error, "a reconcile panicked");
            }
            ReconcileOutcome::Done
            | ReconcileOutcome::Requeue
            | ReconcileOutcome::RequeueAfter(_) => {
                tracing::debug!(controller, object = %request, %causes, ?took, "reconciled");
            }
        }
    }

    pub(crate) fn counts(&self) -> ReconcileCounts {
        ReconcileCounts { active: self.active.load(Relaxed), ..self.history.counts() }
    }
}

impl Default for ReconcileCounts {
    fn default() -> Self {
        Self {
            successes: 0,
            requeues: 0,
            requeues_after: 0,
            errors: 0,
            permanent_errors: 0,
            panics: 0,
            active: 0,
            durations: reconcile_histogram(),
        }
    }
}

impl ReconcileCounts {
    pub(crate) fn count(&mut self, outcome: &ReconcileOutcome, took: Duration) {
        self.durations.observe(took.as_secs_f64());
        match outcome {
            ReconcileOutcome::Done => self.successes += 1,
            ReconcileOutcome::Requeue => self.requeues += 1,
            ReconcileOutcome::RequeueAfter(_) => self.requeues_after += 1,
            ReconcileOutcome::Failed(_) => self.errors += 1,
            ReconcileOutcome::FailedPermanently(_) => {
                self.errors += 1;
                self.permanent_errors += 1;
            }
            ReconcileOutcome::Panicked(_) => {
                self.errors += 1;
                self.panics += 1;
            }
        }
    }
}

impl ReconcileOutcome {
    fn of(result: Result<Result<Action, Failure>, Panic>) -> Self {
        match result {
            Ok(Ok(Action::Done)) => Self::Done,
            Ok(Ok(Action::Requeue)) => Self::Requeue,
            Ok(Ok(Action::RequeueAfter(delay))) => Self::RequeueAfter(delay),
            Ok(Err(failure)) if failure.is_permanent() => {
                Self::FailedPermanently(failure.to_string())
            }
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
struct ActiveWorker<'a>(&'a ControlLoop);

impl<'a> ActiveWorker<'a> {
    fn new(control_loop: &'a ControlLoop) -> Self {
        control_loop.active.fetch_add(1, Relaxed);
        Self(control_loop)
    }
}

impl Drop for ActiveWorker<'_> {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Relaxed);
    }
}
