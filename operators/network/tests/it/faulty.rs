//! [`FaultyBackend`]: a backend that fails when a test says so, and counts its calls.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use network_operator::backend::{Backend, BackendError, ClusterName, Desired, Ids, Mark, Plan};
use runtime::Request;

/// See the [module documentation](self).
pub(crate) struct FaultyBackend<B> {
    pub(crate) inner: Arc<B>,
    /// The number of calls that have begun or ended.
    steps: watch::Sender<u64>,
    fault: Mutex<Option<Fault>>,
    /// The plans for Networks of this namespace do not end.
    slow_namespace: watch::Sender<Option<String>>,
}

struct Fault {
    /// The number of plans and changes that still succeed.
    after: usize,
    error: fn(String) -> BackendError,
}

impl<B: Backend> FaultyBackend<B> {
    pub(crate) fn new(inner: Arc<B>) -> Self {
        let (steps, slow_namespace) = (watch::Sender::new(0), watch::Sender::new(None));
        Self { inner, steps, fault: Mutex::new(None), slow_namespace }
    }

    /// Every call fails as if nobody was there, or none.
    pub(crate) fn set_down(&self, is_down: bool) {
        let down = Fault { after: 0, error: BackendError::Unavailable };
        *self.fault.lock().unwrap() = is_down.then_some(down);
    }

    /// Plans for Networks of this namespace wait until another one is set, or none.
    pub(crate) fn set_slow(&self, namespace: Option<&str>) {
        self.slow_namespace.send_replace(namespace.map(str::to_owned));
    }

    /// Calls fail with this error after a number of plans and changes.
    pub(crate) fn fail_after(&self, calls: usize, error: fn(String) -> BackendError) {
        *self.fault.lock().unwrap() = Some(Fault { after: calls, error });
    }

    /// Waits until this number of calls have begun or ended from now on.
    pub(crate) async fn wait_for_steps(&self, count: u64) {
        let mut steps = self.steps.subscribe();
        let goal = *steps.borrow() + count;
        steps.wait_for(|steps| *steps >= goal).await.unwrap();
    }

    async fn count<T>(
        &self,
        cost: usize,
        call: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        self.steps.send_modify(|steps| *steps += 1);
        if let Some(fault) = &mut *self.fault.lock().unwrap() {
            if fault.after == 0 {
                return Err((fault.error)("out of service".to_owned()));
            }
            fault.after -= cost;
        }
        let result = call.await;
        self.steps.send_modify(|steps| *steps += 1);
        result
    }
}

impl<B: Backend> Backend for FaultyBackend<B> {
    type Change = B::Change;

    async fn plan(
        &self,
        mark: &Mark,
        desired: Option<&Desired>,
        known: &Ids,
    ) -> Result<Plan<B::Change>, BackendError> {
        let mut slow_namespace = self.slow_namespace.subscribe();
        let is_fast = |slow: &Option<String>| slow.as_deref() != Some(mark.key().namespace());
        slow_namespace.wait_for(is_fast).await.unwrap();
        self.count(1, self.inner.plan(mark, desired, known)).await
    }

    async fn make(&self, mark: &Mark, change: &B::Change) -> Result<(), BackendError> {
        self.count(1, self.inner.make(mark, change)).await
    }

    async fn keys(&self, cluster: &ClusterName) -> Result<Vec<Request>, BackendError> {
        self.count(0, self.inner.keys(cluster)).await
    }

    fn is_durable(&self) -> bool {
        self.inner.is_durable()
    }
}
