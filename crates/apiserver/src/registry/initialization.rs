//! [`InitializationWait`]: a create request waits until the initializers of its object are done.
//! Until then, other clients do not see the object.
//!
//! ```text
//! stored ─▶ the first initializer removes its name ─▶ … the last ─▶ 201 with the object
//!              │
//!              └─ an initializer sets a result ─▶ the object is removed, the result is the response
//! ```
//!
//! A waiting request follows the change log of the resource, as a watch does, and lends its seat to
//! other requests.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::WriteOutcome;
use super::scope::RequestScope;
use crate::cache::watch_cache::{Change, Entry};
use keel::Timestamp;
use machinery::Status;
use machinery::meta::initializers;
use store::{Expect, Record};

/// The maximum wait of a create request without `timeoutSeconds`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The wait ends this long before the deadline of the request, so that the response can be sent.
const RESPONSE_MARGIN: Duration = Duration::from_millis(100);

/// The TTL of an object whose initialization has failed. The object is removed immediately; if the
/// server stops before that, the store removes it after this time.
pub(super) const FAILED_OBJECT_TTL: Duration = Duration::from_secs(10);

/// The number of changes that are read together.
const BATCH: usize = 256;

/// The time until which a create request waits for initialization. It starts with the request.
pub(crate) struct InitializationWait {
    /// None if the request does not wait.
    until: Option<Timestamp>,
}

impl InitializationWait {
    /// No wait: the client requests objects with pending initializers too.
    pub(crate) const NONE: Self = Self { until: None };

    /// A wait that starts now.
    pub(crate) fn start(scope: &RequestScope, timeout: Option<Duration>) -> Self {
        let timeout = timeout.unwrap_or(DEFAULT_TIMEOUT);
        Self { until: Some(scope.storage.clock.now() + timeout) }
    }

    /// Waits until a new object is initialized, and returns the initialized object.
    pub(crate) async fn until_initialized(
        self,
        scope: &RequestScope,
        outcome: WriteOutcome,
    ) -> Result<WriteOutcome, Status> {
        match (outcome, self.until) {
            (WriteOutcome::Stored(entry), Some(until)) if entry.uninitialized => {
                // The future is boxed to keep the future of requests without initializers small.
                Box::pin(wait(scope, &entry, until)).await.map(WriteOutcome::Stored)
            }
            (outcome, _) => Ok(outcome),
        }
    }
}

async fn wait(
    scope: &RequestScope,
    created: &Entry,
    until: Timestamp,
) -> Result<Arc<Entry>, Status> {
    let _loan = scope.seat.lend();
    let deadline = scope.deadline.checked_sub(RESPONSE_MARGIN).unwrap_or_else(Instant::now);
    tokio::select! {
        initialized = follow(scope, created) => return initialized,
        () = scope.storage.clock.sleep_until(until) => {}
        () = tokio::time::sleep_until(deadline) => {}
        () = scope.storage.tasks.shutdown() => {}
    }
    let (resource, name) = (scope.group_resource(), created.name());
    let why = format!("server has timed out waiting for the initialization of {resource} {name}");
    Err(Status::timeout(&why, 0))
}

/// Reads the change log until the initialization has ended.
async fn follow(scope: &RequestScope, created: &Entry) -> Result<Arc<Entry>, Status> {
    let cache = &scope.served.cache;
    let mut changed = cache.subscribe();
    let mut cursor = created.revision;
    loop {
        changed.mark_seen();
        match cache.after(cursor, BATCH) {
            Ok(changes) if changes.is_empty() => changed.changed().await,
            Ok(changes) => {
                for change in changes {
                    cursor = change.revision;
                    if let Some(result) = change_result(&change, &created.key) {
                        return result;
                    }
                }
            }
            // The change log no longer has all changes, so the current state decides.
            Err(too_old) => {
                cursor = too_old.floor.max(cache.snapshot().revision);
                let current = cache.get(&created.key);
                if let Some(result) = initialization_result(current.as_ref()) {
                    return result;
                }
            }
        }
    }
}

/// The result of the initialization, if this change ends it.
fn change_result(change: &Change, key: &str) -> Option<Result<Arc<Entry>, Status>> {
    let changed = change.new.as_ref().or(change.old.as_ref())?;
    if *changed.key == *key { initialization_result(change.new.as_ref()) } else { None }
}

/// The result of the initialization, given the current object; None if it is not finished.
fn initialization_result(current: Option<&Arc<Entry>>) -> Option<Result<Arc<Entry>, Status>> {
    match current {
        None => Some(Err(Status::internal("object deleted while waiting for creation"))),
        Some(entry) if !entry.uninitialized => Some(Ok(Arc::clone(entry))),
        Some(entry) => initializers::failure(&entry.object_as_stored()).map(Err),
    }
}

/// Removes an object whose initialization has failed. Waiting requests read the result from the
/// change log.
pub(super) async fn remove_failed(scope: &RequestScope, record: &Record) {
    // A failed deletion means that the object is already removed, because it cannot change anymore.
    let _ = scope.storage.store.delete(&record.key, Expect::At(record.modified)).await;
}
