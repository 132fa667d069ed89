//! [`Fence`]: whether this process may write. A leader's fence stands open for a while after each
//! renewal of its lease, and closes by itself: a deposed leader, or one that was suspended or cut
//! off, stops writing before anybody else may begin.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use keel::{Clock, Moment};

/// This process is not the leader, or cannot be sure of it any more: nothing was written.
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

/// See the [module documentation](self). Clones are the same fence.
#[derive(Clone)]
pub(crate) struct Fence(Arc<Shared>);

struct Shared {
    clock: Clock,
    state: Mutex<State>,
}

enum State {
    Closed,
    Open,
    OpenFor(Moment, Duration),
}

impl Fence {
    /// Closed.
    pub(crate) fn new(clock: &Clock) -> Self {
        Self(Arc::new(Shared { clock: clock.clone(), state: Mutex::new(State::Closed) }))
    }

    /// There is nobody to compete with.
    pub(crate) fn open(&self) {
        self.set(State::Open);
    }

    /// Opens it until `duration` after `since`.
    pub(crate) fn open_for(&self, since: Moment, duration: Duration) {
        self.set(State::OpenFor(since, duration));
    }

    pub(crate) fn close(&self) {
        self.set(State::Closed);
    }

    pub(crate) fn check(&self) -> Result<(), Fenced> {
        if self.left().is_zero() { Err(Fenced) } else { Ok(()) }
    }

    /// For how long it stays open.
    pub(crate) fn left(&self) -> Duration {
        match &*self.0.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Closed => Duration::ZERO,
            State::Open => Duration::MAX,
            State::OpenFor(since, duration) => {
                duration.saturating_sub(self.0.clock.perhaps_passed_since(since))
            }
        }
    }

    fn set(&self, state: State) {
        *self.0.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Timestamp;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_closes_by_itself_however_the_clock_is_set() {
        let clock = Clock::manual(Timestamp::from_seconds(1000));
        let fence = Fence::new(&clock);
        assert_eq!(fence.check(), Err(Fenced));
        fence.open_for(clock.moment(), 10 * SECOND);
        clock.advance(9 * SECOND);
        assert_eq!(fence.check(), Ok(()));
        clock.jump(Timestamp::from_seconds(0));
        clock.advance(SECOND);
        assert_eq!(fence.check(), Err(Fenced), "the clock was set back, but time has passed");
        fence.open_for(clock.moment(), 10 * SECOND);
        clock.jump(Timestamp::from_seconds(5000));
        assert_eq!(fence.check(), Err(Fenced), "perhaps the machine was suspended");
    }
}
