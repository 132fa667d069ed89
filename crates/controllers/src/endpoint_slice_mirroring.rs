//! `endpointslice-mirroring-controller`: `Endpoints` that were written by somebody else, for a service
//! without a selector, are mirrored to slices.
//!
//! It reads endpoints, services and slices, and creates, updates and deletes slices. There is one slice
//! for each family of addresses and each set of ports, with at most 1000 endpoints.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::endpoint_slice::slice::{
    Conditions, Endpoint, MANAGED_BY, SERVICE_NAME, Slice, SlicePort, Slices,
};
use crate::endpoint_slice::{BACKOFF, Changes};
use crate::endpoints::subsets::{self, Address, Subset};
use crate::endpoints::{EndpointsView, LEADER};
use crate::metadata::{Metadata, OwnerReference};
use crate::object_reference::object_reference;
use crate::service_view::{IpFamily, ServiceView};
use crate::trigger_time;
use machinery::PolicyRule;
use runtime::informer::work_queue::RateLimits;
use runtime::recorder::{EventType, Recorder};
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "endpointslice-mirroring-controller",
    aliases: &["endpointslicemirroring"],
    user: ControllerUser::ServiceAccount("endpointslicemirroring-controller"),
    rules: &[
        PolicyRule::new(
            &["discovery.k8s.io"],
            &["endpointslices"],
            &["create", "update", "delete"],
        ),
        // The slices have an owner reference that blocks the deletion of the endpoints.
        PolicyRule::new(&[""], &["services/finalizers", "endpoints/finalizers"], &["update"]),
    ],
    start,
};

/// The name of the controller in events.
const COMPONENT: &str = "endpoint-slice-mirroring-controller";

/// The value of the label of the controller's slices.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";

/// The label of endpoints that are not mirrored.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The maximum number of addresses of a subset that are mirrored.
const MAX_ADDRESSES: usize = 1000;

/// The longest delay after many failures.
const MAX_BACKOFF: Duration = Duration::from_secs(100);

struct State {
    client: Client,
    recorder: Recorder,
    endpoints: Lister<EndpointsView>,
    services: Lister<ServiceView>,
    slices: Slices,
}

fn start(cx: &ControllerContext) {
    let slices = Slices::new(cx, MANAGER);
    let are_managed = slices.are_managed();
    let state = State {
        client: cx.client.clone(),
        recorder: cx.manager.recorder_with(cx.client.clone(), COMPONENT),
        endpoints: cx.manager.informer::<Endpoints>().lister(),
        services: cx.manager.informer::<Service>().lister(),
        slices,
    };
    let limits =
        RateLimits { backoff_base: BACKOFF, backoff_cap: MAX_BACKOFF, ..RateLimits::default() };
    let controller = Controller::for_::<Endpoints>()
        .named(cx.name)
        .watches::<Service>(Mapper::itself())
        .watches::<EndpointSlice>(Slices::to_service())
        .when(are_managed)
        .back_off(limits)
        .reconcile(reconcile, state);
    cx.manager.add(controller);
}

async fn reconcile(request: Request, cx: Arc<State>) -> Result<Action, Failure> {
    let existing = cx.slices.of_service(&request)?;
    // The service first: most endpoints have one with a selector, and may be large.
    let service = cx.services.shared_key(&request)?;
    let has_selector = service.is_none_or(|service| !service.spec.selector.is_empty());
    let endpoints = if has_selector { None } else { cx.endpoints.get_key(&request)? };
    let changes = match endpoints.filter(is_mirrored) {
        Some(endpoints) => {
            let mut changes = changes(&endpoints, &existing, |reason, text| {
                cx.record(&endpoints.metadata, reason, text);
            });
            changes.reuse_deleted(|_| true);
            if endpoints.metadata.is_deleting() {
                changes.create.clear();
            }
            changes
        }
        None => Changes { delete: existing, ..Changes::default() },
    };
    changes.write(&cx.client, "Endpoints", request.namespace(), request.name()).await?;
    Ok(Action::Done)
}

fn is_mirrored(endpoints: &EndpointsView) -> bool {
    let Metadata { labels, annotations, .. } = &endpoints.metadata;
    labels.get(SKIP_MIRROR).is_none_or(|value| value != "true") && !annotations.contains_key(LEADER)
}

type Group = (&'static str, Vec<SlicePort>);

/// The changes that make the slices mirror the endpoints. Addresses that cannot be mirrored are
/// reported with a reason and a message.
fn changes(
    endpoints: &EndpointsView,
    existing: &[Arc<Slice>],
    report: impl Fn(&str, &str),
) -> Changes {
    let (mut skipped, mut invalid) = (0, 0);
    let mut desired: BTreeMap<Group, Vec<Endpoint>> = BTreeMap::new();
    for subset in subsets::repack(&endpoints.subsets) {
        let ports = slice_ports(&subset);
        let ready = subset.addresses.iter().map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter().map(|address| (address, false));
        let mut added = 0;
        for (address, is_ready) in ready.chain(not_ready) {
            let Ok(ip) = address.ip.parse::<IpAddr>() else {
                invalid += 1;
                continue;
            };
            if added == MAX_ADDRESSES {
                skipped += 1;
                continue;
            }
            let family = if ip.is_ipv6() { IpFamily::V6 } else { IpFamily::V4 };
            let group = desired.entry((family.as_str(), ports.clone())).or_default();
            group.push(endpoint(address, ip, is_ready));
            added += 1;
        }
    }
    if invalid > 0 {
        let text =
            format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
        report("InvalidIPAddress", &text);
    }
    if skipped > 0 {
        let text = format!(
            "A max of {MAX_ADDRESSES} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were skipped",
            skipped + invalid
        );
        report("TooManyAddressesToMirror", &text);
    }
    let mut changes = Changes::default();
    let mut unused: Vec<Arc<Slice>> = existing.to_vec();
    for ((family, ports), wanted) in desired {
        let is_same = |slice: &Arc<Slice>| {
            let mut present = slice.ports.clone();
            present.sort_unstable();
            slice.address_type == family && present == ports
        };
        let found = unused.iter().position(is_same).map(|index| unused.remove(index));
        let slice = mirror(endpoints, family, ports, wanted);
        match found {
            None => changes.create.push(slice),
            Some(found) if is_equal(&found, &slice) => {}
            Some(found) => {
                let mut updated = slice;
                updated.metadata.take_identity(&found.metadata);
                changes.update.push(updated);
            }
        }
    }
    changes.delete = unused;
    changes
}

fn slice_ports(subset: &Subset) -> Vec<SlicePort> {
    let mut ports: Vec<SlicePort> = subset
        .ports
        .iter()
        .map(|port| SlicePort {
            name: port.name.clone(),
            port: Some(port.port),
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        })
        .collect();
    ports.sort_unstable();
    ports
}

fn endpoint(address: &Address, ip: IpAddr, is_ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Conditions { ready: Some(is_ready), ..Conditions::default() },
        hostname: Some(address.hostname.clone()).filter(|name| !name.is_empty()),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        ..Endpoint::default()
    }
}

/// The slice for one group of addresses.
fn mirror(
    endpoints: &EndpointsView,
    family: &str,
    ports: Vec<SlicePort>,
    mut wanted: Vec<Endpoint>,
) -> Slice {
    wanted.sort_by_cached_key(Endpoint::key);
    wanted.dedup_by_key(|endpoint| endpoint.key());
    let Metadata { labels, annotations, name, .. } = &endpoints.metadata;
    let (mut labels, mut annotations) = (labels.clone(), annotations.clone());
    labels.insert(SERVICE_NAME.to_owned(), name.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    annotations.remove(trigger_time::ANNOTATION);
    annotations.remove(LAST_APPLIED);
    Slice {
        metadata: Metadata {
            labels,
            annotations,
            owner_references: vec![OwnerReference::controller(
                "v1",
                "Endpoints",
                &endpoints.metadata,
            )],
            ..Metadata::default()
        },
        address_type: family.to_owned(),
        endpoints: wanted,
        ports,
    }
}

/// Whether a slice has the desired content, in any order.
fn is_equal(found: &Slice, desired: &Slice) -> bool {
    let mut present = found.endpoints.clone();
    present.sort_by_cached_key(Endpoint::key);
    present == desired.endpoints
        && found.metadata.labels == desired.metadata.labels
        && found.metadata.annotations == desired.metadata.annotations
        && found.metadata.owner_references == desired.metadata.owner_references
}

impl State {
    fn record(&self, endpoints: &Metadata, reason: &str, text: &str) {
        let regarding = object_reference("v1", "Endpoints", endpoints);
        self.recorder.record_about(regarding, EventType::Warning, reason, text);
    }
}
