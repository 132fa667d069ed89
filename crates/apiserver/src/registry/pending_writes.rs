//! [`PendingWrites`]: the writes of one request whose outcome is not known yet, and
//! [`FinishWrites`], which completes them when the request is canceled.
//!
//! A client that disconnects, or a deadline that passes, drops the future of its request. The store
//! still performs a write that it has received. The steps that depend on the outcome (the release
//! of allocated addresses and quota, the seat, a second write, metrics, the audit log) must
//! therefore outlive the client:
//!
//! ```text
//! claim ─▶ write ─▶ decided ─▶ visible in the cache ─▶ claim released ─▶ response
//!    ▲       └──────── canceled here: a task finishes the request ────────┘ │
//!    └─ canceled here: nothing is written, the claim is released at once    └─ no client left
//! ```
//!
//! Invariants:
//! - between [`PendingWrites::begin`] and the drop of what it returns, dropping the request does not
//!   drop its future;
//! - a seat of flow control is held until then, so canceled requests are bounded as others are.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::runtime::Handle;

use keel::Tasks;

/// See the [module documentation](self). Clones refer to the same request.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingWrites(Arc<PendingState>);

#[derive(Debug, Default)]
struct PendingState {
    /// The number of [`PendingWrite`]s.
    count: AtomicUsize,
    abandoned: AtomicBool,
}

/// A write whose outcome other steps depend on.
#[derive(Debug)]
pub(crate) struct PendingWrite(PendingWrites);

impl PendingWrites {
    /// Must be called before a write is sent to the store. The guard is held until all steps that
    /// depend on the outcome are done.
    pub(crate) fn begin(&self) -> PendingWrite {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        PendingWrite(self.clone())
    }

    /// Whether the request was canceled. A request with several independent writes stops before its
    /// next write.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.0.abandoned.load(Ordering::Acquire)
    }

    fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Acquire) == 0
    }
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        self.0.0.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A future that a task completes if it is dropped while writes are pending.
pub(crate) struct FinishWrites<T: Send + 'static> {
    /// `None` once the future is ready, and while it is polled: a future that panicked is not
    /// resumed.
    work: Option<Work<T>>,
    writes: PendingWrites,
    tasks: Tasks,
    /// The runtime for the task, because the request may be dropped outside of a runtime.
    runtime: Handle,
}

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T: Send + 'static> FinishWrites<T> {
    /// Must be called within a runtime.
    pub(crate) fn new(work: Work<T>, writes: &PendingWrites, tasks: &Tasks) -> Self {
        let (writes, tasks) = (writes.clone(), tasks.clone());
        Self { work: Some(work), writes, tasks, runtime: Handle::current() }
    }
}

impl<T: Send + 'static> Future for FinishWrites<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut work = self.work.take().expect("a future is not polled after it is ready");
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for FinishWrites<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take().filter(|_| !self.writes.is_empty()) else { return };
        self.writes.0.abandoned.store(true, Ordering::Release);
        let _entered = self.runtime.enter();
        self.tasks.spawn("finish-writes", async move {
            work.await;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    /// A future that sets `done` at its end, once `decided` resolves. It has a pending write if
    /// `has_write`.
    fn request(
        writes: &PendingWrites,
        decided: oneshot::Receiver<()>,
        done: &Arc<AtomicBool>,
        has_write: bool,
    ) -> Work<()> {
        let (writes, done) = (writes.clone(), Arc::clone(done));
        Box::pin(async move {
            let _write = has_write.then(|| writes.begin());
            let _ = decided.await;
            done.store(true, Ordering::Release);
        })
    }

    /// Whether a request is finished after it is canceled, with a pending write or without.
    async fn is_finished(has_write: bool) -> bool {
        let (writes, tasks, done) = (PendingWrites::default(), Tasks::new(), Arc::default());
        let (decide, decided) = oneshot::channel();
        let work = request(&writes, decided, &done, has_write);
        let mut work = FinishWrites::new(work, &writes, &tasks);
        assert!((&mut work).now_or_never().is_none());
        drop(work);
        assert_eq!(writes.is_abandoned(), has_write);
        drop(decide);
        tasks.stop(Duration::from_secs(10)).await.unwrap();
        done.load(Ordering::Acquire)
    }

    #[tokio::test]
    async fn a_canceled_request_is_finished_if_a_write_is_pending() {
        assert!(is_finished(true).await);
    }

    #[tokio::test]
    async fn a_canceled_request_without_a_pending_write_ends_at_once() {
        assert!(!is_finished(false).await);
    }
}
