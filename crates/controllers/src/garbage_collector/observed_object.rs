//! [`ObservedObject`]: the part of an object that the graph needs, and its source.
//!
//! Most objects have no owner and are not being deleted. Of these only the uid and the key are read.

use std::borrow::Cow;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;

use super::uid::Uid;
use crate::metadata::OwnerReference;
use runtime::ObjectKey;
use runtime::client::ClientListWatch;
use runtime::informer::{
    Item, List, ListRequest, ListWatch, ListWatchError, ReflectorItem, WatchEvent, WatchRequest,
    WatchStream,
};

/// The finalizer of an object whose deletion waits for that of its dependents.
pub(super) const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are to be orphaned.
pub(super) const ORPHAN_FINALIZER: &str = "orphan";

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct ObservedObject {
    pub uid: Uid,
    pub key: ObjectKey,
    pub version: Box<str>,
    /// The text of a uid that is not a UUID.
    pub uid_text: Option<Box<str>>,
    /// `None` for an object without owners that is not being deleted.
    pub relations: Option<Box<Relations>>,
}

/// The owners of an object, and the state of its deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Relations {
    pub owners: Vec<OwnerReference>,
    pub is_being_deleted: bool,
    pub has_foreground_finalizer: bool,
    pub has_orphan_finalizer: bool,
}

impl ObservedObject {
    pub(super) fn of(item: &Item) -> Self {
        let uid = Uid::of(item.uid());
        Self {
            uid,
            key: item.key().clone(),
            version: item.resource_version().into(),
            uid_text: uid.is_hash().then(|| item.uid().into()),
            relations: Relations::of(item).map(Box::new),
        }
    }
}

impl Relations {
    /// The relations of an object, unless it has no owners and is not being deleted.
    fn of(item: &Item) -> Option<Self> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Metadata {
            owner_references: Vec<OwnerReference>,
            deletion_timestamp: Option<serde::de::IgnoredAny>,
            finalizers: Vec<String>,
        }
        if !item.may_be_owned_or_deleted() {
            return None;
        }
        // The bytes of a server in this process are read where they are.
        let json = item.shared_bytes().unwrap_or_else(|| item.json());
        let Object { metadata } = match serde_json::from_slice(&json) {
            Ok(object) => object,
            Err(error) => {
                tracing::warn!(object = %item.key(), %error, "cannot read the owners of an object");
                return None;
            }
        };
        let has = |finalizer: &str| metadata.finalizers.iter().any(|it| it == finalizer);
        let relations = Self {
            is_being_deleted: metadata.deletion_timestamp.is_some(),
            has_foreground_finalizer: has(FOREGROUND_FINALIZER),
            has_orphan_finalizer: has(ORPHAN_FINALIZER),
            owners: metadata.owner_references,
        };
        (relations.is_being_deleted || !relations.owners.is_empty()).then_some(relations)
    }
}

impl ReflectorItem for ObservedObject {
    type Key = Uid;

    fn key(&self) -> Uid {
        self.uid
    }

    fn resource_version(&self) -> Cow<'_, str> {
        (&*self.version).into()
    }
}

/// The observed objects of a resource.
pub(super) struct ObjectSource(pub ClientListWatch);

impl ListWatch<ObservedObject> for ObjectSource {
    fn list(
        &self,
        request: ListRequest,
    ) -> BoxFuture<'_, Result<List<ObservedObject>, ListWatchError>> {
        Box::pin(async move {
            let list = self.0.list(request).await?;
            Ok(List {
                items: list.items.iter().map(ObservedObject::of).collect(),
                bad: list.bad,
                resource_version: list.resource_version,
                continue_token: list.continue_token,
            })
        })
    }

    fn watch(
        &self,
        request: WatchRequest,
    ) -> BoxFuture<'_, Result<WatchStream<ObservedObject>, ListWatchError>> {
        Box::pin(async move {
            let events = self.0.watch(request).await?;
            Ok(events.map(|event| event.map(observed)).boxed())
        })
    }
}

fn observed(event: WatchEvent) -> WatchEvent<ObservedObject> {
    match event {
        WatchEvent::Added(item) => WatchEvent::Added(ObservedObject::of(&item)),
        WatchEvent::Modified(item) => WatchEvent::Modified(ObservedObject::of(&item)),
        WatchEvent::Deleted(item) => WatchEvent::Deleted(ObservedObject::of(&item)),
        WatchEvent::Bookmark { resource_version, initial_events_end } => {
            WatchEvent::Bookmark { resource_version, initial_events_end }
        }
        WatchEvent::Bad { resource_version, error } => WatchEvent::Bad { resource_version, error },
        WatchEvent::Error(status) => WatchEvent::Error(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relations(metadata: &str, rest: &str) -> Option<Relations> {
        let json = format!(r#"{{"metadata":{{"name":"a","uid":"u"{metadata}}}{rest}}}"#);
        let item = Item::parse(json.into_bytes()).unwrap();
        ObservedObject::of(&item).relations.map(|relations| *relations)
    }

    #[test]
    fn only_objects_with_owners_or_a_deletion_have_relations() {
        assert_eq!(relations("", ""), None);
        assert_eq!(relations(r#","finalizers":["orphan"]"#, ""), None);
        let template = r#","spec":{"ownerReferences":[{"uid":"x"}]}"#;
        assert_eq!(relations("", template), None, "it is not in the metadata");
        let found = relations(r#","ownerReferences":[{"uid":"x","blockOwnerDeletion":true}]"#, "");
        let found = found.unwrap();
        assert!(found.owners[0].block_owner_deletion && !found.is_being_deleted);
        let deleted = relations(
            r#","deletionTimestamp":"2024-01-01T00:00:00Z","finalizers":["foregroundDeletion"]"#,
            "",
        );
        let expected = Relations {
            is_being_deleted: true,
            has_foreground_finalizer: true,
            ..Relations::default()
        };
        assert_eq!(deleted, Some(expected));
    }
}
