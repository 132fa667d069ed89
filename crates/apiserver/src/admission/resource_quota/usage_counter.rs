//! [`UsageCounter`]: the usage of one quota by the stored objects of one resource. It follows the
//! change log of the resource, so that a request does not count all objects.

use std::sync::Arc;

use crate::cache::watch_cache::{Entry, Followed, LogPosition, Snapshot};
use crate::storage::catalog::ServedResource;
use kinds::core::resource_quota::usage::{Amounts, Evaluator, Quota, Scope, add};
use machinery::Object;
use machinery::quantity::Quantity;

/// The quota and the resource of a counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct UsageKey {
    /// The uid of the quota.
    pub quota: String,
    /// The key prefix of the resource.
    resource: String,
}

impl UsageKey {
    pub(super) fn new(quota: &str, served: &ServedResource) -> Self {
        Self { quota: quota.to_owned(), resource: served.resource.prefix.clone() }
    }
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct UsageCounter {
    /// The position up to which changes are counted; None before the first count.
    counted: Option<LogPosition>,
    /// The scopes of the quota at the last full count.
    scopes: Vec<Scope>,
    /// The usage by resource name.
    pub used: Amounts,
}

impl UsageCounter {
    /// Counts the changes, or all objects if the change log is incomplete. Returns the snapshot with
    /// the counted objects.
    pub(super) fn catch_up(
        &mut self,
        served: &ServedResource,
        namespace: &str,
        quota: &Quota,
        evaluator: &Evaluator,
    ) -> Arc<Snapshot> {
        let usage = |entry: &Entry| {
            if entry.namespace() != namespace {
                return None;
            }
            // Objects are not parsed if only their number counts.
            let object =
                if evaluator.is_count() { Object::default() } else { entry.object_as_stored() };
            evaluator.matches(quota, &object).then(|| evaluator.usage(&object))
        };
        let counted = self.counted.filter(|_| self.scopes == quota.scopes);
        let Followed { snapshot, changes, position } = served.cache.follow(counted);
        if let Some(changes) = changes {
            for change in &changes {
                if let Some(removed) = change.old.as_deref().and_then(usage) {
                    self.subtract(&removed);
                }
                if let Some(added) = change.new.as_deref().and_then(usage) {
                    add(&mut self.used, &added);
                }
            }
        } else {
            self.used.clear();
            self.scopes.clone_from(&quota.scopes);
            for entry in snapshot.under(&served.key(namespace, ""), None) {
                if let Some(added) = usage(entry) {
                    add(&mut self.used, &added);
                }
            }
        }
        self.counted = Some(position);
        snapshot
    }

    fn subtract(&mut self, removed: &Amounts) {
        for (name, amount) in removed {
            if let Some(used) = self.used.get_mut(name) {
                *used = used.sub(amount);
            }
        }
        self.used.retain(|_, it| *it != Quantity::zero());
    }
}
