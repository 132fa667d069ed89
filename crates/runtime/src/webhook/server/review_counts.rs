//! [`ReviewCounts`]: what a webhook server counts, under controller-runtime's metric names.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::StatusCode;
use informer::work_queue::Histogram;
use tokio::time::Instant;

use crate::metrics::{head, histogram, label, line};

/// See the [module documentation](self). Clones are the same; a webhook is known by its path.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReviewCounts(Arc<Mutex<BTreeMap<String, Webhook>>>);

#[derive(Debug, Default)]
struct Webhook {
    codes: BTreeMap<u16, u64>,
    in_flight: u64,
    latencies: Histogram,
}

impl ReviewCounts {
    /// Shows a webhook from now on, although nobody has called it yet.
    pub(super) fn expect(&self, path: &str) {
        let webhook = Webhook { codes: [(200, 0), (500, 0)].into(), ..Webhook::default() };
        self.lock().insert(path.to_owned(), webhook);
    }

    /// Counts one more that is in flight, until what is returned is dropped.
    pub(super) fn begin(&self, path: &str) -> InFlight {
        self.change(path, |webhook| webhook.in_flight += 1);
        InFlight { counts: self.clone(), path: path.to_owned(), begun: Instant::now() }
    }

    /// As Prometheus reads them.
    pub(crate) fn render(&self) -> String {
        let (mut text, webhooks) = (String::new(), self.lock());
        let name = "controller_runtime_webhook_requests_total";
        head(&mut text, name, "counter", "Reviews by path and code of the answer");
        for (path, webhook) in &*webhooks {
            for (code, count) in &webhook.codes {
                let labels = format!("{},code=\"{code}\"", label("webhook", path));
                line(&mut text, name, &labels, count);
            }
        }
        let name = "controller_runtime_webhook_requests_in_flight";
        head(&mut text, name, "gauge", "Reviews that are not answered yet");
        for (path, webhook) in &*webhooks {
            line(&mut text, name, &label("webhook", path), webhook.in_flight);
        }
        let name = "controller_runtime_webhook_latency_seconds";
        head(&mut text, name, "histogram", "How long answers take");
        for (path, webhook) in &*webhooks {
            histogram(&mut text, name, &label("webhook", path), &webhook.latencies);
        }
        text
    }

    fn change(&self, path: &str, change: impl FnOnce(&mut Webhook)) {
        if let Some(webhook) = self.lock().get_mut(path) {
            change(webhook);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Webhook>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A review that is not answered yet; whoever drops it without an answer has no code to count.
pub(super) struct InFlight {
    counts: ReviewCounts,
    path: String,
    begun: Instant,
}

impl InFlight {
    pub(super) fn answered(self, code: StatusCode) {
        let latency = self.begun.elapsed();
        self.counts.change(&self.path, |webhook| {
            *webhook.codes.entry(code.as_u16()).or_default() += 1;
            webhook.latencies.observe(latency);
        });
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.counts.change(&self.path, |webhook| webhook.in_flight -= 1);
    }
}
