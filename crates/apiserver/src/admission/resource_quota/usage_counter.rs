//! [`UsageCounter`]: what the stored objects of one resource use of one quota, kept up by the log of their
//! changes instead of counting them all for every request.

use crate::cache::catalog::Served;
use crate::cache::watch_cache::{Entry, Snapshot};
use kinds::core::resource_quota::usage::{Amounts, Measure, Quota, Scope, add};
use machinery::Object;
use machinery::quantity::Quantity;
use store::Revision;

/// Whose objects, and of which quota.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct UsageKey {
    /// The quota's uid.
    pub quota: String,
    /// The prefix of the resource's keys.
    resource: String,
}

impl UsageKey {
    pub(super) fn new(quota: &str, served: &Served) -> Self {
        Self { quota: quota.to_owned(), resource: served.resource.prefix.clone() }
    }
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct UsageCounter {
    /// Up to which everything is counted; None before the first count.
    counted: Option<Revision>,
    /// With which scopes.
    scopes: Vec<Scope>,
    /// What is used, by name.
    pub used: Amounts,
}

impl UsageCounter {
    /// Counts what has changed up to `snapshot`, or everything where that is not known.
    pub(super) fn catch_up(
        &mut self,
        served: &Served,
        snapshot: &Snapshot,
        namespace: &str,
        quota: &Quota,
        measure: &Measure,
    ) {
        let usage = |entry: &Entry| {
            if entry.namespace() != namespace {
                return None;
            }
            // All that is counted alike counts without being read.
            let object =
                if measure.is_count() { Object::default() } else { entry.object_as_stored() };
            measure.covered(&object, quota).then(|| measure.usage(&object))
        };
        let known = self.counted.filter(|_| self.scopes == quota.scopes);
        let changes = known.and_then(|from| served.cache.after(from, usize::MAX).ok());
        if let Some(changes) = changes {
            for change in changes.iter().filter(|it| it.revision <= snapshot.revision) {
                if let Some(gone) = change.old.as_deref().and_then(usage) {
                    self.subtract(&gone);
                }
                if let Some(more) = change.new.as_deref().and_then(usage) {
                    add(&mut self.used, &more);
                }
            }
        } else {
            self.used.clear();
            self.scopes.clone_from(&quota.scopes);
            for entry in snapshot.under(&served.key(namespace, ""), None) {
                if let Some(more) = usage(entry) {
                    add(&mut self.used, &more);
                }
            }
        }
        self.counted = Some(snapshot.revision.max(self.counted.unwrap_or(0)));
    }

    fn subtract(&mut self, gone: &Amounts) {
        for (name, amount) in gone {
            if let Some(used) = self.used.get_mut(name) {
                *used = used.sub(amount);
            }
        }
        self.used.retain(|_, it| *it != Quantity::zero());
    }
}
