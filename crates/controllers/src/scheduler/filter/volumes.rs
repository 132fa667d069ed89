//! The filters `VolumeRestrictions`, `VolumeBinding` and `VolumeZone`: the claims of a pod must exist and
//! be bound to volumes that the node can reach, or can be bound when the node is chosen.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::waiting_claims::{ClaimOfClass, WaitingClaims, class_of};
use crate::scheduler::cluster_cache::ClusterCache;
use crate::scheduler::listers::{ClaimView, Listers, StorageClassView, VolumeView};
use crate::scheduler::node_info::{NodeInfo, NodeObject};
use crate::scheduler::pod_info::{ClaimUse, PodInfo};
use crate::scheduler::rejection::{Plugin, Rejection};
use machinery::node_matching::NodeLabels;
use runtime::ObjectKey;

/// The node for which a volume is to be provisioned.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The binding of a claim to its volume is complete.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The labels of volumes and nodes that name zones and regions, and the present label of each.
const TOPOLOGY_LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// Bindings of volumes that were decided and that the caches do not show yet.
#[derive(Debug, Default)]
pub(crate) struct AssumedVolumes {
    /// The claims of volumes, by the name of the volume.
    pub volumes: HashMap<String, ObjectKey>,
    /// The selected nodes of claims.
    pub claims: HashMap<ObjectKey, String>,
}

impl AssumedVolumes {
    /// Assumes that a plan will be executed.
    pub(crate) fn assume(&mut self, plan: &VolumePlan, node: &str) {
        for (volume, claim) in &plan.bind {
            self.volumes.insert(volume.metadata.name.clone(), key_of(claim));
        }
        for claim in &plan.provision {
            self.claims.insert(key_of(claim), node.to_owned());
        }
    }

    /// Forgets a plan that was executed or has failed.
    pub(crate) fn forget(&mut self, plan: &VolumePlan) {
        for (volume, _) in &plan.bind {
            self.volumes.remove(&volume.metadata.name);
        }
        for claim in &plan.provision {
            self.claims.remove(&key_of(claim));
        }
    }
}

/// Namespace and name of a claim.
pub(crate) fn key_of(claim: &ClaimView) -> ObjectKey {
    ObjectKey::new(&claim.metadata.namespace, &claim.metadata.name)
}

/// What is to be done before a pod is bound to a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct VolumePlan {
    /// Volumes to bind to claims.
    pub bind: Vec<(Arc<VolumeView>, Arc<ClaimView>)>,
    /// Claims whose volume is to be provisioned for the node.
    pub provision: Vec<Arc<ClaimView>>,
}

impl VolumePlan {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.bind.is_empty() && self.provision.is_empty()
    }
}

/// What the filters compute once per decision.
#[derive(Debug, Clone)]
pub(crate) struct VolumeState {
    claims: Arc<ClaimState>,
    /// The number of other pods that use its exclusive claims.
    exclusive_users: i64,
}

/// What the filters know of the claims of a pod.
#[derive(Debug, Default)]
struct ClaimState {
    namespace: String,
    bound: Vec<Arc<VolumeView>>,
    /// Whether a claim is bound to a volume that does not exist.
    is_volume_missing: bool,
    waiting: WaitingClaims,
    /// Zones and regions of the bound volumes, by label.
    zones: Vec<(&'static str, &'static str, BTreeSet<String>)>,
    /// The claims of the pod that only one pod may use.
    exclusive: HashSet<String>,
}

impl VolumeState {
    /// `None` if the pod has no claims.
    pub(super) fn prepare(
        cache: &ClusterCache,
        listers: &Listers,
        assumed: &AssumedVolumes,
        pod: &PodInfo,
    ) -> Result<Option<Self>, Rejection> {
        if pod.traits.claims.is_empty() {
            return Ok(None);
        }
        let namespace = pod.traits.namespace.clone();
        let mut claims = ClaimState { namespace, ..ClaimState::default() };
        let mut waiting = Vec::new();
        for claim in claims_of(listers, pod)? {
            waiting.extend(claims.add(listers, claim)?);
        }
        if !waiting.is_empty() {
            claims.waiting = WaitingClaims::prepare(listers, assumed, waiting);
        }
        let mut exclusive_users = 0;
        if !claims.exclusive.is_empty() {
            for class in cache.classes_in(&claims.namespace) {
                if claims.shares_exclusive(&class.traits.claims) {
                    exclusive_users += class.nodes.values().map(|count| count.all).sum::<i64>();
                }
            }
        }
        Ok(Some(Self { claims: Arc::new(claims), exclusive_users }))
    }

    pub(super) fn filter(&self, node: &NodeInfo) -> Result<(), Rejection> {
        if self.exclusive_users > 0 {
            let reason = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod \
                          access mode already in-use by another pod";
            return Err(Rejection::new(Plugin::VolumeRestrictions, reason));
        }
        self.plan(&node.object)?;
        if !self.claims.are_zones_reachable(&node.object) {
            let reason = "node(s) had no available volume zone";
            return Err(Rejection::unresolvable(Plugin::VolumeZone, reason));
        }
        Ok(())
    }

    /// What is to be done if the pod is bound to this node.
    pub(crate) fn plan(&self, node: &NodeObject) -> Result<VolumePlan, Rejection> {
        let rejection = |reason| Rejection::unresolvable(Plugin::VolumeBinding, reason);
        let is_reachable = |volume: &VolumeView| {
            volume.spec.node_affinity.required.as_ref().is_none_or(|nodes| nodes.matches(node))
        };
        if !self.claims.bound.iter().all(|volume| is_reachable(volume)) {
            return Err(rejection("node(s) didn't match PersistentVolume's node affinity"));
        }
        let plan = self.claims.waiting.plan(node, is_reachable);
        let plan = plan
            .ok_or_else(|| rejection("node(s) didn't find available persistent volumes to bind"))?;
        if self.claims.is_volume_missing {
            let reason =
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
            return Err(rejection(reason));
        }
        Ok(plan)
    }

    pub(super) fn change(&mut self, other: &PodInfo, by: i64) {
        let claims = &self.claims;
        if other.traits.namespace == claims.namespace
            && claims.shares_exclusive(&other.traits.claims)
        {
            self.exclusive_users += by;
        }
    }
}

impl ClaimState {
    /// Adds a claim; returns it with its class if it is bound when the node is chosen.
    fn add(
        &mut self,
        listers: &Listers,
        claim: Arc<ClaimView>,
    ) -> Result<Option<ClaimOfClass>, Rejection> {
        if claim.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod") {
            self.exclusive.insert(claim.metadata.name.clone());
        }
        if is_bound(&claim) {
            match listers.volumes.shared("", &claim.spec.volume_name) {
                Ok(Some(volume)) => {
                    self.add_zones(&volume);
                    self.bound.push(volume);
                }
                _ => self.is_volume_missing = true,
            }
            return Ok(None);
        }
        let class = listers.classes.shared("", class_of(&claim)).ok().flatten();
        let waits = |class: &StorageClassView| class.volume_binding_mode == "WaitForFirstConsumer";
        match class {
            Some(class) if claim.spec.volume_name.is_empty() && waits(&class) => {
                Ok(Some((claim, class)))
            }
            _ => {
                let reason = "pod has unbound immediate PersistentVolumeClaims";
                Err(Rejection::unresolvable(Plugin::VolumeBinding, reason))
            }
        }
    }

    fn add_zones(&mut self, volume: &VolumeView) {
        for (label, present) in TOPOLOGY_LABELS {
            if let Some(value) = volume.metadata.labels.get(label) {
                let zones = value.split("__").map(str::to_owned).collect();
                self.zones.push((label, present, zones));
            }
        }
    }

    /// Whether a node is in the zones and regions of all bound volumes.
    fn are_zones_reachable(&self, node: &NodeObject) -> bool {
        let has_zone = TOPOLOGY_LABELS.iter().any(|(label, _)| node.label(label).is_some());
        let is_reachable = |(label, present, zones): &(&str, &str, BTreeSet<String>)| {
            let value = node.label(label).or_else(|| node.label(present));
            value.is_some_and(|value| zones.contains(value))
        };
        !has_zone || self.zones.iter().all(is_reachable)
    }

    fn shares_exclusive(&self, claims: &[ClaimUse]) -> bool {
        !self.exclusive.is_empty() && claims.iter().any(|it| self.exclusive.contains(&it.name))
    }
}

/// The claims of a pod, all of which must exist.
///
/// Upstream: `volumebinding/volume_binding.go` podHasPVCs
fn claims_of(listers: &Listers, pod: &PodInfo) -> Result<Vec<Arc<ClaimView>>, Rejection> {
    let mut claims = Vec::new();
    for ClaimUse { name, is_ephemeral } in &pod.traits.claims {
        let reject = |reason: String| Rejection::unresolvable(Plugin::VolumeBinding, reason);
        let found = listers.claims.shared(&pod.traits.namespace, name).ok().flatten();
        let Some(claim) = found else {
            if *is_ephemeral {
                return Err(reject(format!(
                    "waiting for ephemeral volume controller to create the \
                     persistentvolumeclaim {name:?}"
                )));
            }
            let reason = format!("persistentvolumeclaim {name:?} not found");
            return Err(Rejection::unresolvable(Plugin::VolumeRestrictions, reason));
        };
        if claim.status.phase == "Lost" {
            let volume = &claim.spec.volume_name;
            return Err(reject(format!(
                "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
            )));
        }
        if claim.metadata.is_deleting() {
            return Err(reject(format!("persistentvolumeclaim {name:?} is being deleted")));
        }
        let is_owned = claim.metadata.controller().is_some_and(|owner| *owner.uid == *pod.uid);
        if *is_ephemeral && !is_owned {
            let namespace = &pod.traits.namespace;
            return Err(reject(format!(
                "PVC {namespace}/{name} was not created for pod {} (pod is not owner)",
                pod.key
            )));
        }
        claims.push(claim);
    }
    Ok(claims)
}

/// Whether the binding of the claim is complete.
pub(crate) fn is_bound(claim: &ClaimView) -> bool {
    !claim.spec.volume_name.is_empty() && claim.metadata.annotations.contains_key(BIND_COMPLETED)
}

#[cfg(test)]
mod tests {
    use runtime::informer::Item;

    use super::*;
    use crate::scheduler::testing::{cluster, pod_json, reasons_with};

    const POD: &str = r#"{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}}]}"#;
    const NODES: &str = "a zone=1; b zone=2";

    fn insert(listers: &Listers, json: &str) {
        let item = Item::parse(json.as_bytes().to_vec()).unwrap();
        let kind = item.object().unwrap().str_at(&["kind"]).to_owned();
        match kind.as_str() {
            "Claim" => listers.claims.indexer().insert(item),
            "Volume" => listers.volumes.indexer().insert(item),
            _ => listers.classes.indexer().insert(item),
        };
    }

    fn check(objects: &[&str], expected: [&str; 2]) {
        let listers = Listers::empty();
        for object in objects {
            insert(&listers, object);
        }
        let cache = cluster(NODES, &[]);
        assert_eq!(reasons_with(&cache, &listers, &pod_json(POD)), expected);
    }

    const WAITING: &str = r#"{"kind":"Claim","metadata":{"namespace":"default","name":"data"},
        "spec":{"storageClassName":"c","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#;
    const LATE: &str = r#"{"kind":"Class","metadata":{"name":"c"},"provisioner":"p",
        "volumeBindingMode":"WaitForFirstConsumer","allowedTopologies":[{"matchLabelExpressions":
        [{"key":"zone","values":["1"]}]}]}"#;

    #[test]
    fn a_claim_must_exist() {
        let missing = r#"all: persistentvolumeclaim "data" not found"#;
        check(&[], [missing; 2]);
    }

    #[test]
    fn a_claim_of_an_immediate_class_must_be_bound() {
        let immediate =
            r#"{"kind":"Class","metadata":{"name":"c"},"volumeBindingMode":"Immediate"}"#;
        let unbound = "all: pod has unbound immediate PersistentVolumeClaims";
        check(&[WAITING, immediate], [unbound; 2]);
    }

    #[test]
    fn a_bound_volume_restricts_the_nodes() {
        let claim = r#"{"kind":"Claim","metadata":{"namespace":"default","name":"data",
            "annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":"v"}}"#;
        let volume = r#"{"kind":"Volume","metadata":{"name":"v"},"spec":{"nodeAffinity":{"required":
            {"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["2"]}]}]}}}}"#;
        let elsewhere = "!node(s) didn't match PersistentVolume's node affinity";
        check(&[claim, volume], [elsewhere, "fits"]);
        let gone = "!node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
        check(&[claim], [gone; 2]);
    }

    #[test]
    fn a_waiting_claim_is_provisioned_where_its_class_allows() {
        let none = "!node(s) didn't find available persistent volumes to bind";
        check(&[WAITING, LATE], ["fits", none]);
        let selected = WAITING.replace(
            r#""name":"data""#,
            r#""name":"data","annotations":{"volume.kubernetes.io/selected-node":"b"}"#,
        );
        let anywhere = LATE.replace("allowedTopologies", "other");
        check(&[&selected, &anywhere], [none, "fits"]);
    }

    #[test]
    fn a_waiting_claim_takes_the_smallest_volume_that_is_large_enough() {
        let by_hand =
            LATE.replace(r#""provisioner":"p""#, r#""provisioner":"kubernetes.io/no-provisioner""#);
        let volume = |name: &str, size: &str, zone: &str| {
            format!(
                r#"{{"kind":"Volume","metadata":{{"name":"{name}"}},"spec":{{"storageClassName":"c",
                "capacity":{{"storage":"{size}"}},"accessModes":["ReadWriteOnce"],"nodeAffinity":{{
                "required":{{"nodeSelectorTerms":[{{"matchExpressions":[{{"key":"zone","operator":"In",
                "values":["{zone}"]}}]}}]}}}}}},"status":{{"phase":"Available"}}}}"#
            )
        };
        let objects = [
            volume("large", "9Gi", "2"),
            volume("fitting", "2Gi", "2"),
            volume("small", "1Mi", "1"),
        ];
        let mut all = vec![WAITING, &by_hand];
        all.extend(objects.iter().map(String::as_str));
        check(&all, ["!node(s) didn't find available persistent volumes to bind", "fits"]);
        let listers = Listers::empty();
        for object in &all {
            insert(&listers, object);
        }
        let cache = cluster(NODES, &[]);
        let pod = pod_json(POD);
        let state = VolumeState::prepare(&cache, &listers, &AssumedVolumes::default(), &pod);
        let node = cache.node(cache.find_node("b").unwrap());
        let plan = state.unwrap().unwrap().plan(&node.object).unwrap();
        assert_eq!(plan.bind[0].0.metadata.name, "fitting");
    }

    #[test]
    fn an_exclusive_claim_is_used_by_one_pod() {
        let listers = Listers::empty();
        insert(
            &listers,
            r#"{"kind":"Claim","metadata":{"namespace":"default","name":"data",
            "annotations":{"pv.kubernetes.io/bind-completed":"yes"}},
            "spec":{"volumeName":"v","accessModes":["ReadWriteOncePod"]}}"#,
        );
        insert(&listers, r#"{"kind":"Volume","metadata":{"name":"v"}}"#);
        let used = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access \
                    mode already in-use by another pod";
        let other = format!(r#"{{"spec":{POD}}}"#);
        let cache = cluster(NODES, &[("other", &other, "a")]);
        assert_eq!(reasons_with(&cache, &listers, &pod_json(POD)), [used; 2]);
    }
}
