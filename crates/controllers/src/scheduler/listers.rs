//! [`Listers`]: reads of objects other than pods and nodes, from the shared caches.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use serde::Deserialize;

use super::label_set::LabelSet;
use super::pod_info::PodTraits;
use super::resources::ResourceList;
use super::selectors::Selector;
use crate::metadata::Metadata;
use machinery::node_matching::NodeSelector;
use runtime::informer::{HasSynced, Item, SharedInformer};
use runtime::{Lister, Manager, ObjectKey};

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Listers {
    pub claims: Lister<ClaimView>,
    pub volumes: Lister<VolumeView>,
    pub classes: Lister<StorageClassView>,
    pub budgets: Lister<BudgetView>,
    replica_sets: Lister<SelectingView>,
    stateful_sets: Lister<SelectingView>,
    replication_controllers: Lister<ReplicationControllerView>,
}

/// A `PersistentVolumeClaim`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimView {
    pub metadata: Metadata,
    pub spec: ClaimSpec,
    pub status: PhaseView,
}

/// The phase of a claim or volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PhaseView {
    pub phase: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimSpec {
    pub volume_name: String,
    pub storage_class_name: String,
    pub access_modes: Vec<String>,
    pub resources: RequestsView,
    pub selector: Option<Selector>,
    pub volume_mode: String,
    pub volume_attributes_class_name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RequestsView {
    pub requests: ResourceList,
}

/// A `PersistentVolume`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeView {
    pub metadata: Metadata,
    pub spec: VolumeSpec,
    pub status: PhaseView,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeSpec {
    pub capacity: ResourceList,
    pub claim_ref: Option<ClaimReference>,
    pub node_affinity: VolumeNodeAffinity,
    pub storage_class_name: String,
    pub access_modes: Vec<String>,
    pub volume_mode: String,
    pub volume_attributes_class_name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimReference {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeNodeAffinity {
    pub required: Option<NodeSelector>,
}

/// A `StorageClass`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StorageClassView {
    pub provisioner: String,
    pub volume_binding_mode: String,
    pub allowed_topologies: Vec<TopologyTerm>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TopologyTerm {
    pub match_label_expressions: Vec<TopologyExpression>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TopologyExpression {
    pub key: String,
    pub values: Vec<String>,
}

/// A `PodDisruptionBudget`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct BudgetView {
    pub metadata: Metadata,
    pub spec: BudgetSpec,
    pub status: BudgetStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct BudgetSpec {
    pub selector: Option<Selector>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BudgetStatus {
    pub disruptions_allowed: i32,
    pub disrupted_pods: BTreeMap<String, String>,
}

/// A `ReplicaSet` or `StatefulSet`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct SelectingView {
    spec: SelectingSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct SelectingSpec {
    selector: Selector,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ReplicationControllerView {
    spec: ReplicationControllerSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ReplicationControllerSpec {
    selector: LabelSet,
}

/// The index of volumes by what may be bound to them.
const BINDABLE_INDEX: &str = "bindable";

/// The class of an available volume, or the claim that a volume names.
fn bindable(volume: &Item) -> Vec<String> {
    let Ok(VolumeView { spec, status, .. }) = volume.decode() else { return Vec::new() };
    match spec.claim_ref {
        Some(claim) => vec![format!("claim {}/{}", claim.namespace, claim.name)],
        None if status.phase == "Available" => vec![format!("class {}", spec.storage_class_name)],
        None => Vec::new(),
    }
}

impl Listers {
    /// The listers of a manager, and whether their caches are complete.
    pub(crate) fn of(manager: &Manager) -> (Self, Vec<HasSynced>) {
        let informers = [
            manager.informer::<PersistentVolumeClaim>(),
            manager.informer::<PersistentVolume>(),
            manager.informer::<StorageClass>(),
            manager.informer::<PodDisruptionBudget>(),
            manager.informer::<ReplicaSet>(),
            manager.informer::<StatefulSet>(),
            manager.informer::<ReplicationController>(),
        ];
        informers[1].indexer().add_index(BINDABLE_INDEX, bindable);
        let [claims, volumes, classes, budgets, replica_sets, stateful_sets, controllers] =
            &informers;
        let listers = Self {
            claims: claims.lister(),
            volumes: volumes.lister(),
            classes: classes.lister(),
            budgets: budgets.lister(),
            replica_sets: replica_sets.lister(),
            stateful_sets: stateful_sets.lister(),
            replication_controllers: controllers.lister(),
        };
        (listers, informers.iter().map(SharedInformer::has_synced).collect())
    }

    /// Listers without objects.
    pub(crate) fn empty() -> Self {
        use runtime::informer::Indexer;
        let volumes = Indexer::new();
        volumes.add_index(BINDABLE_INDEX, bindable);
        Self {
            claims: Lister::new(Arc::new(Indexer::new())),
            volumes: Lister::new(Arc::new(volumes)),
            classes: Lister::new(Arc::new(Indexer::new())),
            budgets: Lister::new(Arc::new(Indexer::new())),
            replica_sets: Lister::new(Arc::new(Indexer::new())),
            stateful_sets: Lister::new(Arc::new(Indexer::new())),
            replication_controllers: Lister::new(Arc::new(Indexer::new())),
        }
    }

    /// The volumes of a storage class that no claim has.
    pub(super) fn available_volumes(&self, class: &str) -> Vec<Arc<VolumeView>> {
        self.bindable_volumes(&format!("class {class}"))
    }

    /// The volumes that are reserved for a claim, or bound to it.
    pub(super) fn reserved_volumes(&self, claim: &ObjectKey) -> Vec<Arc<VolumeView>> {
        self.bindable_volumes(&format!("claim {claim}"))
    }

    fn bindable_volumes(&self, value: &str) -> Vec<Arc<VolumeView>> {
        let found = self.volumes.shared_by_index(BINDABLE_INDEX, value);
        found.expect("the index is added with the lister").objects
    }

    /// The selector of the workload that controls a pod.
    ///
    /// Upstream: plugins/helper/spread.go `DefaultSelector`
    pub(crate) fn selector_of_controller(&self, pod: &PodTraits) -> Option<Selector> {
        let (api_version, kind, name) = pod.controller.as_ref()?;
        let namespace = &pod.namespace;
        match (api_version.as_str(), kind.as_str()) {
            ("apps/v1", "ReplicaSet") => {
                let set = self.replica_sets.shared(namespace, name).ok()??;
                Some(set.spec.selector.clone())
            }
            ("apps/v1", "StatefulSet") => {
                let set = self.stateful_sets.shared(namespace, name).ok()??;
                Some(set.spec.selector.clone())
            }
            ("v1", "ReplicationController") => {
                let controller = self.replication_controllers.shared(namespace, name).ok()??;
                Some(Selector::of_labels(controller.spec.selector.clone()))
            }
            _ => None,
        }
    }
}
