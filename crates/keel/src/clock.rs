//! [`Clock`]: reads the time and sleeps; either the system clock or a manual one for tests.
//!
//! ```
//! # use {keel::{Clock, Timestamp}, std::time::Duration};
//! let clock = Clock::manual(Timestamp::from_seconds(100));
//! clock.advance(Duration::from_millis(1500));
//! assert_eq!((clock.now().seconds(), clock.now().nanos()), (101, 500_000_000));
//! ```
//!
//! No other file reads the time of the operating system.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, mem};

/// The interval at which a sleep until a time of day reads the system's clock again, since an
/// administrator may set the clock during the sleep.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// A handle on a source of time; clones share it.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Manual(Arc<Mutex<ManualState>>),
}

/// The state of a manual clock.
struct ManualState {
    now: Timestamp,
    /// The total time by which the clock was advanced; jumps do not count.
    elapsed: Duration,
    /// A counter that distinguishes sleepers with the same deadline and keeps them in the order of
    /// their arrival.
    arrivals: u64,
    sleepers: BTreeMap<(Timestamp, u64), Waker>,
}

impl Clock {
    /// The operating system's time.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A manual clock that shows `start` until [`advance`](Self::advance) moves it.
    pub fn manual(start: Timestamp) -> Self {
        let state = ManualState {
            now: start,
            elapsed: Duration::ZERO,
            arrivals: 0,
            sleepers: BTreeMap::new(),
        };
        Self(Source::Manual(Arc::new(Mutex::new(state))))
    }

    /// The present time.
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the only place that reads the system clock"
    )]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                // A time before 1970 counts as 1970.
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_seconds(0) + since
            }
            Source::Manual(state) => lock(state).now,
        }
    }

    /// The present time in nanoseconds since 1970.
    pub fn now_unix_nanos(&self) -> i64 {
        let now = self.now();
        now.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(now.nanos))
    }

    /// Waits for `duration`, counted from this call. Must be called within a runtime.
    ///
    /// Once polled, the future stays registered: it wakes its task when the time is over, even if
    /// it is not polled in between.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep(match &self.0 {
            Source::System => SleepInner::System(Box::pin(tokio::time::sleep(duration))),
            Source::Manual(state) => {
                let deadline = Deadline::Elapsed(lock(state).elapsed.saturating_add(duration));
                let state = Arc::clone(state);
                SleepInner::Manual(Box::new(ManualSleep { state, deadline, slot: None }))
            }
        })
    }

    /// Waits until the clock shows `deadline` or later.
    ///
    /// Once polled, the future stays registered, like that of [`sleep`](Self::sleep). It detects a
    /// change of the system's time only if it is also polled in between, whenever it wakes its task.
    pub async fn sleep_until(&self, deadline: Timestamp) {
        match &self.0 {
            Source::System => self.sleep_until_with_checks(deadline, CLOCK_CHECK_INTERVAL).await,
            Source::Manual(state) => {
                let deadline = Deadline::WallClock(deadline);
                ManualSleep { state: Arc::clone(state), deadline, slot: None }.await;
            }
        }
    }

    /// Waits until the system's time is `deadline`, and reads the time at least every `interval`.
    async fn sleep_until_with_checks(&self, deadline: Timestamp, interval: Duration) {
        loop {
            let left = deadline.since(self.now());
            if left.is_zero() {
                return;
            }
            // Both timers are registered by the same poll. A task that does not poll this future
            // after the interval is still woken at the deadline.
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                () = tokio::time::sleep(interval), if interval < left => {}
            }
        }
    }

    /// An instant at the current time, from which elapsed time can be measured.
    pub fn instant(&self) -> ClockInstant {
        let monotonic = match &self.0 {
            Source::System => Monotonic::System(tokio::time::Instant::now()),
            Source::Manual(state) => Monotonic::Manual(lock(state).elapsed),
        };
        ClockInstant { wall_time: self.now(), monotonic }
    }

    /// The monotonic time since `instant`, which does not depend on changes of the clock.
    pub fn elapsed_since(&self, instant: &ClockInstant) -> Duration {
        match (&self.0, &instant.monotonic) {
            (Source::System, Monotonic::System(then)) => then.elapsed(),
            (Source::Manual(state), Monotonic::Manual(then)) => {
                lock(state).elapsed.saturating_sub(*then)
            }
            // The instant is from another clock.
            _ => self.now().since(instant.wall_time),
        }
    }

    /// The maximum of the monotonic time and of the clock's time since `instant`. Monotonic time does
    /// not include a suspension of the machine, and the clock may have been set back.
    pub fn possibly_elapsed_since(&self, instant: &ClockInstant) -> Duration {
        self.elapsed_since(instant).max(self.now().since(instant.wall_time))
    }

    /// Sets a manual clock to another time; no monotonic time passes. All sleepers are polled again.
    ///
    /// # Panics
    /// On a system clock.
    pub fn jump(&self, to: Timestamp) {
        let woken = {
            let mut state = lock(self.state());
            state.now = to;
            mem::take(&mut state.sleepers)
        };
        for waker in woken.into_values() {
            waker.wake();
        }
    }

    /// Moves a manual clock forward and wakes the sleepers whose deadline has passed, the earliest
    /// first.
    ///
    /// # Panics
    /// On a system clock.
    pub fn advance(&self, duration: Duration) {
        let state = self.state();
        let due = {
            let mut state = lock(state);
            let now = state.now + duration;
            state.now = now;
            state.elapsed = state.elapsed.saturating_add(duration);
            let later = state.sleepers.split_off(&(now, u64::MAX));
            mem::replace(&mut state.sleepers, later)
        };
        // Outside of the lock: a waker may poll the sleeper at once.
        for waker in due.into_values() {
            waker.wake();
        }
    }

    /// The earliest deadline of the sleepers on a manual clock, for tests that advance from one event
    /// to the next.
    ///
    /// # Panics
    /// On a system clock, which has no list of its sleepers.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        lock(self.state()).sleepers.keys().next().map(|(deadline, _)| *deadline)
    }

    fn state(&self) -> &Mutex<ManualState> {
        let Source::Manual(state) = &self.0 else {
            unreachable!("this method needs a manual clock");
        };
        state
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::System => f.write_str("Clock::system"),
            Source::Manual(state) => write!(f, "Clock::manual at {}", lock(state).now),
        }
    }
}

fn lock(state: &Mutex<ManualState>) -> MutexGuard<'_, ManualState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The future of [`Clock::sleep`]. It is small, since each watch contains one.
#[must_use = "a sleep does nothing unless it is awaited"]
pub struct Sleep(SleepInner);

enum SleepInner {
    System(Pin<Box<tokio::time::Sleep>>),
    Manual(Box<ManualSleep>),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.get_mut().0 {
            SleepInner::System(sleep) => sleep.as_mut().poll(context),
            SleepInner::Manual(sleep) => Pin::new(sleep).poll(context),
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").finish_non_exhaustive()
    }
}

/// A sleep on a manual clock. It registers its waker while it waits, and removes it when dropped.
struct ManualSleep {
    state: Arc<Mutex<ManualState>>,
    deadline: Deadline,
    /// The key of its waker in [`ManualState::sleepers`].
    slot: Option<(Timestamp, u64)>,
}

#[derive(Clone, Copy)]
enum Deadline {
    /// The clock was advanced by this total since its start.
    Elapsed(Duration),
    /// The clock shows this time.
    WallClock(Timestamp),
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shared = Arc::clone(&self.state);
        let mut state = lock(&shared);
        let deadline = match self.deadline {
            Deadline::Elapsed(elapsed) => state.now + elapsed.saturating_sub(state.elapsed),
            Deadline::WallClock(time) => time,
        };
        if deadline <= state.now {
            return Poll::Ready(());
        }
        let arrival = self.slot.map_or_else(|| state.next_arrival(), |(_, arrival)| arrival);
        if let Some(slot) = self.slot.replace((deadline, arrival)) {
            state.sleepers.remove(&slot);
        }
        state.sleepers.insert((deadline, arrival), context.waker().clone());
        Poll::Pending
    }
}

impl ManualState {
    fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            lock(&self.state).sleepers.remove(&slot);
        }
    }
}

/// A point in monotonic time, from which elapsed time is measured independently of changes of the
/// clock, together with the time that the clock showed.
#[derive(Clone, Debug)]
pub struct ClockInstant {
    wall_time: Timestamp,
    monotonic: Monotonic,
}

#[derive(Clone, Debug)]
enum Monotonic {
    System(tokio::time::Instant),
    Manual(Duration),
}

impl ClockInstant {
    /// The time that the clock showed.
    pub fn wall_time(&self) -> Timestamp {
        self.wall_time
    }
}

/// A point in time: seconds and nanoseconds since 1970 in UTC, without leap seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: i64,
    /// Less than 1,000,000,000; counted forward even before 1970.
    nanos: u32,
}

impl Timestamp {
    /// The start of second `seconds` since 1970.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self { seconds, nanos: 0 }
    }

    /// `nanos` nanoseconds after the start of second `seconds`; a billion and more carry over.
    pub const fn new(seconds: i64, nanos: u32) -> Self {
        let carried = seconds.saturating_add((nanos / 1_000_000_000) as i64);
        Self { seconds: carried, nanos: nanos % 1_000_000_000 }
    }

    /// Whole seconds since 1970.
    pub const fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds within the second.
    pub const fn nanos(self) -> u32 {
        self.nanos
    }

    /// The duration from `earlier` to this; zero if this is not later.
    pub fn since(self, earlier: Self) -> Duration {
        if self <= earlier {
            return Duration::ZERO;
        }
        // If the difference of the nanoseconds is negative, it borrows a second.
        let seconds = self.seconds.abs_diff(earlier.seconds);
        match self.nanos.checked_sub(earlier.nanos) {
            Some(nanos) => Duration::new(seconds, nanos),
            None => Duration::new(seconds - 1, 1_000_000_000 + self.nanos - earlier.nanos),
        }
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    /// Stays at the last representable second when the sum lies beyond it.
    fn add(self, duration: Duration) -> Self {
        let seconds = self.seconds.saturating_add_unsigned(duration.as_secs());
        Self::new(seconds, self.nanos + duration.subsec_nanos())
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    /// Stays at the first representable second when the difference lies before it.
    fn sub(self, duration: Duration) -> Self {
        let seconds = self.seconds.saturating_sub_unsigned(duration.as_secs());
        match self.nanos.checked_sub(duration.subsec_nanos()) {
            Some(nanos) => Self::new(seconds, nanos),
            None => Self::new(
                seconds.saturating_sub(1),
                1_000_000_000 + self.nanos - duration.subsec_nanos(),
            ),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.seconds, self.nanos)
    }
}

#[cfg(test)]
mod tests;
