//! [`RetryAfter`]: the seconds after which a refused client should try again. They double while many
//! requests are refused, up to [`MAX`], and decrease by one a second afterwards.
//!
//! Upstream: `util/flowcontrol/dropped_requests_tracker.go`

use std::collections::VecDeque;

/// The maximum number of seconds.
const MAX: u64 = 32;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct RetryAfter {
    seconds: u64,
    /// The second of the last increase.
    increased: Option<u64>,
    /// The present second, and the requests that were refused in it.
    present: (u64, u64),
    /// The earlier seconds, oldest first.
    history: VecDeque<(u64, u64)>,
}

impl Default for RetryAfter {
    fn default() -> Self {
        Self { seconds: 1, increased: None, present: (0, 0), history: VecDeque::new() }
    }
}

impl RetryAfter {
    /// Records a request that is refused at `second`, and returns after how many seconds it should be
    /// repeated.
    pub(super) fn refuse(&mut self, second: u64) -> u64 {
        if self.present.0 == second {
            self.present.1 += 1;
            return self.seconds;
        }
        self.history.push_back(self.present);
        let window = (2 * self.seconds).min(MAX);
        self.history.retain(|(then, _)| second.saturating_sub(*then) <= window);
        self.present = (second, 1);
        self.adjust(second);
        self.seconds
    }

    fn adjust(&mut self, second: u64) {
        let recent = self.history.iter().filter(|(then, _)| second - then <= self.seconds);
        let refused: u64 = recent.map(|(_, count)| count).sum();
        let may_increase = self.increased.is_none_or(|it| second - it >= self.seconds);
        if may_increase && refused >= 3 * self.seconds {
            self.seconds = (2 * self.seconds).min(MAX);
            self.increased = Some(second);
        } else if refused < self.seconds && self.seconds > 1 {
            self.seconds -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seconds_double_while_requests_are_refused_and_decrease_afterwards() {
        let mut retry_after = RetryAfter::default();
        let mut seen = Vec::new();
        for second in 100..200 {
            let seconds = (0..200).map(|_| retry_after.refuse(second)).last().unwrap();
            if seen.last() != Some(&seconds) {
                seen.push(seconds);
            }
        }
        assert_eq!(seen, [1, 2, 4, 8, 16, 32]);
        assert_eq!(retry_after.refuse(300), 31);
        assert_eq!(retry_after.refuse(400), 30);
    }
}
