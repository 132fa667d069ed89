//! Turns the store's errors into the wire's: here, and nowhere else.

use machinery::{GroupResource, Status};
use store::Error;

/// What [`Error::Full`] means for deletions that are writes.
const FULL: &str = "Objects with finalizers and running pods are only marked as deleted, which is a \
    write: delete others first, or pods with a grace period of 0";

/// What a failed operation on `name` means to its client.
pub(crate) fn of_store(group_resource: &GroupResource, name: &str, error: &Error) -> Status {
    match error {
        Error::Conflict { .. } => Status::modified(group_resource, name),
        Error::NotFound { .. } => Status::not_found(group_resource, name),
        Error::Compacted { asked, oldest } => {
            Status::expired(format!("too old resource version: {asked} ({oldest})"))
        }
        Error::Future { asked, current } => Status::revision_too_large(*asked, *current),
        // The store logs when this begins and when it ends.
        Error::OverQuota { .. } => Status::internal(error.to_string()),
        Error::Full => Status::internal(format!("{error}. {FULL}")),
        Error::Closed => Status::unavailable("the server is shutting down"),
        other => {
            tracing::error!(error = %chain(other), %group_resource, name, "the store failed");
            Status::internal(chain(other))
        }
    }
}

/// An error with its causes, in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}
