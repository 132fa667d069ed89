//! [`Outcome`]: what became of an object, ready to be shown.

use crate::watch_cache::Entry;
use machinery::Object;
use std::sync::Arc;

/// See the [module documentation](self).
pub(crate) enum Outcome {
    /// It is stored like this.
    Stored(Arc<Entry>),
    /// It would be, or was, like this, in the hub version.
    Shown(Object),
}

impl Outcome {
    /// In its working form, in the hub version or the one that it is stored in.
    pub(crate) fn object(self) -> Object {
        match self {
            Self::Stored(entry) => entry.object(),
            Self::Shown(object) => object,
        }
    }
}
