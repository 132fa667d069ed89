//! [`QueueMetrics`]: how a work queue fares, at one moment.

use std::time::Duration;

/// The upper ends of the buckets for what happens in a queue, in nanoseconds: 10 ns to 1000 s, as
/// Kubernetes has them for its queues.
const QUEUE_BUCKETS: &[u64] = &[
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
    100_000_000_000,
    1_000_000_000_000,
];

/// How often something took how long.
///
/// ```
/// use informer::work_queue::Histogram;
/// use std::time::Duration;
///
/// let mut histogram = Histogram::new(&[1_000_000, 10_000_000]); // 1 ms, 10 ms, and longer
/// histogram.observe(Duration::from_millis(3));
/// assert_eq!((histogram.count(), histogram.buckets().nth(1)), (1, Some((10_000_000, 1))));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Rising.
    ends: &'static [u64],
    /// In each bucket alone, not summed up; there is one more, for what took longer than all ends.
    counts: Vec<u64>,
    sum: Duration,
}

impl Histogram {
    /// Nothing was observed yet. The buckets end at these times, in nanoseconds, which must rise.
    pub fn new(ends: &'static [u64]) -> Self {
        Self { ends, counts: vec![0; ends.len() + 1], sum: Duration::ZERO }
    }

    /// Counts one more.
    pub fn observe(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = self.ends.partition_point(|end| *end < nanos);
        self.counts[bucket] += 1;
        self.sum += duration;
    }

    /// Where each bucket ends, in nanoseconds, and how often it was met; without what took longer
    /// than all ends.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ends.iter().copied().zip(self.counts.iter().copied())
    }

    /// How often.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How long, all together.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

impl Default for Histogram {
    /// With the buckets that Kubernetes has for its work queues.
    fn default() -> Self {
        Self::new(QUEUE_BUCKETS)
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
        let mut histogram = Histogram::new(&[10, 100, 1_000]);
        for nanos in [0, 10, 11, 1_000, 1_001, u64::MAX] {
            histogram.observe(Duration::from_nanos(nanos));
        }
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(buckets, [(10, 2), (100, 1), (1_000, 1)]);
        assert_eq!(histogram.count(), 6);
    }
}
