//! [`Recorder`]: writes Events about the objects of a controller.
//!
//! Recording never delays a reconcile: an event is put into a bounded queue and written by a task.
//! If the queue is full, the event is dropped and counted. Events are aggregated before they are
//! written, see [`correlator`].
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use runtime::{Manager, recorder::EventType};
//!
//! # fn example(manager: &Manager, map: &ConfigMap) {
//! let recorder = manager.recorder("example.com/bucket-operator");
//! recorder.record(map, EventType::Warning, "NoBucket", "the bucket is gone");
//! # }
//! ```
//!
//! Without a manager:
//!
//! ```no_run
//! use runtime::{Client, keel::{Clock, Entropy, Tasks}, recorder::{Recorder, Reporter}};
//!
//! # fn example(client: Client) {
//! let reporter = Reporter::new("example.com/bucket-operator", "pod-0");
//! let (clock, entropy, tasks) = (Clock::system(), Entropy::system(), Tasks::new());
//! let recorder = Recorder::start(client, reporter, &clock, &entropy, &tasks);
//! assert_eq!(recorder.dropped(), 0);
//! # }
//! ```

pub mod correlator;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use k8s_openapi::jiff;
use kube_client::api::{Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_core::Resource;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use correlator::{Correlator, Decision, NewEvent};
use keel::{Backoff, Clock, Entropy, Tasks, Timestamp};

/// The number of events in the queue.
const QUEUE_CAPACITY: usize = 1000;

/// The number of attempts to write an event. With growing delays they take up to 16 seconds; client-go
/// tries twelve times.
const MAX_ATTEMPTS: u32 = 5;

/// The time for writing queued events when the recorder is stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    /// An expected change.
    Normal,
    /// A problem.
    Warning,
}

impl EventType {
    /// The value in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The reporting controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// The name of the controller, such as `example.com/bucket-operator`.
    pub controller: String,
    /// The replica of the controller.
    pub instance: String,
}

impl Reporter {
    /// A replica of a controller.
    pub fn new(controller: &str, instance: &str) -> Self {
        Self { controller: controller.to_owned(), instance: instance.to_owned() }
    }
}

/// See the [module documentation](self). Clones share one queue.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// The events are boxed: an empty queue has memory for 32 elements.
    queue: mpsc::Sender<Box<NewEvent>>,
    dropped: Arc<AtomicU64>,
    /// The number of recorded events that were not sent yet, not even in vain.
    unsent: Arc<AtomicUsize>,
    clock: Clock,
}

impl Recorder {
    /// Starts the writing task as one of `tasks`.
    pub fn start(
        client: Client,
        reporter: Reporter,
        clock: &Clock,
        entropy: &Entropy,
        tasks: &Tasks,
    ) -> Self {
        let (queue, new_event) = mpsc::channel(QUEUE_CAPACITY);
        let (dropped, unsent) = (Arc::default(), Arc::default());
        let writer = Writer {
            client,
            reporter,
            correlator: Correlator::default(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            last_number: entropy.below(1 << NUMBER_BITS),
            dropped: Arc::clone(&dropped),
            unsent: Arc::clone(&unsent),
        };
        let stop = tasks.shutdown();
        tasks.spawn("event recorder", writer.run(new_event, stop));
        Self { queue, dropped, unsent, clock: clock.clone() }
    }

    /// Records an event about an object.
    pub fn record<K>(&self, regarding: &K, event_type: EventType, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        self.record_about(regarding.object_ref(&()), event_type, reason, message);
    }

    /// Records an event about an object reference.
    pub fn record_about(
        &self,
        regarding: ObjectReference,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        self.record_from("", regarding, event_type, reason, message);
    }

    /// Records an event that a node reports, as a kubelet does: its name is the host of the source, and
    /// the reporting instance.
    ///
    /// ```no_run
    /// # use runtime::{Manager, recorder::EventType};
    /// # fn example(manager: &Manager) {
    /// let recorder = manager.recorder("kubelet");
    /// let pod = Default::default();
    /// recorder.record_from("node-1", pod, EventType::Normal, "Started", "Container started");
    /// # }
    /// ```
    pub fn record_from(
        &self,
        host: &str,
        regarding: ObjectReference,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        let new_event = Box::new(NewEvent {
            regarding,
            event_type,
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: self.clock.now(),
            host: host.to_owned(),
        });
        self.unsent.fetch_add(1, Ordering::Relaxed);
        if self.queue.try_send(new_event).is_err() {
            self.unsent.fetch_sub(1, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of events that were not written: the queue was full, the server refused them, or
    /// there were too many about one object; these are included in the count of the next similar
    /// event.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The counter of dropped events, which outlives the recorder.
    pub(crate) fn drop_count(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.dropped)
    }

    /// The counter of events that were not sent yet.
    pub(crate) fn unsent(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.unsent)
    }
}

/// Counts an event as not sent until it is dropped.
struct Unsent(Arc<AtomicUsize>);

impl Drop for Unsent {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The number of occurrences of an event, and the time of the first.
#[derive(Clone, Copy)]
struct Occurrences {
    count: i32,
    first: Timestamp,
}

/// Writes the recorded events.
struct Writer {
    client: Client,
    reporter: Reporter,
    correlator: Correlator,
    clock: Clock,
    entropy: Entropy,
    /// Distinguishes events of the same time.
    last_number: u64,
    dropped: Arc<AtomicU64>,
    unsent: Arc<AtomicUsize>,
}

/// The bits of an event's name that are not its time. The first number of a recorder is random, so
/// that the names of different recorders differ.
const NUMBER_BITS: u32 = 20;

impl Writer {
    /// Runs until all recorders are dropped, or `stop`. After `stop`, queued events are written for
    /// at most [`STOP_TIMEOUT`].
    async fn run(
        mut self,
        mut queue: mpsc::Receiver<Box<NewEvent>>,
        stop: impl Future<Output = ()>,
    ) {
        tokio::pin!(stop);
        let mut end = None;
        loop {
            let new_event = if end.is_some() {
                queue.try_recv().ok()
            } else {
                tokio::select! {
                    biased;
                    new_event = queue.recv() => new_event,
                    () = &mut stop => return,
                }
            };
            let Some(new_event) = new_event else { return };
            let processing = self.process(*new_event);
            tokio::pin!(processing);
            if end.is_none() {
                tokio::select! {
                    biased;
                    () = &mut processing => continue,
                    () = &mut stop => {}
                }
            }
            let end = *end.get_or_insert_with(|| Instant::now() + STOP_TIMEOUT);
            if timeout_at(end, processing).await.is_err() {
                return;
            }
        }
    }

    async fn process(&mut self, new_event: NewEvent) {
        let unsent = Unsent(Arc::clone(&self.unsent));
        let decision = self.correlator.decide(&new_event);
        if matches!(decision, Decision::Spam) || !self.write(&new_event, decision, unsent).await {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes an event, which counts as `unsent` during the first attempt.
    async fn write(
        &mut self,
        new_event: &NewEvent,
        mut decision: Decision,
        unsent: Unsent,
    ) -> bool {
        let mut unsent = Some(unsent);
        let (base, cap) = (Duration::from_millis(500), Duration::from_secs(20));
        let mut backoff = Backoff::new(base, cap, self.entropy.clone());
        while backoff.failures() < MAX_ATTEMPTS {
            let written = match &decision {
                Decision::Spam => return false,
                Decision::Create { key, message, count, first } => {
                    let occurrences = Occurrences { count: *count, first: *first };
                    self.create(new_event, key, message, occurrences).await
                }
                Decision::Update { name, count, message, .. } => {
                    self.count(new_event, name, *count, message).await
                }
            };
            let error = match written {
                Ok(()) => return true,
                Err(error) => error,
            };
            match (&error, decision) {
                // The event has expired or was deleted: create it again.
                (
                    kube_client::Error::Api(status),
                    Decision::Update { key, message, count, first, .. },
                ) if status.is_not_found() => {
                    decision = Decision::Create { key, message, count, first };
                    continue;
                }
                // The server refuses permanently.
                (kube_client::Error::Api(status), _) if (400..429).contains(&status.code) => {
                    let reason = &new_event.reason;
                    if is_namespace_terminating(status) || status.is_not_found() {
                        tracing::debug!(%reason, %error, "the namespace of an event is being deleted or gone");
                    } else {
                        tracing::warn!(%reason, %error, "an event was refused");
                    }
                    return false;
                }
                (_, unchanged) => decision = unchanged,
            }
            drop(unsent.take());
            self.clock.sleep(backoff.next_delay()).await;
        }
        tracing::warn!(reason = %new_event.reason, "an event could not be written");
        false
    }

    async fn create(
        &mut self,
        new_event: &NewEvent,
        key: &str,
        message: &str,
        occurrences: Occurrences,
    ) -> kube_client::Result<()> {
        let event = self.event(new_event, message, occurrences);
        self.api(new_event).create(&PostParams::default(), &event).await?;
        let name = event.metadata.name.unwrap_or_default();
        self.correlator.was_created(key, name, occurrences.first);
        Ok(())
    }

    async fn count(
        &self,
        new_event: &NewEvent,
        name: &str,
        count: i32,
        message: &str,
    ) -> kube_client::Result<()> {
        let patch =
            json!({"count": count, "message": message, "lastTimestamp": time(new_event.at)});
        let patch = Patch::Merge(patch);
        self.api(new_event).patch(name, &PatchParams::default(), &patch).await.map(drop)
    }

    fn api(&self, new_event: &NewEvent) -> Api<Event> {
        Api::namespaced(self.client.clone(), namespace(&new_event.regarding))
    }

    /// A suffix that grows with the time, so that the events of an object are listed in their order.
    fn name_suffix(&mut self, at: Timestamp) -> u64 {
        self.last_number = (self.last_number + 1) % (1 << NUMBER_BITS);
        let seconds = u64::try_from(at.seconds()).unwrap_or_default();
        let fraction = (u64::from(at.nanos()) << 12) / 1_000_000_000;
        (seconds << 12 | fraction) << NUMBER_BITS | self.last_number
    }

    fn event(
        &mut self,
        new_event: &NewEvent,
        message: &str,
        Occurrences { count, first }: Occurrences,
    ) -> Event {
        // The name of the object, a dot, and a suffix of 16 characters. A name has at most 253
        // characters.
        let object_name: String =
            new_event.regarding.name.as_deref().unwrap_or("unknown").chars().take(236).collect();
        let host = Some(new_event.host.clone()).filter(|host| !host.is_empty());
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{object_name}.{:016x}", self.name_suffix(new_event.at))),
                namespace: Some(namespace(&new_event.regarding).to_owned()),
                ..ObjectMeta::default()
            },
            count: Some(count),
            event_time: None::<MicroTime>,
            first_timestamp: Some(time(first)),
            last_timestamp: Some(time(new_event.at)),
            involved_object: new_event.regarding.clone(),
            message: Some(message.to_owned()),
            reason: Some(new_event.reason.clone()),
            reporting_component: Some(self.reporter.controller.clone()),
            reporting_instance: Some(
                host.clone().unwrap_or_else(|| self.reporter.instance.clone()),
            ),
            source: Some(EventSource { component: Some(self.reporter.controller.clone()), host }),
            type_: Some(new_event.event_type.as_str().to_owned()),
            ..Event::default()
        }
    }
}

/// Events about cluster-scoped objects are in `default`.
fn namespace(regarding: &ObjectReference) -> &str {
    regarding.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or("default")
}

/// Whether the server has refused an object because its namespace is being deleted.
fn is_namespace_terminating(status: &kube_core::Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

fn time(at: Timestamp) -> Time {
    Time(jiff::Timestamp::from_second(at.seconds()).unwrap_or_default())
}
