//! Converts errors of the store to Status. No other module does this.

use keel::message_with_causes;
use machinery::{GroupResource, Status};
use store::Error;

/// The remedy for [`Error::Full`]: a deletion that needs no write.
const FULL: &str = "The deletion of an object with finalizers or of a running pod is a write: \
    delete other objects first, or pods with a grace period of 0";

/// The Status for a failed operation on the object `name`.
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
            tracing::error!(error = %message_with_causes(other), %group_resource, name, "a store operation failed");
            Status::internal(message_with_causes(other))
        }
    }
}
