//! `endpointslice-controller`: the `EndpointSlice`s of a service with a selector have the addresses of
//! its pods, also of those that are not ready or are terminating. There are slices for each family of
//! addresses and for each set of ports, with at most 100 endpoints; a service without pods has an
//! empty slice.
//!
//! It reads services, pods, nodes and slices, and creates, updates and deletes slices. The garbage
//! collector deletes the slices of a deleted service, which owns them.
//!
//! Hints for near endpoints follow `spec.trafficDistribution`; the annotation
//! `service.kubernetes.io/topology-mode` is ignored.

mod changes;
mod placement;
pub(crate) mod slice;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::endpoint_pod::EndpointPod;
use crate::endpoints::subsets::TargetRef;
use crate::endpoints::{LARGE, PORTS_LIKE_A_POD};
use crate::metadata::{Metadata, OwnerReference};
use crate::minimum_intervals::MinimumIntervals;
use crate::object_reference::object_reference;
use crate::service_pods::{ServicePods, endpoints_may_change};
use crate::service_view::{HEADLESS_LABEL, IpFamily, ServiceView};
use crate::trigger_time::{TriggerTimes, annotate};
use machinery::PolicyRule;
use runtime::informer::ObjectEvent;
use runtime::informer::work_queue::RateLimits;
use runtime::recorder::{EventType, Recorder};
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Predicate, Request};
use slice::{
    Conditions, Endpoint, EndpointKey, Hints, MANAGED_BY, Named, SERVICE_NAME, Slice, SlicePort,
    Slices,
};

pub(crate) use changes::Changes;

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "endpointslice-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("endpointslice-controller"),
    rules: &[
        PolicyRule::new(
            &["discovery.k8s.io"],
            &["endpointslices"],
            &["create", "update", "delete"],
        ),
        // The slices have an owner reference that blocks the deletion of the service.
        PolicyRule::new(&[""], &["services/finalizers"], &["update"]),
    ],
    start,
};

/// The name of the controller in events.
const COMPONENT: &str = "endpoint-slice-controller";

/// The value of the label of the controller's slices.
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The number of services that are reconciled at the same time. Upstream:
/// --concurrent-service-endpoint-syncs
const WORKERS: usize = 5;

/// The minimum interval between two reconciles of a service with many pods, for each of them.
const INTERVAL_PER_POD: Duration = Duration::from_micros(200);

/// The delay after the first failure of a service.
pub(crate) const BACKOFF: Duration = Duration::from_secs(1);

struct State {
    client: Client,
    recorder: Recorder,
    service_pods: ServicePods,
    nodes: Lister<NodeView>,
    slices: Slices,
    trigger_times: TriggerTimes,
    waiting: Arc<WaitingServices>,
    intervals: MinimumIntervals,
}

/// The services that wait for a node to be registered, by the name of the node. An entry is removed
/// with the registration.
#[derive(Default)]
struct WaitingServices(Mutex<HashMap<String, HashSet<Request>>>);

impl WaitingServices {
    fn add(&self, node: &str, service: &Request) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.entry(node.to_owned()).or_default().insert(service.clone());
    }

    fn take(&self, node: &str) -> Vec<Request> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(node).into_iter().flatten().collect()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeView {
    metadata: LabelsView,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LabelsView {
    labels: BTreeMap<String, String>,
}

/// A pod whose node does not exist: it has no endpoint until the node is registered.
#[derive(Debug, thiserror::Error)]
#[error("skipping Pod {pod} for Service {service}: Node {node} Not Found")]
struct NodeMissing {
    pod: String,
    service: String,
    node: String,
}

fn start(cx: &ControllerContext) {
    let service_pods = ServicePods::new(cx);
    let pod_services = service_pods.services_of_pod();
    let slices = Slices::new(cx, MANAGER);
    let are_managed = slices.are_managed();
    let state = State {
        client: cx.client.clone(),
        recorder: cx.manager.recorder_with(cx.client.clone(), COMPONENT),
        service_pods,
        nodes: cx.manager.informer::<Node>().lister(),
        slices,
        trigger_times: TriggerTimes::default(),
        waiting: Arc::default(),
        intervals: MinimumIntervals::new(cx.clock(), INTERVAL_PER_POD),
    };
    let waiting = Arc::clone(&state.waiting);
    let is_added = Predicate::custom(|event| matches!(event, ObjectEvent::Added { .. }));
    let controller = Controller::for_::<Service>()
        .named(cx.name)
        .watches::<Pod>(pod_services)
        .when(endpoints_may_change())
        .watches::<EndpointSlice>(Slices::to_service())
        .when(are_managed)
        .watches::<Node>(Mapper::custom(move |node| waiting.take(node.name())))
        .when(is_added)
        .workers(WORKERS)
        .workers_per_namespace(WORKERS - 1)
        .back_off(RateLimits { backoff_base: BACKOFF, ..RateLimits::default() })
        .reconcile(reconcile, state);
    cx.manager.add(controller);
}

async fn reconcile(request: Request, cx: Arc<State>) -> Result<Action, Failure> {
    let Some(service) = cx.service_pods.service(&request)? else {
        cx.trigger_times.remove(&request);
        cx.intervals.forget(&request);
        return Ok(Action::Done);
    };
    if !service.has_managed_endpoints() {
        return Ok(Action::Done);
    }
    if let Some(delay) = cx.intervals.remaining(&request) {
        return Ok(Action::RequeueAfter(delay));
    }
    let pods = cx.service_pods.pods_of(&service)?;
    let existing = cx.slices.of_service(&request)?;
    let trigger_time = cx.trigger_times.observe(&request, &service, &pods);
    let families = service.families();
    let mut missing = None;
    let mut compute = || {
        let mut changes = Changes::default();
        for family in &families {
            let of_family = existing.iter().filter(|it| it.address_type == family.as_str());
            let of_family: Vec<_> = of_family.cloned().collect();
            changes.extend(cx.changes(&service, &pods, &of_family, *family, &mut missing));
        }
        changes
    };
    let size = pods.len() * (1 + service.spec.ports.len() / PORTS_LIKE_A_POD);
    let mut changes = if size > LARGE { keel::blocking(compute) } else { compute() };
    let is_supported =
        |slice: &Slice| families.iter().any(|family| family.as_str() == slice.address_type);
    changes.delete.extend(existing.into_iter().filter(|slice| !is_supported(slice)));
    changes.reuse_deleted(|slice| slice.is_owned_by("Service", &service.metadata.uid));
    let written = cx.write(&service, changes, trigger_time.as_ref()).await;
    cx.intervals.restart(&request, size);
    let failure = match (written, missing) {
        (Ok(()), None) => return Ok(Action::Done),
        (Ok(()), Some(missing)) => {
            cx.waiting.add(&missing.node, &request);
            if cx.nodes.indexer().get(&Request::new("", &missing.node)).is_some() {
                // It was registered meanwhile.
                return Ok(Action::Requeue);
            }
            Failure::from(missing)
        }
        (Err(failure), _) => failure,
    };
    cx.record_failure(&service, &failure);
    Err(failure)
}

/// The labels of the service, and those of the controller.
fn labels(service: &ServiceView) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone();
    labels.remove(HEADLESS_LABEL);
    if !service.has_cluster_ip() {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    labels.insert(SERVICE_NAME.to_owned(), service.metadata.name.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

/// The ports of a pod, sorted.
fn ports(service: &ServiceView, pod: &EndpointPod) -> Vec<SlicePort> {
    let ports = pod.ports_for(&service.spec.ports).into_iter().map(|(port, number)| SlicePort {
        name: port.name.clone(),
        port: Some(number),
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    });
    let mut ports: Vec<SlicePort> = ports.collect();
    ports.sort_unstable();
    ports
}

impl State {
    /// The changes of the slices of one family.
    fn changes(
        &self,
        service: &ServiceView,
        pods: &[Arc<EndpointPod>],
        existing: &[Arc<Slice>],
        family: IpFamily,
        missing: &mut Option<NodeMissing>,
    ) -> Changes {
        let mut desired: BTreeMap<Vec<SlicePort>, BTreeMap<EndpointKey, Endpoint>> =
            BTreeMap::new();
        for pod in pods.iter().filter(|pod| pod.has_endpoint()) {
            let group = desired.entry(ports(service, pod)).or_default();
            match self.endpoint(service, pod, family) {
                Ok(Some(endpoint)) => drop(group.insert(endpoint.key(), endpoint)),
                Ok(None) => {}
                Err(node_missing) => *missing = Some(node_missing),
            }
        }
        let new_slice = |ports: Vec<SlicePort>| Slice {
            metadata: Metadata {
                labels: labels(service),
                owner_references: vec![OwnerReference::controller(
                    "v1",
                    "Service",
                    &service.metadata,
                )],
                ..Metadata::default()
            },
            address_type: family.as_str().to_owned(),
            endpoints: Vec::new(),
            ports,
        };
        let mut changes = Changes::default();
        let mut by_ports: BTreeMap<Vec<SlicePort>, Vec<Arc<Slice>>> = BTreeMap::new();
        for slice in existing {
            if slice.is_owned_by("Service", &service.metadata.uid) {
                let mut ports = slice.ports.clone();
                ports.sort_unstable();
                by_ports.entry(ports).or_default().push(Arc::clone(slice));
            } else {
                changes.delete.push(Arc::clone(slice));
            }
        }
        for (ports, endpoints) in desired {
            let slices = by_ports.remove(&ports).unwrap_or_default();
            changes.extend(placement::place(&slices, endpoints, &new_slice(ports)));
        }
        changes.delete.extend(by_ports.into_values().flatten());
        if existing.len() == changes.delete.len() && changes.create.is_empty() {
            let placeholder = new_slice(Vec::new());
            let is_placeholder = |slice: &Slice| {
                slice.endpoints.is_empty()
                    && slice.ports.is_empty()
                    && slice.metadata.labels == placeholder.metadata.labels
                    && slice.metadata.owner_references == placeholder.metadata.owner_references
            };
            match changes.delete.as_slice() {
                [only] if is_placeholder(only) => changes.delete.clear(),
                _ => changes.create.push(placeholder),
            }
        }
        changes
    }

    /// The endpoint of a pod; `None` if the pod has no address of this family.
    fn endpoint(
        &self,
        service: &ServiceView,
        pod: &EndpointPod,
        family: IpFamily,
    ) -> Result<Option<Endpoint>, NodeMissing> {
        let addresses: Vec<String> = pod.addresses(family).collect();
        let publishes_all = service.spec.publish_not_ready_addresses;
        let node_name = &pod.spec.node_name;
        let node = self.nodes.shared("", node_name).ok().flatten();
        if node.is_none() && !publishes_all {
            let Metadata { namespace, name, .. } = &service.metadata;
            return Err(NodeMissing {
                pod: pod.metadata.name.clone(),
                service: format!("{namespace}/{name}"),
                node: node_name.clone(),
            });
        }
        if addresses.is_empty() {
            return Ok(None);
        }
        let zone =
            node.and_then(|node| node.metadata.labels.get("topology.kubernetes.io/zone").cloned());
        let zone = zone.filter(|zone| !zone.is_empty());
        let node_name = Some(node_name.clone()).filter(|name| !name.is_empty());
        let (serving, terminating) = (pod.is_ready(), pod.is_terminating());
        let ready = publishes_all || serving && !terminating;
        let hints = hints(&service.spec.traffic_distribution, zone.as_ref(), node_name.as_ref());
        Ok(Some(Endpoint {
            addresses,
            conditions: Conditions {
                ready: Some(ready),
                serving: Some(serving),
                terminating: Some(terminating),
            },
            hostname: pod.hostname_in(service).map(str::to_owned),
            target_ref: Some(TargetRef {
                kind: "Pod".to_owned(),
                namespace: pod.metadata.namespace.clone(),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
            }),
            node_name,
            zone,
            hints: hints.filter(|_| ready),
        }))
    }

    /// Creates, updates and deletes slices. A service that is being deleted gets no new slices: the
    /// garbage collector deletes those that it has.
    async fn write(
        &self,
        service: &ServiceView,
        mut changes: Changes,
        trigger_time: Option<&Time>,
    ) -> Result<(), Failure> {
        let Metadata { namespace, name, .. } = &service.metadata;
        if service.metadata.is_deleting() {
            changes.create.clear();
        }
        for slice in changes.create.iter_mut().chain(&mut changes.update) {
            annotate(&mut slice.metadata.annotations, trigger_time);
        }
        changes.write(&self.client, "Service", namespace, name).await
    }

    fn record_failure(&self, service: &ServiceView, failure: &Failure) {
        let Metadata { namespace, name, .. } = &service.metadata;
        let regarding = object_reference("v1", "Service", &service.metadata);
        let text =
            format!("Error updating Endpoint Slices for Service {namespace}/{name}: {failure}");
        let reason = "FailedToUpdateEndpointSlices";
        self.recorder.record_about(regarding, EventType::Warning, reason, &text);
    }
}

/// The hints of an endpoint that is ready.
fn hints(distribution: &str, zone: Option<&String>, node: Option<&String>) -> Option<Hints> {
    let named = |name: Option<&String>| name.map(|name| Named { name: name.clone() });
    let nodes = match distribution {
        "PreferClose" | "PreferSameZone" => None,
        "PreferSameNode" => named(node),
        _ => return None,
    };
    let hints = Hints {
        for_zones: named(zone).into_iter().collect(),
        for_nodes: nodes.into_iter().collect(),
    };
    Some(hints).filter(|hints| *hints != Hints::default())
}
