//! [`PodInfo`]: a pod as the scheduler sees it, and [`PodTraits`], the part of it that pods of one
//! template have in common.
//!
//! Traits are [interned](super::trait_interner): two pods with equal traits share one allocation, so
//! that comparing them is comparing pointers, and the decisions about a template need not be made for
//! each of its pods.

use std::sync::Arc;

use super::constraints::Constraints;
use super::host_ports::HostPort;
use super::label_set::LabelSet;
use super::pod_wire::{ContainerWire, PodWire, SpecWire, VolumeWire};
use super::resources::{ContainerRequests, PodRequests, Resources};
use super::trait_interner::Interned;
use crate::time::to_timestamp;
use keel::Timestamp;
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
    pub labels: LabelSet,
    pub constraints: Interned<Constraints>,
    pub requests: Resources,
    /// Cpu and memory as scores count them, with defaults for containers that request none.
    pub non_zero_requests: (i64, i64),
    pub host_ports: Box<[HostPort]>,
    pub claims: Vec<ClaimUse>,
    /// Whether the pod needs devices, which nothing allocates here.
    pub has_resource_claims: bool,
    pub images: Vec<String>,
    /// The controller: apiVersion, kind and name.
    pub controller: Option<(String, String, String)>,
}

/// A claim that a pod uses as a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClaimUse {
    pub name: String,
    /// Whether the claim is created for the pod, from an ephemeral volume.
    pub is_ephemeral: bool,
}

impl PodTraits {
    fn of(namespace: &str, pod: PodWire) -> Self {
        let PodWire { metadata, mut spec, .. } = pod;
        let constraints = Constraints::of(&mut spec, namespace, &metadata.labels);
        let (requests, non_zero_requests) = requests(&spec);
        let controller = metadata.owner_references.into_iter().find(|owner| owner.controller);
        let images = spec.init_containers.iter().chain(&spec.containers);
        let images = images.map(|container| normalized_image(&container.image)).collect();
        Self {
            namespace: namespace.to_owned(),
            constraints: Interned::new(constraints),
            requests,
            non_zero_requests,
            host_ports: HostPort::of(spec.containers.iter().chain(&spec.init_containers)),
            claims: claims(&metadata.name, &spec.volumes),
            has_resource_claims: !spec.resource_claims.is_empty(),
            images,
            controller: controller.map(|owner| (owner.api_version, owner.kind, owner.name)),
            labels: metadata.labels,
        }
    }

    /// About the memory of the traits without the constraints, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let images: usize = self.images.iter().map(|image| image.len() + 40).sum();
        let claims: usize = self.claims.iter().map(|claim| claim.name.len() + 48).sum();
        let lists = self.labels.bytes() + size_of_val(&*self.host_ports) + images + claims;
        size_of::<Self>() + self.namespace.len() + lists + self.requests.scalar.len() * 128
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
    /// Its traits are not interned yet.
    pub info: PodInfo,
    /// The node to which it is bound, or empty.
    pub node: String,
    /// Whether it has succeeded or failed.
    pub is_finished: bool,
    /// Whether this scheduler is to bind it.
    pub is_ours: bool,
    pub is_gated: bool,
}

impl ObservedPod {
    /// Reads a pod that was decoded.
    pub(crate) fn of(item: &Item, mut pod: PodWire) -> Self {
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
            traits: Arc::new(PodTraits::of(item.namespace(), pod)),
        };
        Self { info, node, is_finished, is_ours, is_gated }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trait_interner::TraitInterner;
    use super::*;

    fn traits(interner: &mut TraitInterner, json: &str) -> Arc<PodTraits> {
        let item = Item::parse(json.as_bytes().to_vec()).unwrap();
        interner.intern(ObservedPod::of(&item, item.decode().unwrap()).info.traits)
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
        let first = traits(&mut interner, &pod("a", "1"));
        let second = traits(&mut interner, &pod("b", "1"));
        let third = traits(&mut interner, &pod("c", "2"));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &third));
    }

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        assert_eq!(normalized_image("nginx"), "nginx:latest");
        assert_eq!(normalized_image("r:5000/nginx"), "r:5000/nginx:latest");
        assert_eq!(normalized_image("r:5000/nginx:1"), "r:5000/nginx:1");
    }
}
