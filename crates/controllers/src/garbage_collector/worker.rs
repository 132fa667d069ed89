//! The work of the garbage collector on one object.

use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::GarbageCollector;
use super::graph::{Node, OwnerCoordinates, Phase, Work};
use super::observed_object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use super::requests::{self, Deletion, OwnerChange, Propagation, Target};
use super::uid::Uid;
use crate::api_requests::has_code;
use crate::metadata::{Metadata, OwnerReference};
use crate::resource_discovery::ApiResource;
use machinery::names;
use runtime::kube_client;

/// The number of dependents that are orphaned at a time.
const MAX_CONCURRENT_PATCHES: usize = 32;

/// What follows an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The next attempt follows the next change.
    Done,
    /// The attempt is repeated after a backoff.
    Retry,
    /// The server does not serve the kind of an owner. The attempt is repeated when the served kinds
    /// change.
    UnknownKind,
    /// Dependents may be of a resource that is not listed yet. The attempt is repeated when all
    /// resources are listed.
    UnknownDependents,
}

/// The references of an object to its owners.
#[derive(Default)]
struct References {
    /// The owner exists.
    solid: usize,
    /// The owner does not exist.
    dangling: Vec<String>,
    /// The owner exists, and waits for the deletion of its dependents.
    waiting: Vec<String>,
}

/// The state of the owner of a reference.
enum OwnerState {
    Absent,
    Present(Box<Metadata>),
    /// The reference is invalid: the object is cluster-scoped and the owner is not.
    Invalid,
    UnknownKind,
}

impl GarbageCollector {
    fn is_synced(&self) -> bool {
        *self.is_synced.borrow()
    }

    /// Performs one task.
    pub(super) async fn perform(&self, work: Work) -> Outcome {
        let outcome = match work {
            Work::Delete(uid) => self.attempt_to_delete(uid).await,
            Work::Orphan(uid) => self.orphan_dependents(uid).await,
            Work::VerifyOwner(uid) => self.verify_owner(uid).await,
        };
        outcome.unwrap_or_else(|error| {
            tracing::debug!(%error, ?work, "garbage collection failed and is retried");
            Outcome::Retry
        })
    }

    /// Deletes an object that has no owner, or lets an object go that has waited for its dependents.
    ///
    /// Upstream: `garbagecollector.go` attemptToDeleteItem
    async fn attempt_to_delete(&self, uid: Uid) -> kube_client::Result<Outcome> {
        let (node, resource, are_owners_absent, blocking) = {
            let graph = self.lock_graph();
            let Some(node) = graph.node(uid) else { return Ok(Outcome::Done) };
            let resource = Arc::clone(graph.resource(node.resource));
            let are_owners_absent = graph.are_owners_absent(node);
            (Arc::clone(node), resource, are_owners_absent, graph.blocking_dependents(uid))
        };
        let uid_text = uid_text(uid, &node);
        let target = target_of(&node, &resource, &uid_text);
        match node.phase() {
            Phase::BeingDeleted | Phase::OrphaningDependents => return Ok(Outcome::Done),
            Phase::DeletingDependents if blocking > 0 => return Ok(Outcome::Done),
            Phase::DeletingDependents if !self.is_synced() => {
                return Ok(Outcome::UnknownDependents);
            }
            Phase::DeletingDependents => {
                let client = &self.client;
                requests::remove_finalizer(client, target, FOREGROUND_FINALIZER).await?;
                return Ok(Outcome::Done);
            }
            Phase::Existing => {}
        }
        if are_owners_absent {
            // The graph shows the state of this version, so the object need not be read first.
            let propagation =
                Propagation::of(node.has_orphan_finalizer, node.has_foreground_finalizer);
            let version = Some(&*node.version);
            match requests::delete(&self.client, target, version, propagation).await? {
                Deletion::Accepted => return Ok(Outcome::Done),
                Deletion::Gone => {
                    self.forget(uid);
                    return Ok(Outcome::Done);
                }
                Deletion::Conflict => {}
            }
        }
        let Some(latest) = requests::read_target(&self.client, target).await? else {
            self.forget(uid);
            return Ok(Outcome::Done);
        };
        if latest.owner_references.is_empty() {
            return Ok(Outcome::Done);
        }
        match self.classify(&node, &latest).await? {
            Ok(references) => self.apply(uid, target, &latest, references).await,
            Err(outcome) => Ok(outcome),
        }
    }

    /// Deletes an object, or removes its references to owners that do not exist.
    async fn apply(
        &self,
        uid: Uid,
        target: Target<'_>,
        latest: &Metadata,
        references: References,
    ) -> kube_client::Result<Outcome> {
        if references.solid > 0 {
            let obsolete = [references.dangling, references.waiting].concat();
            if !obsolete.is_empty() {
                self.change_owners(uid, target, latest, OwnerChange::Remove(&obsolete)).await?;
            }
            return Ok(Outcome::Done);
        }
        let (has_dependents, is_in_cycle) = {
            let graph = self.lock_graph();
            let mut dependents = graph.dependents(uid).peekable();
            let has_dependents = dependents.peek().is_some();
            (has_dependents, dependents.any(|(_, it)| it.phase() == Phase::DeletingDependents))
        };
        let propagation = if !references.waiting.is_empty() && has_dependents {
            if is_in_cycle {
                // The owners and the dependents wait for each other: the owners no longer wait.
                self.change_owners(uid, target, latest, OwnerChange::Unblock).await?;
                let Some(unblocked) = requests::read_target(&self.client, target).await? else {
                    return Ok(Outcome::Done);
                };
                return self.delete(uid, target, &unblocked, Propagation::Foreground).await;
            }
            Propagation::Foreground
        } else {
            let has = |finalizer: &str| latest.finalizers.iter().any(|it| it == finalizer);
            Propagation::of(has(ORPHAN_FINALIZER), has(FOREGROUND_FINALIZER))
        };
        self.delete(uid, target, latest, propagation).await
    }

    async fn delete(
        &self,
        uid: Uid,
        target: Target<'_>,
        latest: &Metadata,
        propagation: Propagation,
    ) -> kube_client::Result<Outcome> {
        let client = &self.client;
        match requests::delete_with_owners_of(client, target, latest, propagation).await? {
            Deletion::Accepted => {}
            Deletion::Gone => self.forget(uid),
            Deletion::Conflict => return Ok(Outcome::Retry),
        }
        Ok(Outcome::Done)
    }

    /// Removes an object from the graph that the server does not have.
    fn forget(&self, uid: Uid) {
        self.change_graph(|graph, effects| {
            if let Some(node) = graph.node(uid).map(Arc::clone) {
                graph.delete(node.resource, uid, &node.key, effects);
            }
        });
    }

    /// Looks up the owners of an object.
    ///
    /// Upstream: `garbagecollector.go` classifyReferences
    async fn classify(
        &self,
        node: &Node,
        latest: &Metadata,
    ) -> kube_client::Result<Result<References, Outcome>> {
        let mut references = References::default();
        for reference in &latest.owner_references {
            match self.owner_state(&coordinates(reference), node.key.namespace()).await? {
                OwnerState::Absent => references.dangling.push(reference.uid.clone()),
                OwnerState::Present(owner)
                    if owner.is_deleting()
                        && owner.finalizers.iter().any(|it| it == FOREGROUND_FINALIZER) =>
                {
                    references.waiting.push(reference.uid.clone());
                }
                OwnerState::Present(_) => references.solid += 1,
                // Upstream: a cluster-scoped object with a namespaced owner is never collected.
                OwnerState::Invalid => return Ok(Err(Outcome::Done)),
                OwnerState::UnknownKind => return Ok(Err(Outcome::UnknownKind)),
            }
        }
        Ok(Ok(references))
    }

    /// Whether the owner exists that an object in `namespace` refers to.
    ///
    /// Upstream: `garbagecollector.go` isDangling
    async fn owner_state(
        &self,
        owner: &OwnerCoordinates,
        namespace: &str,
    ) -> kube_client::Result<OwnerState> {
        let uid = Uid::of(&owner.uid);
        if self.lock_graph().is_absent(uid, owner, namespace) {
            return Ok(OwnerState::Absent);
        }
        let discovered = self.discovery.discovered();
        let Some(resource) = discovered.of_kind(&owner.api_version, &owner.kind) else {
            return Ok(OwnerState::UnknownKind);
        };
        if resource.is_namespaced && namespace.is_empty() {
            return Ok(OwnerState::Invalid);
        }
        let namespace = if resource.is_namespaced { namespace } else { "" };
        // A name may be any text. No object has one that is not a segment of a path, which could name
        // a subresource: `n1/proxy/logs` of a node.
        let found = if names::path_segment(&owner.name).is_empty() {
            let path = resource.object_path(namespace, &owner.name);
            requests::read(&self.client, &path).await?
        } else {
            None
        };
        if let Some(found) = found.filter(|found| found.uid == owner.uid) {
            return Ok(OwnerState::Present(Box::new(found)));
        }
        self.change_graph(|graph, effects| graph.mark_absent(uid, owner, namespace, effects));
        Ok(OwnerState::Absent)
    }

    /// Looks up an owner that was not observed. If it exists, it is looked up again until it is
    /// observed: it may be deleted before its resource is watched.
    async fn verify_owner(&self, uid: Uid) -> kube_client::Result<Outcome> {
        let names = self.lock_graph().unobserved_owner(uid);
        let mut outcome = Outcome::Done;
        for (owner, dependent) in names {
            match self.owner_state(&owner, dependent.key.namespace()).await? {
                OwnerState::Present(_) => outcome = Outcome::Retry,
                OwnerState::UnknownKind if outcome == Outcome::Done => {
                    outcome = Outcome::UnknownKind;
                }
                // The work for dependents of an absent owner was added when that became known.
                OwnerState::Absent | OwnerState::Invalid | OwnerState::UnknownKind => {}
            }
        }
        Ok(outcome)
    }

    /// Removes the references to an object from its dependents, and then its finalizer.
    ///
    /// Upstream: `garbagecollector.go` attemptToOrphanWorker
    async fn orphan_dependents(&self, uid: Uid) -> kube_client::Result<Outcome> {
        if !self.is_synced() {
            return Ok(Outcome::UnknownDependents);
        }
        let (node, resource, dependents) = {
            let graph = self.lock_graph();
            let Some(node) = graph.node(uid) else { return Ok(Outcome::Done) };
            if node.phase() != Phase::OrphaningDependents {
                return Ok(Outcome::Done);
            }
            let with_resource = |(uid, node): (Uid, &Arc<Node>)| {
                (uid, Arc::clone(node), Arc::clone(graph.resource(node.resource)))
            };
            let resource = Arc::clone(graph.resource(node.resource));
            // Those that name another owner of this uid are none: an aggregated server can serve
            // objects with the uids of others.
            let refers =
                |(_, dependent): &(Uid, &Arc<Node>)| dependent.refers_to(uid, &resource, &node.key);
            let dependents: Vec<_> =
                graph.dependents(uid).filter(refers).map(with_resource).collect();
            (Arc::clone(node), resource, dependents)
        };
        let owner_uid = [uid_text(uid, &node)];
        let mut patches = Vec::with_capacity(dependents.len());
        for (uid, dependent, resource) in &dependents {
            patches.push(self.orphan(*uid, dependent, resource, &owner_uid));
        }
        let mut patches = stream::iter(patches).buffer_unordered(MAX_CONCURRENT_PATCHES);
        let mut failure = None;
        while let Some(patched) = patches.next().await {
            failure = patched.err().or(failure);
        }
        drop(patches);
        if let Some(error) = failure {
            return Err(error);
        }
        let target = target_of(&node, &resource, &owner_uid[0]);
        requests::remove_finalizer(&self.client, target, ORPHAN_FINALIZER).await?;
        Ok(Outcome::Done)
    }

    /// Removes the reference to one owner from a dependent.
    async fn orphan(
        &self,
        uid: Uid,
        dependent: &Node,
        resource: &ApiResource,
        owner_uid: &[String],
    ) -> kube_client::Result<()> {
        let uid_text = uid_text(uid, dependent);
        let target = target_of(dependent, resource, &uid_text);
        let change = OwnerChange::Remove(owner_uid);
        match self.change_owners(uid, target, &Metadata::default(), change).await {
            Err(error) if !has_code(&error, 404) => Err(error),
            _ => Ok(()),
        }
    }

    /// Changes the owners of an object: by a strategic merge patch, or by a JSON merge patch if the
    /// resource does not support that.
    async fn change_owners(
        &self,
        uid: Uid,
        target: Target<'_>,
        latest: &Metadata,
        change: OwnerChange<'_>,
    ) -> kube_client::Result<()> {
        let id = self.lock_graph().node(uid).map(|node| node.resource);
        if id.is_none_or(|id| !self.is_merged_only(id)) {
            let owners = &latest.owner_references;
            if requests::change_owners(&self.client, target, owners, change).await? {
                return Ok(());
            }
            if let Some(id) = id {
                self.set_merged_only(id);
            }
        }
        requests::change_owners_by_merge(&self.client, target, change).await
    }
}

fn coordinates(reference: &OwnerReference) -> OwnerCoordinates {
    OwnerCoordinates {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        uid: reference.uid.clone(),
    }
}

/// The uid of a node as the server writes it.
fn uid_text(uid: Uid, node: &Node) -> String {
    uid.text().or_else(|| node.uid_text.as_deref().map(str::to_owned)).unwrap_or_default()
}

fn target_of<'a>(node: &'a Node, resource: &'a ApiResource, uid: &'a str) -> Target<'a> {
    Target { resource, namespace: node.key.namespace(), name: node.key.name(), uid }
}
