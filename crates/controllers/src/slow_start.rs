//! Requests in batches that grow while they succeed: one, then two, then four, and so on, so that a
//! refusal that concerns all of them is met only once.
//!
//! Upstream: `replicaset/replica_set.go`, `slowStartBatch`

use std::future::Future;

use futures_util::stream::{self, StreamExt};

/// The number of concurrent requests of one reconcile. Several controllers with several workers each
/// share the 200 concurrent writes of a server.
pub(crate) const MAX_CONCURRENT: usize = 16;

/// The size of the concurrent requests of one reconcile, unless a single one is larger. Objects take up
/// to thirty times their size in memory while a server reads them.
const MAX_CONCURRENT_BYTES: usize = 1 << 20;

/// Runs `request` with each number below `count`. Stops after the batch of the first error, which is
/// returned. `size` is about that of a request in bytes: fewer large ones run at the same time.
pub(crate) async fn run<R, F, T, E>(count: usize, size: usize, request: R) -> Result<(), E>
where
    R: Fn(usize) -> F,
    F: Future<Output = Result<T, E>>,
{
    let concurrent = (MAX_CONCURRENT_BYTES / size.max(1)).clamp(1, MAX_CONCURRENT);
    let (mut done, mut batch) = (0, 1);
    while done < count {
        let length = batch.min(count - done);
        let mut results =
            stream::iter(done..done + length).map(&request).buffer_unordered(concurrent);
        let mut failed = None;
        while let Some(result) = results.next().await {
            failed = failed.or(result.err());
        }
        if let Some(error) = failed {
            return Err(error);
        }
        done += length;
        batch *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[tokio::test]
    async fn a_refusal_ends_the_requests_after_its_batch() {
        let seen = RefCell::new(Vec::new());
        let request = |number: usize| {
            seen.borrow_mut().push(number);
            async move { if number == 4 { Err("refused") } else { Ok(()) } }
        };
        assert_eq!(run(100, 1, request).await, Err("refused"));
        assert_eq!(*seen.borrow(), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[tokio::test]
    async fn fewer_large_requests_run_at_the_same_time() {
        for (size, expected) in [(0, 16), (1 << 18, 4), (1 << 30, 1)] {
            let (running, most) = (Cell::new(0), Cell::new(0));
            let request = async |_| {
                running.set(running.get() + 1);
                most.set(most.get().max(running.get()));
                tokio::task::yield_now().await;
                running.set(running.get() - 1);
                Ok::<(), ()>(())
            };
            run(100, size, request).await.unwrap();
            assert_eq!(most.get(), expected, "{size}");
        }
    }
}
