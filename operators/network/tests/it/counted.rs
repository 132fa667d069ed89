//! [`Counted`]: a backend that counts its calls and can be out of service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use network_operator::backend::{Backend, BackendError, Desired, Mark, Owner, Plan};
use runtime::Request;

/// See the [module documentation](self).
pub(crate) struct Counted<B> {
    pub(crate) inner: Arc<B>,
    /// The number of calls that have begun or ended.
    steps: watch::Sender<u64>,
    is_down: AtomicBool,
}

impl<B: Backend> Counted<B> {
    pub(crate) fn new(inner: Arc<B>) -> Self {
        Self { inner, steps: watch::Sender::new(0), is_down: AtomicBool::new(false) }
    }

    /// Every call fails, or none.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Waits until this number of calls have begun or ended from now on.
    pub(crate) async fn wait_for_steps(&self, count: u64) {
        let mut steps = self.steps.subscribe();
        let goal = *steps.borrow() + count;
        steps.wait_for(|steps| *steps >= goal).await.unwrap();
    }

    async fn count<T>(
        &self,
        call: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        self.steps.send_modify(|steps| *steps += 1);
        if self.is_down.load(Ordering::SeqCst) {
            return Err(BackendError::Unavailable("out of service".to_owned()));
        }
        let result = call.await;
        self.steps.send_modify(|steps| *steps += 1);
        result
    }
}

impl<B: Backend> Backend for Counted<B> {
    type Change = B::Change;

    async fn plan(
        &self,
        mark: &Mark,
        desired: Option<&Desired>,
    ) -> Result<Plan<B::Change>, BackendError> {
        self.count(self.inner.plan(mark, desired)).await
    }

    async fn make(&self, mark: &Mark, change: &B::Change) -> Result<(), BackendError> {
        self.count(self.inner.make(mark, change)).await
    }

    async fn keys(&self, owner: &Owner) -> Result<Vec<Request>, BackendError> {
        self.count(self.inner.keys(owner)).await
    }
}
