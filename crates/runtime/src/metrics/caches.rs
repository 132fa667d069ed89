//! The metrics of a manager's caches.

use std::fmt;

use super::Families;
use informer::{ReflectorStatus, SharedInformer};

/// Encodes the families of all caches, which are labeled with the text of their scope.
pub(super) fn encode(
    families: &mut Families<'_>,
    informers: &[(String, SharedInformer)],
) -> fmt::Result {
    let rows = informers.iter().map(|(scope, informer)| {
        ([("resource", scope)], informer.reflector_status().borrow().clone(), informer)
    });
    let rows: Vec<_> = rows.collect();
    let objects = rows.iter().map(|(labels, _, informer)| (*labels, informer.indexer().len()));
    families.gauge("sampan_cache_objects", "Objects in the cache", objects)?;
    let is_synced = |informer: &SharedInformer| u64::from(informer.has_synced().get());
    let synced = rows.iter().map(|(labels, _, informer)| (*labels, is_synced(informer)));
    families.gauge("sampan_cache_synced", "Whether the first list is in the cache", synced)?;
    let failing =
        rows.iter().map(|(labels, status, _)| (*labels, u64::from(status.last_error.is_some())));
    families.gauge("sampan_cache_failing", "Whether lists or watches fail", failing)?;
    let mut counter = |name: &str, help: &str, value: fn(&ReflectorStatus) -> u64| {
        families.counter(name, help, rows.iter().map(|(labels, it, _)| (*labels, value(it))))
    };
    let name = "sampan_cache_failures_total";
    counter(name, "Lists and watches that failed", |status| status.failures)?;
    let name = "sampan_cache_lists_total";
    counter(name, "Lists that replaced the content of the cache", |status| status.lists)?;
    let name = "sampan_cache_watches_total";
    counter(name, "Watches that were opened", |status| status.watches)?;
    let name = "sampan_cache_bad_objects_total";
    counter(name, "Objects that could not be cached", |status| status.bad_items)
}
