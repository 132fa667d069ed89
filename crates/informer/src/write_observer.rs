//! [`WriteObserver`]: brings an informer's cache up to date with the response to a write, so that
//! the next read shows the write before the watch does. It is for controller runtimes, which see
//! the responses to the writes of their controllers.
//!
//! ```
//! use informer::{Item, ObjectKey, SharedInformer, write_observer::{WriteObserver, is_last_state}};
//!
//! /// Observes the object that an API server returned for an update.
//! fn updated(informer: &SharedInformer, item: Item) {
//!     let observer = WriteObserver::new(informer);
//!     if is_last_state(&item) {
//!         observer.observe_deletion(item.key(), item.uid());
//!     } else {
//!         observer.observe_write(item);
//!     }
//! }
//! ```

use std::cmp::Ordering;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::indexer::Applied;
use crate::informer::Notification;
use crate::item::compare_versions;
use crate::{Item, ObjectKey, SharedInformer};

/// See the [module documentation](self).
pub struct WriteObserver<'a>(&'a SharedInformer);

impl<'a> WriteObserver<'a> {
    /// Observes writes of the objects that `informer` caches.
    pub fn new(informer: &'a SharedInformer) -> Self {
        Self(informer)
    }

    /// Observes the object that a successful write returned and that still exists (see
    /// [`is_last_state`]): the next read of its key is at least as new, handlers are notified at
    /// once, and older events of the watch are ignored.
    ///
    /// Objects out of the informer's scope are left out. If the scope has fields that only the
    /// server can read, objects that are not cached yet are left to the watch. A response that
    /// arrives after the watch has shown the deletion of the object is ignored.
    pub fn observe_write(&self, item: Item) {
        let state = &self.0.0;
        // Before the transforms, which may remove fields that the selection reads.
        let is_selected = state.options.selection.selects(&item);
        let item = state.transformer.transform_unpacked(item, &state.clock);
        state.fifo.with_lock(|queue| {
            let handlers = state.lock();
            let is_known = state.indexer.get(item.key()).is_some();
            if !is_known && (is_selected.is_none() || queue.has_passed(&item)) {
                return;
            }
            let applied = match is_selected {
                Some(false) => state.indexer.apply_write_out_of_scope(item),
                None | Some(true) => state.indexer.apply_write(item),
            };
            state.indexer.forget_passed_writes(queue.version(), |key| queue.contains(key));
            handlers.notify(applied, Notification::Ordinary);
        });
    }

    /// Observes a successful deletion that left no object with finalizers behind: the object is
    /// deleted for readers and handlers at once.
    pub fn observe_deletion(&self, key: &ObjectKey, uid: &str) {
        let state = &self.0.0;
        state.fifo.with_lock(|queue| {
            let handlers = state.lock();
            let applied = state.indexer.apply_deletion(key, uid);
            state.indexer.forget_passed_writes(queue.version(), |key| queue.contains(key));
            handlers.notify(applied, Notification::Ordinary);
        });
    }

    /// Observes a list of the most recent state that was requested after a write: `found` is the
    /// object with this key, or `None` if the list does not contain it. `resource_version` is that
    /// of the list.
    pub fn observe_read(&self, key: &ObjectKey, found: Option<Item>, resource_version: &str) {
        let state = &self.0.0;
        let found = found.map(|item| state.transformer.transform(item));
        // A state that is newer than the list stays.
        let is_newer = |known: &Item| {
            compare_versions(known.resource_version(), resource_version) == Some(Ordering::Greater)
        };
        state.fifo.with_lock(|queue| {
            let handlers = state.lock();
            let applied = match (found, state.indexer.get(key)) {
                (Some(item), None) if queue.has_passed(&item) => Applied::Nothing,
                (Some(item), _) => state.indexer.apply_write(item),
                (None, Some(known)) if !is_newer(&known) => {
                    state.indexer.apply_deletion(key, known.uid())
                }
                (None, _) => Applied::Nothing,
            };
            state.indexer.forget_passed_writes(queue.version(), |key| queue.contains(key));
            handlers.notify(applied, Notification::Ordinary);
        });
    }
}

/// Whether `item`, the response to a write, is the last state of an object: it was being deleted,
/// and the write removed its last finalizer. The response then has the resourceVersion from before.
///
/// Upstream: registry/generic/registry/store.go `ShouldDeleteDuringUpdate`
pub fn is_last_state(item: &Item) -> bool {
    #[derive(Deserialize)]
    struct Object {
        kind: Option<String>,
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        deletion_timestamp: Option<IgnoredAny>,
        deletion_grace_period_seconds: Option<i64>,
        finalizers: Option<Vec<IgnoredAny>>,
    }
    #[derive(Deserialize)]
    struct Namespace {
        spec: NamespaceSpec,
    }
    #[derive(Deserialize)]
    struct NamespaceSpec {
        finalizers: Vec<IgnoredAny>,
    }
    let Ok(Object { kind, metadata }) = item.decode() else { return false };
    // A namespace has finalizers in its spec, too; in other kinds the field has another meaning.
    let is_namespace = kind.as_deref() == Some("Namespace");
    metadata.deletion_timestamp.is_some()
        && metadata.deletion_grace_period_seconds.unwrap_or(0) == 0
        && metadata.finalizers.is_none_or(|finalizers| finalizers.is_empty())
        && !(is_namespace
            && item
                .decode()
                .is_ok_and(|namespace: Namespace| !namespace.spec.finalizers.is_empty()))
}

/// The same state as `PartialObjectMetadata`, as an informer of metadata caches it. An object whose
/// JSON has two members `metadata` stays whole.
///
/// ```
/// use informer::{BadItem, Item, write_observer::metadata_only};
/// let item = Item::parse(r#"{"metadata":{"name":"a"},"spec":{}}"#)?;
/// assert!(metadata_only(&item).object().unwrap().get(&["spec"]).is_none());
/// # Ok::<(), BadItem>(())
/// ```
pub fn metadata_only(item: &Item) -> Item {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    let json = item.json();
    let json = String::from_utf8_lossy(&json);
    let Ok(Object { metadata }) = serde_json::from_str(&json) else { return item.clone() };
    let json = format!(
        r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{metadata}}}"#,
    );
    Item::parse(json).unwrap_or_else(|_| item.clone())
}

#[cfg(test)]
mod tests;
