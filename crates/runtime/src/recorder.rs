//! [`Recorder`]: tells people what a controller does, as Events beside the objects it is about.
//!
//! Telling never holds up a reconcile: an event goes into a bounded queue and is written by a task
//! of its own. When the queue is full the event is dropped and counted, since events are new_event and
//! not state. What is written is thinned first (see [`correlator`]).
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
//! Without a manager, as anybody with a client and tasks of their own:
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

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time},
    jiff,
};
use keel::{Backoff, Clock, Entropy, Tasks, Timestamp};
use kube_client::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use kube_core::Resource;
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use correlator::{Correlator, Decision, NewEvent};

/// Events that wait to be written; more than a burst of reconciles makes.
const QUEUE_CAPACITY: usize = 1000;

/// Upstream gives up on an event after a dozen tries; five with a growing pause are a minute.
const MAX_ATTEMPTS: u32 = 5;

/// For what is still to be told when it is time to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether somebody should worry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    /// All is well.
    Normal,
    /// Something is not as it should be.
    Warning,
}

impl EventType {
    /// As the wire has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Who tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// The controller, such as `example.com/bucket-operator`.
    pub controller: String,
    /// Which of its replicas.
    pub instance: String,
}

impl Reporter {
    /// A replica of a controller.
    pub fn new(controller: &str, instance: &str) -> Self {
        Self { controller: controller.to_owned(), instance: instance.to_owned() }
    }
}

/// See the [module documentation](self). Clones write to the same queue.
#[derive(Debug, Clone)]
pub struct Recorder {
    queue: mpsc::Sender<NewEvent>,
    dropped: Arc<AtomicU64>,
    clock: Clock,
}

impl Recorder {
    /// Starts the task that writes, as one of `tasks`.
    pub fn start(
        client: Client,
        reporter: Reporter,
        clock: &Clock,
        entropy: &Entropy,
        tasks: &Tasks,
    ) -> Self {
        let (queue, new_event) = mpsc::channel(QUEUE_CAPACITY);
        let dropped = Arc::default();
        let writer = Writer {
            client,
            reporter,
            correlator: Correlator::default(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            dropped: Arc::clone(&dropped),
        };
        let stop = tasks.shutdown();
        tasks.spawn("event recorder", writer.run(new_event, stop));
        Self { queue, dropped, clock: clock.clone() }
    }

    /// Tells something about an object.
    pub fn record<K>(&self, regarding: &K, event_type: EventType, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        self.record_about(regarding.object_ref(&()), event_type, reason, message);
    }

    /// Tells something about an object of which only the reference is known.
    pub fn record_about(
        &self,
        regarding: ObjectReference,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        let new_event = NewEvent {
            regarding,
            event_type,
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: self.clock.now(),
        };
        if self.queue.try_send(new_event).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many events were not written: the queue was full, the server refused them, or they were
    /// too many about one object, in which case the count of the next one like it includes them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Goes on to process how many when the recorder is gone.
    pub(crate) fn drop_count(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.dropped)
    }
}

/// Writes what the recorder was told.
struct Writer {
    client: Client,
    reporter: Reporter,
    correlator: Correlator,
    clock: Clock,
    entropy: Entropy,
    dropped: Arc<AtomicU64>,
}

impl Writer {
    /// Until everybody who could process something is gone, or `stop`: then what was told before is
    /// written as long as [`STOP_TIMEOUT`] allow, whatever the server does.
    async fn run(mut self, mut queue: mpsc::Receiver<NewEvent>, stop: impl Future<Output = ()>) {
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
            let processing = self.process(new_event);
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
        let decision = self.correlator.decide(&new_event);
        if matches!(decision, Decision::Spam) || !self.write(&new_event, decision).await {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn write(&mut self, new_event: &NewEvent, mut decision: Decision) -> bool {
        let pauses = (Duration::from_millis(500), Duration::from_secs(20));
        let mut backoff = Backoff::new(pauses.0, pauses.1, self.entropy.clone());
        while backoff.failures() < MAX_ATTEMPTS {
            let written = match &decision {
                Decision::Spam => return false,
                Decision::New { key, message, count, first } => {
                    self.create(new_event, key, message, (*count, *first)).await
                }
                Decision::Again { name, count, message, .. } => {
                    self.count(new_event, name, *count, message).await
                }
            };
            let error = match written {
                Ok(()) => return true,
                Err(error) => error,
            };
            match (&error, decision) {
                // The event has expired, or somebody has cleaned up: process it afresh.
                (
                    kube_client::Error::Api(status),
                    Decision::Again { key, message, count, first, .. },
                ) if status.is_not_found() => {
                    decision = Decision::New { key, message, count, first };
                    continue;
                }
                // The server has an opinion, such as that the namespace is going; it will not
                // change.
                (kube_client::Error::Api(status), _) if (400..429).contains(&status.code) => {
                    tracing::warn!(reason = %new_event.reason, %error, "an event was refused");
                    return false;
                }
                (_, unchanged) => decision = unchanged,
            }
            self.clock.sleep(backoff.next_delay()).await;
        }
        tracing::warn!(reason = %new_event.reason, "an event was given up");
        false
    }

    /// `history` is how often it has happened, and when first.
    async fn create(
        &mut self,
        new_event: &NewEvent,
        key: &str,
        message: &str,
        history: (i32, Timestamp),
    ) -> kube_client::Result<()> {
        let event = self.event(new_event, message, history);
        self.api(new_event).create(&PostParams::default(), &event).await?;
        let name = event.metadata.name.unwrap_or_default();
        self.correlator.was_created(key, name, history.1);
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

    fn event(
        &self,
        new_event: &NewEvent,
        message: &str,
        (count, first): (i32, Timestamp),
    ) -> Event {
        // Names of events are the object's with a suffix; the object's may fill the whole length.
        let of_object: String =
            new_event.regarding.name.as_deref().unwrap_or("unknown").chars().take(236).collect();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{of_object}.{:016x}", self.entropy.next_u64())),
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
            reporting_instance: Some(self.reporter.instance.clone()),
            source: Some(EventSource {
                component: Some(self.reporter.controller.clone()),
                host: None,
            }),
            type_: Some(new_event.event_type.as_str().to_owned()),
            ..Event::default()
        }
    }
}

/// Events about objects without a namespace are in `default`.
fn namespace(regarding: &ObjectReference) -> &str {
    regarding.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or("default")
}

fn time(at: Timestamp) -> Time {
    Time(jiff::Timestamp::from_second(at.seconds()).unwrap_or_default())
}
