//! Load in a closed loop: each of a number of clients sends its next request when it has received
//! the response to the last one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use futures_util::future::join_all;
use tokio::time::Instant;

/// The number of failures whose messages are recorded; the others are only counted.
const RECORDED_FAILURES: usize = 3;

/// The end of a measurement: a number of operations or a time, whichever comes first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    /// The maximum number of operations.
    pub count: u64,
    /// The time after which no operation is started.
    pub time: Duration,
    /// The time between the beginnings of a client's operations, unless an operation takes longer.
    pub interval: Duration,
}

/// The position of one operation in the load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// The client that runs the operation.
    pub worker: usize,
    /// The number of earlier operations of that client.
    pub iteration: usize,
    /// The number of the operation among those of all clients.
    pub number: u64,
}

/// The result of a measurement.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The duration of each successful operation.
    pub latencies: Vec<Duration>,
    /// The size of all responses together.
    pub bytes: u64,
    /// The number of failed operations.
    pub failed: u64,
    /// The messages of the first failures.
    pub failures: Vec<String>,
    /// The duration of the whole measurement.
    pub wall: Duration,
}

impl Outcome {
    /// Adds the result of one operation; a success has the size of the response.
    pub(crate) fn add(&mut self, latency: Duration, result: Result<u64>) {
        match result {
            Ok(bytes) => {
                self.latencies.push(latency);
                self.bytes += bytes;
            }
            Err(error) => {
                self.failed += 1;
                if self.failures.len() < RECORDED_FAILURES {
                    self.failures.push(format!("{error:#}"));
                }
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.bytes += other.bytes;
        self.failed += other.failed;
        self.failures.extend(other.failures);
        self.failures.truncate(RECORDED_FAILURES);
    }
}

/// Runs `operation` with a number of concurrent clients. No operation outlives the future.
pub(crate) async fn closed_loop<F>(workers: usize, bound: Bound, operation: F) -> Outcome
where
    F: AsyncFn(Step) -> Result<u64>,
{
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let total = Mutex::new(Outcome::default());
    let work = |worker: usize| {
        let (next, total, operation) = (&next, &total, &operation);
        async move {
            let mut own = Outcome::default();
            let mut iteration = 0;
            while begun.elapsed() < bound.time {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= bound.count {
                    break;
                }
                let sent = Instant::now();
                let result = operation(Step { worker, iteration, number }).await;
                own.add(sent.elapsed(), result);
                iteration += 1;
                if !bound.interval.is_zero() {
                    tokio::time::sleep_until(sent + bound.interval).await;
                }
            }
            total.lock().unwrap_or_else(PoisonError::into_inner).merge(own);
        }
    };
    join_all((0..workers).map(work)).await;
    let mut outcome = total.into_inner().expect("no client panics while it holds the lock");
    outcome.wall = begun.elapsed();
    outcome
}

/// A percentile of sorted latencies, by nearest rank; none if there are no latencies.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn milliseconds(range: std::ops::RangeInclusive<u64>) -> Vec<Duration> {
        range.map(Duration::from_millis).collect()
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let hundred = milliseconds(1..=100);
        assert_eq!(percentile(&hundred, 50), Some(Duration::from_millis(50)));
        assert_eq!(percentile(&hundred, 99), Some(Duration::from_millis(99)));
        assert_eq!(percentile(&hundred, 100), Some(Duration::from_millis(100)));
        assert_eq!(percentile(&milliseconds(1..=3), 50), Some(Duration::from_millis(2)));
        assert_eq!(percentile(&milliseconds(7..=7), 99), Some(Duration::from_millis(7)));
        assert_eq!(percentile(&[], 50), None);
    }

    #[tokio::test(start_paused = true)]
    async fn each_operation_runs_once() {
        let sum = AtomicU64::new(0);
        let bound = Bound { count: 100, time: Duration::from_hours(1), interval: Duration::ZERO };
        let outcome = closed_loop(7, bound, async |step| {
            tokio::time::sleep(Duration::from_millis(1 + step.number % 3)).await;
            sum.fetch_add(step.number, Ordering::Relaxed);
            Ok(10)
        })
        .await;
        assert_eq!(outcome.latencies.len(), 100);
        assert_eq!((outcome.bytes, outcome.failed), (1000, 0));
        assert_eq!(sum.into_inner(), 99 * 100 / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_limit_ends_the_load() {
        let bound =
            Bound { count: 1_000_000, time: Duration::from_secs(2), interval: Duration::ZERO };
        let outcome = closed_loop(2, bound, async |_| {
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok(0)
        })
        .await;
        assert_eq!(outcome.latencies.len(), 8);
        assert_eq!(outcome.wall.as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_an_interval_waits_before_its_next_operation() {
        let interval = Duration::from_millis(500);
        let bound = Bound { count: 1_000_000, time: Duration::from_secs(2), interval };
        let outcome = closed_loop(2, bound, async |_| {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(0)
        })
        .await;
        assert_eq!(outcome.latencies, [Duration::from_millis(1); 8]);
    }

    #[tokio::test]
    async fn failures_are_counted_and_the_first_messages_recorded() {
        let bound = Bound { count: 10, time: Duration::from_hours(1), interval: Duration::ZERO };
        let outcome = closed_loop(1, bound, async |step| {
            if step.number % 2 == 1 {
                bail!("no {}", step.number);
            }
            Ok(0)
        })
        .await;
        assert_eq!((outcome.latencies.len(), outcome.failed), (5, 5));
        assert_eq!(outcome.failures, ["no 1", "no 3", "no 5"]);
    }
}
