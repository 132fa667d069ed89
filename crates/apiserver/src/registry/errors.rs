//! Converts errors of the store to Status. No other module does this.

use machinery::{GroupResource, Status};
use store::Error;

/// The consequence of [`Error::Full`] for deletions that are writes.
const FULL: &str = "Objects with finalizers and running pods are only marked as deleted, which is a \
    write: delete others first, or pods with a grace period of 0";

/// The answer for a failed operation on the object `name`.
pub(crate) fn of_store(group_resource: &GroupResource, name: &str, error: &Error) -> Status {
    match error {
        Error::Conflict { .. } => Status::modified(group_resource, name),
        Error::NotFound { .. } => Status::not_found(group_resource, name),
        Error::Compacted { asked, oldest } => {
            Status::expired(format!("too old resource version: {asked} ({oldest})"))
        }
        Error::Future { asked, current } => Status::too_large_resource_version(*asked, *current),
        // The store logs the beginning and the end of this state.
        Error::OverQuota { .. } => Status::internal(error.to_string()),
        Error::Full => Status::internal(format!("{error}. {FULL}")),
        Error::Closed => Status::unavailable("the server is shutting down"),
        other => {
            tracing::error!(error = %chain(other), %group_resource, name, "a store operation failed");
            Status::internal(chain(other))
        }
    }
}

/// The message of an error with its causes, in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}
