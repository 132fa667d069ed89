//! [`RateLimiter`]: the delay before a failed key is handed out again. It grows with each failure of
//! the key, and limits the rate of all keys together.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use keel::{Backoff, Entropy};

/// The rate at which failed keys are handed out again.
#[derive(Debug, Clone)]
pub struct RateLimits {
    /// The longest delay after the first failure of a key; it doubles with each failure.
    pub backoff_base: Duration,
    /// The longest delay after many failures.
    pub backoff_cap: Duration,
    /// The time between two retries, of all keys together.
    pub interval: Duration,
    /// The number of retries that may follow each other without this interval after a pause.
    pub burst: u32,
}

impl Default for RateLimits {
    /// As client-go: 5 ms to 1000 s for a key; 10 keys a second, 100 at once, for all keys.
    fn default() -> Self {
        Self {
            backoff_base: Duration::from_millis(5),
            backoff_cap: Duration::from_secs(1000),
            interval: Duration::from_millis(100),
            burst: 100,
        }
    }
}

/// See the [module documentation](self).
pub(super) struct RateLimiter<K> {
    backoff: Backoff,
    failures: HashMap<K, u32>,
    bucket: Bucket,
}

impl<K: Eq + Hash> RateLimiter<K> {
    pub(super) fn new(limits: &RateLimits, entropy: &Entropy) -> Self {
        Self {
            backoff: Backoff::new(limits.backoff_base, limits.backoff_cap, entropy.clone()),
            failures: HashMap::new(),
            bucket: Bucket {
                interval: limits.interval,
                fill_time: limits.interval.saturating_mul(limits.burst),
                full_at: Duration::ZERO,
            },
        }
    }

    /// Counts a failure of `key` and returns its delay.
    pub(super) fn delay(&mut self, key: K, now: Duration) -> Duration {
        let failures = self.failures.entry(key).or_default();
        *failures = failures.saturating_add(1);
        self.backoff.delay_after(*failures).max(self.bucket.take(now))
    }

    pub(super) fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }

    pub(super) fn forget(&mut self, key: &K) {
        // Without failures, the common case, the key need not be hashed.
        if !self.failures.is_empty() {
            self.failures.remove(key);
        }
    }
}

/// A token bucket, represented by the time at which it will be full again.
struct Bucket {
    /// The time in which one token is added.
    interval: Duration,
    /// The time in which the empty bucket fills.
    fill_time: Duration,
    /// The time at which the bucket is full again.
    full_at: Duration,
}

impl Bucket {
    /// Takes a token, and returns the time until the token is available.
    fn take(&mut self, now: Duration) -> Duration {
        self.full_at = self.full_at.max(now).saturating_add(self.interval);
        self.full_at.saturating_sub(now.saturating_add(self.fill_time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_waits_longer_after_each_failure_and_starts_over_when_forgotten() {
        let limits = RateLimits { interval: Duration::ZERO, ..RateLimits::default() };
        let mut limiter = RateLimiter::new(&limits, &Entropy::seeded(1));
        for longest in [5, 10, 20, 40] {
            let (delay, longest) =
                (limiter.delay("a", Duration::ZERO), Duration::from_millis(longest));
            assert!(delay <= longest && delay * 2 >= longest, "{delay:?} of {longest:?}");
        }
        assert_eq!((limiter.failures(&"a"), limiter.failures(&"b")), (4, 0));
        limiter.forget(&"a");
        assert!(limiter.delay("a", Duration::ZERO) <= Duration::from_millis(5));
    }

    #[test]
    fn the_bucket_lets_a_burst_through_and_then_one_per_interval() {
        let second = Duration::from_secs(1);
        let mut bucket =
            Bucket { interval: second, fill_time: second * 3, full_at: Duration::ZERO };
        let waits: Vec<u64> = (0..5).map(|_| bucket.take(Duration::ZERO).as_secs()).collect();
        assert_eq!(waits, [0, 0, 0, 1, 2]);
        assert_eq!(bucket.take(second * 100), Duration::ZERO);
    }
}
