//! [`Graph`]: who owns whom, and the work that follows from each change.
//!
//! Only objects that have owners, or that wait for their dependents, are nodes. Of all other objects
//! the graph knows that they exist ([`LiveObject`], 28 bytes), so that a reference to them is not
//! looked up.
//!
//! Invariants:
//! - `dependents[owner]` has `dependent` if and only if the node of `dependent` refers to `owner`;
//! - every node is live.

mod node;

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::absent_owners::{AbsentOwners, OwnerIdentity};
use super::observed_object::ObservedObject;
use super::uid::Uid;
use crate::resource_discovery::ApiResource;
use node::{Dependents, KeyHasher, NamespaceHash};
pub(super) use node::{LiveObject, Mismatch, Node, OwnerCoordinates, Phase, ResourceId};
use runtime::ObjectKey;

/// The number of owners beyond which an object [has many](Graph::has_many_owners).
const MANY_OWNERS: usize = 8;

/// A task of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// Delete this object if its owners do not exist; if it waits for its dependents, and none is
    /// left, let it go.
    Delete(Uid),
    /// Remove the references to this object from its dependents.
    Orphan(Uid),
    /// Find out whether this owner exists, which was not observed.
    VerifyOwner(Uid),
}

/// The key of [`Work`] in a queue.
#[derive(Debug, Clone)]
pub(super) struct QueuedWork {
    pub work: Work,
    namespace: Box<str>,
}

impl QueuedWork {
    /// The namespace of the object, or of a dependent of the owner; empty if none is known.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl PartialEq for QueuedWork {
    fn eq(&self, other: &Self) -> bool {
        self.work == other.work
    }
}

impl Eq for QueuedWork {}

impl Hash for QueuedWork {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.work.hash(state);
    }
}

/// A reference to an owner that is in another namespace.
#[derive(Debug, Clone)]
pub(super) struct InvalidReference {
    pub resource: Arc<ApiResource>,
    pub uid: Uid,
    pub node: Arc<Node>,
    pub owner: Arc<OwnerCoordinates>,
}

/// What follows from changes.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub work: Vec<Work>,
    pub invalid_references: Vec<InvalidReference>,
}

/// See the [module documentation](self).
#[derive(Default)]
pub(super) struct Graph {
    live: HashMap<Uid, LiveObject>,
    nodes: HashMap<Uid, Arc<Node>>,
    /// By owner.
    dependents: HashMap<Uid, Dependents>,
    absent: AbsentOwners,
    /// By [`ResourceId`].
    resources: Vec<GraphResource>,
    hasher: KeyHasher,
}

struct GraphResource {
    resource: Arc<ApiResource>,
    /// Whether there may be live objects of it.
    was_listed: bool,
}

impl Graph {
    /// Adds a resource.
    pub(super) fn add_resource(&mut self, resource: Arc<ApiResource>) -> ResourceId {
        let id = u32::try_from(self.resources.len()).expect("there are few resources");
        self.resources.push(GraphResource { resource, was_listed: false });
        ResourceId(id)
    }

    /// Changes the version in which a resource is observed.
    pub(super) fn set_resource(&mut self, id: ResourceId, resource: Arc<ApiResource>) {
        self.resources[id.index()].resource = resource;
    }

    /// The resource of a node.
    pub(super) fn resource(&self, id: ResourceId) -> &Arc<ApiResource> {
        &self.resources[id.index()].resource
    }

    /// The node of an object.
    pub(super) fn node(&self, uid: Uid) -> Option<&Arc<Node>> {
        self.nodes.get(&uid)
    }

    /// Whether work is about an object with many owners, each of which may have to be looked up.
    pub(super) fn has_many_owners(&self, work: Work) -> bool {
        let has_many = |node: &Arc<Node>| node.owners.len() > MANY_OWNERS;
        match work {
            Work::Delete(uid) => self.nodes.get(&uid).is_some_and(has_many),
            Work::VerifyOwner(uid) => self.dependents(uid).all(|(_, node)| has_many(node)),
            Work::Orphan(_) => false,
        }
    }

    /// The key of work in a queue.
    pub(super) fn queued(&self, work: Work) -> QueuedWork {
        let node = match work {
            Work::Delete(uid) => self.nodes.get(&uid),
            Work::Orphan(uid) | Work::VerifyOwner(uid) => {
                self.dependents(uid).next().map(|(_, node)| node)
            }
        };
        let namespace = node.map_or("", |node| node.key.namespace()).into();
        QueuedWork { work, namespace }
    }

    /// Whether no owner of a node exists, as far as that is known without a request.
    pub(super) fn are_owners_absent(&self, node: &Node) -> bool {
        !node.owners.is_empty()
            && node
                .owners
                .iter()
                .all(|owner| self.is_absent(owner.uid, &owner.coordinates, node.key.namespace()))
    }

    /// Whether the owner of a reference in `namespace` is known not to exist.
    pub(super) fn is_absent(&self, uid: Uid, owner: &OwnerCoordinates, namespace: &str) -> bool {
        self.absent.contains(uid, &owner.api_version, &owner.kind, namespace, &owner.name)
    }

    /// The number of dependents that a foreground deletion of an object waits for. A dependent in
    /// another namespace is none: who writes there must not block deletions here.
    pub(super) fn blocking_dependents(&self, uid: Uid) -> usize {
        let namespace = self.live.get(&uid).map_or(NamespaceHash::NONE, |live| live.namespace);
        self.dependents.get(&uid).map_or(0, |dependents| dependents.blocking(namespace))
    }

    /// The dependents of an object.
    pub(super) fn dependents(&self, uid: Uid) -> impl Iterator<Item = (Uid, &Arc<Node>)> {
        let dependents = self.dependents.get(&uid).into_iter().flat_map(Dependents::uids);
        dependents.filter_map(|uid| Some((uid, self.nodes.get(&uid)?)))
    }

    /// The name by which dependents refer to an owner that was not observed, with one dependent in each
    /// namespace. Dependents that name it otherwise than the first of them are checked on their own:
    /// their names may be as many as they are.
    pub(super) fn unobserved_owner(&self, uid: Uid) -> Vec<(Arc<OwnerCoordinates>, Arc<Node>)> {
        if self.live.contains_key(&uid) {
            return Vec::new();
        }
        let mut by_namespace = HashMap::new();
        for (_, node) in self.dependents(uid) {
            let mut owners = node.owners_with(uid);
            if let Some(owner) = owners.find(|it| self.is_common_name(uid, &it.coordinates)) {
                let found = || (Arc::clone(&owner.coordinates), Arc::clone(node));
                by_namespace.entry(node.key.namespace()).or_insert_with(found);
            }
        }
        by_namespace.into_values().collect()
    }

    /// Whether the first dependent of an owner names it in this way.
    fn is_common_name(&self, uid: Uid, owner: &OwnerCoordinates) -> bool {
        let common = self.dependents.get(&uid).and_then(|it| it.coordinates.as_ref());
        common.is_some_and(|common| **common == *owner)
    }

    /// An owner does not exist under this name; the namespace is empty if its kind is cluster-scoped.
    pub(super) fn mark_absent(
        &mut self,
        uid: Uid,
        owner: &OwnerCoordinates,
        namespace: &str,
        effects: &mut Effects,
    ) {
        let OwnerCoordinates { api_version, kind, name, .. } = owner;
        let identity = OwnerIdentity::named(uid, api_version, kind, namespace, name);
        self.absent.insert(identity, self.dependents.len());
        if !self.is_common_name(uid, owner) {
            return;
        }
        for (dependent, node) in self.dependents(uid) {
            let is_in_scope = namespace.is_empty() || namespace == node.key.namespace();
            if is_in_scope && node.owners_with(uid).any(|it| *it.coordinates == *owner) {
                effects.work.push(Work::Delete(dependent));
            }
        }
    }

    /// An object exists, in this state.
    pub(super) fn observe(
        &mut self,
        resource: ResourceId,
        object: ObservedObject,
        effects: &mut Effects,
    ) {
        let uid = object.uid;
        if object.uid_text.as_deref() == Some("") {
            // An aggregated server may serve objects without a uid, which nothing can refer to.
            return;
        }
        let live = LiveObject::new(resource, &object.key, &self.hasher);
        if self.live.insert(uid, live).is_none() {
            self.check_dependents(uid, live, effects);
        }
        let former = self.nodes.remove(&uid);
        let node = Node::of(resource, object, |owner| self.interned(owner)).map(Arc::new);
        self.relink(uid, former.as_deref(), node.as_ref(), effects);
        let Some(node) = node else { return };
        let phase = node.phase();
        self.nodes.insert(uid, node);
        if former.is_some_and(|former| former.phase() == phase) {
            return;
        }
        match phase {
            Phase::Existing | Phase::BeingDeleted => {}
            Phase::OrphaningDependents => effects.work.push(Work::Orphan(uid)),
            Phase::DeletingDependents => {
                self.queue_dependents(uid, effects);
                effects.work.push(Work::Delete(uid));
            }
        }
    }

    /// An object was deleted. Dependents that name it otherwise look it up before they are deleted.
    pub(super) fn delete(
        &mut self,
        resource: ResourceId,
        uid: Uid,
        key: &ObjectKey,
        effects: &mut Effects,
    ) {
        let ApiResource { api_version, kind, .. } = &**self.resource(resource);
        let (namespace, name) = (key.namespace(), key.name());
        let identity = OwnerIdentity::named(uid, api_version, kind, namespace, name);
        self.remove(uid, effects);
        if self.dependents.contains_key(&uid) {
            self.absent.insert(identity, self.dependents.len());
            self.queue_dependents(uid, effects);
        }
    }

    fn queue_dependents(&self, uid: Uid, effects: &mut Effects) {
        effects.work.extend(self.dependents(uid).map(|(uid, _)| Work::Delete(uid)));
    }

    /// Deletes the objects of a resource that are not in a complete list.
    pub(super) fn delete_unlisted(
        &mut self,
        resource: ResourceId,
        listed: &HashSet<Uid>,
        effects: &mut Effects,
    ) {
        if !std::mem::replace(&mut self.resources[resource.index()].was_listed, true) {
            return;
        }
        for uid in self.objects_of(resource) {
            if !listed.contains(&uid) {
                self.remove(uid, effects);
                self.queue_dependents(uid, effects);
            }
        }
    }

    /// A resource is not served any more. Whether its objects exist is unknown until it is served
    /// again.
    pub(super) fn forget_resource(&mut self, resource: ResourceId, effects: &mut Effects) {
        for uid in self.objects_of(resource) {
            self.remove(uid, effects);
            if self.dependents.contains_key(&uid) {
                effects.work.push(Work::VerifyOwner(uid));
            }
        }
    }

    fn objects_of(&self, resource: ResourceId) -> Vec<Uid> {
        let of_resource = self.live.iter().filter(|(_, live)| live.resource == resource);
        of_resource.map(|(uid, _)| *uid).collect()
    }

    /// Removes an object, but not the references to it.
    fn remove(&mut self, uid: Uid, effects: &mut Effects) {
        self.live.remove(&uid);
        if let Some(node) = self.nodes.remove(&uid) {
            self.relink(uid, Some(&node), None, effects);
        }
    }

    /// Updates the dependents of the former and the present owners of a node.
    fn relink(
        &mut self,
        uid: Uid,
        former: Option<&Node>,
        node: Option<&Arc<Node>>,
        effects: &mut Effects,
    ) {
        let former_links = former.map(Node::links).unwrap_or_default();
        let links = node.map(|node| node.links()).unwrap_or_default();
        let blocks_in = |links: &[(Uid, bool)], owner: Uid| {
            let found = links.binary_search_by_key(&owner, |(it, _)| *it);
            found.ok().map(|index| links[index].1)
        };
        for (owner, _) in &former_links {
            if blocks_in(&links, *owner).is_none() {
                self.unlink(*owner, uid, effects);
            }
        }
        let Some(node) = node else { return };
        for (owner, blocks) in links {
            match blocks_in(&former_links, owner) {
                Some(was_blocking) if was_blocking == blocks => {}
                Some(_) => {
                    let namespace = self.hasher.namespace(node.key.namespace());
                    let dependents = self.dependents.entry(owner).or_default();
                    dependents.insert(uid, namespace, blocks);
                    self.let_go_if_unblocked(owner, effects);
                }
                None => self.link(owner, uid, blocks, node, effects),
            }
        }
    }

    fn link(
        &mut self,
        owner: Uid,
        uid: Uid,
        blocks: bool,
        node: &Arc<Node>,
        effects: &mut Effects,
    ) {
        let namespace = self.hasher.namespace(node.key.namespace());
        let dependents = self.dependents.entry(owner).or_default();
        dependents.insert(uid, namespace, blocks);
        if let Some(reference) = node.owners_with(owner).next() {
            dependents.coordinates.get_or_insert_with(|| Arc::clone(&reference.coordinates));
        }
        match self.live.get(&owner) {
            None => {
                let namespace = node.key.namespace();
                let needs_check = |it: &OwnerCoordinates| {
                    !self.is_common_name(owner, it) || self.is_absent(owner, it, namespace)
                };
                if node.owners_with(owner).any(|it| needs_check(&it.coordinates)) {
                    effects.work.push(Work::Delete(uid));
                }
                effects.work.push(Work::VerifyOwner(owner));
            }
            Some(live) => self.check_reference(owner, *live, (uid, node), effects),
        }
        if self.nodes.get(&owner).is_some_and(|it| it.phase() == Phase::DeletingDependents) {
            effects.work.push(Work::Delete(uid));
        }
    }

    fn unlink(&mut self, owner: Uid, uid: Uid, effects: &mut Effects) {
        let Some(dependents) = self.dependents.get_mut(&owner) else { return };
        dependents.remove(uid);
        if dependents.is_empty() {
            self.dependents.remove(&owner);
        }
        self.let_go_if_unblocked(owner, effects);
    }

    /// Adds work for an owner that waits for its dependents, if none is left.
    fn let_go_if_unblocked(&self, owner: Uid, effects: &mut Effects) {
        let is_waiting =
            self.nodes.get(&owner).is_some_and(|it| it.phase() == Phase::DeletingDependents);
        if is_waiting && self.blocking_dependents(owner) == 0 {
            effects.work.push(Work::Delete(owner));
        }
    }

    /// Checks the references to an owner that was just observed.
    fn check_dependents(&self, owner: Uid, live: LiveObject, effects: &mut Effects) {
        for dependent in self.dependents(owner) {
            self.check_reference(owner, live, dependent, effects);
        }
    }

    /// A dependent whose reference does not name its owner correctly may have no owner.
    fn check_reference(
        &self,
        owner: Uid,
        live: LiveObject,
        (uid, node): (Uid, &Arc<Node>),
        effects: &mut Effects,
    ) {
        let owner_resource = self.resource(live.resource);
        for reference in node.owners_with(owner) {
            let coordinates = &reference.coordinates;
            let mismatch = live.mismatch(owner_resource, coordinates, &node.key, &self.hasher);
            if mismatch == Some(Mismatch::Namespace) {
                effects.invalid_references.push(InvalidReference {
                    resource: Arc::clone(self.resource(node.resource)),
                    uid,
                    node: Arc::clone(node),
                    owner: Arc::clone(&reference.coordinates),
                });
            }
            if mismatch.is_some() {
                effects.work.push(Work::Delete(uid));
            }
        }
    }

    /// The coordinates of an owner, shared with another dependent if that has the same.
    fn interned(&self, owner: OwnerCoordinates) -> Arc<OwnerCoordinates> {
        let uid = Uid::of(&owner.uid);
        let known = self.dependents.get(&uid).and_then(|it| it.coordinates.as_ref());
        known.filter(|known| ***known == owner).map_or_else(|| Arc::new(owner), Arc::clone)
    }
}

#[cfg(test)]
mod tests;
