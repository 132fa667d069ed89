//! [`ReviewMetrics`]: the metrics of a webhook server, under controller-runtime's names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use crate::metrics::{DurationHistogram, Families};

/// See the [module documentation](self). Clones share their counts; a webhook is identified by its
/// path.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReviewMetrics(Arc<Mutex<BTreeMap<String, WebhookCounts>>>);

#[derive(Debug)]
struct WebhookCounts {
    codes: BTreeMap<u16, u64>,
    in_flight: u64,
    latencies: Histogram,
}

impl ReviewMetrics {
    /// Adds a webhook, with all counts at zero.
    pub(super) fn add(&self, path: &str) {
        let webhook = WebhookCounts {
            codes: [(200, 0), (500, 0)].into(),
            in_flight: 0,
            latencies: DurationHistogram::default().0,
        };
        self.lock().insert(path.to_owned(), webhook);
    }

    /// Counts a review as in flight until the returned guard is dropped.
    pub(super) fn begin(&self, path: &str) -> InFlight {
        self.change(path, |webhook| webhook.in_flight += 1);
        InFlight { metrics: self.clone(), path: path.to_owned(), began: Instant::now() }
    }

    pub(crate) fn encode(&self, families: &mut Families<'_>) -> fmt::Result {
        let webhooks = self.lock();
        let responses = webhooks.iter().flat_map(|(path, webhook)| {
            webhook.codes.iter().map(move |(code, count)| {
                ([("webhook", path.clone()), ("code", code.to_string())], *count)
            })
        });
        families.counter(
            "controller_runtime_webhook_requests_total",
            "Reviews by path and code of the response",
            responses,
        )?;
        let in_flight = webhooks.iter().map(|(path, it)| ([("webhook", path)], it.in_flight));
        families.gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Reviews without a response yet",
            in_flight,
        )?;
        families.histogram(
            "controller_runtime_webhook_latency_seconds",
            "Durations of reviews",
            webhooks.iter().map(|(path, it)| ([("webhook", path)], &it.latencies)),
        )
    }

    fn change(&self, path: &str, change: impl FnOnce(&mut WebhookCounts)) {
        if let Some(webhook) = self.lock().get_mut(path) {
            change(webhook);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, WebhookCounts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A review without a response yet. A review that is dropped without a response has no code.
pub(super) struct InFlight {
    metrics: ReviewMetrics,
    path: String,
    began: Instant,
}

impl InFlight {
    pub(super) fn responded(self, code: StatusCode) {
        let latency = self.began.elapsed();
        self.metrics.change(&self.path, |webhook| {
            *webhook.codes.entry(code.as_u16()).or_default() += 1;
            webhook.latencies.observe(latency.as_secs_f64());
        });
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.change(&self.path, |webhook| webhook.in_flight -= 1);
    }
}
