//! [`Attendance`]: whether one worker is left alone with what waits.
//!
//! Workers that are done with each key at once meet at the queue all the time, and what they do then
//! is mostly to fetch it from each other's processors: one alone gets more done than two. So a worker
//! that comes back for the next key after some were done quickly is seated, and the others stay
//! where they are. It leaves its seat when it has to wait for something, when nothing is left, or
//! when it did not come back for a while.
//!
//! ```text
//! a b c …      done quickly, by two workers
//! q r s t …    the first to come back is seated; the other one sleeps
//! t            takes longer than a moment: the next key that is added wakes the other one,
//!              which also looks by itself now and then as long as keys wait
//! ```
//!
//! Invariants:
//! - nobody is seated who never comes back by [`Job::next`](super::Job::next);
//! - whoever leaves is followed by somebody if a key waits.

use std::time::Duration;

/// A worker that takes longer for a key has a processor for itself anyway.
pub(super) const MOMENT: Duration = Duration::from_micros(100);
/// Whoever is to be left alone needs so much credit.
const TRUST: u32 = 16;
/// More than this is not given, so that it is gone after a few keys that take long.
const MOST_CREDIT: u32 = 64;
/// What a key costs that took long. One in ten does no harm: a worker may have had to wait for a
/// processor.
const LATE: u32 = 4;

/// See the [module documentation](self).
#[derive(Default)]
pub(super) struct Attendance {
    seated: Option<Seated>,
    /// One for each key that was done quickly, less for those that were not.
    credit: u32,
    drawn: u64,
}

struct Seated {
    seat: Seat,
    /// When it took its last key.
    came: Duration,
}

/// Tells the worker that is seated from those who were before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seat(u64);

impl Attendance {
    /// Whether somebody else than who has this seat will come by soon.
    pub(super) fn is_with_another(&self, seat: Option<Seat>, now: Duration) -> bool {
        self.seated.as_ref().is_some_and(|seated| {
            Some(seated.seat) != seat && now.saturating_sub(seated.came) < MOMENT
        })
    }

    /// Notes that a key was done after so long.
    pub(super) fn note(&mut self, worked: Duration, is_handed_on: bool) {
        self.credit = if is_handed_on {
            self.credit / 2
        } else if worked < MOMENT {
            MOST_CREDIT.min(self.credit + 1)
        } else {
            self.credit.saturating_sub(LATE)
        };
    }

    /// Seats whoever takes a key, if they may be left alone.
    pub(super) fn take(&mut self, seat: Option<Seat>, now: Duration) -> Option<Seat> {
        if self.credit < TRUST {
            self.leave(seat);
            return None;
        }
        let seat = seat.unwrap_or_else(|| {
            self.drawn += 1;
            Seat(self.drawn)
        });
        self.seated = Some(Seated { seat, came: now });
        Some(seat)
    }

    /// Whoever has this seat will not come back soon.
    pub(super) fn leave(&mut self, seat: Option<Seat>) {
        if self.seated.as_ref().map(|seated| seated.seat) == seat {
            self.seated = None;
        }
    }
}
