//! [`Offload`]: runs futures that compute for long without holding up the runtime's other tasks.
//!
//! A task that computes for a second keeps one of the runtime's threads for that second, and with a
//! few such tasks nothing else is polled, not even the timers that should end them. A future that
//! is run here is polled by a thread that has first handed its other tasks to another thread.
//!
//! ```text
//! run(large request)   poll ── waits for the store ── poll      a permit for each poll,
//! run(large request)        poll ──── waits ──── poll           none while it waits
//! small requests       ─────────────────────────────────        the runtime's own threads
//! ```
//!
//! Invariant: no more polls are under way than there are permits, so that the processors are not
//! all taken by threads of this kind. Permits are given in the order in which they were asked for.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Offload {
    permits: Semaphore,
}

impl Offload {
    /// With this many polls at once, and at least one.
    pub fn new(at_once: usize) -> Self {
        Self { permits: Semaphore::new(at_once.max(1)) }
    }

    /// Half of the processors, so that the other half is left to short work.
    pub fn for_half_of_the_processors() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from) / 2)
    }

    /// Runs a future; each of its polls may take long.
    pub async fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            let permit = self.permits.acquire().await.expect("the semaphore is never closed");
            let polled =
                poll_fn(|context| Poll::Ready(blocking(|| future.as_mut().poll(context)))).await;
            drop(permit);
            if let Poll::Ready(output) = polled {
                return output;
            }
            until_woken().await;
        }
    }
}

/// Resolves when the task is polled again: the future that was polled before has the task's waker.
async fn until_woken() {
    let mut is_woken = false;
    poll_fn(
        |_| if std::mem::replace(&mut is_woken, true) { Poll::Ready(()) } else { Poll::Pending },
    )
    .await;
}

/// A runtime of one thread has no other thread to hand its tasks to.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|it| it.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};
    use tokio::sync::oneshot;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_task_that_computes_does_not_hold_up_others() {
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
                offload.run(compute).await;
            }
        });
        has_begun.await.unwrap();
        // The only worker would be inside of `recv`.
        tokio::spawn(async move { release.send(()).unwrap() }).await.unwrap();
        computing.await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_more_polls_are_under_way_than_permits() {
        let offload = Arc::new(Offload::new(2));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let both = Arc::new(Barrier::new(2));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (offload, now, most, both) =
                    (Arc::clone(&offload), Arc::clone(&now), Arc::clone(&most), Arc::clone(&both));
                tokio::spawn(async move {
                    let compute = async {
                        let under_way = now.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(under_way, Ordering::SeqCst);
                        both.wait();
                        now.fetch_sub(1, Ordering::SeqCst);
                    };
                    offload.run(compute).await;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_future_that_waits_has_no_permit() {
        let offload = Offload::new(1);
        let (send, receive) = oneshot::channel();
        let waiting = offload.run(receive);
        let other = async { offload.run(async { send.send(7).unwrap() }).await };
        let (received, ()) = tokio::join!(waiting, other);
        assert_eq!(received, Ok(7));
    }
}
