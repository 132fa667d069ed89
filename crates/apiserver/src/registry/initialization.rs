//! The time between the storing of a new object and the moment at which everybody may see it: its
//! creator waits for those who have to work on it ([`InitializationWait`]).
//!
//! ```text
//! stored ─▶ the first takes its name away ─▶ … the last ─▶ 201 with what they made of it
//!              │
//!              └─ one sets a result ─▶ the object goes, and the creator gets the result
//! ```
//!
//! Who waits follows the log of the resource, as a watcher does, and lends its seat to others.

use super::Outcome;
use super::scope::RequestScope;
use crate::cache::watch_cache::{Change, Entry};
use crate::request::options::parse_i64;
use keel::Timestamp;
use machinery::Status;
use machinery::meta::initializers;
use std::sync::Arc;
use std::time::Duration;
use store::{Expect, Record};
use tokio::time::Instant;

/// How long a creator waits who does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The answer has to leave so long before the request is given up.
const RESPONSE_MARGIN: Duration = Duration::from_millis(100);

/// An object whose initialization has failed is removed at once. Should that be cut short, the store
/// forgets it after this time.
pub(super) const FAILED_OBJECT_TTL: Duration = Duration::from_secs(10);

/// How many changes are looked at together.
const BATCH: usize = 256;

/// How long a creator waits for the initialization of his object; it begins with the request.
pub(crate) struct InitializationWait {
    /// None: not at all.
    until: Option<Timestamp>,
}

impl InitializationWait {
    /// As the request says.
    pub(crate) fn of(scope: &RequestScope) -> Result<Self, Status> {
        if scope.includes_uninitialized() {
            return Ok(Self { until: None });
        }
        let timeout = match scope.query.text("timeoutSeconds") {
            "" => DEFAULT_TIMEOUT,
            text => match u64::try_from(parse_i64(text)?) {
                Ok(0) | Err(_) => DEFAULT_TIMEOUT,
                Ok(seconds) => Duration::from_secs(seconds),
            },
        };
        Ok(Self { until: Some(scope.storage.clock.now() + timeout) })
    }

    /// What became of a new object once everybody had worked on it.
    pub(crate) async fn until_initialized(
        self,
        scope: &RequestScope,
        outcome: Outcome,
    ) -> Result<Outcome, Status> {
        match (outcome, self.until) {
            (Outcome::Stored(entry), Some(until)) if entry.uninitialized => {
                // In a box: requests that nobody works on need not have room for it.
                Box::pin(wait(scope, &entry, until)).await.map(Outcome::Stored)
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

/// Reads the log until it says how the initialization result.
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
            // So much has happened meanwhile that only the present can tell.
            Err(too_old) => {
                cursor = too_old.floor.max(cache.snapshot().revision);
                let now = cache.get(&created.key);
                if let Some(result) = initialization_result(now.as_ref()) {
                    return result;
                }
            }
        }
    }
}

/// How the initialization result, if it did with this change.
fn change_result(change: &Change, key: &str) -> Option<Result<Arc<Entry>, Status>> {
    let about = change.new.as_ref().or(change.old.as_ref())?;
    if *about.key == *key { initialization_result(change.new.as_ref()) } else { None }
}

/// How the initialization result of an object that is now so; None if it goes on.
fn initialization_result(now: Option<&Arc<Entry>>) -> Option<Result<Arc<Entry>, Status>> {
    match now {
        None => Some(Err(Status::internal("object deleted while waiting for creation"))),
        Some(entry) if !entry.uninitialized => Some(Ok(Arc::clone(entry))),
        Some(entry) => initializers::failure(&entry.object_as_stored()).map(Err),
    }
}

/// Removes an object that nobody will ever see. Whoever waits for it has read the result in the log.
pub(super) async fn remove_failed(scope: &RequestScope, record: &Record) {
    // If somebody else was faster, it is gone, since it cannot be changed any more.
    let _ = scope.storage.store.delete(&record.key, Expect::At(record.modified)).await;
}
