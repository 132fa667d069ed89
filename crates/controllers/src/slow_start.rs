//! Requests in batches that grow while they succeed: one, then two, then four, and so on, so that a
//! refusal that concerns all of them is met only once.
//!
//! Upstream: `replicaset/replica_set.go`, `slowStartBatch`

use std::future::Future;

use futures_util::stream::{self, StreamExt};

/// The number of concurrent requests of one reconcile. Several controllers with several workers each
/// share the 200 concurrent writes of a server.
pub(crate) const MAX_CONCURRENT: usize = 16;

/// Runs `request` with each number below `count`. Stops after the batch of the first error, which is
/// returned.
pub(crate) async fn run<R, F, T, E>(count: usize, request: R) -> Result<(), E>
where
    R: Fn(usize) -> F,
    F: Future<Output = Result<T, E>>,
{
    let (mut done, mut batch) = (0, 1);
    while done < count {
        let size = batch.min(count - done);
        let mut results =
            stream::iter(done..done + size).map(&request).buffer_unordered(MAX_CONCURRENT);
        let mut failed = None;
        while let Some(result) = results.next().await {
            failed = failed.or(result.err());
        }
        if let Some(error) = failed {
            return Err(error);
        }
        done += size;
        batch *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn a_refusal_ends_the_requests_after_its_batch() {
        let seen = RefCell::new(Vec::new());
        let request = |number: usize| {
            seen.borrow_mut().push(number);
            async move { if number == 4 { Err("refused") } else { Ok(()) } }
        };
        assert_eq!(run(100, request).await, Err("refused"));
        assert_eq!(*seen.borrow(), [0, 1, 2, 3, 4, 5, 6]);
    }
}
