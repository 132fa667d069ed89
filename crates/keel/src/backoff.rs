//! [`Backoff`]: exponential backoff with jitter: each failure doubles the delay, up to a cap.
//!
//! ```text
//! base 1 s, cap 10 s      failures   1        2        3        4        5 …
//!                         delay    0.5–1 s   1–2 s    2–4 s    4–8 s   5–10 s
//! ```

use std::time::Duration;

use crate::Entropy;

/// Counts failures and computes the delay before the next attempt.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    entropy: Entropy,
    failures: u32,
}

impl Backoff {
    /// A backoff with delays of at most `base` after the first failure, and never more than `cap`.
    pub fn new(base: Duration, cap: Duration, entropy: Entropy) -> Self {
        Self { base, cap, entropy, failures: 0 }
    }

    /// Counts a failure and returns the delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.delay_after(self.failures)
    }

    /// The delay after `failures` consecutive failures, for callers that count failures themselves,
    /// for instance per key.
    pub fn delay_after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let longest = self.base.saturating_mul(1 << doublings).min(self.cap);
        // Half of the delay is fixed and half is random: peers that failed together do not retry
        // together, and none retries at once.
        let half = u64::try_from(longest.as_nanos() / 2).unwrap_or(u64::MAX);
        longest.saturating_sub(Duration::from_nanos(self.entropy.below(half.saturating_add(1))))
    }

    /// The number of failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Resets the number of failures after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn backoff(seed: u64) -> Backoff {
        Backoff::new(SECOND, 10 * SECOND, Entropy::seeded(seed))
    }

    #[test]
    fn delays_double_up_to_the_cap_and_at_least_half_is_fixed() {
        for seed in 0..100 {
            let mut backoff = backoff(seed);
            for longest in [1, 2, 4, 8, 10, 10] {
                let delay = backoff.next_delay();
                assert!(delay <= longest * SECOND, "seed {seed}: {delay:?} > {longest} s");
                assert!(delay * 2 >= longest * SECOND, "seed {seed}: {delay:?} is too short");
            }
        }
    }

    #[test]
    fn a_success_resets_the_delay() {
        let mut backoff = backoff(1);
        for _ in 0..5 {
            backoff.next_delay();
        }
        backoff.reset();
        assert!(backoff.next_delay() <= SECOND);
        assert_eq!(backoff.failures(), 1);
    }

    #[test]
    fn many_failures_do_not_overflow() {
        assert!(backoff(1).delay_after(u32::MAX) <= 10 * SECOND);
    }

    #[test]
    fn two_peers_do_not_retry_together() {
        assert_ne!(backoff(1).delay_after(3), backoff(2).delay_after(3));
    }
}
