//! [`Outcome`]: what became of an object, ready to be shown.

use super::conversion;
use super::scope::RequestScope;
use crate::cache::watch_cache::Entry;
use machinery::{Object, Status};
use std::sync::Arc;

/// See the [module documentation](self).
pub(crate) enum Outcome {
    /// It is stored like this.
    Stored(Arc<Entry>),
    /// It would be, or was, like this.
    NotStored(Object),
}

impl Outcome {
    /// In its working form and in the version that verbs work in.
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
