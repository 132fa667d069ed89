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
use prometheus_client::metrics::gauge::Gauge;
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
    terminations: Family<TerminationLabels, Counter>,
    deprecated: Family<DeprecatedLabels, Gauge>,
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

/// The labels of a request that was not served. In alphabetical order, as Go's client writes them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TerminationLabels {
    code: u16,
    component: &'static str,
    group: String,
    resource: String,
    scope: &'static str,
    subresource: String,
    verb: &'static str,
    version: String,
}

/// The labels of a deprecated API.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeprecatedLabels {
    group: String,
    removed_release: String,
    resource: String,
    subresource: String,
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
        let terminations = Family::<TerminationLabels, Counter>::default();
        registry.register(
            "apiserver_request_terminations_total",
            "Requests that were not served in order to protect the server",
            terminations.clone(),
        );
        let deprecated = Family::<DeprecatedLabels, Gauge>::default();
        registry.register(
            "apiserver_requested_deprecated_apis",
            "Deprecated APIs that have been requested, and the release without them",
            deprecated.clone(),
        );
        let in_flight = InFlight::new(&mut registry);
        let sources = MetricsSources::default();
        Self { registry, requests, watch_events, terminations, deprecated, in_flight, sources }
    }

    /// The count of events that are sent to watchers of a resource.
    pub(crate) fn watch_events(&self, path: &ResourcePath) -> Counter {
        self.watch_events.get_or_create_owned(&WatchLabels {
            group: path.group.clone(),
            resource: path.resource.clone(),
            version: path.version.clone(),
        })
    }

    /// Notes a request for a deprecated version of a resource, which releases from `removed_release`
    /// on do not have; empty if that is not decided.
    pub(crate) fn request_deprecated(&self, path: &ResourcePath, removed_release: &str) {
        let labels = DeprecatedLabels {
            group: path.group.clone(),
            removed_release: removed_release.to_owned(),
            resource: path.resource.clone(),
            subresource: path.subresource.clone(),
            version: path.version.clone(),
        };
        self.deprecated.get_or_create(&labels).set(1);
    }

    /// Counts a request that is not served in order to protect the server.
    pub(crate) fn count_termination(&self, request: &RequestLabels, code: u16) {
        let RequestLabels { component, scope, verb, .. } = *request;
        let labels = TerminationLabels {
            code,
            component,
            group: request.group.clone(),
            resource: request.resource.clone(),
            scope,
            subresource: request.subresource.clone(),
            verb,
            version: request.version.clone(),
        };
        self.terminations.get_or_create(&labels).inc();
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
