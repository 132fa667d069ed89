//! [`Outcome`]: what became of an object, ready to be shown.

use crate::cache::conversion;
use crate::cache::watch_cache::Entry;
use crate::endpoints::context::RequestContext;
use machinery::{Object, Status};
use std::sync::Arc;

/// See the [module documentation](self).
pub(crate) enum Outcome {
    /// It is stored like this.
    Stored(Arc<Entry>),
    /// It would be, or was, like this.
    Shown(Object),
}

impl Outcome {
    /// In its working form and in the version that verbs work in.
    pub(crate) async fn object(self, cx: &RequestContext) -> Result<Object, Status> {
        match self {
            Self::Stored(entry) => conversion::working(cx, &entry).await,
            Self::Shown(object) => {
                let version = conversion::working_version(cx);
                conversion::object(&cx.plane, &cx.served, version, object).await
            }
        }
    }
}
