//! What the server counts, under kube-apiserver's own metric names, so that its dashboards work.

mod count;

pub(crate) use count::Count;

use crate::admission::WebhookMetrics;
use crate::conversion::ConversionMetrics;
use crate::request::RequestInfo;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::time::Duration;

/// The registry of one plane.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabel, Count>,
    durations: Family<DurationLabel, Histogram>,
    /// Of admission webhooks.
    pub webhooks: WebhookMetrics,
    /// Of those who convert.
    pub conversion: ConversionMetrics,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabel {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabel {
    verb: &'static str,
    group: String,
    resource: String,
}

/// What a request is counted under.
#[derive(Debug, Clone)]
pub(crate) struct Label {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
}

impl Metrics {
    /// All at zero.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let requests = Family::<RequestLabel, Count>::default();
        let durations = Family::<DurationLabel, Histogram>::new_with_constructor(|| {
            Histogram::new([0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0])
        });
        registry.register(
            "apiserver_request_total",
            "Requests by verb, group, version, resource, subresource and code",
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

    /// Under what a request is counted. Names that clients make up are not labels: they would let
    /// anybody fill our memory.
    pub(crate) fn label(info: &RequestInfo) -> Label {
        let target = info.target.clone().unwrap_or_default();
        Label {
            verb: info.verb.as_str(),
            group: target.group,
            version: target.version,
            resource: target.resource,
            subresource: target.subresource,
        }
    }

    /// Counts an answered request. One that found nothing is counted without its names.
    pub(crate) fn observe(&self, label: Label, code: u16, took: Duration) {
        let Label { verb, mut group, mut version, mut resource, mut subresource } = label;
        if matches!(code, 401 | 403 | 404 | 405) {
            (group, version, resource, subresource) = Default::default();
        }
        let duration = DurationLabel { verb, group: group.clone(), resource: resource.clone() };
        self.durations.get_or_create(&duration).observe(took.as_secs_f64());
        let request = RequestLabel { verb, group, version, resource, subresource, code };
        self.requests.get_or_create(&request).inc();
    }

    /// In Prometheus' text format.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("memory takes every write");
        text
    }
}
