//! [`DurationHistogram`]: a histogram of durations in a work queue or a webhook.

use std::iter::successors;
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;

use informer::work_queue::HistogramMetric;

/// See the [module documentation](self). Clones are the same histogram.
#[derive(Debug, Clone)]
pub(crate) struct DurationHistogram(pub(crate) Histogram);

impl Default for DurationHistogram {
    /// With the buckets of client-go: 10 ns to 1000 s, each ten times the one before.
    fn default() -> Self {
        let buckets = successors(Some(10_u64), |nanos| Some(nanos * 10)).take(12);
        Self(Histogram::new(buckets.map(|nanos| Duration::from_nanos(nanos).as_secs_f64())))
    }
}

impl HistogramMetric for DurationHistogram {
    fn observe(&self, duration: Duration) {
        self.0.observe(duration.as_secs_f64());
    }
}
