//! [`SnapshotValue`]: a value computed from all objects of one resource and cached until one of them
//! changes, such as webhooks with parsed selectors or policies with compiled expressions.
//!
//! The first request after a change computes the value again, so a request sees all objects that were
//! written before it. While the objects do not change, a read costs a comparison of two pointers.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use crate::cache::watch_cache::{ResourceCache, Snapshot};
use crate::storage::{Storage, unreadable_error};
use machinery::Status;

/// See the [module documentation](self).
pub(crate) struct SnapshotValue<T> {
    group: &'static str,
    plural: &'static str,
    compute: fn(&Snapshot) -> T,
    /// The cache of the objects, which is the same during the life of the plane.
    cache: OnceLock<Arc<ResourceCache>>,
    computed: ArcSwapOption<ComputedValue<T>>,
}

struct ComputedValue<T> {
    snapshot: Arc<Snapshot>,
    value: Arc<T>,
}

impl<T> SnapshotValue<T> {
    /// A value that `compute` computes from the objects of a built-in resource.
    pub(crate) fn new(
        group: &'static str,
        plural: &'static str,
        compute: fn(&Snapshot) -> T,
    ) -> Self {
        Self { group, plural, compute, cache: OnceLock::new(), computed: ArcSwapOption::empty() }
    }

    /// The value for the current objects.
    pub(crate) fn current(&self, storage: &Storage) -> Arc<T> {
        let cache = self.cache(storage);
        if let Some(computed) = &*self.computed.load()
            && cache.is_current(&computed.snapshot)
        {
            return Arc::clone(&computed.value);
        }
        let now = cache.snapshot();
        // Objects with pending initializers are not in effect yet.
        let value = Arc::new((self.compute)(&now.initialized()));
        self.computed
            .store(Some(Arc::new(ComputedValue { snapshot: now, value: Arc::clone(&value) })));
        value
    }

    /// The value for the current objects. Fails if one of them cannot be decrypted: admission must not
    /// go on without it.
    pub(crate) fn complete(&self, storage: &Storage) -> Result<Arc<T>, Status> {
        unreadable_error::check_list(&self.cache(storage).snapshot(), "")?;
        Ok(self.current(storage))
    }

    /// Whether the resource has no objects.
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
