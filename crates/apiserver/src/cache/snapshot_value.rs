//! [`SnapshotValue`]: what is value of all objects of one resource and computed until one of them changes:
//! webhooks with their selectors parsed, policies with their expressions compiled.
//!
//! It is value anew by the first request that finds the objects changed, so what was written before
//! a request holds for it; while nothing changes, it costs a comparison of two pointers.

use crate::cache::storage::Storage;
use crate::cache::watch_cache::{ResourceCache, Snapshot};
use arc_swap::ArcSwapOption;
use std::sync::{Arc, OnceLock};

/// See the [module documentation](self).
pub(crate) struct SnapshotValue<T> {
    group: &'static str,
    plural: &'static str,
    compute: fn(&Snapshot) -> T,
    /// Where the objects are: the same place for as long as the plane lives.
    cache: OnceLock<Arc<ResourceCache>>,
    computed: ArcSwapOption<ComputedValue<T>>,
}

struct ComputedValue<T> {
    snapshot: Arc<Snapshot>,
    value: Arc<T>,
}

impl<T> SnapshotValue<T> {
    /// What `compute` makes of the objects of a built-in resource.
    pub(crate) fn new(
        group: &'static str,
        plural: &'static str,
        compute: fn(&Snapshot) -> T,
    ) -> Self {
        Self { group, plural, compute, cache: OnceLock::new(), computed: ArcSwapOption::empty() }
    }

    /// As of the newest change that this storage knows of.
    pub(crate) fn current(&self, storage: &Storage) -> Arc<T> {
        let cache = self.cache(storage);
        if let Some(computed) = &*self.computed.load()
            && cache.is_now(&computed.snapshot)
        {
            return Arc::clone(&computed.value);
        }
        let now = cache.snapshot();
        // What somebody still has to work on does not hold yet.
        let value = Arc::new((self.compute)(&now.initialized()));
        self.computed
            .store(Some(Arc::new(ComputedValue { snapshot: now, value: Arc::clone(&value) })));
        value
    }

    /// Whether there are no objects to compute anything of.
    pub(crate) fn has_no_objects(&self, storage: &Storage) -> bool {
        self.cache(storage).is_empty()
    }

    fn cache(&self, storage: &Storage) -> &ResourceCache {
        self.cache.get_or_init(|| {
            let catalog = storage.catalog.load();
            let served = catalog.resource(self.group, self.plural).expect("the kind is built in");
            Arc::clone(&served.cache)
        })
    }
}
