//! [`PodInfo`]: a pod as the scheduler sees it, and [`PodTraits`], the part of it that pods of one
//! template have in common.
//!
//! Traits are interned: two pods with equal traits share one allocation, so that comparing them is
//! comparing pointers, and the decisions about a template need not be made for each of its pods.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::pod_wire::{
    ContainerWire, PodWire, SpecWire, SpreadWire, TermWire, VolumeWire, WeightedTermWire,
};
use super::resources::{ContainerRequests, PodRequests, Resources};
use super::selectors::{PreferredNodes, Selector};
use crate::taints::Toleration;
use crate::time::to_timestamp;
use keel::Timestamp;
use machinery::node_matching::NodeSelector;
use runtime::ObjectKey;
use runtime::informer::Item;

/// The scheduler name of the pods that this scheduler binds.
pub(crate) const SCHEDULER_NAME: &str = "default-scheduler";

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub(crate) struct PodInfo {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The uid.
    pub uid: Arc<str>,
    /// The priority.
    pub priority: i32,
    /// Whether the pod may preempt others.
    pub can_preempt: bool,
    /// Whether the deletion was requested.
    pub is_deleting: bool,
    /// Whether it is being deleted because of a preemption.
    pub is_preempted: bool,
    /// The time at which the pod was started on its node.
    pub start_time: Option<Timestamp>,
    /// The node for which other pods were preempted.
    pub nominated_node: Option<Arc<str>>,
    /// What the pod shares with others of its template.
    pub traits: Arc<PodTraits>,
}

/// See the [module documentation](self).
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PodTraits {
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    pub requests: Resources,
    /// Cpu and memory as scores count them, with defaults for containers that request none.
    pub non_zero_requests: (i64, i64),
    pub host_ports: Vec<HostPort>,
    pub node_selector: BTreeMap<String, String>,
    pub required_nodes: Option<NodeSelector>,
    pub preferred_nodes: Vec<PreferredNodes>,
    pub affinity: Vec<AffinityTerm>,
    pub anti_affinity: Vec<AffinityTerm>,
    /// With weights.
    pub preferred_affinity: Vec<(i64, AffinityTerm)>,
    /// With weights.
    pub preferred_anti_affinity: Vec<(i64, AffinityTerm)>,
    pub tolerations: Vec<Toleration>,
    pub spread_constraints: Vec<SpreadConstraint>,
    pub claims: Vec<ClaimUse>,
    /// Whether the pod needs devices, which nothing allocates here.
    pub has_resource_claims: bool,
    pub images: Vec<String>,
    /// The controller: apiVersion, kind and name.
    pub controller: Option<(String, String, String)>,
}

impl PodTraits {
    /// The number of terms and constraints about other pods.
    pub(crate) fn number_of_terms(&self) -> usize {
        let required = self.affinity.len() + self.anti_affinity.len();
        let preferred = self.preferred_affinity.len() + self.preferred_anti_affinity.len();
        required + preferred + self.spread_constraints.len()
    }
}

/// A port of the node that a container uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HostPort {
    pub port: i32,
    pub protocol: String,
    /// `0.0.0.0` for all addresses of the node.
    pub ip: String,
}

impl HostPort {
    /// Whether both cannot be used on one node.
    pub(crate) fn conflicts_with(&self, other: &Self) -> bool {
        let any = "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == any || other.ip == any || self.ip == other.ip)
    }
}

/// A claim that a pod uses as a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClaimUse {
    pub name: String,
    /// Whether the claim is created for the pod, from an ephemeral volume.
    pub is_ephemeral: bool,
}

/// A term of pod affinity or anti-affinity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AffinityTerm {
    pub namespaces: BTreeSet<String>,
    /// Without a selector, no namespace but those of the list.
    pub namespace_selector: Option<Selector>,
    /// Without a selector, no pod.
    pub selector: Option<Selector>,
    pub topology_key: String,
}

impl AffinityTerm {
    fn of(wire: TermWire, namespace: &str) -> Self {
        let mut namespaces: BTreeSet<String> = wire.namespaces.into_iter().collect();
        if namespaces.is_empty() && wire.namespace_selector.is_none() {
            namespaces.insert(namespace.to_owned());
        }
        Self {
            namespaces,
            namespace_selector: wire.namespace_selector,
            selector: wire.label_selector,
            topology_key: wire.topology_key,
        }
    }

    /// Whether the term selects a pod, whose namespace has these labels.
    pub(crate) fn matches(&self, pod: &PodTraits, namespace: &BTreeMap<String, String>) -> bool {
        let is_in_namespace = self.namespaces.contains(&pod.namespace)
            || self.namespace_selector.as_ref().is_some_and(|selector| selector.matches(namespace));
        is_in_namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }
}

/// A constraint on the spread of pods over topology domains.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SpreadConstraint {
    pub max_skew: i64,
    pub topology_key: String,
    /// Whether a pod that violates it is not scheduled.
    pub is_hard: bool,
    /// All must match. Without a selector, no pod is counted.
    pub selectors: Option<Vec<Selector>>,
    pub min_domains: i64,
    pub honors_node_affinity: bool,
    pub honors_taints: bool,
}

impl SpreadConstraint {
    fn of(wire: SpreadWire, labels: &BTreeMap<String, String>) -> Self {
        let keys = wire.match_label_keys.iter();
        let matched: BTreeMap<_, _> = keys.filter_map(|key| labels.get_key_value(key)).collect();
        let matched =
            matched.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let selectors = wire.label_selector.map(|mut selector| {
            selector.match_labels.extend::<BTreeMap<String, String>>(matched);
            vec![selector]
        });
        Self {
            max_skew: wire.max_skew,
            topology_key: wire.topology_key,
            is_hard: wire.when_unsatisfiable != "ScheduleAnyway",
            selectors,
            min_domains: wire.min_domains.unwrap_or(1),
            honors_node_affinity: wire.node_affinity_policy != "Ignore",
            honors_taints: wire.node_taints_policy == "Honor",
        }
    }

    /// Whether a pod of the same namespace with these labels is counted.
    pub(crate) fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let selectors = self.selectors.as_deref();
        selectors.is_some_and(|all| all.iter().all(|selector| selector.matches(labels)))
    }

    /// Whether pods on nodes are counted at all. An empty selector counts none, as in Kubernetes.
    pub(crate) fn counts_pods(&self) -> bool {
        let selectors = self.selectors.as_deref();
        selectors.is_some_and(|all| !all.iter().all(Selector::is_empty))
    }
}

impl PodTraits {
    /// Whether the pod has a term of affinity or anti-affinity, required or preferred.
    pub(crate) fn has_affinity(&self) -> bool {
        !self.affinity.is_empty()
            || !self.anti_affinity.is_empty()
            || !self.preferred_affinity.is_empty()
            || !self.preferred_anti_affinity.is_empty()
    }

    fn of(namespace: &str, pod: PodWire) -> Self {
        let PodWire { metadata, spec, .. } = pod;
        let terms = |terms: Vec<TermWire>| {
            terms.into_iter().map(|term| AffinityTerm::of(term, namespace)).collect()
        };
        let weighted = |terms: Vec<WeightedTermWire>| {
            let term = |it: WeightedTermWire| {
                (it.weight, AffinityTerm::of(it.pod_affinity_term, namespace))
            };
            terms.into_iter().map(term).collect()
        };
        let (requests, non_zero_requests) = requests(&spec);
        let controller = metadata.owner_references.into_iter().find(|owner| owner.controller);
        let constraints = spec.topology_spread_constraints.into_iter();
        let spread_constraints =
            constraints.map(|wire| SpreadConstraint::of(wire, &metadata.labels)).collect();
        let images = spec.init_containers.iter().chain(&spec.containers);
        let images = images.map(|container| normalized_image(&container.image)).collect();
        Self {
            namespace: namespace.to_owned(),
            requests,
            non_zero_requests,
            host_ports: host_ports(spec.containers.iter().chain(&spec.init_containers)),
            node_selector: spec.node_selector,
            required_nodes: spec.affinity.to_nodes.required,
            preferred_nodes: spec.affinity.to_nodes.preferred,
            affinity: terms(spec.affinity.to_pods.required),
            anti_affinity: terms(spec.affinity.against_pods.required),
            preferred_affinity: weighted(spec.affinity.to_pods.preferred),
            preferred_anti_affinity: weighted(spec.affinity.against_pods.preferred),
            tolerations: spec.tolerations,
            spread_constraints,
            claims: claims(&metadata.name, &spec.volumes),
            has_resource_claims: !spec.resource_claims.is_empty(),
            images,
            controller: controller.map(|owner| (owner.api_version, owner.kind, owner.name)),
            labels: metadata.labels,
        }
    }
}

fn requests(spec: &SpecWire) -> (Resources, (i64, i64)) {
    let all = PodRequests {
        containers: &container_requests(&spec.containers),
        init_containers: &container_requests(&spec.init_containers),
        pod_level: &spec.resources.requests,
        overhead: &spec.overhead,
    };
    let non_zero = all.non_zero_total();
    (all.total(), (non_zero.milli_cpu, non_zero.memory))
}

fn container_requests(containers: &[ContainerWire]) -> Vec<ContainerRequests<'_>> {
    let mut requests = Vec::with_capacity(containers.len());
    for container in containers {
        requests.push(ContainerRequests {
            requests: &container.resources.requests,
            is_restartable: container.restart_policy == "Always",
        });
    }
    requests
}

fn host_ports<'a>(containers: impl Iterator<Item = &'a ContainerWire>) -> Vec<HostPort> {
    let mut ports = Vec::new();
    for port in containers.flat_map(|container| &container.ports).filter(|it| it.host_port > 0) {
        let or = |text: &str, default: &str| {
            if text.is_empty() { default.to_owned() } else { text.to_owned() }
        };
        ports.push(HostPort {
            port: port.host_port,
            protocol: or(&port.protocol, "TCP"),
            ip: or(&port.host_ip, "0.0.0.0"),
        });
    }
    ports
}

fn claims(pod: &str, volumes: &[VolumeWire]) -> Vec<ClaimUse> {
    let mut claims = Vec::new();
    for volume in volumes {
        if let Some(source) = &volume.persistent_volume_claim {
            claims.push(ClaimUse { name: source.claim_name.clone(), is_ephemeral: false });
        } else if volume.ephemeral.is_some() {
            let name = format!("{pod}-{}", volume.name);
            claims.push(ClaimUse { name, is_ephemeral: true });
        }
    }
    claims
}

/// The name of an image with its tag.
pub(crate) fn normalized_image(name: &str) -> String {
    let has_tag = name.rfind(':') > name.rfind('/');
    if has_tag { name.to_owned() } else { format!("{name}:latest") }
}

/// A pod in the cache of the informer.
#[derive(Debug)]
pub(crate) struct ObservedPod {
    pub info: PodInfo,
    /// The node to which it is bound, or empty.
    pub node: String,
    /// Whether it has succeeded or failed.
    pub is_finished: bool,
    /// Whether this scheduler is to bind it.
    pub is_ours: bool,
    pub is_gated: bool,
}

/// Shares equal traits.
#[derive(Debug, Default)]
pub(crate) struct TraitInterner {
    known: HashSet<Arc<PodTraits>>,
    /// The number of traits at which those without a pod are removed.
    sweep_at: usize,
}

impl TraitInterner {
    /// Reads a pod.
    #[cfg(test)]
    pub(crate) fn observe(&mut self, item: &Item) -> Result<ObservedPod, serde_json::Error> {
        Ok(self.observe_wire(item, item.decode()?))
    }

    /// Reads a pod that was decoded.
    pub(crate) fn observe_wire(&mut self, item: &Item, mut pod: PodWire) -> ObservedPod {
        let is_deleting = pod.metadata.deletion_timestamp.is_some();
        let disruption = pod.status.conditions.iter().find(|it| it.type_ == "DisruptionTarget");
        let is_preempted = is_deleting
            && disruption
                .is_some_and(|it| it.status == "True" && it.reason == "PreemptionByScheduler");
        let nominated_node = Some(pod.status.nominated_node_name.as_str());
        let nominated_node = nominated_node.filter(|name| !name.is_empty()).map(Arc::from);
        let node = std::mem::take(&mut pod.spec.node_name);
        let is_finished = matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
        let is_ours = pod.spec.scheduler_name == SCHEDULER_NAME;
        let is_gated = !pod.spec.scheduling_gates.is_empty();
        let info = PodInfo {
            key: item.key().clone(),
            uid: item.uid().into(),
            priority: pod.spec.priority,
            can_preempt: pod.spec.preemption_policy != "Never",
            is_deleting,
            is_preempted,
            start_time: pod.status.start_time.as_ref().map(to_timestamp),
            nominated_node,
            traits: self.intern(PodTraits::of(item.namespace(), pod)),
        };
        ObservedPod { info, node, is_finished, is_ours, is_gated }
    }

    /// The shared allocation of equal traits.
    pub(crate) fn intern(&mut self, traits: PodTraits) -> Arc<PodTraits> {
        if let Some(known) = self.known.get(&traits) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.sweep_at = self.known.len() * 2 + 1024;
        }
        let traits = Arc::new(traits);
        self.known.insert(Arc::clone(&traits));
        traits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(interner: &mut TraitInterner, json: &str) -> ObservedPod {
        interner.observe(&Item::parse(json.as_bytes().to_vec()).unwrap()).unwrap()
    }

    #[test]
    fn pods_of_one_template_share_their_traits() {
        let mut interner = TraitInterner::default();
        let pod = |name: &str, cpu: &str| {
            format!(
                r#"{{"metadata":{{"namespace":"n","name":"{name}","uid":"{name}","labels":{{"app":"x"}}}},
                "spec":{{"containers":[{{"resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}}}"#
            )
        };
        let first = observe(&mut interner, &pod("a", "1"));
        let second = observe(&mut interner, &pod("b", "1"));
        let third = observe(&mut interner, &pod("c", "2"));
        assert!(Arc::ptr_eq(&first.info.traits, &second.info.traits));
        assert!(!Arc::ptr_eq(&first.info.traits, &third.info.traits));
    }

    #[test]
    fn ports_conflict_on_the_same_address_or_on_all() {
        let port = |port, protocol: &str, ip: &str| HostPort {
            port,
            protocol: protocol.into(),
            ip: ip.into(),
        };
        let used = port(80, "TCP", "127.0.0.1");
        assert!(used.conflicts_with(&port(80, "TCP", "0.0.0.0")));
        assert!(!used.conflicts_with(&port(80, "TCP", "127.0.0.2")));
        assert!(!used.conflicts_with(&port(80, "UDP", "127.0.0.1")));
        assert!(!used.conflicts_with(&port(81, "TCP", "127.0.0.1")));
    }

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        assert_eq!(normalized_image("nginx"), "nginx:latest");
        assert_eq!(normalized_image("r:5000/nginx"), "r:5000/nginx:latest");
        assert_eq!(normalized_image("r:5000/nginx:1"), "r:5000/nginx:1");
    }
}
