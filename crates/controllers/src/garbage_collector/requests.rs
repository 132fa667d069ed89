//! The requests of the garbage collector: metadata of live objects, deletions, and patches of owners
//! and finalizers.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::api_requests::{self, Result, has_code};
use crate::metadata::{Metadata, OwnerReference};
use crate::resource_discovery::ApiResource;
use runtime::Client;

/// The number of attempts to write after a conflict. Upstream: retry.DefaultBackoff
const MAX_ATTEMPTS: usize = 4;

/// An object for requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub resource: &'a ApiResource,
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

impl Target<'_> {
    fn path(&self) -> String {
        self.resource.object_path(self.namespace, self.name)
    }
}

/// The fate of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    /// The policy that honors the finalizers of an object.
    pub(super) fn of(has_orphan_finalizer: bool, has_foreground_finalizer: bool) -> Self {
        match (has_orphan_finalizer, has_foreground_finalizer) {
            (true, _) => Self::Orphan,
            (false, true) => Self::Foreground,
            (false, false) => Self::Background,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// The result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deletion {
    /// The object was deleted, or is being deleted.
    Accepted,
    /// The object did not exist.
    Gone,
    /// The object is in another state, or is another object of the same name.
    Conflict,
}

/// The metadata of an object; `None` if it does not exist.
pub(super) async fn read(client: &Client, path: &str) -> Result<Option<Metadata>> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    let object: Option<Object> = api_requests::get(client, path).await?;
    Ok(object.map(|object| object.metadata))
}

/// The metadata of the target; `None` if it does not exist, or if its name belongs to another object.
pub(super) async fn read_target(client: &Client, target: Target<'_>) -> Result<Option<Metadata>> {
    Ok(read(client, &target.path()).await?.filter(|latest| latest.uid == target.uid))
}

/// Deletes the target if it is in the state of `version`; in any state if that is `None`.
pub(super) async fn delete(
    client: &Client,
    target: Target<'_>,
    version: Option<&str>,
    propagation: Propagation,
) -> Result<Deletion> {
    let mut preconditions = json!({"uid": target.uid});
    if let Some(version) = version {
        preconditions["resourceVersion"] = version.into();
    }
    let options = json!({
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": preconditions,
        "propagationPolicy": propagation.as_str(),
    });
    let path = target.path();
    match api_requests::delete_with::<IgnoredAny>(client, &path, &options).await {
        Ok(_) => Ok(Deletion::Accepted),
        Err(error) if has_code(&error, 404) => Ok(Deletion::Gone),
        Err(error) if has_code(&error, 409) => Ok(Deletion::Conflict),
        Err(error) => Err(error),
    }
}

/// Deletes the target in the state `latest`, or in a later state that has the same owners, so that an
/// object that changes often is deleted, too.
///
/// Upstream: `garbagecollector/operations.go` deleteObject
pub(super) async fn delete_with_owners_of(
    client: &Client,
    target: Target<'_>,
    latest: &Metadata,
    propagation: Propagation,
) -> Result<Deletion> {
    let version = Some(latest.resource_version.as_str());
    let deletion = delete(client, target, version, propagation).await?;
    if deletion != Deletion::Conflict {
        return Ok(deletion);
    }
    match read(client, &target.path()).await? {
        None => Ok(Deletion::Gone),
        Some(live)
            if live.uid == target.uid && live.owner_references == latest.owner_references =>
        {
            delete(client, target, None, propagation).await
        }
        Some(_) => Ok(Deletion::Conflict),
    }
}

/// A change of the owners of an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum OwnerChange<'a> {
    /// Removes the references to owners with these uids.
    Remove(&'a [String]),
    /// No reference blocks the deletion of its owner any more.
    Unblock,
}

impl OwnerChange<'_> {
    /// The strategic merge patch. Owner references are merged by their uid.
    fn strategic_patch(self, uid: &str, owners: &[OwnerReference]) -> Value {
        let references: Vec<Value> = match self {
            Self::Remove(uids) => {
                uids.iter().map(|uid| json!({"$patch": "delete", "uid": uid})).collect()
            }
            Self::Unblock => owners
                .iter()
                .filter(|owner| owner.block_owner_deletion)
                .map(|owner| json!({"uid": owner.uid, "blockOwnerDeletion": false}))
                .collect(),
        };
        json!({"metadata": {"uid": uid, "ownerReferences": references}})
    }

    /// The JSON merge patch of an object in the state `latest`.
    fn merge_patch(self, latest: &Metadata) -> Value {
        let mut owners = latest.owner_references.clone();
        match self {
            Self::Remove(uids) => owners.retain(|owner| !uids.contains(&owner.uid)),
            Self::Unblock => {
                for owner in &mut owners {
                    owner.block_owner_deletion = false;
                }
            }
        }
        json!({"metadata": {
            "uid": latest.uid,
            "resourceVersion": latest.resource_version,
            "ownerReferences": owners,
        }})
    }
}

/// Changes the owners of the target by a strategic merge patch; returns false if the resource does not
/// support that.
pub(super) async fn change_owners(
    client: &Client,
    target: Target<'_>,
    owners: &[OwnerReference],
    change: OwnerChange<'_>,
) -> Result<bool> {
    let patch = change.strategic_patch(target.uid, owners);
    let patched = api_requests::strategic_merge::<IgnoredAny>(client, &target.path(), &patch).await;
    match patched {
        Ok(_) => Ok(true),
        Err(error) if has_code(&error, 415) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Changes the owners of the target by a JSON merge patch.
pub(super) async fn change_owners_by_merge(
    client: &Client,
    target: Target<'_>,
    change: OwnerChange<'_>,
) -> Result<()> {
    let Some(latest) = read_target(client, target).await? else { return Ok(()) };
    let patch = change.merge_patch(&latest);
    api_requests::merge::<IgnoredAny>(client, &target.path(), &patch).await.map(drop)
}

/// Removes a finalizer from the target.
///
/// Upstream: `garbagecollector/operations.go` removeFinalizer
pub(super) async fn remove_finalizer(
    client: &Client,
    target: Target<'_>,
    finalizer: &str,
) -> Result<()> {
    let mut attempts = 0;
    loop {
        let Some(latest) = read_target(client, target).await? else { return Ok(()) };
        if !latest.finalizers.iter().any(|it| it == finalizer) {
            return Ok(());
        }
        let finalizers: Vec<&String> =
            latest.finalizers.iter().filter(|it| *it != finalizer).collect();
        let patch = json!({"metadata": {
            "resourceVersion": latest.resource_version,
            "finalizers": finalizers,
        }});
        attempts += 1;
        match api_requests::merge::<IgnoredAny>(client, &target.path(), &patch).await {
            Ok(_) => return Ok(()),
            Err(error) if has_code(&error, 404) => return Ok(()),
            Err(error) if has_code(&error, 409) && attempts < MAX_ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}
