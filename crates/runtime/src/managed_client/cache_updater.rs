//! [`CacheUpdater`]: updates the caches after a write, from the response if it contains the object,
//! and otherwise by reading it back.
//!
//! | cache | response | |
//! |---|---|---|
//! | whole objects of the same version | the object | from the response |
//! | metadata, of any version | the object, its metadata | from the response |
//! | whole objects of another version | any | read back |
//! | any | a scale, a status, a list of the deleted objects | read back |
//! | with a field selector that only the server can apply | any | read back |
//!
//! To read back is to list with the name of the object, for which the permissions of the cache
//! suffice; one request for each of these caches. If it fails, the watch updates the cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_client::Client;

use super::resource_path::ResourcePath;
use super::response_content::ResponseContent;
use client::ClientListWatch;
use informer::write_observer::{WriteObserver, is_last_state, metadata_only};
use informer::{
    Form, InformerFactory, Item, List, ListRequest, ListWatch, ListWatchError, ObjectKey, Scope,
    Selection, SharedInformer,
};
use machinery::selector::FieldSelector;

/// See the [module documentation](self).
pub(super) struct CacheUpdater {
    /// The client without cache updates.
    pub(super) client: Client,
    pub(super) factory: Arc<InformerFactory>,
}

impl CacheUpdater {
    /// The object `name` as a cache shows it.
    pub(super) fn cached(&self, target: &ResourcePath, name: &str) -> Option<Item> {
        let key = target.key(name);
        let caches = self.caches(target);
        caches.iter().find_map(|(_, informer)| informer.indexer().get(&key))
    }

    /// The object `name` was written, with this response.
    pub(super) async fn written(
        &self,
        target: &ResourcePath,
        name: &str,
        content: &ResponseContent,
    ) {
        // The write removed the last finalizer.
        if let ResponseContent::Object(item) = content
            && is_last_state(item)
        {
            return self.removed(target, name, item.uid());
        }
        let key = target.key(name);
        for (scope, informer) in self.caches(target) {
            match cached_form(target, &scope, content) {
                Some(item) => WriteObserver::new(&informer).observe_write(item),
                None => self.read_back(&scope, &informer, &key).await,
            }
        }
    }

    /// The object `name` was deleted, with this response.
    pub(super) async fn deleted(
        &self,
        target: &ResourcePath,
        name: &str,
        content: &ResponseContent,
    ) {
        match content.deleted_uid() {
            Some(uid) => self.removed(target, name, uid),
            None => self.written(target, name, content).await,
        }
    }

    fn removed(&self, target: &ResourcePath, name: &str, uid: &str) {
        for (_, informer) in self.caches(target) {
            WriteObserver::new(&informer).observe_deletion(&target.key(name), uid);
        }
    }

    /// Objects of a collection were deleted. The caches are compared with a list.
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

    /// The caches that may contain objects of `target`.
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
        let selection = Selection { namespace, fields, ..scope.selection.clone() };
        let Some(page) = self.list(scope, selection).await else { return };
        let found = page.items.into_iter().find(|item| item.key() == key);
        WriteObserver::new(informer).observe_read(key, found, &page.resource_version);
    }

    async fn list(&self, scope: &Scope, selection: Selection) -> Option<List> {
        let source = ClientListWatch::new(self.client.clone(), scope);
        let listed = source.list(ListRequest { selection, ..ListRequest::default() }).await;
        let log = |error: &ListWatchError| {
            tracing::warn!(resource = %scope, %error, "cannot read back a written object; the watch will show it");
        };
        listed.inspect_err(log).ok()
    }
}

/// The object in the form of the cache of `scope`, if the response contains it and the selection
/// can be applied to it.
fn cached_form(target: &ResourcePath, scope: &Scope, content: &ResponseContent) -> Option<Item> {
    let item = match (content, scope.form) {
        (ResponseContent::Object(item) | ResponseContent::Stored(item), Form::Whole)
            if scope.group_version == target.group_version =>
        {
            item.clone()
        }
        (ResponseContent::Object(item) | ResponseContent::Stored(item), Form::Metadata) => {
            metadata_only(item)
        }
        (ResponseContent::Metadata(item), Form::Metadata) => item.clone(),
        _ => return None,
    };
    scope.selection.selects(&item).is_some().then_some(item)
}
