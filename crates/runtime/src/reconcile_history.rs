//! Why a reconcile happened, and what came of it: [`Record`]s, of which each controller keeps the
//! last ones.
//!
//! ```text
//! default/web  CustomPod default/web updated (.spec.replicas)  → done in 3 ms
//! default/web  Pod default/web-1 deleted, and 2 more           → failed: …
//! ```
//!
//! `GET /reconciles` of a manager's endpoint shows them; within the process:
//!
//! ```no_run
//! use runtime::{Manager, reconcile_history::{Cause, Causes, Outcome, Record}};
//!
//! fn explain(manager: &Manager) {
//!     for Record { request, causes, outcome, .. } in manager.records("site") {
//!         let Causes { first, more } = &causes;
//!         let was_scaled = first.iter().any(|cause| match cause {
//!             Cause::Object { .. } => cause.changed_fields().contains(&".spec.replicas".into()),
//!             Cause::Channel | Cause::Retry(_) | Cause::Requeue => false,
//!         });
//!         match outcome {
//!             Outcome::Failed(why) | Outcome::Panicked(why) => println!("{request}: {why}"),
//!             _ => println!("{request}: {causes} ({more} more), scaled: {was_scaled}"),
//!         }
//!     }
//! }
//! ```
//!
//! Which fields changed is worked out when somebody reads it, from the two states that are kept
//! until then.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use informer::{Item, ObjectEvent};
use keel::Timestamp;
use machinery::{Value, json, timestamp};

use crate::{Request, changed_fields::changed_fields, control_loop::ReconcileCounts};

/// Records that a controller keeps.
const MAX_RECORDS: usize = 256;
/// Causes that are kept for one reconcile; the others are counted.
const MAX_CAUSES: usize = 4;

/// Why a key was queued.
#[derive(Debug, Clone)]
pub enum Cause {
    /// Something happened to an object.
    Object {
        /// Its kind.
        kind: Arc<str>,
        /// What happened.
        event: ObjectEvent,
    },
    /// Somebody sent the key through a channel.
    Channel,
    /// The last reconcile failed; it was the so-manieth failure in a row.
    Retry(u32),
    /// The last reconcile asked for it.
    Requeue,
}

impl Cause {
    pub(crate) fn of_event(kind: &Arc<str>, event: &ObjectEvent) -> Self {
        Self::Object { kind: Arc::clone(kind), event: event.clone() }
    }

    /// Where the object's two states differ; empty if that is not the cause.
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
                "event": word(event),
                "fields": self.changed_fields(),
            }),
            Self::Channel => json!({"event": "channel"}),
            Self::Retry(failures) => json!({"event": "retry", "failures": failures}),
            Self::Requeue => json!({"event": "requeue"}),
        }
    }
}

fn word(event: &ObjectEvent) -> &'static str {
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
                write!(f, "{kind} {} {}", event.item().key(), word(event))?;
                let fields = self.changed_fields();
                if fields.is_empty() { Ok(()) } else { write!(f, " ({})", fields.join(", ")) }
            }
            Self::Channel => f.write_str("sent through a channel"),
            Self::Retry(failures) => write!(f, "failure {failures}"),
            Self::Requeue => f.write_str("asked for"),
        }
    }
}

/// How a reconcile ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Well, and nothing comes next.
    Done,
    /// Well, and it is to come again.
    Requeue,
    /// Well, and it is to come again after this time.
    RequeueAfter(Duration),
    /// Badly; it comes again after its back-off.
    Failed(String),
    /// Badly; it comes again when something changes.
    FailedPermanently(String),
    /// With a panic; it comes again after its back-off.
    Panicked(String),
}

/// The causes of one reconcile.
#[derive(Debug, Clone, Default)]
pub struct Causes {
    /// The first ones.
    pub first: Vec<Cause>,
    /// So many more came while the key waited.
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

/// One reconcile.
#[derive(Debug, Clone)]
pub struct Record {
    /// Of which object.
    pub request: Request,
    /// Why.
    pub causes: Causes,
    /// When it began.
    pub at: Timestamp,
    /// How long the key had waited.
    pub waited: Duration,
    /// How long it took.
    pub took: Duration,
    /// What came of it.
    pub outcome: Outcome,
}

impl Record {
    /// As the endpoint shows it.
    pub fn to_value(&self) -> Value {
        let outcome = match &self.outcome {
            Outcome::Done => json!({"result": "success"}),
            Outcome::Requeue => json!({"result": "requeue"}),
            Outcome::RequeueAfter(delay) => {
                json!({"result": "requeue_after", "seconds": delay.as_secs_f64()})
            }
            Outcome::Failed(why) => json!({"result": "error", "error": why}),
            Outcome::FailedPermanently(why) => json!({"result": "permanent_error", "error": why}),
            Outcome::Panicked(why) => json!({"result": "panic", "error": why}),
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

/// The causes of keys that wait, and the records of those that are done.
#[derive(Default)]
pub(crate) struct ReconcileHistory(Mutex<State>);

#[derive(Default)]
struct State {
    /// As many as there are keys in the queue.
    waiting: HashMap<Request, Causes>,
    /// Why keys come again that were put off: as many as the queue has put off.
    delayed: HashMap<Request, Cause>,
    records: VecDeque<Record>,
    counts: ReconcileCounts,
}

impl ReconcileHistory {
    /// To be called before the key is queued.
    pub(crate) fn note(&self, request: &Request, cause: Cause) {
        self.lock().waiting.entry(request.clone()).or_default().add(cause);
    }

    /// The causes of a key that a worker has got; `was_delayed` if the time has come to which it was
    /// put off.
    pub(crate) fn take(&self, request: &Request, was_delayed: bool) -> Causes {
        let mut state = self.lock();
        let mut causes = state.waiting.remove(request).unwrap_or_default();
        if was_delayed {
            // Put off again while it was due already, it comes twice and was noted once.
            causes.add(state.delayed.remove(request).unwrap_or(Cause::Requeue));
        }
        causes
    }

    /// To be called before the key is given back. If it is put off, `later` is the cause when its
    /// time comes, and not if something happens earlier.
    pub(crate) fn conclude(&self, record: Record, later: Option<Cause>) {
        let mut state = self.lock();
        state.counts.count(&record.outcome, record.took);
        if let Some(later) = later {
            state.delayed.insert(record.request.clone(), later);
        }
        let oldest = (state.records.len() == MAX_RECORDS).then(|| state.records.pop_front());
        state.records.push_back(record);
        drop(state);
        // It may be the last to have its objects.
        drop(oldest);
    }

    /// How often reconciles ended how, and how long they took.
    pub(crate) fn counts(&self) -> ReconcileCounts {
        self.lock().counts.clone()
    }

    /// The last ones, the latest first.
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
            outcome: Outcome::Done,
        }
    }

    #[test]
    fn a_key_keeps_its_first_causes_and_counts_the_others() {
        let (history, request) = (ReconcileHistory::default(), Request::new("n", "a"));
        let item = Item::parse(br#"{"metadata":{"namespace":"n","name":"a"}}"#.as_slice()).unwrap();
        history.note(
            &request,
            Cause::of_event(&"Pod".into(), &ObjectEvent::Added { item, is_initial: false }),
        );
        for _ in 0..5 {
            history.note(&request, Cause::Channel);
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
    fn a_key_that_was_put_off_has_its_cause_when_its_time_comes() {
        let (history, request) = (ReconcileHistory::default(), Request::new("n", "a"));
        history.conclude(record(&request), Some(Cause::Retry(3)));
        history.note(&request, Cause::Channel);
        assert_eq!(history.take(&request, false).to_string(), "sent through a channel");
        assert_eq!(history.take(&request, true).to_string(), "failure 3");
    }
}
