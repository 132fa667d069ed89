//! [`Hooks`]: what the server does for writes of one built-in resource, beyond what its kind says.

use super::watch_cache::WatchCache;
use machinery::{ErrorList, Object, Status};
use std::any::Any;
use store::Revision;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Hooks {
    /// Reserves what the object of a write needs.
    pub begin_write: Option<Box<dyn BeginWrite>>,
    /// Validates what the kind cannot, since it takes more than the object: expressions to compile.
    pub validate: Option<Validate>,
}

/// Validates a new object, or a changed one and the object before.
pub(crate) type Validate = fn(&Object, Option<&Object>, &mut ErrorList);

/// Reserves what an object needs and sets it in the object, such as the cluster IP of a Service.
///
/// Upstream: `BeginCreate` and `BeginUpdate` of the generic registry.
pub(crate) trait BeginWrite: Send + Sync {
    /// Called before validation. The reservation is held until the object can be read, or the write
    /// has failed.
    fn begin(
        &self,
        object: &mut Object,
        old: Option<&Object>,
        dry_run: bool,
    ) -> Result<Reservation, Status>;
}

/// What a write in progress has reserved; each part is released when it is dropped.
#[derive(Default)]
pub(crate) struct Reservation(Vec<Box<dyn Any + Send + Sync>>);

impl Reservation {
    /// One that `part` releases when it is dropped.
    pub(crate) fn new(part: impl Any + Send + Sync) -> Self {
        Self(vec![Box::new(part)])
    }

    /// Holds `other` as well.
    pub(crate) fn add(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Releases everything once the stored object, which is the record from then on, can be read.
    pub(crate) async fn settle(self, cache: &WatchCache, revision: Revision) {
        if !self.0.is_empty() {
            cache.reach(revision).await;
        }
    }
}
