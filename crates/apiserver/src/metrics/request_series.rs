//! [`RequestSeries`]: the metrics of all requests with the same labels, found by one lookup.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::{Counter, RequestLabels};

/// The buckets of durations, in seconds. Upstream: endpoints/metrics; those below 5 ms are additional.
const DURATION_BUCKETS: [f64; 27] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0,
    3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// The series of all requests.
pub(super) struct Requests {
    counts: Family<ResponseLabels, Counter>,
    durations: Family<RequestLabels, Histogram>,
    sizes: Family<RequestLabels, Histogram>,
    series: RwLock<HashMap<RequestLabels, Arc<RequestSeries>>>,
}

/// See the [module documentation](self).
pub(super) struct RequestSeries {
    counts: Family<ResponseLabels, Counter>,
    /// The counters by status code, of which there are few.
    by_code: Mutex<Vec<(u16, Counter)>>,
    duration: Histogram,
    /// The sizes of responses; None if they are not recorded.
    pub(super) size: Option<Histogram>,
}

/// The labels of a request and its response.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    code: u16,
    #[prometheus(flatten)]
    request: RequestLabels,
}

impl Requests {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let counts = Family::<ResponseLabels, Counter>::default();
        registry.register(
            "apiserver_request_total",
            "Requests by verb, dry run, group, version, resource, subresource, scope, component and code",
            counts.clone(),
        );
        let durations = Family::<RequestLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(DURATION_BUCKETS)
        });
        registry.register(
            "apiserver_request_duration_seconds",
            "Time from the receipt of a request to the head of its response",
            durations.clone(),
        );
        let sizes = Family::<RequestLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(exponential_buckets(1000.0, 10.0, 7))
        });
        registry.register(
            "apiserver_response_sizes",
            "Sizes of the responses to reads in bytes, before compression",
            sizes.clone(),
        );
        Self { counts, durations, sizes, series: RwLock::default() }
    }

    /// The series of a request.
    pub(super) fn series(&self, labels: &RequestLabels) -> Arc<RequestSeries> {
        let known = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(labels) {
            return Arc::clone(found);
        }
        drop(known);
        let create = || {
            Arc::new(RequestSeries {
                counts: self.counts.clone(),
                by_code: Mutex::default(),
                duration: self.durations.get_or_create_owned(labels),
                size: labels.records_size().then(|| self.sizes.get_or_create_owned(labels)),
            })
        };
        let mut known = self.series.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(labels.clone()).or_insert_with(create))
    }
}

impl RequestSeries {
    /// Counts a response to a request with these labels.
    pub(super) fn observe(&self, labels: &RequestLabels, code: u16, duration: Duration) {
        self.duration.observe(duration.as_secs_f64());
        let mut by_code = self.by_code.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, count)) = by_code.iter().find(|(it, _)| *it == code) {
            return count.inc();
        }
        let request = labels.clone();
        let count = self.counts.get_or_create_owned(&ResponseLabels { code, request });
        count.inc();
        by_code.push((code, count));
    }
}
