//! [`InFlight`]: gauges of the requests in progress and of the open streams.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::RequestLabels;

/// See the [module documentation](self).
pub(crate) struct InFlight {
    reads: Gauge,
    writes: Gauge,
    streams: Family<RequestLabels, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    request_kind: &'static str,
}

/// A counted request or stream; it is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlightRequest(Gauge);

impl InFlightRequest {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl InFlight {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let requests = Family::<KindLabel, Gauge>::default();
        let of = |request_kind| requests.get_or_create_owned(&KindLabel { request_kind });
        let (reads, writes) = (of("readOnly"), of("mutating"));
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests in progress, without long-running ones",
            requests,
        );
        let streams = Family::<RequestLabels, Gauge>::default();
        registry.register(
            "apiserver_longrunning_requests",
            "Open streams, by verb, group, version, resource, subresource, scope and component",
            streams.clone(),
        );
        Self { reads, writes, streams }
    }

    /// Counts a request that only reads.
    pub(crate) fn read(&self) -> InFlightRequest {
        InFlightRequest::new(&self.reads)
    }

    /// Counts a request that may write.
    pub(crate) fn write(&self) -> InFlightRequest {
        InFlightRequest::new(&self.writes)
    }

    /// Counts an open stream.
    pub(crate) fn stream(&self, labels: &RequestLabels) -> InFlightRequest {
        InFlightRequest::new(&self.streams.get_or_create(labels))
    }
}
