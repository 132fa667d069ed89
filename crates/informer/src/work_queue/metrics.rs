//! [`QueueMetrics`]: how a work queue fares, at one moment.

use std::time::Duration;

/// The upper ends of a histogram's buckets, in microseconds; there is one more without an end.
pub const BUCKETS_MICROS: [u64; 8] =
    [10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// How often something took how long.
///
/// ```
/// use informer::work_queue::Histogram;
/// use std::time::Duration;
///
/// let mut histogram = Histogram::default();
/// histogram.observe(Duration::from_millis(3));
/// assert_eq!((histogram.count(), histogram.counts[3]), (1, 1)); // up to 10 ms
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// In each bucket alone, not summed up; the last one is for what took longer than all ends.
    pub counts: [u64; BUCKETS_MICROS.len() + 1],
    /// All together.
    pub sum: Duration,
}

impl Histogram {
    /// Counts one more.
    pub fn observe(&mut self, duration: Duration) {
        let micros = duration.as_micros();
        let bucket = BUCKETS_MICROS.iter().position(|end| micros <= u128::from(*end));
        self.counts[bucket.unwrap_or(BUCKETS_MICROS.len())] += 1;
        self.sum += duration;
    }

    /// How often.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueMetrics {
    /// Keys that wait for a worker.
    pub depth: usize,
    /// Keys that are to be added later.
    pub delayed: usize,
    /// Keys that were added and did not wait already.
    pub adds: u64,
    /// Keys that were added again after a failure.
    pub retries: u64,
    /// From the time a key was added to the time a worker got it.
    pub latency: Histogram,
    /// From then to the time it was done.
    pub work_duration: Histogram,
    /// Keys that are worked on.
    pub unfinished: usize,
    /// For how long they are, all together.
    pub unfinished_work: Duration,
    /// For how long the oldest of them is.
    pub longest_running: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_once_in_its_bucket() {
        let mut histogram = Histogram::default();
        for micros in [0, 10, 11, 2_000_000, u64::MAX] {
            histogram.observe(Duration::from_micros(micros));
        }
        assert_eq!(histogram.counts, [2, 1, 0, 0, 0, 0, 1, 0, 1]);
        assert_eq!(histogram.count(), 5);
    }
}
