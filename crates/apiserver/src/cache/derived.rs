//! [`Derived`]: what is made of all objects of one resource and kept until one of them changes:
//! webhooks with their selectors parsed, policies with their expressions compiled.
//!
//! It is made anew by the first request that finds the objects changed, so what was written before
//! a request holds for it; while nothing changes, it costs a comparison of two pointers.

use crate::cache::storage::Storage;
use crate::cache::watch_cache::{ResourceCache, Snapshot};
use arc_swap::ArcSwapOption;
use std::sync::{Arc, OnceLock};

/// See the [module documentation](self).
pub(crate) struct Derived<T> {
    group: &'static str,
    plural: &'static str,
    make: fn(&Snapshot) -> T,
    /// Where the objects are: the same place for as long as the plane lives.
    cache: OnceLock<Arc<ResourceCache>>,
    kept: ArcSwapOption<Kept<T>>,
}

struct Kept<T> {
    from: Arc<Snapshot>,
    made: Arc<T>,
}

impl<T> Derived<T> {
    /// What `make` makes of the objects of a built-in resource.
    pub(crate) fn new(group: &'static str, plural: &'static str, make: fn(&Snapshot) -> T) -> Self {
        Self { group, plural, make, cache: OnceLock::new(), kept: ArcSwapOption::empty() }
    }

    /// As of the newest change that this storage knows of.
    pub(crate) fn current(&self, storage: &Storage) -> Arc<T> {
        let cache = self.cache(storage);
        if let Some(kept) = &*self.kept.load()
            && cache.is_now(&kept.from)
        {
            return Arc::clone(&kept.made);
        }
        let now = cache.snapshot();
        // What somebody still has to work on does not hold yet.
        let made = Arc::new((self.make)(&now.initialized()));
        self.kept.store(Some(Arc::new(Kept { from: now, made: Arc::clone(&made) })));
        made
    }

    /// Whether there are no objects to make anything of.
    pub(crate) fn is_idle(&self, storage: &Storage) -> bool {
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
