//! What the server counts, under kube-apiserver's own metric names, so that its dashboards work.

mod count;
mod request_labels;
mod in_flight;
mod response_sizes;
mod exposition;
mod objects;
mod process;

pub(crate) use count::Count;
pub(crate) use in_flight::{Counted, InFlight};
pub(crate) use request_labels::RequestLabels;

use crate::admission::WebhookMetrics;
use crate::body::Body;
use crate::catalog::Catalog;
use crate::conversion::ConversionMetrics;
use crate::request::Target;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::time::Duration;

/// The registry of one plane.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<AnsweredLabels, Count>,
    durations: Family<RequestLabels, Histogram>,
    sizes: Family<RequestLabels, Histogram>,
    watch_events: Family<WatchLabels, Count>,
    /// What is being answered now.
    pub in_flight: InFlight,
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

/// The labels of an event that was sent to a watcher.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabels {
    group: String,
    resource: String,
    version: String,
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
        let sizes = Family::<RequestLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(exponential_buckets(1000.0, 10.0, 7))
        });
        registry.register(
            "apiserver_response_sizes",
            "Bytes of the answers to reads, before compression",
            sizes.clone(),
        );
        let watch_events = Family::<WatchLabels, Count>::default();
        registry.register(
            "apiserver_watch_events_total",
            "Events sent to watchers, by group, version and resource",
            watch_events.clone(),
        );
        let in_flight = InFlight::new(&mut registry);
        let webhooks = WebhookMetrics::new(&mut registry);
        let conversion = ConversionMetrics::new(&mut registry);
        Self { registry, requests, durations, sizes, watch_events, in_flight, webhooks, conversion }
    }

    /// The count of events that are sent to watchers of a resource.
    pub(crate) fn watch_events(&self, target: &Target) -> Count {
        self.watch_events.get_or_create_owned(&WatchLabels {
            group: target.group.clone(),
            resource: target.resource.clone(),
            version: target.version.clone(),
        })
    }

    /// Counts the bytes of an answer while they are sent, and a stream while it is open.
    pub(crate) fn observe_body(&self, request: &RequestLabels, body: Body) -> Body {
        match body {
            Body::Stream(_) => body.holding(self.in_flight.stream(request)),
            body if request.is_read() => {
                response_sizes::observe(body, self.sizes.get_or_create_owned(request))
            }
            body => body,
        }
    }

    /// Counts an answered request.
    pub(crate) fn observe(&self, request: RequestLabels, code: u16, took: Duration) {
        self.durations.get_or_create(&request).observe(took.as_secs_f64());
        self.requests.get_or_create(&AnsweredLabels { code, request }).inc();
    }

    /// In Prometheus' text format, with what is read off the server at this moment.
    pub(crate) fn encode(&self, catalog: &Catalog) -> String {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry).expect("memory takes every write");
        objects::append(&mut text, catalog);
        process::append(&mut text);
        encode_eof(&mut text).expect("memory takes every write");
        text
    }
}
