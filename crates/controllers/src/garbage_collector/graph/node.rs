//! The parts of the graph: [`Node`], [`LiveObject`], [`Dependents`].

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::garbage_collector::observed_object::ObservedObject;
use crate::garbage_collector::uid::Uid;
use crate::resource_discovery::ApiResource;
use runtime::ObjectKey;

/// The position of a resource in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::garbage_collector) struct ResourceId(pub(super) u32);

impl ResourceId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An object that has owners, or that is being deleted.
#[derive(Debug)]
pub(in crate::garbage_collector) struct Node {
    pub resource: ResourceId,
    pub key: ObjectKey,
    pub version: Box<str>,
    /// The text of a uid that is not a UUID.
    pub uid_text: Option<Box<str>>,
    /// In the order of their uids.
    pub owners: Box<[Owner]>,
    pub is_being_deleted: bool,
    pub has_foreground_finalizer: bool,
    pub has_orphan_finalizer: bool,
}

/// A reference to an owner.
#[derive(Debug)]
pub(in crate::garbage_collector) struct Owner {
    pub uid: Uid,
    /// Whether a foreground deletion of the owner waits for the dependent.
    pub blocks: bool,
    pub coordinates: Arc<OwnerCoordinates>,
}

/// An owner as a reference names it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::garbage_collector) struct OwnerCoordinates {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
}

/// The state of the deletion of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::garbage_collector) enum Phase {
    /// It is not being deleted.
    Existing,
    /// It waits for a finalizer of somebody else, or for the end of its grace period.
    BeingDeleted,
    /// Its dependents are to be orphaned.
    OrphaningDependents,
    /// It waits until its dependents are deleted.
    DeletingDependents,
}

impl Node {
    /// The node of an object, unless it has no relations.
    pub(super) fn of(
        resource: ResourceId,
        object: ObservedObject,
        intern: impl Fn(OwnerCoordinates) -> Arc<OwnerCoordinates>,
    ) -> Option<Self> {
        let relations = object.relations?;
        let owners = relations.owners.into_iter().map(|reference| Owner {
            uid: Uid::of(&reference.uid),
            blocks: reference.block_owner_deletion,
            coordinates: intern(OwnerCoordinates {
                api_version: reference.api_version,
                kind: reference.kind,
                name: reference.name,
                uid: reference.uid,
            }),
        });
        let mut owners: Box<[Owner]> = owners.collect();
        owners.sort_by_key(|owner| owner.uid);
        Some(Self {
            resource,
            key: object.key,
            version: object.version,
            uid_text: object.uid_text,
            owners,
            is_being_deleted: relations.is_being_deleted,
            has_foreground_finalizer: relations.has_foreground_finalizer,
            has_orphan_finalizer: relations.has_orphan_finalizer,
        })
    }

    /// The state of the deletion.
    pub(in crate::garbage_collector) fn phase(&self) -> Phase {
        match self {
            Self { is_being_deleted: false, .. } => Phase::Existing,
            Self { has_orphan_finalizer: true, .. } => Phase::OrphaningDependents,
            Self { has_foreground_finalizer: true, .. } => Phase::DeletingDependents,
            _ => Phase::BeingDeleted,
        }
    }

    /// The references to an owner; normally one.
    pub(super) fn owners_with(&self, uid: Uid) -> impl Iterator<Item = &Owner> {
        let first = self.owners.partition_point(|owner| owner.uid < uid);
        self.owners[first..].iter().take_while(move |owner| owner.uid == uid)
    }

    /// Whether a reference names this owner, in any version.
    pub(in crate::garbage_collector) fn refers_to(
        &self,
        uid: Uid,
        resource: &ApiResource,
        owner: &ObjectKey,
    ) -> bool {
        let is_in_scope = owner.namespace().is_empty() || owner.namespace() == self.key.namespace();
        let names_owner = |it: &OwnerCoordinates| {
            let group = it.api_version.split_once('/').map_or("", |(group, _)| group);
            group == resource.group && it.kind == resource.kind && it.name == owner.name()
        };
        is_in_scope && self.owners_with(uid).any(|it| names_owner(&it.coordinates))
    }

    /// The owners, and whether the node blocks their deletion. An owner of several references is
    /// blocked if one of them blocks.
    pub(super) fn links(&self) -> Vec<(Uid, bool)> {
        let links = self.owners.iter().map(|owner| (owner.uid, owner.blocks));
        let mut links: Vec<(Uid, bool)> = links.collect();
        links.sort_unstable_by_key(|(uid, blocks)| (*uid, !blocks));
        links.dedup_by_key(|(uid, _)| *uid);
        links
    }
}

/// The dependents of an owner.
#[derive(Debug, Default)]
pub(super) struct Dependents {
    /// The namespaces of those that block the deletion of the owner, and `None` for the others.
    blocks: HashMap<Uid, Option<NamespaceHash>>,
    /// The number of those that do.
    blocking: usize,
    /// The same, by namespace.
    blocking_in: HashMap<NamespaceHash, usize>,
    /// The owner as the first of them names it, shared by those that name it in the same way.
    pub(super) coordinates: Option<Arc<OwnerCoordinates>>,
}

impl Dependents {
    /// Adds or changes a dependent, whose namespace never changes.
    pub(super) fn insert(&mut self, uid: Uid, namespace: NamespaceHash, blocks: bool) {
        self.remove(uid);
        let namespace = blocks.then_some(namespace);
        self.blocks.insert(uid, namespace);
        if let Some(namespace) = namespace {
            self.blocking += 1;
            *self.blocking_in.entry(namespace).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, uid: Uid) {
        let Some(Some(namespace)) = self.blocks.remove(&uid) else { return };
        self.blocking -= 1;
        if let Entry::Occupied(mut entry) = self.blocking_in.entry(namespace) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The number of those that block the deletion of an owner in this namespace, which are in the
    /// same one; of any, if the owner is cluster-scoped.
    pub(super) fn blocking(&self, owner: NamespaceHash) -> usize {
        if owner == NamespaceHash::NONE {
            return self.blocking;
        }
        self.blocking_in.get(&owner).copied().unwrap_or(0)
    }

    pub(super) fn uids(&self) -> impl Iterator<Item = Uid> {
        self.blocks.keys().copied()
    }
}

/// The hash of the name of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NamespaceHash(u32);

impl NamespaceHash {
    /// That of cluster-scoped objects.
    pub(super) const NONE: Self = Self(0);
}

/// Hashes the texts of keys. The seed is random, so that nobody can choose a name with the hash of
/// another one.
#[derive(Default)]
pub(super) struct KeyHasher(RandomState);

impl KeyHasher {
    pub(super) fn namespace(&self, namespace: &str) -> NamespaceHash {
        NamespaceHash(self.hash(namespace))
    }

    /// A hash that is 0 only for an empty text.
    fn hash(&self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let hash = self.0.hash_one(text);
        u32::try_from(hash >> 32).expect("the high half fits 32 bits").max(1)
    }
}

/// An object that exists. The texts of its key are hashed.
#[derive(Debug, Clone, Copy)]
pub(in crate::garbage_collector) struct LiveObject {
    pub(super) resource: ResourceId,
    pub(super) namespace: NamespaceHash,
    name: u32,
}

/// The difference between a reference and the owner with its uid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::garbage_collector) enum Mismatch {
    /// The owner is in another namespace than the dependent.
    Namespace,
    /// The owner has another name, or is observed in another version.
    Coordinates,
}

impl LiveObject {
    pub(super) fn new(resource: ResourceId, key: &ObjectKey, hasher: &KeyHasher) -> Self {
        let (namespace, name) = (hasher.namespace(key.namespace()), hasher.hash(key.name()));
        Self { resource, namespace, name }
    }

    /// The mismatch between this owner and the reference of a dependent.
    pub(super) fn mismatch(
        self,
        resource: &ApiResource,
        owner: &OwnerCoordinates,
        dependent: &ObjectKey,
        hasher: &KeyHasher,
    ) -> Option<Mismatch> {
        let is_elsewhere = self.namespace != hasher.namespace(dependent.namespace());
        if self.namespace != NamespaceHash::NONE && is_elsewhere {
            return Some(Mismatch::Namespace);
        }
        let is_match = owner.kind == resource.kind
            && owner.api_version == resource.api_version
            && hasher.hash(&owner.name) == self.name;
        (!is_match).then_some(Mismatch::Coordinates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_names_cannot_be_predicted() {
        let hashes = |hasher: &KeyHasher| ["a", "b", "c"].map(|name| hasher.hash(name));
        let (one, other) = (KeyHasher::default(), KeyHasher::default());
        assert_eq!(hashes(&one), hashes(&one));
        assert_ne!(hashes(&one), hashes(&other));
        assert_eq!(one.namespace(""), NamespaceHash::NONE);
    }
}
