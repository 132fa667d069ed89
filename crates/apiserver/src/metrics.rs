//! The server's metrics, with kube-apiserver's names, so that dashboards for it work.

mod counter;
mod request_labels;
mod request_series;
mod in_flight;
mod response_sizes;
pub(crate) mod exposition;
mod process;
mod sources;

use std::time::Duration;

use http::Response;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::http::body::Body;
use crate::request::ResourcePath;
use request_series::Requests;

pub(crate) use counter::Counter;
pub(crate) use in_flight::{InFlight, InFlightRequest};
pub(crate) use request_labels::RequestLabels;
pub(crate) use sources::MetricsSources;

/// The registry of one plane.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Requests,
    watch_events: Family<WatchLabels, Counter>,
    /// The requests and streams in progress.
    pub in_flight: InFlight,
    /// The metrics of other parts of the process.
    pub sources: MetricsSources,
}

/// The labels of an event that was sent to a watcher.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabels {
    group: String,
    resource: String,
    version: String,
}

impl Metrics {
    /// Registers the metrics of requests in `registry`.
    pub(crate) fn new(mut registry: Registry) -> Self {
        let requests = Requests::new(&mut registry);
        let watch_events = Family::<WatchLabels, Counter>::default();
        registry.register(
            "apiserver_watch_events_total",
            "Events sent to watchers, by group, version and resource",
            watch_events.clone(),
        );
        let in_flight = InFlight::new(&mut registry);
        Self { registry, requests, watch_events, in_flight, sources: MetricsSources::default() }
    }

    /// The count of events that are sent to watchers of a resource.
    pub(crate) fn watch_events(&self, path: &ResourcePath) -> Counter {
        self.watch_events.get_or_create_owned(&WatchLabels {
            group: path.group.clone(),
            resource: path.resource.clone(),
            version: path.version.clone(),
        })
    }

    /// Counts a request with its response, the bytes of the response while they are sent, and a stream
    /// while it is open.
    pub(crate) fn observe_response(
        &self,
        request: &RequestLabels,
        response: Response<Body>,
        duration: Duration,
    ) -> Response<Body> {
        let series = self.requests.series(request);
        series.observe(request, response.status().as_u16(), duration);
        response.map(|body| match (body, &series.size) {
            (body @ Body::Stream(_), _) => body.with_guard(self.in_flight.stream(request)),
            (body, Some(sizes)) => response_sizes::observe(body, sizes.clone()),
            (body, None) => body,
        })
    }

    /// Counts a request that was refused before it was handled.
    pub(crate) fn observe(&self, request: &RequestLabels, code: u16, duration: Duration) {
        self.requests.series(request).observe(request, code, duration);
    }

    /// Encodes all metrics in Prometheus' text format; `append` adds further families.
    pub(crate) fn encode(&self, append: impl FnOnce(&mut String)) -> String {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry).expect("a write to a String does not fail");
        append(&mut text);
        process::append(&mut text);
        self.sources.append(&mut text);
        encode_eof(&mut text).expect("a write to a String does not fail");
        text
    }
}
