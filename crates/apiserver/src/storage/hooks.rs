//! [`Hooks`]: the server's own steps in writes of one built-in resource, beyond those of its kind.

use std::any::Any;

use super::Storage;
use crate::cache::watch_cache::WatchCache;
use machinery::{ErrorList, Object, Status};
use store::Revision;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Hooks {
    /// Reserves values for the written object, such as its cluster IP.
    pub begin_write: Option<Box<dyn BeginWrite>>,
    /// Validation that the kind cannot do because it needs more than the object, such as the
    /// compilation of expressions or the other CRDs.
    pub validate: Option<Validate>,
    /// The same for updates of `/status`.
    pub validate_status: Option<Validate>,
}

/// Validates a new object, or a changed object against the old one.
pub(crate) type Validate = fn(&Storage, &Object, Option<&Object>, &mut ErrorList);

/// Reserves values and sets them in an object, such as the cluster IP of a Service.
///
/// Upstream: `BeginCreate` and `BeginUpdate` of the generic registry.
pub(crate) trait BeginWrite: Send + Sync {
    /// Called before validation. The reservation is held until the object can be read or the write
    /// fails.
    fn begin(
        &self,
        object: &mut Object,
        old: Option<&Object>,
        dry_run: bool,
    ) -> Result<Reservation, Status>;
}

/// The reservations of a write in progress; each is released when it is dropped.
#[derive(Default)]
pub(crate) struct Reservation(Vec<Box<dyn Any + Send + Sync>>);

impl Reservation {
    /// A reservation that is released when `part` is dropped.
    pub(crate) fn new(part: impl Any + Send + Sync) -> Self {
        Self(vec![Box::new(part)])
    }

    /// Holds `other` as well.
    pub(crate) fn add(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Releases the reservations once the stored object, which has the reserved values, can be read.
    pub(crate) async fn release_when_readable(self, cache: &WatchCache, revision: Revision) {
        if !self.0.is_empty() {
            cache.wait_for_revision(revision).await;
        }
    }
}
