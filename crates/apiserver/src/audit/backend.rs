//! [`Backend`]: a destination of events, and how events get there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::buffer::Buffer;
use super::error_log::ErrorLog;
use super::log_backend::{LogBackend, LogError, LogSettings};
use super::metrics::AuditMetrics;
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
        Self { mode: Mode::Blocking, batch }
    }

    /// The default of webhooks: batches.
    pub fn of_webhook() -> Self {
        let batch = BatchSettings {
            buffer_size: 10_000,
            max_size: 400,
            max_wait: Duration::from_secs(30),
            throttle: Some(Throttle { qps: 10.0, burst: 15 }),
        };
        Self { mode: Mode::Batch, batch }
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
}

enum Sink {
    Buffered(Buffer),
    Direct { target: Arc<Target>, errors: Arc<ErrorLog> },
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
        let (target, errors) = (Arc::new(target), Arc::new(errors));
        let sink = match delivery.mode {
            Mode::Batch => {
                let dropped = ErrorLog::new("buffered", metrics.errors_of("buffered"), clock);
                Sink::Buffered(Buffer::start(
                    &delivery.batch,
                    target,
                    errors,
                    dropped,
                    clock,
                    tasks,
                ))
            }
            Mode::Blocking | Mode::BlockingStrict => Sink::Direct { target, errors },
        };
        Self { mode: delivery.mode, sink }
    }

    /// Whether an event has to wait for another server.
    pub(super) fn waits(&self) -> bool {
        matches!(&self.sink, Sink::Direct { target, .. } if matches!(**target, Target::Webhook(_)))
    }

    /// Stores or buffers an event without waiting; None if it has to wait.
    ///
    /// A write to a file is done here: it ends in memory of the operating system, in about a
    /// microsecond.
    pub(super) fn process_now(&self, event: &Bytes) -> Option<bool> {
        match &self.sink {
            Sink::Buffered(buffer) => {
                buffer.add(event.clone());
                Some(true)
            }
            Sink::Direct { target, errors } => match &**target {
                Target::Log(log) => {
                    Some(self.is_success(errors, log.write(std::slice::from_ref(event))))
                }
                Target::Webhook(_) => None,
            },
        }
    }

    /// Stores an event. False if it failed and the request should fail.
    pub(super) async fn process(&self, event: &Bytes) -> bool {
        match &self.sink {
            Sink::Buffered(buffer) => {
                buffer.add(event.clone());
                true
            }
            Sink::Direct { target, errors } => {
                let stored = target.store(std::slice::from_ref(event)).await;
                self.is_success(errors, stored)
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
