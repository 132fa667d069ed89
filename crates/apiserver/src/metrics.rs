//! What the server counts, under kube-apiserver's own metric names, so that its dashboards work.

mod count;
mod request_labels;

pub(crate) use count::Count;
pub(crate) use request_labels::RequestLabels;

use crate::admission::WebhookMetrics;
use crate::conversion::ConversionMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::time::Duration;

/// The registry of one plane.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<AnsweredLabels, Count>,
    durations: Family<RequestLabels, Histogram>,
    /// Of admission webhooks.
    pub webhooks: WebhookMetrics,
    /// Of those who convert.
    pub conversion: ConversionMetrics,
}

/// The labels of an answered request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnsweredLabels {
    code: u16,
    #[prometheus(flatten)]
    request: RequestLabels,
}

/// Upstream: endpoints/metrics; those below 5 ms are ours.
const SECONDS: [f64; 27] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0,
    3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

impl Metrics {
    /// All at zero.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let requests = Family::<AnsweredLabels, Count>::default();
        let durations =
            Family::<RequestLabels, Histogram>::new_with_constructor(|| Histogram::new(SECONDS));
        registry.register(
            "apiserver_request_total",
            "Requests by verb, dry run, group, version, resource, subresource, scope, component and code",
            requests.clone(),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "Time from the request to the head of its answer",
            durations.clone(),
        );
        let webhooks = WebhookMetrics::new(&mut registry);
        let conversion = ConversionMetrics::new(&mut registry);
        Self { registry, requests, durations, webhooks, conversion }
    }

    /// Counts an answered request.
    pub(crate) fn observe(&self, request: RequestLabels, code: u16, took: Duration) {
        self.durations.get_or_create(&request).observe(took.as_secs_f64());
        self.requests.get_or_create(&AnsweredLabels { code, request }).inc();
    }

    /// In Prometheus' text format.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("memory takes every write");
        text
    }
}
