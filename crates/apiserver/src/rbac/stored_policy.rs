//! [`StoredPolicy`]: the [`PolicyIndex`] of the stored roles and bindings. A request finds every role
//! and binding that was written before it.
//!
//! While nothing changes, a read costs four comparisons of pointers. After a change, the first request
//! applies the difference between two snapshots.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use serde::Deserialize;

use super::GROUP;
use super::policy_index::{Binding, PolicyIndex, RoleReference, Subject};
use super::rule::Rule;
use crate::cache::watch_cache::{Entry, ResourceCache, Snapshot};
use crate::storage::Storage;

/// See the [module documentation](self).
pub(super) struct StoredPolicy {
    caches: [Arc<ResourceCache>; 4],
    current: ArcSwap<Indexed>,
    /// Held while changes are applied, so that two requests do not do it at once.
    updating: Mutex<()>,
}

/// The resources, in the order of the caches.
const RESOURCES: [(&str, SetEntry); 4] = [
    ("clusterroles", set_role),
    ("roles", set_role),
    ("clusterrolebindings", set_binding),
    ("rolebindings", set_binding),
];

/// Applies the change of an object to the index.
type SetEntry = fn(&mut PolicyIndex, Option<&Entry>, Option<&Entry>);

/// The index of these snapshots.
struct Indexed {
    snapshots: [Arc<Snapshot>; 4],
    index: Arc<PolicyIndex>,
}

impl StoredPolicy {
    /// The policy of a plane.
    pub(super) fn new(storage: &Storage) -> Self {
        let catalog = storage.catalog.load();
        let caches = RESOURCES.map(|(plural, _)| {
            let served = catalog.resource(GROUP, plural).expect("the kind is built in");
            Arc::clone(&served.cache)
        });
        let empty = Indexed { snapshots: Default::default(), index: Arc::default() };
        Self { caches, current: ArcSwap::from_pointee(empty), updating: Mutex::default() }
    }

    /// The index of the objects as they are now.
    pub(super) fn index(&self) -> Arc<PolicyIndex> {
        let current = self.current.load();
        if self.is_current(&current) {
            return Arc::clone(&current.index);
        }
        let _updating = self.updating.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.current.load();
        if self.is_current(&current) {
            return Arc::clone(&current.index);
        }
        let snapshots = [0, 1, 2, 3].map(|at| self.caches[at].snapshot());
        let mut index = PolicyIndex::clone(&current.index);
        for (at, (_, set)) in RESOURCES.iter().enumerate() {
            for (old, new) in current.snapshots[at].changes_to(&snapshots[at]) {
                set(&mut index, old, new);
            }
        }
        let index = Arc::new(index);
        self.current.store(Arc::new(Indexed { snapshots, index: Arc::clone(&index) }));
        index
    }

    fn is_current(&self, indexed: &Indexed) -> bool {
        self.caches.iter().zip(&indexed.snapshots).all(|(cache, it)| cache.is_current(it))
    }
}

fn set_role(index: &mut PolicyIndex, old: Option<&Entry>, new: Option<&Entry>) {
    #[derive(Deserialize, Default)]
    struct Role {
        /// Null if it was written so.
        rules: Option<Vec<Rule>>,
    }
    if let Some(new) = new {
        let role: Role = new.read().unwrap_or_default();
        index.set_role(new.namespace(), new.name(), role.rules.unwrap_or_default());
    } else if let Some(old) = old {
        index.remove_role(old.namespace(), old.name());
    }
}

fn set_binding(index: &mut PolicyIndex, old: Option<&Entry>, new: Option<&Entry>) {
    let (old, new) = (old.map(binding_of), new.map(binding_of));
    // Of labels, for example.
    if old == new {
        return;
    }
    if let Some(old) = old {
        index.remove_binding(&old);
    }
    if let Some(new) = new {
        index.add_binding(&Arc::new(new));
    }
}

fn binding_of(entry: &Entry) -> Binding {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Stored {
        role_ref: RoleReference,
        /// Null if it was written so.
        subjects: Option<Vec<Subject>>,
    }
    let stored: Stored = entry.read().unwrap_or_default();
    Binding {
        namespace: entry.namespace().into(),
        name: entry.name().into(),
        role: stored.role_ref,
        subjects: stored.subjects.unwrap_or_default(),
    }
}
