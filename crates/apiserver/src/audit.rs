//! Audit: a record of who did what, as `audit.k8s.io/v1` Events.
//!
//! [`Policy`] decides which requests are recorded and how much of them. The [`AuditContext`] of a
//! request collects its event, and gives it at each stage to the [`Auditor`], which passes it to the
//! backends: a file that is rotated, a webhook, or both.
//!
//! ```text
//! request ─▶ authenticated ──────▶ … ─▶ response ──────────▶ end of a watch
//!            RequestReceived           ResponseStarted (long-running requests)
//!                                      ResponseComplete ·····▶ ResponseComplete
//! ```
//!
//! No event is lost silently. In the modes `blocking` and `blocking-strict`, the request waits until
//! its event is stored, at most until its deadline; in the mode `batch`, events are buffered. Events
//! for which nobody waits any longer, such as those of clients that have left, are buffered in all
//! modes. An event that does not fit into a buffer is dropped, counted in
//! `apiserver_audit_error_total` and logged. Buffers are emptied when the plane stops.

pub mod policy;
mod event;
mod objects;
pub(crate) mod context;
mod backend;
mod buffer;
mod error_log;
mod log_backend;
mod log_writer;
mod legacy_format;
mod truncation;
mod webhook_backend;
mod metrics;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use backend::Backend;
use keel::{Clock, Entropy, Tasks};
use metrics::AuditMetrics;
use policy::Policy;

pub use backend::{BatchSettings, Delivery, Mode, Throttle};
pub(crate) use context::AuditContext;
pub use log_backend::{LogError, LogFormat, LogSettings};
pub use truncation::Truncation;
pub use webhook_backend::WebhookSettings;

/// The header with the audit ID, of the request and of the response.
pub(crate) const ID: HeaderName = HeaderName::from_static("audit-id");

/// The audit ID of a request: that of its header, or a new one.
pub(crate) fn id(entropy: &Entropy, headers: &HeaderMap) -> HeaderValue {
    let new_id = || HeaderValue::try_from(entropy.uuid()).expect("a UUID is ASCII");
    headers.get(ID).filter(|it| !it.is_empty()).cloned().unwrap_or_else(new_id)
}

/// The settings of an audited plane.
#[derive(Debug, Clone)]
pub struct AuditSettings {
    /// Which requests are recorded.
    pub policy: Arc<Policy>,
    /// The file of events, if there is one.
    pub log: Option<LogSettings>,
    /// The webhook that receives events, if there is one.
    pub webhook: Option<WebhookSettings>,
}

/// Evaluates the policy and passes events to the backends.
pub(crate) struct Auditor {
    policy: Arc<Policy>,
    backends: Vec<Backend>,
    metrics: AuditMetrics,
    clock: Clock,
}

impl Auditor {
    /// Opens the backends; None if the plane is not audited. `tasks` stop after all requests.
    pub(crate) fn start(
        settings: Option<&AuditSettings>,
        clock: &Clock,
        entropy: &Entropy,
        tasks: &Tasks,
        registry: &mut Registry,
    ) -> Result<Option<Arc<Self>>, LogError> {
        let metrics = AuditMetrics::new(registry);
        let Some(AuditSettings { policy, log, webhook }) = settings else { return Ok(None) };
        let mut backends = Vec::new();
        if let Some(log) = log {
            backends.push(Backend::log(log, clock, tasks, &metrics)?);
        }
        if let Some(webhook) = webhook {
            backends.push(Backend::webhook(webhook, clock, entropy, tasks, &metrics));
        }
        if backends.is_empty() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Self {
            policy: Arc::clone(policy),
            backends,
            metrics,
            clock: clock.clone(),
        })))
    }

    /// Whether the event that a read was received may be stored with the next event of the read, in
    /// one write, if the read waits for nothing in between. Until then the read has no effect.
    fn can_defer(&self) -> bool {
        self.backends.iter().all(Backend::can_defer)
    }

    /// Passes an event to all backends. False if one failed and demands that the request fails.
    ///
    /// A backend for which the event has to wait gets it later, from a buffer, if the time is
    /// `deadline` or if the future is dropped.
    async fn process(&self, event: &Bytes, deadline: Option<Instant>) -> bool {
        if let [backend] = &self.backends[..] {
            return backend.process(event, deadline).await;
        }
        // All have the event before anything waits, since the future may be dropped then.
        let stored = self.backends.iter().map(|backend| backend.process(event, deadline));
        join_all(stored).await.into_iter().all(|is_stored| is_stored)
    }

    /// Passes an event to all backends where nothing can wait for them.
    fn process_detached(&self, event: &Bytes) {
        for backend in &self.backends {
            backend.process_detached(event);
        }
    }
}

impl std::fmt::Debug for Auditor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auditor").finish_non_exhaustive()
    }
}
