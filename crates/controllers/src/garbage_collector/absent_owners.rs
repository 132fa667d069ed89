//! [`AbsentOwners`]: owners that are known not to exist. A uid is never used again, so an entry stays
//! true; the oldest ones are dropped, and such an owner is looked up again when it matters.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::uid::Uid;

/// The number of entries that are remembered in any case.
const CAPACITY: usize = 1000;

/// Identifies an owner as a reference names it: by its uid and by a hash of its kind, name and namespace.
/// The uid alone does not, since an aggregated server can serve objects with the uids of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct OwnerIdentity {
    uid: Uid,
    coordinates: u64,
}

impl OwnerIdentity {
    /// An owner as a reference in `namespace` names it; the namespace is empty for cluster-scoped owners.
    pub(super) fn named(
        uid: Uid,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        (api_version, kind, namespace, name).hash(&mut hasher);
        Self { uid, coordinates: hasher.finish() }
    }
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct AbsentOwners {
    owners: HashSet<OwnerIdentity>,
    order: VecDeque<OwnerIdentity>,
}

impl AbsentOwners {
    /// Remembers an owner, and as many others as there are owners that objects refer to.
    pub(super) fn insert(&mut self, owner: OwnerIdentity, referenced: usize) {
        if !self.owners.insert(owner) {
            return;
        }
        self.order.push_back(owner);
        while self.order.len() > CAPACITY.max(referenced)
            && let Some(oldest) = self.order.pop_front()
        {
            self.owners.remove(&oldest);
        }
    }

    /// Whether an owner is absent that a reference in `namespace` names.
    pub(super) fn contains(
        &self,
        uid: Uid,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> bool {
        let named = |namespace| OwnerIdentity::named(uid, api_version, kind, namespace, name);
        self.owners.contains(&named(namespace)) || self.owners.contains(&named(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_is_absent_under_one_name_may_exist_under_another() {
        let (one, other) = (Uid::of("a"), Uid::of("b"));
        let mut absent = AbsentOwners::default();
        absent.insert(OwnerIdentity::named(one, "v1", "ConfigMap", "n", "x"), 0);
        absent.insert(OwnerIdentity::named(other, "v1", "Node", "", "x"), 0);
        assert!(absent.contains(one, "v1", "ConfigMap", "n", "x"));
        assert!(!absent.contains(one, "v1", "ConfigMap", "m", "x"));
        assert!(!absent.contains(one, "v1", "Secret", "n", "x"));
        assert!(absent.contains(other, "v1", "Node", "m", "x"));
    }

    #[test]
    fn the_oldest_entries_are_dropped_unless_as_many_owners_are_referenced() {
        let mut absent = AbsentOwners::default();
        let identity = |number: usize| {
            OwnerIdentity::named(Uid::of(&number.to_string()), "v1", "Pod", "n", "x")
        };
        for number in 0..CAPACITY * 3 {
            absent.insert(identity(number), CAPACITY * 2);
        }
        assert_eq!(absent.owners.len(), CAPACITY * 2);
        absent = AbsentOwners::default();
        for number in 0..=CAPACITY {
            absent.insert(identity(number), 0);
        }
        assert_eq!(absent.owners.len(), CAPACITY);
        assert!(!absent.contains(Uid::of("0"), "v1", "Pod", "n", "x"));
        assert!(absent.contains(Uid::of("1"), "v1", "Pod", "n", "x"));
    }
}
