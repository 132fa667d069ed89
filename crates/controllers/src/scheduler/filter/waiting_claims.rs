//! [`WaitingClaims`]: the claims of a pod that are bound when its node is chosen, and the volumes that
//! they can be bound to.
//!
//! A plan for a node costs a look at each claim, and at each volume that is large enough until one
//! matches; volumes that are bound to other claims are never looked at.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::volumes::{AssumedVolumes, SELECTED_NODE, VolumePlan, key_of};
use crate::scheduler::listers::{ClaimView, Listers, StorageClassView, VolumeView};
use crate::scheduler::node_info::NodeObject;
use crate::scheduler::resources::ResourceList;
use machinery::node_matching::NodeLabels;
use machinery::quantity::Quantity;
use runtime::ObjectKey;

/// The provisioner of classes whose volumes are created by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A claim with its class.
pub(super) type ClaimOfClass = (Arc<ClaimView>, Arc<StorageClassView>);

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct WaitingClaims {
    /// The smallest request first.
    claims: Vec<WaitingClaim>,
    /// The available volumes of each class, the smallest first.
    available: HashMap<String, Vec<Candidate>>,
}

#[derive(Debug)]
struct WaitingClaim {
    claim: Arc<ClaimView>,
    class: Arc<StorageClassView>,
    requested: i64,
    /// The node for which a volume is being provisioned.
    selected_node: Option<String>,
    /// The volumes that are reserved for the claim.
    reserved: Vec<Candidate>,
}

#[derive(Debug)]
struct Candidate {
    volume: Arc<VolumeView>,
    capacity: i64,
}

impl WaitingClaims {
    /// The claims of a pod, with the volumes that nobody else takes.
    pub(super) fn prepare(
        listers: &Listers,
        assumed: &AssumedVolumes,
        claims: Vec<ClaimOfClass>,
    ) -> Self {
        let keys: HashSet<ObjectKey> = claims.iter().map(|(claim, _)| key_of(claim)).collect();
        let candidates = |volumes: Vec<Arc<VolumeView>>| {
            let is_free = |volume: &Arc<VolumeView>| {
                let claimed = assumed.volumes.get(&volume.metadata.name);
                !volume.metadata.is_deleting() && claimed.is_none_or(|by| keys.contains(by))
            };
            let free = volumes.into_iter().filter(is_free);
            let candidate = |volume: Arc<VolumeView>| Candidate {
                capacity: storage(&volume.spec.capacity),
                volume,
            };
            let mut candidates: Vec<_> = free.map(candidate).collect();
            candidates.sort_by_key(|it| it.capacity);
            candidates
        };
        let mut waiting = Self::default();
        for (claim, class) in claims {
            let (key, class_name) = (key_of(&claim), class_of(&claim));
            if !waiting.available.contains_key(class_name) {
                let available = candidates(listers.available_volumes(class_name));
                waiting.available.insert(class_name.to_owned(), available);
            }
            let selected = claim.metadata.annotations.get(SELECTED_NODE);
            let selected_node = selected.or_else(|| assumed.claims.get(&key)).cloned();
            let reserved = candidates(listers.reserved_volumes(&key));
            let requested = storage(&claim.spec.resources.requests);
            let claim = WaitingClaim { claim, class, requested, selected_node, reserved };
            waiting.claims.push(claim);
        }
        waiting.claims.sort_by_key(|it| it.requested);
        waiting
    }

    /// What is to be done if the pod is bound to this node; None if a claim cannot be bound there.
    /// `is_reachable` returns whether the node can reach a volume.
    pub(super) fn plan(
        &self,
        node: &NodeObject,
        is_reachable: impl Fn(&VolumeView) -> bool,
    ) -> Option<VolumePlan> {
        let mut plan = VolumePlan::default();
        let mut taken: HashSet<&str> = HashSet::new();
        for waiting in &self.claims {
            let claim = &waiting.claim;
            match &waiting.selected_node {
                Some(selected) if **selected != *node.name => return None,
                Some(_) => {}
                None => {
                    let is_usable = |volume: &VolumeView| {
                        !taken.contains(volume.metadata.name.as_str()) && is_reachable(volume)
                    };
                    if let Some(volume) = self.smallest_match(waiting, is_usable) {
                        taken.insert(&volume.metadata.name);
                        plan.bind.push((Arc::clone(volume), Arc::clone(claim)));
                        continue;
                    }
                }
            }
            let class = &waiting.class;
            let can_provision = !matches!(class.provisioner.as_str(), "" | NO_PROVISIONER);
            if !can_provision || !allows_topology(class, node) {
                return None;
            }
            plan.provision.push(Arc::clone(claim));
        }
        Some(plan)
    }

    /// The volume that is reserved for a claim, or the smallest that it can be bound to.
    ///
    /// Upstream: component-helpers/storage/volume/pv_helpers.go `FindMatchingVolume`
    fn smallest_match<'a>(
        &'a self,
        waiting: &'a WaitingClaim,
        is_usable: impl Fn(&VolumeView) -> bool,
    ) -> Option<&'a Arc<VolumeView>> {
        let wanted = &waiting.claim.spec;
        let matches = |volume: &VolumeView| {
            let spec = &volume.spec;
            mode(&spec.volume_mode) == mode(&wanted.volume_mode)
                && spec.volume_attributes_class_name == wanted.volume_attributes_class_name
                && is_usable(volume)
        };
        let is_for_claim = |volume: &VolumeView| {
            let uid = volume.spec.claim_ref.as_ref().map_or("", |by| by.uid.as_str());
            uid.is_empty() || uid == waiting.claim.metadata.uid
        };
        let selects = |labels: &BTreeMap<String, String>| {
            wanted.selector.as_ref().is_none_or(|selector| selector.matches(labels))
        };
        let allows = |volume: &VolumeView| {
            wanted.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode))
        };
        let mut reserved = large_enough(&waiting.reserved, waiting.requested);
        let reserved = reserved.find(|volume| is_for_claim(volume) && matches(volume));
        reserved.or_else(|| {
            let of_class = self.available.get(class_of(&waiting.claim))?;
            large_enough(of_class, waiting.requested).find(|volume| {
                matches(volume) && allows(volume) && selects(&volume.metadata.labels)
            })
        })
    }
}

/// The volumes of at least this capacity, the smallest first.
fn large_enough(
    candidates: &[Candidate],
    requested: i64,
) -> impl Iterator<Item = &Arc<VolumeView>> {
    let first = candidates.partition_point(|it| it.capacity < requested);
    candidates[first..].iter().map(|it| &it.volume)
}

/// The name of the storage class of a claim.
pub(super) fn class_of(claim: &ClaimView) -> &str {
    let beta = claim.metadata.annotations.get("volume.beta.kubernetes.io/storage-class");
    beta.unwrap_or(&claim.spec.storage_class_name)
}

fn storage(list: &ResourceList) -> i64 {
    let quantity = list.get("storage").and_then(|text| Quantity::parse(text).ok());
    quantity.map_or(0, |quantity| quantity.value())
}

fn mode(text: &str) -> &str {
    if text.is_empty() { "Filesystem" } else { text }
}

/// Whether volumes of the class can be provisioned for the node.
fn allows_topology(class: &StorageClassView, node: &NodeObject) -> bool {
    class.allowed_topologies.is_empty()
        || class.allowed_topologies.iter().any(|term| {
            term.match_label_expressions.iter().all(|expression| {
                let value = node.label(&expression.key);
                value.is_some_and(|value| expression.values.iter().any(|it| it == value))
            })
        })
}
