//! [`Offload`]: runs long computations without delaying the runtime's other tasks.
//!
//! A task that computes for a second occupies one of the runtime's threads for that second, and with a
//! few such tasks no other task is polled, not even the timers that should end them. A future that
//! is run here is polled by a thread that has first handed its other tasks to another thread.
//!
//! ```text
//! run(large request)   poll ── waits for the store ── poll      a permit for each poll,
//! run(large request)        poll ──── waits ──── poll           none while it waits
//! small requests       ─────────────────────────────────        the runtime's own threads
//! ```
//!
//! Invariants:
//! - the number of concurrent polls is limited by permits, so that threads of this kind do not occupy
//!   all processors;
//! - a flow (a user, for instance) waits for one permit at a time, and permits are granted in the order
//!   of the requests, so that the flows take turns. Exempt futures have permits of their own;
//! - a future that is run by an offloaded future uses the permits of the outer one.

use std::cell::Cell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Offload {
    permits: Semaphore,
    exempt: Semaphore,
    /// For each flow with futures in progress, a semaphore with one permit.
    flow_semaphores: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl Offload {
    /// An offload with at most `max_polls` concurrent polls; 0 counts as 1. Exempt futures have the
    /// same number in addition.
    pub fn new(max_polls: usize) -> Self {
        let permits = || Semaphore::new(max_polls.max(1));
        Self { permits: permits(), exempt: permits(), flow_semaphores: Mutex::default() }
    }

    /// An offload that uses half of the processors, so that the other half is free for short work.
    pub fn for_half_of_the_processors() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from) / 2)
    }

    /// Runs a future whose polls may take long. `flow` is `None` for an exempt future.
    pub async fn run<F: Future>(&self, flow: Option<&str>, future: F) -> F::Output {
        const OPEN: &str = "the semaphore is never closed";
        // The outer future has the only permit of its flow while it is polled.
        if OffloadedPoll::is_current() {
            return future.await;
        }
        let flow_semaphore = flow.map(|it| self.semaphore_of_flow(it));
        let mut future = pin!(future);
        loop {
            let (flow_permit, permit) = match &flow_semaphore {
                Some(flow_semaphore) => {
                    let flow_permit = flow_semaphore.acquire().await.expect(OPEN);
                    (Some(flow_permit), self.permits.acquire().await.expect(OPEN))
                }
                None => (None, self.exempt.acquire().await.expect(OPEN)),
            };
            let polled = poll_fn(|context| {
                Poll::Ready(blocking(|| {
                    let _current = OffloadedPoll::begin();
                    future.as_mut().poll(context)
                }))
            })
            .await;
            drop((flow_permit, permit));
            if let Poll::Ready(output) = polled {
                return output;
            }
            until_woken().await;
        }
    }

    fn semaphore_of_flow(&self, flow: &str) -> Arc<Semaphore> {
        let mut semaphores = self.flow_semaphores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = semaphores.get(flow).and_then(Weak::upgrade) {
            return found;
        }
        semaphores.retain(|_, it| it.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(1));
        semaphores.insert(flow.to_owned(), Arc::downgrade(&semaphore));
        semaphore
    }
}

thread_local! {
    /// Whether this thread polls an offloaded future.
    static IS_OFFLOADED: Cell<bool> = const { Cell::new(false) };
}

/// The poll of an offloaded future on this thread; it ends when this is dropped.
struct OffloadedPoll;

impl OffloadedPoll {
    fn begin() -> Self {
        IS_OFFLOADED.set(true);
        Self
    }

    fn is_current() -> bool {
        IS_OFFLOADED.get()
    }
}

impl Drop for OffloadedPoll {
    fn drop(&mut self) {
        IS_OFFLOADED.set(false);
    }
}

/// Resolves when the task is polled again; the future that was polled before has the task's waker.
async fn until_woken() {
    let mut is_woken = false;
    poll_fn(
        |_| if std::mem::replace(&mut is_woken, true) { Poll::Ready(()) } else { Poll::Pending },
    )
    .await;
}

/// Runs long work on this thread, after the runtime has handed the thread's other tasks to another
/// thread. A single-threaded runtime runs the work directly.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|it| it.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests await their own tasks")]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_task_that_computes_does_not_delay_others() {
        let offload = Arc::new(Offload::new(1));
        let (begun, has_begun) = oneshot::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let computing = tokio::spawn({
            let offload = Arc::clone(&offload);
            async move {
                let compute = async move {
                    begun.send(()).unwrap();
                    released.recv().unwrap();
                };
                offload.run(None, compute).await;
            }
        });
        has_begun.await.unwrap();
        // Without the handover, the only worker thread would be blocked in `recv`.
        tokio::spawn(async move { release.send(()).unwrap() }).await.unwrap();
        computing.await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn the_number_of_concurrent_polls_is_limited() {
        let offload = Arc::new(Offload::new(2));
        let (now, highest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let both = Arc::new(Barrier::new(2));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (offload, now, highest, both) = (
                    Arc::clone(&offload),
                    Arc::clone(&now),
                    Arc::clone(&highest),
                    Arc::clone(&both),
                );
                tokio::spawn(async move {
                    let compute = async {
                        let under_way = now.fetch_add(1, Ordering::SeqCst) + 1;
                        highest.fetch_max(under_way, Ordering::SeqCst);
                        both.wait();
                        now.fetch_sub(1, Ordering::SeqCst);
                    };
                    offload.run(None, compute).await;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(highest.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_future_that_waits_has_no_permit() {
        let offload = Offload::new(1);
        let (send, receive) = oneshot::channel();
        let waiting = offload.run(None, receive);
        let other = async { offload.run(None, async { send.send(7).unwrap() }).await };
        let (received, ()) = tokio::join!(waiting, other);
        assert_eq!(received, Ok(7));
    }

    #[tokio::test]
    async fn a_flow_with_many_futures_does_not_delay_another_flow() {
        let offload = Offload::new(1);
        let order = Mutex::new(Vec::new());
        let record = |flow: &'static str| {
            let order = &order;
            offload.run(Some(flow), async move { order.lock().unwrap().push(flow) })
        };
        let held = offload.permits.acquire().await.unwrap();
        let all = async { tokio::join!(record("a"), record("a"), record("a"), record("b")) };
        let release = async { drop(held) };
        tokio::join!(all, release);
        let order = order.into_inner().unwrap();
        assert_eq!(order.iter().position(|it| *it == "b"), Some(1), "{order:?}");
    }

    #[tokio::test]
    async fn a_nested_future_of_the_same_flow_uses_the_permits_of_the_outer_one() {
        let offload = Offload::new(1);
        let nested = async {
            tokio::task::yield_now().await;
            offload.run(Some("a"), async { 7 }).await
        };
        let outer = offload.run(Some("a"), nested);
        let result = tokio::time::timeout(std::time::Duration::from_secs(10), outer).await;
        assert_eq!(result, Ok(7));
    }

    #[tokio::test]
    async fn an_exempt_future_does_not_wait_for_flows() {
        let offload = Offload::new(1);
        let _held = offload.permits.acquire().await.unwrap();
        offload.run(None, async {}).await;
    }
}
