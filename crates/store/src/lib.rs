//! A revisioned map of keys to bytes, independent of Kubernetes.
//!
//! Each write gets a [`Revision`], the next number of a counter for all keys. The present state,
//! recent earlier states, and the events between them can be read:
//!
//! ```
//! use futures_util::StreamExt;
//! # use {keel::{Clock, Tasks}, store::{Error, Expect, Memory, Options, Store}};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let store = Memory::open(Options::default(), &Clock::system(), &Tasks::new());
//! let first = store.put("/a", "1".into(), Expect::Absent, None).await?;
//! let mut watch = store.watch("/", first.modified).await?;
//! store.put("/a", "2".into(), Expect::At(first.modified), None).await?;
//!
//! let response = watch.next().await.unwrap()?;
//! assert_eq!(response.events[0].new.as_ref().unwrap().value, "2");
//! let page = store.range("/", None, usize::MAX, Some(first.modified)).await?;
//! assert_eq!(page.records[0].value, "1");
//! # Ok(())
//! # }
//! ```
//!
//! Invariants:
//! - revisions strictly increase, and no two acknowledged writes share one, also after a crash;
//! - an acknowledged write is durable if the backend is;
//! - a watch delivers every event of its prefix in the order of revisions until it ends with an
//!   error.

mod error;
mod record;
mod history;
mod state;
mod watch;
mod journal;
mod quota;
mod writer;
mod engine;
mod expiration;
mod maintenance;
pub mod memory;
pub mod embedded;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use embedded::Embedded;
pub use engine::{Engine, Options};
pub use error::Error;
pub use memory::Memory;
pub use record::{Event, Expect, Page, Record, Revision};
pub use watch::{Watch, WatchResponse};

/// The return type of the methods of [`Store`], which allows `dyn Store`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A backend, in this process or behind a network. All reads are linearizable: they return each write
/// that was acknowledged before they began.
///
/// If the future of a write is dropped, the write happens completely or not at all. Any method may
/// fail with [`Error::Unavailable`] if the backend is behind a network.
pub trait Store: Send + Sync + 'static {
    /// The record of `key`, if it exists.
    fn get(&self, key: &str) -> BoxFuture<'_, Result<Option<Arc<Record>>, Error>>;

    /// Writes `value` if `key` is as expected, and fails with [`Error::Conflict`] otherwise. The record
    /// is deleted after `ttl` unless it is written again.
    fn put(
        &self,
        key: &str,
        value: Bytes,
        expect: Expect,
        ttl: Option<Duration>,
    ) -> BoxFuture<'_, Result<Arc<Record>, Error>>;

    /// Deletes `key` if it is as expected. Fails with [`Error::NotFound`] if the key does not exist,
    /// and with [`Error::Conflict`] if it is not as expected.
    fn delete(&self, key: &str, expect: Expect) -> BoxFuture<'_, Result<Event, Error>>;

    /// The first `limit` records whose keys begin with `prefix` and are not before `start`, in the
    /// order of keys, at the present revision or `at` an earlier one.
    fn range(
        &self,
        prefix: &str,
        start: Option<&str>,
        limit: usize,
        at: Option<Revision>,
    ) -> BoxFuture<'_, Result<Page, Error>>;

    /// The events after revision `after` on keys that begin with `prefix`, past and future. Fails
    /// with [`Error::Compacted`] if some of them are no longer kept, and with [`Error::Future`] if
    /// the store has not reached `after`.
    fn watch(&self, prefix: &str, after: Revision) -> BoxFuture<'_, Result<Watch, Error>>;

    /// Requests that each open watch delivers a response with the present revision or a later one,
    /// unless it has done so. Otherwise a watch delivers no response for writes outside of its
    /// prefix.
    fn request_progress(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// The revision of the newest write.
    fn revision(&self) -> BoxFuture<'_, Result<Revision, Error>>;

    /// Fails if the store does not answer, refuses writes, or does not finish them within `timeout`.
    /// A full disk is no error: deletions succeed, but an unhealthy server would receive none.
    fn check_health(&self, timeout: Duration) -> BoxFuture<'_, Result<(), Error>>;

    /// Removes the history before `upto`: the states before it can no longer be read, and no watch can
    /// start before it. Compacting a compacted revision again is no error.
    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), Error>>;

    /// Finishes the queued writes, ends all watches, and releases the resources of the store. All
    /// methods fail with [`Error::Closed`] from then on; closing twice is no error.
    fn close(&self) -> BoxFuture<'_, Result<(), Error>>;
}
