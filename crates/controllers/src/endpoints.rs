//! `endpoints-controller`: the `Endpoints` of a service with a selector have the addresses of its
//! pods, at most 1000.
//!
//! It reads services, pods and endpoints, and creates, updates and deletes endpoints. It does not
//! change the endpoints of a service without a selector; those of a deleted service are deleted.
//!
//! Endpoints contain all addresses of a service, and change with each of its pods. So that 1000 pods
//! that start do not cause 1000 writes of up to 1000 addresses, large endpoints are written at most
//! once in a period that grows with their size.

pub(crate) mod subsets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api_requests::{self, has_code, is_namespace_terminating, message};
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::endpoint_pod::EndpointPod;
use crate::metadata::Metadata;
use crate::minimum_intervals::MinimumIntervals;
use crate::object_reference::object_reference;
use crate::service_pods::{ServicePods, endpoints_may_change};
use crate::service_view::{HEADLESS_LABEL, IpFamily, ServiceView};
use crate::trigger_time::{TriggerTimes, annotate};
use machinery::PolicyRule;
use runtime::informer::{ObjectDecodeError, ObjectEvent};
use runtime::recorder::{EventType, Recorder};
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Predicate, Request};
use subsets::{Address, EndpointPort, Subset, TargetRef};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "endpoints-controller",
    aliases: &["endpoint"],
    user: ControllerUser::ServiceAccount("endpoint-controller"),
    rules: &[
        PolicyRule::new(&[""], &["endpoints"], &["create", "update", "delete"]),
        PolicyRule::new(&[""], &["endpoints/restricted"], &["create"]),
    ],
    start,
};

/// The name of the controller in events and in the label of its endpoints.
const COMPONENT: &str = "endpoint-controller";

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The annotation of endpoints on which leaders are elected, which have no service.
pub(crate) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// The number of services that are reconciled at the same time. Upstream: --concurrent-endpoint-syncs
const WORKERS: usize = 5;

/// The minimum interval between two computations of large endpoints, for each pod.
const INTERVAL_PER_POD: Duration = Duration::from_millis(1);

/// So many ports of a service make its endpoints twice as large.
pub(crate) const PORTS_LIKE_A_POD: usize = 10;

/// Endpoints of more pods are computed beside the other tasks.
pub(crate) const LARGE: usize = 200;

/// `Endpoints`, with the fields that the controllers read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointsView {
    /// The metadata.
    pub metadata: Metadata,
    /// The addresses and their ports.
    pub subsets: Vec<Subset>,
}

struct State {
    client: Client,
    recorder: Recorder,
    service_pods: ServicePods,
    endpoints: Lister<EndpointsView>,
    trigger_times: TriggerTimes,
    /// Between two computations of the same endpoints.
    intervals: MinimumIntervals,
}

fn start(cx: &ControllerContext) {
    let service_pods = ServicePods::new(cx);
    let pod_services = service_pods.services_of_pod();
    let state = State {
        client: cx.client.clone(),
        recorder: cx.manager.recorder_with(cx.client.clone(), COMPONENT),
        service_pods,
        endpoints: cx.manager.informer::<Endpoints>().lister(),
        trigger_times: TriggerTimes::default(),
        intervals: MinimumIntervals::new(cx.clock(), INTERVAL_PER_POD),
    };
    let controller = Controller::for_::<Service>()
        .named(cx.name)
        .watches::<Pod>(pod_services)
        .when(endpoints_may_change())
        .watches::<Endpoints>(Mapper::itself())
        .when(Predicate::custom(is_deleted_or_leftover))
        .workers(WORKERS)
        .workers_per_namespace(WORKERS - 1)
        .reconcile(reconcile, state);
    cx.manager.add(controller);
}

/// Accepts deletions, and endpoints that existed before the start: their service may have been
/// deleted.
fn is_deleted_or_leftover(event: &ObjectEvent) -> bool {
    match event {
        ObjectEvent::Added { item, is_initial: true } => item
            .decode::<EndpointsView>()
            .is_ok_and(|endpoints| !endpoints.metadata.annotations.contains_key(LEADER)),
        ObjectEvent::Deleted { .. } => true,
        ObjectEvent::Added { .. } | ObjectEvent::Updated { .. } => false,
    }
}

async fn reconcile(request: Request, cx: Arc<State>) -> Result<Action, Failure> {
    let Some(service) = cx.service_pods.service(&request)? else {
        cx.trigger_times.remove(&request);
        cx.intervals.forget(&request);
        cx.delete(&request).await?;
        return Ok(Action::Done);
    };
    if !service.has_managed_endpoints() {
        return Ok(Action::Done);
    }
    if let Some(delay) = cx.intervals.remaining(&request) {
        return Ok(Action::RequeueAfter(delay));
    }
    let pods = cx.service_pods.pods_of(&service)?;
    let trigger_time = cx.trigger_times.observe(&request, &service, &pods);
    let compute = || {
        let subsets = subsets::repack(&desired_subsets(&service, &pods));
        let current = cx.endpoints.get_key(&request)?;
        let is_up_to_date =
            current.as_ref().is_some_and(|current| current.is_up_to_date(&subsets, &service));
        Ok::<_, ObjectDecodeError>((subsets, current, is_up_to_date))
    };
    let size = pods.len() * (1 + service.spec.ports.len() / PORTS_LIKE_A_POD);
    let computed = if size > LARGE { keel::blocking(compute) } else { compute() };
    let (mut subsets, current, is_up_to_date) = computed?;
    if is_up_to_date {
        cx.intervals.restart(&request, size);
        return Ok(Action::Done);
    }
    let exists = current.is_some();
    let mut metadata = current.map(|current| current.metadata).unwrap_or_default();
    metadata.name.clone_from(&service.metadata.name);
    metadata.labels = labels(&service);
    annotate(&mut metadata.annotations, trigger_time.as_ref());
    if subsets::truncate(&mut subsets) {
        metadata.annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
    } else {
        metadata.annotations.remove(OVER_CAPACITY);
    }
    cx.write(&service, &metadata, &subsets, exists).await?;
    cx.intervals.restart(&request, size);
    Ok(Action::Done)
}

/// One subset for each address and each port.
fn desired_subsets(service: &ServiceView, pods: &[Arc<EndpointPod>]) -> Vec<Subset> {
    let publishes_all = service.spec.publish_not_ready_addresses;
    let mut subsets = Vec::new();
    for pod in pods {
        if !pod.has_endpoint() || pod.is_terminating() && !publishes_all {
            continue;
        }
        let Some(address) = address(service, pod) else { continue };
        let ports = pod.ports_for(&service.spec.ports).into_iter();
        let ports: Vec<EndpointPort> = ports
            .map(|(port, number)| EndpointPort {
                name: port.name.clone(),
                port: number,
                protocol: port.protocol.clone(),
                app_protocol: port.app_protocol.clone(),
            })
            .collect();
        // A headless service needs no ports.
        let needs_no_port = service.spec.ports.is_empty() && service.spec.cluster_ip == "None";
        if ports.is_empty() && !needs_no_port {
            continue;
        }
        subsets.push(if publishes_all || pod.is_ready() {
            Subset { addresses: vec![address], ports, ..Subset::default() }
        } else {
            Subset { not_ready_addresses: vec![address], ports, ..Subset::default() }
        });
    }
    subsets
}

/// The address of a pod, of the first family of the service.
fn address(service: &ServiceView, pod: &EndpointPod) -> Option<Address> {
    let family = service.first_family().or_else(|| {
        let first = pod.status.pod_ips.first()?;
        Some(IpFamily::of(&first.ip))
    })?;
    Some(Address {
        ip: pod.addresses(family).next()?,
        hostname: pod.hostname_in(service).unwrap_or_default().to_owned(),
        node_name: Some(pod.spec.node_name.clone()).filter(|name| !name.is_empty()),
        target_ref: Some(TargetRef {
            kind: "Pod".to_owned(),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
        }),
    })
}

/// The labels of the service, and those of the controller.
fn labels(service: &ServiceView) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone();
    labels.remove(HEADLESS_LABEL);
    if !service.has_cluster_ip() {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.to_owned(), COMPONENT.to_owned());
    labels
}

impl EndpointsView {
    /// Whether nothing is to be written.
    fn is_up_to_date(&self, subsets: &[Subset], service: &ServiceView) -> bool {
        let is_marked = self.metadata.annotations.contains_key(OVER_CAPACITY);
        let is_truncated = subsets::count(subsets) > subsets::MAX_ADDRESSES;
        if is_marked != is_truncated || self.metadata.labels != labels(service) {
            return false;
        }
        if !is_truncated {
            return self.subsets == subsets || subsets::repack(&self.subsets) == subsets;
        }
        let mut truncated = subsets.to_vec();
        subsets::truncate(&mut truncated);
        subsets::repack(&self.subsets) == subsets::repack(&truncated)
    }
}

impl State {
    async fn delete(&self, key: &Request) -> Result<(), Failure> {
        let Some(endpoints) = self.endpoints.indexer().get(key) else { return Ok(()) };
        let path = endpoints_path(key.namespace(), key.name());
        match api_requests::delete(&self.client, &path, endpoints.uid()).await {
            Err(error) if !has_code(&error, 404) && !has_code(&error, 409) => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn write(
        &self,
        service: &ServiceView,
        metadata: &Metadata,
        subsets: &[Subset],
        exists: bool,
    ) -> Result<(), Failure> {
        let Metadata { namespace, name, .. } = &service.metadata;
        let mut endpoints = json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": metadata.to_update(),
            "subsets": subsets,
        });
        let written: api_requests::Result<Value> = if exists {
            let path = endpoints_path(namespace, name);
            api_requests::replace(&self.client, &path, &endpoints).await
        } else {
            endpoints["metadata"]["namespace"] = namespace.as_str().into();
            let path = format!("/api/v1/namespaces/{namespace}/endpoints");
            api_requests::create(&self.client, &path, &endpoints).await
        };
        let Err(error) = written else { return Ok(()) };
        if !exists && is_namespace_terminating(&error) {
            return Ok(());
        }
        let (reason, text) = if exists {
            let text = format!("Failed to update endpoint {namespace}/{name}: {}", message(&error));
            ("FailedToUpdateEndpoint", text)
        } else {
            let why = message(&error);
            let text = format!("Failed to create endpoint for service {namespace}/{name}: {why}");
            ("FailedToCreateEndpoint", text)
        };
        let identity = Metadata { namespace: namespace.clone(), ..metadata.clone() };
        let regarding = object_reference("v1", "Endpoints", &identity);
        self.recorder.record_about(regarding, EventType::Warning, reason, &text);
        Err(error.into())
    }
}

fn endpoints_path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/endpoints/{name}")
}
