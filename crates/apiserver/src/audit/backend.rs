//! [`Backend`]: a destination of events, and how events get there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::buffer::{Buffer, Stored};
use super::error_log::ErrorLog;
use super::log_backend::{LogBackend, LogError, LogSettings};
use super::log_writer::LogWriter;
use super::metrics::AuditMetrics;
use super::truncation::Truncation;
use super::webhook_backend::{WebhookBackend, WebhookSettings};
use keel::{Clock, Entropy, Tasks};

/// Whether requests wait for their events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Events are buffered. An event that does not fit is dropped and counted.
    Batch,
    /// A request waits until its event is stored, or cannot be stored.
    Blocking,
    /// Like `Blocking`, and a request whose first event cannot be stored fails.
    BlockingStrict,
}

/// The limits of the mode [`Mode::Batch`].
#[derive(Debug, Clone, PartialEq)]
pub struct BatchSettings {
    /// The number of events in the buffer.
    pub buffer_size: usize,
    /// The maximum number of events in a batch.
    pub max_size: usize,
    /// The maximum time for which a batch waits for more events.
    pub max_wait: Duration,
    /// The maximum rate of batches, if it is limited.
    pub throttle: Option<Throttle>,
}

/// A rate of batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throttle {
    /// Batches per second.
    pub qps: f32,
    /// The batches that are sent at once after a pause.
    pub burst: usize,
}

/// How events get to a backend.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// Whether requests wait.
    pub mode: Mode,
    /// The limits of the buffer, for [`Mode::Batch`].
    pub batch: BatchSettings,
    /// The limits of the size of events and batches, if there are any.
    pub truncation: Option<Truncation>,
}

impl Delivery {
    /// The default of files: requests wait for the write.
    pub fn of_log() -> Self {
        let batch = BatchSettings {
            buffer_size: 10_000,
            max_size: 1,
            max_wait: Duration::ZERO,
            throttle: None,
        };
        Self { mode: Mode::Blocking, batch, truncation: None }
    }

    /// The default of webhooks: batches.
    pub fn of_webhook() -> Self {
        let batch = BatchSettings {
            buffer_size: 10_000,
            max_size: 400,
            max_wait: Duration::from_secs(30),
            throttle: Some(Throttle { qps: 10.0, burst: 15 }),
        };
        Self { mode: Mode::Batch, batch, truncation: None }
    }
}

/// The place where a backend stores events.
pub(super) enum Target {
    Log(LogBackend),
    Webhook(WebhookBackend),
}

impl Target {
    /// Stores events, each a line of JSON. The error is a message.
    pub(super) async fn store(&self, events: &[Bytes]) -> Result<(), String> {
        match self {
            Self::Log(log) => log.write(events),
            Self::Webhook(webhook) => webhook.send(events).await,
        }
    }
}

/// See the [module documentation](self).
pub(super) struct Backend {
    mode: Mode,
    sink: Sink,
    /// The limit of the size of events, and the log of those that exceed it.
    truncation: Option<(Truncation, ErrorLog)>,
}

enum Sink {
    Buffered(Buffer),
    /// Requests wait for a write.
    File {
        log: LogWriter,
        errors: Arc<ErrorLog>,
    },
    /// Requests wait for another server. `abandoned` has the events whose requests do not wait.
    Server {
        target: Arc<Target>,
        errors: Arc<ErrorLog>,
        abandoned: Buffer,
    },
}

/// The limits of the buffer of events whose requests do not wait.
const ABANDONED: BatchSettings =
    BatchSettings { buffer_size: 10_000, max_size: 400, max_wait: Duration::ZERO, throttle: None };

/// Hands an event to a buffer when it is dropped, unless the event is stored.
struct Unfinished<'a> {
    event: Option<&'a Bytes>,
    buffer: &'a Buffer,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(event) = self.event {
            self.buffer.add(event.clone());
        }
    }
}

impl Backend {
    /// The backend of a file.
    pub(super) fn log(
        settings: &LogSettings,
        clock: &Clock,
        tasks: &Tasks,
        metrics: &AuditMetrics,
    ) -> Result<Self, LogError> {
        let target = Target::Log(LogBackend::open(settings, clock)?);
        let errors = ErrorLog::new("log", metrics.errors_of("log"), clock);
        Ok(Self::new(target, errors, &settings.delivery, clock, tasks, metrics))
    }

    /// The backend of a webhook.
    pub(super) fn webhook(
        settings: &WebhookSettings,
        clock: &Clock,
        entropy: &Entropy,
        tasks: &Tasks,
        metrics: &AuditMetrics,
    ) -> Self {
        let target = Target::Webhook(WebhookBackend::new(settings, clock, entropy, tasks));
        let errors = ErrorLog::new("webhook", metrics.errors_of("webhook"), clock);
        Self::new(target, errors, &settings.delivery, clock, tasks, metrics)
    }

    fn new(
        target: Target,
        errors: ErrorLog,
        delivery: &Delivery,
        clock: &Clock,
        tasks: &Tasks,
        metrics: &AuditMetrics,
    ) -> Self {
        let errors = Arc::new(errors);
        let buffer = |settings: &BatchSettings, target: Arc<Target>| {
            let dropped = ErrorLog::new("buffered", metrics.errors_of("buffered"), clock);
            let stored =
                Stored { target, errors: Arc::clone(&errors), truncation: delivery.truncation };
            Buffer::start(settings, stored, dropped, clock, tasks)
        };
        let sink = match (delivery.mode, target) {
            (Mode::Batch, target) => Sink::Buffered(buffer(&delivery.batch, Arc::new(target))),
            (_, Target::Log(log)) => Sink::File { log: LogWriter::start(log, tasks), errors },
            (_, target @ Target::Webhook(_)) => {
                let target = Arc::new(target);
                let abandoned = buffer(&ABANDONED, Arc::clone(&target));
                Sink::Server { target, errors, abandoned }
            }
        };
        let truncation = delivery
            .truncation
            .map(|it| (it, ErrorLog::new("truncate", metrics.errors_of("truncate"), clock)));
        Self { mode: delivery.mode, sink, truncation }
    }

    /// Whether two events may be passed as one: lines of a file are, unless their size is limited, and
    /// messages are not.
    pub(super) fn can_defer(&self) -> bool {
        let is_file = matches!(self.sink, Sink::File { .. });
        is_file && self.truncation.is_none() && self.mode == Mode::Blocking
    }

    /// The event as the backend stores it; None if it is too large, which is not a failure.
    fn limited(&self, event: &Bytes) -> Option<Bytes> {
        let Some((truncation, errors)) = &self.truncation else { return Some(event.clone()) };
        let limited = truncation.apply(event);
        if limited.is_err() {
            errors.add(1, "event is too large even after truncating");
        }
        limited.ok()
    }

    /// Stores or buffers an event. False if it failed and the request should fail.
    ///
    /// An event is stored or buffered even if the future is dropped after it was polled.
    pub(super) async fn process(&self, event: &Bytes, deadline: Option<Instant>) -> bool {
        let Some(event) = self.limited(event) else { return true };
        match &self.sink {
            Sink::Buffered(buffer) => {
                buffer.add(event);
                true
            }
            // Usually it ends in memory of the operating system, in microseconds. A disk that is
            // slower than the log grows delays requests.
            Sink::File { log, errors } => self.is_success(errors, log.write(&event).await),
            Sink::Server { target, errors, abandoned } => {
                let unfinished = Unfinished { event: Some(&event), buffer: abandoned };
                match send(target, unfinished, &event, deadline).await {
                    Some(stored) => self.is_success(errors, stored),
                    None => true,
                }
            }
        }
    }

    /// Stores or buffers an event for which nobody waits.
    pub(super) fn process_detached(&self, event: &Bytes) {
        let Some(event) = self.limited(event) else { return };
        match &self.sink {
            Sink::Buffered(buffer) | Sink::Server { abandoned: buffer, .. } => buffer.add(event),
            Sink::File { log, errors } => {
                self.is_success(errors, log.write_now(&event));
            }
        }
    }

    /// Whether the request continues after this result.
    fn is_success(&self, errors: &ErrorLog, stored: Result<(), String>) -> bool {
        match stored {
            Ok(()) => true,
            Err(error) => {
                errors.add(1, &error);
                self.mode != Mode::BlockingStrict
            }
        }
    }
}

/// Sends an event to another server. None if it is not sent until `deadline`: it is buffered then, and
/// the server may get it twice, since nobody knows whether it has read it.
async fn send(
    target: &Target,
    mut unfinished: Unfinished<'_>,
    event: &Bytes,
    deadline: Option<Instant>,
) -> Option<Result<(), String>> {
    let stored = target.store(std::slice::from_ref(event));
    let stored = match deadline {
        None => stored.await,
        Some(deadline) => timeout_at(deadline, stored).await.ok()?,
    };
    unfinished.event = None;
    Some(stored)
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::outbound::webhook_endpoint::WebhookEndpoint;

    #[tokio::test]
    async fn the_events_for_which_nobody_waits_are_limited_and_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        let config = "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                      contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n";
        std::fs::write(&path, config).unwrap();
        let settings = WebhookSettings {
            endpoint: WebhookEndpoint::read(&path).unwrap(),
            initial_backoff: Duration::from_secs(1),
            delivery: Delivery { mode: Mode::Blocking, ..Delivery::of_webhook() },
        };
        let (clock, tasks) = (Clock::system(), Tasks::new());
        let mut registry = Registry::default();
        let metrics = AuditMetrics::new(&mut registry);
        let entropy = Entropy::seeded(1);
        let backend = Backend::webhook(&settings, &clock, &entropy, &tasks, &metrics);
        for _ in 0..ABANDONED.buffer_size + 5 {
            backend.process_detached(&Bytes::from_static(b"{}\n"));
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("{plugin=\"buffered\"} 5\n"), "{text}");
    }
}
