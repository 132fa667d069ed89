//! Adoption: a workload becomes the controller of objects that its selector selects and that have no
//! controller, and releases objects that it no longer selects.
//!
//! ```text
//! dependent's controller    selected                    not selected
//! this workload             Keep                        Release
//! none                      Adopt                       Ignore
//! another                   Ignore                      Ignore
//! ```
//!
//! Upstream: `controller_ref_manager.go`

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use crate::api_requests;
use crate::metadata::{Metadata, OwnerReference};
use crate::pod_control::PodOwner;
use crate::selector_index::{ReadSelector, SelectorIndex};
use crate::slow_start::MAX_CONCURRENT;
use machinery::selector::LabelSelector;
use runtime::informer::{Indexer, Item, NoSuchIndex, ObjectEvent, SharedInformer};
use runtime::{CONTROLLER_INDEX, Client, Failure, Lister, Mapper, Predicate, kube_client};

/// The index of objects without a controller, by namespace.
const ORPHAN_INDEX: &str = "orphans";

/// What a workload does with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is the controller, and remains so.
    Keep,
    /// It becomes the controller.
    Adopt,
    /// It ceases to be the controller.
    Release,
    /// The object does not concern the workload.
    Ignore,
}

/// An object with metadata.
pub(crate) trait HasMetadata {
    /// The metadata.
    fn metadata(&self) -> &Metadata;
}

/// A workload that claims objects.
pub(crate) struct Claimer<'a> {
    /// The client of the controller.
    pub client: &'a Client,
    /// The metadata of the workload.
    pub owner: &'a Metadata,
    /// The reference in its objects.
    pub reference: &'a OwnerReference,
    /// The path of the workload, to check that it still exists before it adopts objects.
    pub owner_path: &'a str,
    /// The plural of the objects after their group and version: `apis/apps/v1`, `replicasets`.
    pub collection: (&'a str, &'a str),
    /// Selects the objects.
    pub selector: &'a LabelSelector,
}

/// Indexes the objects without a controller, which may be adopted.
pub(crate) fn add_orphan_index(informer: &SharedInformer) {
    informer.indexer().add_index(ORPHAN_INDEX, |item| {
        is_orphan(item).then(|| item.namespace().to_owned()).into_iter().collect()
    });
}

/// Indexes the objects by the uid of their controller, as `owns` of a controller does.
pub(crate) fn add_controller_index(informer: &SharedInformer) {
    informer.indexer().add_index(CONTROLLER_INDEX, |item| {
        controller_of(item).map(|owner| owner.uid).into_iter().collect()
    });
}

/// Whether an object has no controller.
pub(crate) fn is_orphan(item: &Item) -> bool {
    controller_of(item).is_none()
}

/// The controller of an object.
pub(crate) fn controller_of(item: &Item) -> Option<OwnerReference> {
    let owners = item.decode_metadata::<Vec<OwnerReference>>("ownerReferences");
    owners.ok().flatten()?.into_iter().find(|owner| owner.controller)
}

/// The objects that a workload controls. An object in another namespace is none of them, even if it
/// names the uid of the workload: who writes there must not change what happens here.
pub(crate) fn controlled_by<T: HasMetadata + DeserializeOwned>(
    objects: &Lister<T>,
    owner: &Metadata,
) -> Result<Vec<Arc<T>>, NoSuchIndex> {
    let mut owned = objects.shared_by_index(CONTROLLER_INDEX, &owner.uid)?.objects;
    owned.retain(|object| object.metadata().namespace == owner.namespace);
    Ok(owned)
}

/// Maps an object without a controller to the workloads whose `spec.selector` selects it.
pub(crate) fn adopters(workloads: &Arc<Indexer>) -> Mapper {
    adopters_by(workloads, LabelSelector::from_value)
}

/// The same for workloads with another type of selector, which `read_selector` reads.
pub(crate) fn adopters_by(workloads: &Arc<Indexer>, read_selector: ReadSelector) -> Mapper {
    let workloads = SelectorIndex::new(workloads, read_selector);
    Mapper::custom(move |object| {
        if workloads.is_empty() || !is_orphan(object) {
            return Vec::new();
        }
        workloads.selecting(object.namespace(), &object.labels())
    })
}

/// Accepts the events of objects after which one of the workloads may adopt them: most changes, such as
/// those of the status, concern no adopter.
pub(crate) fn may_be_adopted(workloads: &Arc<Indexer>) -> Predicate {
    let workloads = Arc::clone(workloads);
    Predicate::custom(move |event| {
        if workloads.is_empty() {
            return false;
        }
        let ObjectEvent::Updated { old, new } = event else { return true };
        match (is_orphan(old), is_orphan(new)) {
            (false, false) => false,
            (true, true) => old.labels() != new.labels() || is_deleting(old) != is_deleting(new),
            _ => true,
        }
    })
}

fn is_deleting(item: &Item) -> bool {
    item.decode_metadata::<IgnoredAny>("deletionTimestamp").is_ok_and(|it| it.is_some())
}

/// What the workload does with an object that it selects or does not select.
fn claim(owner: &Metadata, object: &Metadata, is_selected: bool) -> Claim {
    match object.controller() {
        Some(controller) if controller.uid != owner.uid => Claim::Ignore,
        Some(_) if is_selected => Claim::Keep,
        // A workload that is being deleted changes nothing.
        Some(_) if owner.is_deleting() => Claim::Ignore,
        Some(_) => Claim::Release,
        None if is_selected && !owner.is_deleting() && !object.is_deleting() => Claim::Adopt,
        None => Claim::Ignore,
    }
}

impl<'a> Claimer<'a> {
    /// Claims the pods of a workload.
    pub(crate) fn of_pods(
        client: &'a Client,
        owner: &'a PodOwner<'_>,
        owner_path: &'a str,
        selector: &'a LabelSelector,
    ) -> Self {
        let (reference, collection) = (&owner.reference, ("api/v1", "pods"));
        Self { client, owner: owner.metadata, reference, owner_path, collection, selector }
    }

    /// The objects of the workload: those that it controls, after the selected orphans were adopted
    /// and others released, if `may_change` allows it. The informer must have the
    /// [orphan index](add_orphan_index).
    pub(crate) async fn claim_if<T>(
        &self,
        objects: &Lister<T>,
        may_change: impl Fn(&T) -> bool,
    ) -> Result<Vec<Arc<T>>, Failure>
    where
        T: HasMetadata + DeserializeOwned,
    {
        self.claim_objects(objects, |_| true, may_change, None).await
    }

    /// Like [`claim_if`](Self::claim_if). A selected object that is not a member is released, too,
    /// and not adopted.
    pub(crate) async fn claim_members<T>(
        &self,
        objects: &Lister<T>,
        is_member: impl Fn(&T) -> bool,
    ) -> Result<Vec<Arc<T>>, Failure>
    where
        T: HasMetadata + DeserializeOwned,
    {
        self.claim_objects(objects, is_member, |_| true, None).await
    }

    /// Like [`claim_if`](Self::claim_if). Adopted objects get the finalizer, and released ones lose it.
    pub(crate) async fn claim_with<T>(
        &self,
        objects: &Lister<T>,
        may_change: impl Fn(&T) -> bool,
        finalizer: Option<&str>,
    ) -> Result<Vec<Arc<T>>, Failure>
    where
        T: HasMetadata + DeserializeOwned,
    {
        self.claim_objects(objects, |_| true, may_change, finalizer).await
    }

    async fn claim_objects<T>(
        &self,
        objects: &Lister<T>,
        is_member: impl Fn(&T) -> bool,
        may_change: impl Fn(&T) -> bool,
        finalizer: Option<&str>,
    ) -> Result<Vec<Arc<T>>, Failure>
    where
        T: HasMetadata + DeserializeOwned,
    {
        let claim = |object: &T| self.claim(object.metadata(), is_member(object));
        let (mut claimed, mut changes) = (Vec::new(), Vec::new());
        let owned = controlled_by(objects, self.owner)?;
        let orphans = objects.shared_by_index(ORPHAN_INDEX, &self.owner.namespace)?.objects;
        for object in owned.into_iter().chain(orphans) {
            match claim(&object) {
                Claim::Keep => claimed.push(object),
                change @ (Claim::Adopt | Claim::Release) if may_change(&object) => {
                    changes.push((change, object));
                }
                _ => {}
            }
        }
        if changes.is_empty() {
            return Ok(claimed);
        }
        let changes = changes.iter().map(|(change, object)| (*change, object.metadata()));
        self.change_all(changes.collect(), finalizer).await?;
        // The cache shows the changes.
        let mut owned = controlled_by(objects, self.owner)?;
        owned.retain(|object| claim(object) == Claim::Keep);
        Ok(owned)
    }

    fn claim(&self, object: &Metadata, is_member: bool) -> Claim {
        let labels = |key: &str| object.labels.get(key).map(String::as_str);
        claim(self.owner, object, is_member && self.selector.matches(labels))
    }

    /// Adopts and releases objects; returns the first error after all were tried. A workload that
    /// does not exist any more adopts nothing.
    async fn change_all(
        &self,
        mut changes: Vec<(Claim, &Metadata)>,
        finalizer: Option<&str>,
    ) -> Result<(), Failure> {
        let mut failed = None;
        if changes.iter().any(|(change, _)| *change == Claim::Adopt) {
            failed = self.check_owner().await.err();
        }
        if failed.is_some() {
            changes.retain(|(change, _)| *change != Claim::Adopt);
        }
        let requests = changes.into_iter().map(|(change, object)| async move {
            match change {
                Claim::Adopt => self.adopt(object, finalizer).await,
                _ => self.release(object, finalizer).await,
            }
        });
        let requests: Vec<_> = requests.collect();
        let mut changed = stream::iter(requests).buffer_unordered(MAX_CONCURRENT);
        while let Some(result) = changed.next().await {
            failed = failed.or(result.err());
        }
        failed.map_or(Ok(()), Err)
    }

    /// Makes the workload the controller of an object, unless the object was deleted.
    async fn adopt(&self, object: &Metadata, finalizer: Option<&str>) -> Result<(), Failure> {
        let mut metadata = json!({"ownerReferences": [self.reference]});
        if let Some(finalizer) = finalizer {
            metadata["finalizers"] = json!([finalizer]);
        }
        self.patch(object, metadata).await
    }

    /// Removes the workload from the owners of an object.
    async fn release(&self, object: &Metadata, finalizer: Option<&str>) -> Result<(), Failure> {
        let mut metadata =
            json!({"ownerReferences": [{"$patch": "delete", "uid": self.owner.uid}]});
        if let Some(finalizer) = finalizer {
            metadata["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
        }
        self.patch(object, metadata).await
    }

    async fn patch(&self, object: &Metadata, mut metadata: Value) -> Result<(), Failure> {
        let (group_version, plural) = self.collection;
        let path =
            format!("/{group_version}/namespaces/{}/{plural}/{}", object.namespace, object.name);
        // The uid makes sure that no other object of the same name is changed.
        metadata["uid"] = object.uid.as_str().into();
        let patch = json!({"metadata": metadata});
        match api_requests::strategic_merge::<Value>(self.client, &path, &patch).await {
            Ok(_) => Ok(()),
            // The object is gone, or has been replaced, or has another controller by now.
            Err(kube_client::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => {
                tracing::debug!(path, message = status.message, "an object was not claimed");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the workload from the server: the cache may not show yet that it was deleted.
    async fn check_owner(&self) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Owner {
            metadata: Metadata,
        }
        let found = api_requests::get::<Owner>(self.client, self.owner_path).await?;
        let is_alive = |it: &Owner| it.metadata.uid == self.owner.uid && !it.metadata.is_deleting();
        if found.as_ref().is_some_and(is_alive) {
            return Ok(());
        }
        let owner = format!("{}/{}", self.owner.namespace, self.owner.name);
        Err(Failure::transient(format!("{owner} was deleted, so it adopts nothing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(controller: Option<&str>) -> Metadata {
        let controller = controller.map(|uid| OwnerReference {
            uid: uid.to_owned(),
            controller: true,
            ..OwnerReference::default()
        });
        Metadata { owner_references: controller.into_iter().collect(), ..Metadata::default() }
    }

    #[test]
    fn a_workload_claims_what_it_selects_and_nobody_else_controls() {
        let owner = Metadata { uid: "u".to_owned(), ..Metadata::default() };
        for (is_selected, controller, expected) in [
            (true, Some("u"), Claim::Keep),
            (false, Some("u"), Claim::Release),
            (true, None, Claim::Adopt),
            (false, None, Claim::Ignore),
            (true, Some("other"), Claim::Ignore),
        ] {
            let found = claim(&owner, &object(controller), is_selected);
            assert_eq!(found, expected, "{is_selected} {controller:?}");
        }
    }

    #[test]
    fn a_workload_that_is_being_deleted_neither_adopts_nor_releases() {
        let deletion_timestamp = Some(crate::time::from_timestamp(keel::Timestamp::default()));
        let owner = Metadata { uid: "u".to_owned(), deletion_timestamp, ..Metadata::default() };
        assert_eq!(claim(&owner, &object(None), true), Claim::Ignore);
        assert_eq!(claim(&owner, &object(Some("u")), false), Claim::Ignore);
    }

    #[test]
    fn only_changes_of_labels_owners_and_deletion_concern_adopters() {
        let item = |metadata: Value, phase: &str| {
            let mut object = json!({"metadata": {"namespace": "n", "name": "a",
                "labels": {"app": "web"}}, "status": {"phase": phase}});
            machinery::patch::merge::apply(&mut object, &json!({"metadata": metadata}));
            Item::parse(object.to_string().into_bytes()).unwrap()
        };
        let workloads = Arc::new(Indexer::new());
        let predicate = may_be_adopted(&workloads);
        let orphan = || item(json!({}), "Pending");
        let added = || ObjectEvent::Added { item: orphan(), is_initial: false };
        assert!(!predicate.accepts(&added()), "there are no workloads");
        workloads.insert(item(json!({"name": "web"}), ""));
        assert!(predicate.accepts(&added()));
        let owned = json!({"ownerReferences": [
            {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true}]});
        for (old, new, expected) in [
            (orphan(), item(json!({}), "Running"), false),
            (orphan(), item(json!({"labels": {"app": "db"}}), "Pending"), true),
            (orphan(), item(json!({"deletionTimestamp": "2024-01-01T00:00:00Z"}), ""), true),
            (orphan(), item(owned.clone(), "Pending"), true),
            (item(owned.clone(), "Pending"), orphan(), true),
            (item(owned.clone(), "Pending"), item(owned, "Running"), false),
        ] {
            let event = ObjectEvent::Updated { old, new };
            assert_eq!(predicate.accepts(&event), expected, "{event:?}");
        }
    }
}
