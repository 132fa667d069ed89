//! [`StoredRelations`]: the [`Relations`] of the stored pods and volumes.
//!
//! The first request of a node reads all pods. Each later one applies the difference between two
//! snapshots, which is nothing in most cases.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::Notify;

use super::pod_references::PodReferences;
use super::relations::{ObjectKey, Referenced, Relations};
use super::volume_references::VolumeReferences;
use crate::cache::watch_cache::{Entry, Snapshot};
use crate::storage::Storage;
use crate::storage::catalog::ServedResource;
use keel::Clock;

/// See the [module documentation](self).
pub(super) struct StoredRelations {
    pods: Arc<ServedResource>,
    volumes: Arc<ServedResource>,
    attachments: Arc<ServedResource>,
    slices: Arc<ServedResource>,
    /// The index and the snapshots from which it was made. No other lock is taken while it is held.
    indexed: Mutex<Indexed>,
    /// Whether a node has made a request that needs the index.
    is_used: AtomicBool,
    first_use: Notify,
}

#[derive(Default)]
struct Indexed {
    pods: Arc<Snapshot>,
    volumes: Arc<Snapshot>,
    relations: Relations,
}

impl StoredRelations {
    /// The relations of a plane.
    pub(super) fn new(storage: &Storage) -> Self {
        let catalog = storage.catalog.load();
        let served = |group: &str, plural: &str| {
            Arc::clone(catalog.resource(group, plural).expect("the kind is built in"))
        };
        Self {
            pods: served("", "pods"),
            volumes: served("", "persistentvolumes"),
            attachments: served("storage.k8s.io", "volumeattachments"),
            slices: served("resource.k8s.io", "resourceslices"),
            indexed: Mutex::default(),
            is_used: AtomicBool::new(false),
            first_use: Notify::new(),
        }
    }

    /// Whether a pod on the node refers to the object, directly or by a volume.
    pub(super) fn refers(&self, node: &str, kind: Referenced, namespace: &str, name: &str) -> bool {
        // Keys of objects have one slash.
        if namespace.contains('/') || name.contains('/') {
            return false;
        }
        self.refers_to(node, &ObjectKey::new(kind, namespace, name))
    }

    fn refers_to(&self, node: &str, key: &ObjectKey) -> bool {
        if !self.is_used.swap(true, Ordering::Relaxed) {
            self.first_use.notify_one();
        }
        let mut indexed = self.indexed.lock().unwrap_or_else(PoisonError::into_inner);
        self.update(&mut indexed);
        indexed.relations.refers(node, key)
    }

    /// Whether a pod on the node uses the claim to which the volume is bound.
    pub(super) fn uses_volume(&self, node: &str, name: &str) -> bool {
        let found = find(&self.volumes, "", name);
        let references = found.and_then(|it| it.read::<VolumeReferences>());
        references.and_then(|it| it.claim()).is_some_and(|claim| self.refers_to(node, &claim))
    }

    /// Whether the pod is on the node.
    pub(super) fn has_pod(&self, node: &str, namespace: &str, name: &str) -> bool {
        !namespace.is_empty() && is_on_node(&self.pods, node, namespace, name)
    }

    /// Whether the volume attachment is for the node.
    pub(super) fn has_attachment(&self, node: &str, name: &str) -> bool {
        is_on_node(&self.attachments, node, "", name)
    }

    /// Whether the resource slice is one of the node.
    pub(super) fn has_slice(&self, node: &str, name: &str) -> bool {
        is_on_node(&self.slices, node, "", name)
    }

    /// Applies what has changed since the snapshots.
    fn update(&self, indexed: &mut Indexed) {
        if !self.pods.cache.is_current(&indexed.pods) {
            let new = self.pods.cache.snapshot();
            for (old, new) in indexed.pods.changes_to(&new) {
                set_pod(&mut indexed.relations, old, new);
            }
            indexed.pods = new;
        }
        if !self.volumes.cache.is_current(&indexed.volumes) {
            let new = self.volumes.cache.snapshot();
            for (old, new) in indexed.volumes.changes_to(&new) {
                set_volume(&mut indexed.relations, old, new);
            }
            indexed.volumes = new;
        }
    }
}

/// The time for which the snapshot of the index may be old while nodes make no requests.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// Updates the index now and then once it is used, since its snapshot holds the memory of objects that
/// have been replaced.
pub(super) async fn refresh(
    relations: Arc<StoredRelations>,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) {
    let work = async {
        relations.first_use.notified().await;
        let mut changed = relations.pods.cache.subscribe();
        loop {
            changed.changed().await;
            clock.sleep(REFRESH_INTERVAL).await;
            changed.mark_seen();
            let mut indexed = relations.indexed.lock().unwrap_or_else(PoisonError::into_inner);
            relations.update(&mut indexed);
        }
    };
    tokio::select! {
        () = work => {}
        () = shutdown => {}
    }
}

fn find(served: &ServedResource, namespace: &str, name: &str) -> Option<Arc<Entry>> {
    if namespace.contains('/') || name.contains('/') {
        return None;
    }
    served.cache.get(&served.key(namespace, name)).filter(|it| !it.uninitialized)
}

fn is_on_node(served: &ServedResource, node: &str, namespace: &str, name: &str) -> bool {
    #[derive(Deserialize)]
    struct Object {
        spec: Spec,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        node_name: Option<String>,
    }
    find(served, namespace, name)
        .and_then(|it| it.read::<Object>())
        .is_some_and(|it| it.spec.node_name.as_deref() == Some(node))
}

fn set_pod(relations: &mut Relations, old: Option<&Entry>, new: Option<&Entry>) {
    let references = |entry: &Entry| {
        let pod: PodReferences = entry.read()?;
        let node = pod.node()?.to_owned();
        Some((node, pod.keys(entry.namespace(), entry.name())))
    };
    let (old, new) = (old.and_then(references), new.and_then(references));
    if old == new {
        return;
    }
    if let Some((node, keys)) = old {
        relations.remove_pod(&node, keys);
    }
    if let Some((node, keys)) = new {
        relations.add_pod(&node, keys);
    }
}

fn set_volume(relations: &mut Relations, old: Option<&Entry>, new: Option<&Entry>) {
    let references = |entry: &Entry| {
        let volume: VolumeReferences = entry.read()?;
        Some((volume.claim()?, volume.secrets()))
    };
    if let Some((claim, secrets)) = old.and_then(references) {
        relations.remove_volume(&claim, secrets);
    }
    if let Some((claim, secrets)) = new.and_then(references) {
        relations.add_volume(&claim, secrets);
    }
}
