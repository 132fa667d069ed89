//! The filters `VolumeRestrictions`, `VolumeBinding` and `VolumeZone`: the claims of a pod must exist and
//! be bound to volumes that the node can reach, or can be bound when the node is chosen.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::scheduler::cluster_cache::ClusterCache;
use crate::scheduler::listers::{ClaimView, Listers, StorageClassView, VolumeView};
use crate::scheduler::node_info::{NodeInfo, NodeObject};
use crate::scheduler::pod_info::{ClaimUse, PodInfo};
use crate::scheduler::rejection::{Plugin, Rejection};
use crate::scheduler::resources::ResourceList;
use machinery::node_matching::NodeLabels;
use machinery::quantity::Quantity;
use runtime::ObjectKey;

/// The node for which a volume is to be provisioned.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The binding of a claim to its volume is complete.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The provisioner of classes whose volumes are created by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
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
    bound: Vec<Arc<VolumeView>>,
    /// Whether a claim is bound to a volume that does not exist.
    is_volume_missing: bool,
    /// Claims that are bound when the node is chosen, with the classes.
    unbound: Vec<(Arc<ClaimView>, Arc<StorageClassView>)>,
    /// Volumes that such a claim may be bound to.
    candidates: Vec<Arc<VolumeView>>,
    /// The selected nodes of claims that are being provisioned.
    selected: HashMap<ObjectKey, String>,
    /// Zones and regions of the bound volumes, by label.
    zones: Vec<(&'static str, &'static str, BTreeSet<String>)>,
    /// The claims of the pod that only one pod may use.
    exclusive_claims: Vec<String>,
    /// The number of other pods that use them.
    exclusive_users: i64,
    namespace: String,
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
        let mut state = Self {
            bound: Vec::new(),
            is_volume_missing: false,
            unbound: Vec::new(),
            candidates: Vec::new(),
            selected: HashMap::new(),
            zones: Vec::new(),
            exclusive_claims: Vec::new(),
            exclusive_users: 0,
            namespace: pod.traits.namespace.clone(),
        };
        for claim in claims_of(listers, pod)? {
            state.add_claim(listers, assumed, claim)?;
        }
        if !state.unbound.is_empty() {
            let volumes = listers.volumes.list().objects.into_iter();
            let is_free = |volume: &VolumeView| {
                let claimed = assumed.volumes.get(&volume.metadata.name);
                claimed.is_none_or(|by| state.unbound.iter().any(|(it, _)| key_of(it) == *by))
            };
            state.candidates = volumes.filter(is_free).map(Arc::new).collect();
        }
        for class in cache.classes_in(&pod.traits.namespace) {
            let uses = |claim: &&String| class.traits.claims.iter().any(|it| it.name == **claim);
            if state.exclusive_claims.iter().any(|claim| uses(&claim)) {
                state.exclusive_users += class.nodes.values().map(|count| count.all).sum::<i64>();
            }
        }
        Ok(Some(state))
    }

    fn add_claim(
        &mut self,
        listers: &Listers,
        assumed: &AssumedVolumes,
        claim: Arc<ClaimView>,
    ) -> Result<(), Rejection> {
        if claim.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod") {
            self.exclusive_claims.push(claim.metadata.name.clone());
        }
        if is_bound(&claim) {
            match listers.volumes.shared("", &claim.spec.volume_name) {
                Ok(Some(volume)) => {
                    self.add_zones(&volume);
                    self.bound.push(volume);
                }
                _ => self.is_volume_missing = true,
            }
            return Ok(());
        }
        let class = listers.classes.shared("", class_of(&claim)).ok().flatten();
        let waits = |class: &StorageClassView| class.volume_binding_mode == "WaitForFirstConsumer";
        match class {
            Some(class) if claim.spec.volume_name.is_empty() && waits(&class) => {
                let key = key_of(&claim);
                let selected = claim.metadata.annotations.get(SELECTED_NODE);
                if let Some(node) = selected.or_else(|| assumed.claims.get(&key)) {
                    self.selected.insert(key, node.clone());
                }
                self.unbound.push((claim, class));
                Ok(())
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

    pub(super) fn filter(&self, node: &NodeInfo) -> Result<(), Rejection> {
        if self.exclusive_users > 0 {
            let reason = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod \
                          access mode already in-use by another pod";
            return Err(Rejection::new(Plugin::VolumeRestrictions, reason));
        }
        self.plan(&node.object)?;
        let has_zone = TOPOLOGY_LABELS.iter().any(|(label, _)| node.object.label(label).is_some());
        let is_reachable = |(label, present, zones): &(&str, &str, BTreeSet<String>)| {
            let value = node.object.label(label).or_else(|| node.object.label(present));
            value.is_some_and(|value| zones.contains(value))
        };
        if has_zone && !self.zones.iter().all(is_reachable) {
            let reason = "node(s) had no available volume zone";
            return Err(Rejection::unresolvable(Plugin::VolumeZone, reason));
        }
        Ok(())
    }

    /// What is to be done if the pod is bound to this node.
    pub(crate) fn plan(&self, node: &NodeObject) -> Result<VolumePlan, Rejection> {
        let rejection = |reason| Rejection::unresolvable(Plugin::VolumeBinding, reason);
        let reachable = |volume: &VolumeView| {
            volume.spec.node_affinity.required.as_ref().is_none_or(|nodes| nodes.matches(node))
        };
        if !self.bound.iter().all(|volume| reachable(volume)) {
            return Err(rejection("node(s) didn't match PersistentVolume's node affinity"));
        }
        let mut plan = VolumePlan::default();
        let no_match = "node(s) didn't find available persistent volumes to bind";
        let mut unbound: Vec<_> = self.unbound.iter().collect();
        unbound.sort_by_key(|(claim, _)| storage(&claim.spec.resources.requests));
        for (claim, class) in unbound {
            match self.selected.get(&key_of(claim)) {
                Some(selected) if **selected != *node.name => return Err(rejection(no_match)),
                Some(_) => {}
                None => {
                    let taken: Vec<&str> =
                        plan.bind.iter().map(|(it, _)| it.metadata.name.as_str()).collect();
                    let candidates = self.candidates.iter().filter(|it| reachable(it));
                    if let Some(volume) = smallest_match(claim, candidates, &taken) {
                        plan.bind.push((Arc::clone(volume), Arc::clone(claim)));
                        continue;
                    }
                }
            }
            let can_provision = !matches!(class.provisioner.as_str(), "" | NO_PROVISIONER);
            if !can_provision || !allows_topology(class, node) {
                return Err(rejection(no_match));
            }
            plan.provision.push(Arc::clone(claim));
        }
        if self.is_volume_missing {
            let reason =
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
            return Err(rejection(reason));
        }
        Ok(plan)
    }

    pub(super) fn change(&mut self, other: &PodInfo, by: i64) {
        let claims = &other.traits.claims;
        let uses = |claim: &String| claims.iter().any(|it| it.name == *claim);
        if other.traits.namespace == self.namespace && self.exclusive_claims.iter().any(uses) {
            self.exclusive_users += by;
        }
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

/// The name of the storage class of a claim.
fn class_of(claim: &ClaimView) -> &str {
    let beta = claim.metadata.annotations.get("volume.beta.kubernetes.io/storage-class");
    beta.unwrap_or(&claim.spec.storage_class_name)
}

fn storage(list: &ResourceList) -> i64 {
    let quantity = list.get("storage").and_then(|text| Quantity::parse(text).ok());
    quantity.map_or(0, |quantity| quantity.value())
}

/// The volume to which a claim is bound already, or the smallest that it can be bound to.
///
/// Upstream: component-helpers/storage/volume/pv_helpers.go `FindMatchingVolume`
fn smallest_match<'a>(
    claim: &ClaimView,
    candidates: impl Iterator<Item = &'a Arc<VolumeView>>,
    taken: &[&str],
) -> Option<&'a Arc<VolumeView>> {
    let mut smallest: Option<&Arc<VolumeView>> = None;
    for volume in candidates {
        let (spec, wanted) = (&volume.spec, &claim.spec);
        let is_reserved = spec.claim_ref.as_ref().map(|by| {
            let is_same = by.uid.is_empty() || by.uid == claim.metadata.uid;
            by.name == claim.metadata.name && by.namespace == claim.metadata.namespace && is_same
        });
        if is_reserved == Some(false)
            || taken.contains(&volume.metadata.name.as_str())
            || storage(&spec.capacity) < storage(&wanted.resources.requests)
            || mode(&spec.volume_mode) != mode(&wanted.volume_mode)
            || spec.volume_attributes_class_name != wanted.volume_attributes_class_name
            || volume.metadata.is_deleting()
        {
            continue;
        }
        if is_reserved == Some(true) {
            return Some(volume);
        }
        let selects = |labels: &BTreeMap<String, String>| {
            wanted.selector.as_ref().is_none_or(|selector| selector.matches(labels))
        };
        let is_usable = volume.status.phase == "Available"
            && spec.storage_class_name == class_of(claim)
            && selects(&volume.metadata.labels)
            && wanted.access_modes.iter().all(|mode| spec.access_modes.contains(mode));
        let is_smaller =
            smallest.is_none_or(|it| storage(&spec.capacity) < storage(&it.spec.capacity));
        if is_usable && is_smaller {
            smallest = Some(volume);
        }
    }
    smallest
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
