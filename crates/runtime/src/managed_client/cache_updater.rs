//! [`CacheUpdater`]: brings the caches up to date with what was written, from the answer if that tells
//! enough, and otherwise by looking.
//!
//! | cache | answer | |
//! |---|---|---|
//! | whole objects of the same version | the object | from the answer |
//! | metadata, of any version | the object, its metadata | from the answer |
//! | whole objects of another version | anything | looked at |
//! | any | a scale, a status, a list of what was deleted | looked at |
//! | with a selection by fields that only the server can read | anything | looked at |
//!
//! To look is to list with the name of the object, by the rights that the cache has anyway; one
//! request for each of these caches. If it fails, the cache learns from its watch.

use std::{collections::BTreeMap, sync::Arc};

use client::ClientListWatch;
use informer::{
    Form, InformerFactory, Item, List, ListRequest, ListWatch, ListWatchError, ObjectKey, Scope,
    Selection, SharedInformer,
    write_observer::{WriteObserver, is_last_state, metadata_only},
};
use kube_client::Client;
use machinery::selector::FieldSelector;

use super::{answer::Answer, resource_path::ResourcePath};

/// See the [module documentation](self).
pub(super) struct CacheUpdater {
    /// Not the one that is being mirrored.
    pub(super) client: Client,
    pub(super) factory: Arc<InformerFactory>,
}

impl CacheUpdater {
    /// A write to the object `name` was answered like this.
    pub(super) async fn written(&self, target: &ResourcePath, name: &str, answer: &Answer) {
        // With its last finalizer.
        if let Answer::Object(item) = answer
            && is_last_state(item)
        {
            return self.removed(target, name, item.uid());
        }
        let key = target.key(name);
        for (scope, informer) in self.caches(target) {
            match cached_form(target, &scope, answer) {
                Some(item) => WriteObserver::new(&informer).observe_write(item),
                None => self.read_back(&scope, &informer, &key).await,
            }
        }
    }

    /// A deletion of the object `name` was answered like this.
    pub(super) async fn deleted(&self, target: &ResourcePath, name: &str, answer: &Answer) {
        match answer.deleted_uid() {
            Some(uid) => self.removed(target, name, uid),
            None => self.written(target, name, answer).await,
        }
    }

    fn removed(&self, target: &ResourcePath, name: &str, uid: &str) {
        for (_, informer) in self.caches(target) {
            WriteObserver::new(&informer).observe_deletion(&target.key(name), uid);
        }
    }

    /// Objects of a collection were deleted; which of them are gone, nobody has said.
    pub(super) async fn collection_deleted(&self, target: &ResourcePath) {
        for (scope, informer) in self.caches(target) {
            let namespace = Some(&target.namespace).filter(|it| !it.is_empty()).cloned();
            let namespace = namespace.or_else(|| scope.selection.namespace.clone());
            let known = match &namespace {
                Some(namespace) => informer.indexer().list_namespace(namespace),
                None => informer.indexer().list(),
            };
            if known.is_empty() {
                continue;
            }
            let selection = Selection { namespace, ..scope.selection.clone() };
            let Some(page) = self.list(&scope, selection).await else { continue };
            let found = page.items.into_iter().map(|item| (item.key().clone(), item));
            let mut found: BTreeMap<ObjectKey, Item> = found.collect();
            for known in known {
                let found = found.remove(known.key());
                WriteObserver::new(&informer).observe_read(
                    known.key(),
                    found,
                    &page.resource_version,
                );
            }
        }
    }

    /// The caches that may have what `target` is about.
    fn caches(&self, target: &ResourcePath) -> Vec<(Scope, SharedInformer)> {
        let mut caches = self.factory.of_resource(&target.group_version.group, &target.resource);
        caches.retain(|(scope, _)| {
            let namespace = scope.selection.namespace.as_ref();
            target.namespace.is_empty() || namespace.is_none_or(|it| *it == target.namespace)
        });
        caches
    }

    async fn read_back(&self, scope: &Scope, informer: &SharedInformer, key: &ObjectKey) {
        let mut fields = format!("metadata.name={}", key.name());
        if !scope.selection.fields.is_empty() {
            fields = format!("{},{fields}", scope.selection.fields);
        }
        let Ok(fields) = FieldSelector::parse(&fields) else { return };
        let namespace = Some(key.namespace().to_owned()).filter(|it| !it.is_empty());
        let selection = Selection { namespace, fields, labels: scope.selection.labels.clone() };
        let Some(page) = self.list(scope, selection).await else { return };
        let found = page.items.into_iter().find(|item| item.key() == key);
        WriteObserver::new(informer).observe_read(key, found, &page.resource_version);
    }

    async fn list(&self, scope: &Scope, selection: Selection) -> Option<List> {
        let source = ClientListWatch::new(self.client.clone(), scope);
        let listed = source.list(ListRequest { selection, ..ListRequest::default() }).await;
        let complain = |error: &ListWatchError| {
            tracing::warn!(resource = %scope, %error, "cannot see what was written before the watch shows it");
        };
        listed.inspect_err(complain).ok()
    }
}

/// The object as the cache of `scope` has it, if the answer tells that, and whether it belongs
/// there.
fn cached_form(target: &ResourcePath, scope: &Scope, answer: &Answer) -> Option<Item> {
    let item = match (answer, scope.form) {
        (Answer::Object(item), Form::Whole) if scope.group_version == target.group_version => {
            item.clone()
        }
        (Answer::Object(item), Form::Metadata) => metadata_only(item),
        (Answer::Metadata(item), Form::Metadata) => item.clone(),
        _ => return None,
    };
    scope.selection.selects(&item).is_some().then_some(item)
}
