//! [`Record`]: the causes and the outcome of a reconcile. Each controller keeps its last records.
//!
//! ```text
//! default/web  CustomPod default/web updated (.spec.replicas)  → done in 3 ms
//! default/web  Pod default/web-1 deleted, and 2 more           → failed: …
//! ```
//!
//! `GET /reconciles` of a manager's endpoint returns them; within the process:
//!
//! ```no_run
//! use runtime::{Manager, reconcile_history::{Cause, Causes, ReconcileOutcome, Record}};
//!
//! fn explain(manager: &Manager) {
//!     for Record { request, causes, outcome, .. } in manager.records("site") {
//!         let Causes { first, more } = &causes;
//!         let was_scaled = first.iter().any(|cause| match cause {
//!             Cause::Object { .. } => cause.changed_fields().contains(&".spec.replicas".into()),
//!             Cause::Channel | Cause::Retry(_) | Cause::Requeue => false,
//!         });
//!         match outcome {
//!             ReconcileOutcome::Failed(why) | ReconcileOutcome::Panicked(why) => println!("{request}: {why}"),
//!             _ => println!("{request}: {causes} ({more} more), scaled: {was_scaled}"),
//!         }
//!     }
//! }
//! ```
//!
//! The changed fields are computed by the reader, from the two states that the record keeps.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Request;
use crate::changed_fields::changed_fields;
use crate::control_loop::ReconcileCounts;
use informer::{Item, ObjectEvent};
use keel::Timestamp;
use machinery::{Value, json, timestamp};

/// The number of records of a controller.
const MAX_RECORDS: usize = 256;
/// The number of causes in a record; further causes are counted.
const MAX_CAUSES: usize = 4;

/// The cause for which a key was queued.
#[derive(Debug, Clone)]
pub enum Cause {
    /// An object was changed.
    Object {
        /// The kind of the object.
        kind: Arc<str>,
        /// The change.
        event: ObjectEvent,
    },
    /// The key was sent through a channel.
    Channel,
    /// The last reconcile failed; the number of failures in a row.
    Retry(u32),
    /// The last reconcile requested it.
    Requeue,
}

impl Cause {
    pub(crate) fn of_event(kind: &Arc<str>, event: &ObjectEvent) -> Self {
        Self::Object { kind: Arc::clone(kind), event: event.clone() }
    }

    /// The fields in which the two states of the object differ; empty for other causes.
    pub fn changed_fields(&self) -> Vec<String> {
        match self {
            Self::Object { event: ObjectEvent::Updated { old, new }, .. } => {
                changed_fields(old, new)
            }
            _ => Vec::new(),
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Object { kind, event } => json!({
                "kind": &**kind,
                "object": event.item().key().to_string(),
                "event": event_name(event),
                "fields": self.changed_fields(),
            }),
            Self::Channel => json!({"event": "channel"}),
            Self::Retry(failures) => json!({"event": "retry", "failures": failures}),
            Self::Requeue => json!({"event": "requeue"}),
        }
    }
}

fn event_name(event: &ObjectEvent) -> &'static str {
    let is_same = |old: &Item, new: &Item| old.resource_version() == new.resource_version();
    match event {
        ObjectEvent::Added { is_initial: true, .. } => "found",
        ObjectEvent::Added { .. } => "added",
        ObjectEvent::Updated { old, new } if is_same(old, new) => "resynced",
        ObjectEvent::Updated { .. } => "updated",
        ObjectEvent::Deleted { .. } => "deleted",
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object { kind, event } => {
                write!(f, "{kind} {} {}", event.item().key(), event_name(event))?;
                let fields = self.changed_fields();
                if fields.is_empty() { Ok(()) } else { write!(f, " ({})", fields.join(", ")) }
            }
            Self::Channel => f.write_str("sent through a channel"),
            Self::Retry(failures) => write!(f, "failure {failures}"),
            Self::Requeue => f.write_str("requested"),
        }
    }
}

/// The outcome of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReconcileOutcome {
    /// It succeeded.
    Done,
    /// It succeeded and is requeued.
    Requeue,
    /// It succeeded and is requeued after this time.
    RequeueAfter(Duration),
    /// It failed and is retried after its backoff.
    Failed(String),
    /// It failed and is not retried before the next change.
    FailedPermanently(String),
    /// It panicked and is retried after its backoff.
    Panicked(String),
}

/// The causes of one reconcile.
#[derive(Debug, Clone, Default)]
pub struct Causes {
    /// The first causes.
    pub first: Vec<Cause>,
    /// The number of further causes.
    pub more: u64,
}

impl Causes {
    fn add(&mut self, cause: Cause) {
        if self.first.len() < MAX_CAUSES {
            self.first.push(cause);
        } else {
            self.more += 1;
        }
    }
}

impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, cause) in self.first.iter().enumerate() {
            write!(f, "{}{cause}", if index == 0 { "" } else { "; " })?;
        }
        if self.more > 0 { write!(f, "; and {} more", self.more) } else { Ok(()) }
    }
}

/// A record of one reconcile.
#[derive(Debug, Clone)]
pub struct Record {
    /// The reconciled object.
    pub request: Request,
    /// The causes.
    pub causes: Causes,
    /// The start time.
    pub at: Timestamp,
    /// The time for which the key waited in the queue.
    pub waited: Duration,
    /// The duration.
    pub took: Duration,
    /// The outcome.
    pub outcome: ReconcileOutcome,
}

impl Record {
    /// The JSON of the endpoint.
    pub fn to_value(&self) -> Value {
        let outcome = match &self.outcome {
            ReconcileOutcome::Done => json!({"result": "success"}),
            ReconcileOutcome::Requeue => json!({"result": "requeue"}),
            ReconcileOutcome::RequeueAfter(delay) => {
                json!({"result": "requeue_after", "seconds": delay.as_secs_f64()})
            }
            ReconcileOutcome::Failed(why) => json!({"result": "error", "error": why}),
            ReconcileOutcome::FailedPermanently(why) => {
                json!({"result": "permanent_error", "error": why})
            }
            ReconcileOutcome::Panicked(why) => json!({"result": "panic", "error": why}),
        };
        json!({
            "object": self.request.to_string(),
            "at": timestamp::format_micros(self.at.seconds(), self.at.nanos()),
            "waitedSeconds": self.waited.as_secs_f64(),
            "tookSeconds": self.took.as_secs_f64(),
            "causes": self.causes.first.iter().map(Cause::to_value).collect::<Vec<_>>(),
            "moreCauses": self.causes.more,
            "outcome": outcome,
        })
    }
}

/// The causes of waiting keys, and the records of finished reconciles.
#[derive(Default)]
pub(crate) struct ReconcileHistory(Mutex<State>);

#[derive(Default)]
struct State {
    /// One for each key in the queue.
    waiting: HashMap<Request, Causes>,
    /// The causes of delayed keys: one for each delayed key in the queue.
    delayed: HashMap<Request, Cause>,
    records: VecDeque<Record>,
    counts: ReconcileCounts,
}

impl ReconcileHistory {
    /// Adds a cause. Must be called before the key is queued.
    pub(crate) fn add_cause(&self, request: &Request, cause: Cause) {
        self.lock().waiting.entry(request.clone()).or_default().add(cause);
    }

    /// Takes the causes of a key that a worker has taken; `was_delayed` if the key was added by the
    /// end of its delay.
    pub(crate) fn take(&self, request: &Request, was_delayed: bool) -> Causes {
        let mut state = self.lock();
        let mut causes = state.waiting.remove(request).unwrap_or_default();
        if was_delayed {
            // The cause of the delay may be missing: of a key that was delayed again before it was
            // taken, one cause is stored for two delays.
            causes.add(state.delayed.remove(request).unwrap_or(Cause::Requeue));
        }
        causes
    }

    /// Adds a record. Must be called before the job ends. `later` is the cause of the next reconcile
    /// if the key is delayed.
    pub(crate) fn add_record(&self, record: Record, later: Option<Cause>) {
        let mut state = self.lock();
        state.counts.count(&record.outcome, record.took);
        if let Some(later) = later {
            state.delayed.insert(record.request.clone(), later);
        }
        let oldest = (state.records.len() == MAX_RECORDS).then(|| state.records.pop_front());
        state.records.push_back(record);
        drop(state);
        // The drop may free objects; it happens outside of the lock.
        drop(oldest);
    }

    /// The number of reconciles by outcome, and their durations.
    pub(crate) fn counts(&self) -> ReconcileCounts {
        self.lock().counts.clone()
    }

    /// The last records, the latest first.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.lock().records.iter().rev().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(request: &Request) -> Record {
        Record {
            request: request.clone(),
            causes: Causes::default(),
            at: Timestamp::from_seconds(100),
            waited: Duration::ZERO,
            took: Duration::ZERO,
            outcome: ReconcileOutcome::Done,
        }
    }

    #[test]
    fn a_key_has_its_first_causes_and_the_number_of_the_others() {
        let (history, request) = (ReconcileHistory::default(), Request::new("n", "a"));
        let item = Item::parse(br#"{"metadata":{"namespace":"n","name":"a"}}"#.as_slice()).unwrap();
        history.add_cause(
            &request,
            Cause::of_event(&"Pod".into(), &ObjectEvent::Added { item, is_initial: false }),
        );
        for _ in 0..5 {
            history.add_cause(&request, Cause::Channel);
        }
        let causes = history.take(&request, false);
        let sent = "sent through a channel";
        assert_eq!(
            causes.to_string(),
            format!("Pod n/a added; {sent}; {sent}; {sent}; and 2 more")
        );
        assert!(history.take(&request, false).first.is_empty());
    }

    #[test]
    fn a_delayed_key_has_its_cause_after_the_delay() {
        let (history, request) = (ReconcileHistory::default(), Request::new("n", "a"));
        history.add_record(record(&request), Some(Cause::Retry(3)));
        history.add_cause(&request, Cause::Channel);
        assert_eq!(history.take(&request, false).to_string(), "sent through a channel");
        assert_eq!(history.take(&request, true).to_string(), "failure 3");
    }
}
