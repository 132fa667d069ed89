//! [`Fence`]: whether this process may write. The fence of a leader is open for some time after each
//! renewal of its lease, and closes by itself: a former leader, or one that was suspended or
//! disconnected, stops writing before another process may begin. A write without a response is
//! abandoned when another process may begin.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use keel::{Clock, ClockInstant};

/// This process is not the leader, or its lease was not renewed in time: the write was not sent.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use runtime::{Api, Fenced, Manager, kube_client::{self, api::PostParams}};
///
/// async fn create(manager: &Manager, map: &ConfigMap) -> kube_client::Result<bool> {
///     let maps = Api::<ConfigMap>::namespaced(manager.client(), "default");
///     match maps.create(&PostParams::default(), map).await {
///         Err(kube_client::Error::Service(error)) if error.is::<Fenced>() => Ok(false),
///         created => created.map(|_| true),
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("refused to write: not the leader, or the lease was not renewed in time")]
pub struct Fenced;

/// A write was sent in time, and has no response before another process may lead. It may have
/// succeeded or not. The process should stop; the next leader reads the result.
///
/// ```
/// use runtime::{Fenced, WriteAbandoned, kube_client};
///
/// fn is_deposed(error: &kube_client::Error) -> bool {
///     let kube_client::Error::Service(cause) = error else { return false };
///     cause.is::<Fenced>() || cause.is::<WriteAbandoned>()
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("abandoned a write without a response: the lease was not renewed in time")]
pub struct WriteAbandoned;

/// See the [module documentation](self). Clones are the same fence.
#[derive(Clone)]
pub(crate) struct Fence(Arc<FenceState>);

struct FenceState {
    clock: Clock,
    mode: Mutex<FenceMode>,
    /// Notified after each change of `mode`.
    changed: Notify,
}

enum FenceMode {
    Closed,
    Open,
    OpenFor {
        since: ClockInstant,
        duration: Duration,
        /// The time after that for which no other process opens its fence.
        grace: Duration,
    },
}

/// The times that are left of an open fence.
struct FenceTimes {
    /// The time for which this fence stays open.
    open: Duration,
    /// The time for which the fences of all other processes stay closed.
    exclusive: Duration,
}

impl Fence {
    /// A closed fence.
    pub(crate) fn new(clock: &Clock) -> Self {
        let (clock, mode) = (clock.clone(), Mutex::new(FenceMode::Closed));
        Self(Arc::new(FenceState { clock, mode, changed: Notify::new() }))
    }

    /// Opens the fence without leader election.
    pub(crate) fn open(&self) {
        self.set(FenceMode::Open);
    }

    /// Opens the fence until `duration` after `since`; others stay closed for another `grace`.
    pub(crate) fn open_for(&self, since: ClockInstant, duration: Duration, grace: Duration) {
        self.set(FenceMode::OpenFor { since, duration, grace });
    }

    pub(crate) fn close(&self) {
        self.set(FenceMode::Closed);
    }

    pub(crate) fn check(&self) -> Result<(), Fenced> {
        if self.time_left().is_zero() { Err(Fenced) } else { Ok(()) }
    }

    /// The time for which the fence stays open.
    pub(crate) fn time_left(&self) -> Duration {
        self.times().open
    }

    /// Waits for the response to a write, until another process may lead. Renewals extend the time.
    pub(crate) async fn await_write<T, E>(
        &self,
        write: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Box<dyn std::error::Error + Send + Sync>>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let mut write = pin!(write);
        loop {
            let left = self.times().exclusive;
            if left.is_zero() {
                return Err(WriteAbandoned.into());
            }
            tokio::select! {
                biased;
                outcome = &mut write => return outcome.map_err(Into::into),
                () = self.0.clock.sleep(left) => {}
            }
        }
    }

    /// The time since the last renewal of the lease; `None` without a lease.
    pub(crate) fn time_since_renewal(&self) -> Option<Duration> {
        match &*self.0.mode.lock().unwrap_or_else(PoisonError::into_inner) {
            FenceMode::Closed | FenceMode::Open => None,
            FenceMode::OpenFor { since, .. } => Some(self.0.clock.possibly_elapsed_since(since)),
        }
    }

    /// Waits while the renewal of the lease is overdue: until it is renewed or leadership is lost.
    pub(crate) async fn await_overdue_renewal(&self) {
        loop {
            // Before the check, so that no change is missed.
            let changed = self.0.changed.notified();
            if self.time_since_renewal().is_none() || self.check().is_ok() {
                return;
            }
            changed.await;
        }
    }

    fn times(&self) -> FenceTimes {
        match &*self.0.mode.lock().unwrap_or_else(PoisonError::into_inner) {
            FenceMode::Closed => FenceTimes { open: Duration::ZERO, exclusive: Duration::ZERO },
            FenceMode::Open => FenceTimes { open: Duration::MAX, exclusive: Duration::MAX },
            FenceMode::OpenFor { since, duration, grace } => {
                let elapsed = self.0.clock.possibly_elapsed_since(since);
                let whole = duration.saturating_add(*grace);
                FenceTimes {
                    open: duration.saturating_sub(elapsed),
                    exclusive: whole.saturating_sub(elapsed),
                }
            }
        }
    }

    fn set(&self, mode: FenceMode) {
        *self.0.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Timestamp;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_fence_closes_by_itself_however_the_clock_is_set() {
        let clock = Clock::manual(Timestamp::from_seconds(1000));
        let fence = Fence::new(&clock);
        assert_eq!(fence.check(), Err(Fenced));
        fence.open_for(clock.instant(), 10 * SECOND, 5 * SECOND);
        clock.advance(9 * SECOND);
        assert_eq!(fence.check(), Ok(()));
        clock.jump(Timestamp::from_seconds(0));
        clock.advance(SECOND);
        assert_eq!(fence.check(), Err(Fenced), "the clock was set back, but time has passed");
        fence.open_for(clock.instant(), 10 * SECOND, 5 * SECOND);
        clock.jump(Timestamp::from_seconds(5000));
        assert_eq!(fence.check(), Err(Fenced), "the machine may have been suspended");
    }

    #[tokio::test]
    async fn an_overdue_renewal_is_awaited_until_the_fence_opens_or_closes() {
        let clock = Clock::manual(Timestamp::from_seconds(1000));
        let fence = Fence::new(&clock);
        fence.await_overdue_renewal().await;
        fence.open_for(clock.instant(), 10 * SECOND, 5 * SECOND);
        fence.await_overdue_renewal().await;
        for closes in [false, true] {
            clock.advance(60 * SECOND);
            let end = async {
                tokio::task::yield_now().await;
                if closes {
                    fence.close();
                } else {
                    fence.open_for(clock.instant(), 10 * SECOND, 5 * SECOND);
                }
            };
            let mut waiting = pin!(fence.await_overdue_renewal());
            tokio::select! {
                biased;
                () = &mut waiting => panic!("it does not wait"),
                () = end => {}
            }
            waiting.await;
        }
    }
}
