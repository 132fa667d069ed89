//! [`WriteOutcome`]: the object that results from a write, for the response to the client.

use std::sync::Arc;

use super::conversion;
use super::scope::RequestScope;
use crate::cache::watch_cache::Entry;
use machinery::{Object, Status};

/// See the [module documentation](self).
pub(crate) enum WriteOutcome {
    /// The stored object.
    Stored(Arc<Entry>),
    /// The object of a dry run, or the last state of a removed object.
    NotStored(Object),
}

impl WriteOutcome {
    /// The object in the memory version.
    pub(crate) async fn object(self, scope: &RequestScope) -> Result<Object, Status> {
        match self {
            Self::Stored(entry) => conversion::in_memory_version(scope, &entry).await,
            Self::NotStored(object) => {
                let version = conversion::memory_version(scope);
                conversion::object(scope, version, object).await
            }
        }
    }
}
