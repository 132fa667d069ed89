//! [`Recorder`]: tells people what a controller does, as Events beside the objects it is about.
//!
//! Telling never holds up a reconcile: an event goes into a bounded queue and is written by a task
//! of its own. When the queue is full the event is dropped and counted, since events are news and
//! not state. What is written is thinned first (see [`correlator`]).
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use runtime::{Manager, recorder::Severity};
//!
//! # fn example(manager: &Manager, map: &ConfigMap) {
//! let recorder = manager.recorder("example.com/bucket-operator");
//! recorder.record(map, Severity::Warning, "NoBucket", "the bucket is gone");
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

use correlator::{Correlator, Decision, News};

/// Events that wait to be written; more than a burst of reconciles makes.
const QUEUE: usize = 1000;

/// Upstream gives up on an event after a dozen tries; five with a growing pause are a minute.
const TRIES: u32 = 5;

/// For what is still to be told when it is time to stop.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Whether somebody should worry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// All is well.
    Normal,
    /// Something is not as it should be.
    Warning,
}

impl Severity {
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
    queue: mpsc::Sender<News>,
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
        let (queue, news) = mpsc::channel(QUEUE);
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
        tasks.spawn("event recorder", writer.run(news, stop));
        Self { queue, dropped, clock: clock.clone() }
    }

    /// Tells something about an object.
    pub fn record<K>(&self, regarding: &K, severity: Severity, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        self.record_about(regarding.object_ref(&()), severity, reason, message);
    }

    /// Tells something about an object of which only the reference is known.
    pub fn record_about(
        &self,
        regarding: ObjectReference,
        severity: Severity,
        reason: &str,
        message: &str,
    ) {
        let news = News {
            regarding,
            severity,
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: self.clock.now(),
        };
        if self.queue.try_send(news).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many events were not written: the queue was full, the server refused them, or they were
    /// too many about one object, in which case the count of the next one like it includes them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Goes on to tell how many when the recorder is gone.
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
    /// Until everybody who could tell something is gone, or `stop`: then what was told before is
    /// written as long as [`LAST_WORDS`] allow, whatever the server does.
    async fn run(mut self, mut queue: mpsc::Receiver<News>, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut end = None;
        loop {
            let news = if end.is_some() {
                queue.try_recv().ok()
            } else {
                tokio::select! {
                    biased;
                    news = queue.recv() => news,
                    () = &mut stop => return,
                }
            };
            let Some(news) = news else { return };
            let telling = self.tell(news);
            tokio::pin!(telling);
            if end.is_none() {
                tokio::select! {
                    biased;
                    () = &mut telling => continue,
                    () = &mut stop => {}
                }
            }
            let end = *end.get_or_insert_with(|| Instant::now() + LAST_WORDS);
            if timeout_at(end, telling).await.is_err() {
                return;
            }
        }
    }

    async fn tell(&mut self, news: News) {
        let decision = self.correlator.decide(&news);
        if matches!(decision, Decision::Spam) || !self.write(&news, decision).await {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn write(&mut self, news: &News, mut decision: Decision) -> bool {
        let pauses = (Duration::from_millis(500), Duration::from_secs(20));
        let mut backoff = Backoff::new(pauses.0, pauses.1, self.entropy.clone());
        while backoff.failures() < TRIES {
            let written = match &decision {
                Decision::Spam => return false,
                Decision::New { key, message, count, first } => {
                    self.create(news, key, message, (*count, *first)).await
                }
                Decision::Again { name, count, message, .. } => {
                    self.count(news, name, *count, message).await
                }
            };
            let error = match written {
                Ok(()) => return true,
                Err(error) => error,
            };
            match (&error, decision) {
                // The event has expired, or somebody has cleaned up: tell it afresh.
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
                    tracing::warn!(reason = %news.reason, %error, "an event was refused");
                    return false;
                }
                (_, unchanged) => decision = unchanged,
            }
            self.clock.sleep(backoff.next_delay()).await;
        }
        tracing::warn!(reason = %news.reason, "an event was given up");
        false
    }

    /// `history` is how often it has happened, and when first.
    async fn create(
        &mut self,
        news: &News,
        key: &str,
        message: &str,
        history: (i32, Timestamp),
    ) -> kube_client::Result<()> {
        let event = self.event(news, message, history);
        self.api(news).create(&PostParams::default(), &event).await?;
        let name = event.metadata.name.unwrap_or_default();
        self.correlator.was_created(key, name, history.1);
        Ok(())
    }

    async fn count(
        &self,
        news: &News,
        name: &str,
        count: i32,
        message: &str,
    ) -> kube_client::Result<()> {
        let patch = json!({"count": count, "message": message, "lastTimestamp": time(news.at)});
        let patch = Patch::Merge(patch);
        self.api(news).patch(name, &PatchParams::default(), &patch).await.map(drop)
    }

    fn api(&self, news: &News) -> Api<Event> {
        Api::namespaced(self.client.clone(), namespace(&news.regarding))
    }

    fn event(&self, news: &News, message: &str, (count, first): (i32, Timestamp)) -> Event {
        // Names of events are the object's with a suffix; the object's may fill the whole length.
        let of_object: String =
            news.regarding.name.as_deref().unwrap_or("unknown").chars().take(236).collect();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{of_object}.{:016x}", self.entropy.next_u64())),
                namespace: Some(namespace(&news.regarding).to_owned()),
                ..ObjectMeta::default()
            },
            count: Some(count),
            event_time: None::<MicroTime>,
            first_timestamp: Some(time(first)),
            last_timestamp: Some(time(news.at)),
            involved_object: news.regarding.clone(),
            message: Some(message.to_owned()),
            reason: Some(news.reason.clone()),
            reporting_component: Some(self.reporter.controller.clone()),
            reporting_instance: Some(self.reporter.instance.clone()),
            source: Some(EventSource {
                component: Some(self.reporter.controller.clone()),
                host: None,
            }),
            type_: Some(news.severity.as_str().to_owned()),
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
