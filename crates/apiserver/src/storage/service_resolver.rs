//! [`ResolvedServices`]: resolves a reference to a Service to the addresses of its endpoints. No
//! kube-proxy is assumed to run on this machine, so requests go to the endpoints directly.
//!
//! Endpoints on simulated nodes are left out: nothing answers at the address of a simulated pod, or
//! another machine that has the same one.
//!
//! Invariants:
//! - a service is resolved once for each state of its objects, even if several requests need it;
//! - the work of a resolution and the number of addresses are limited.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Deserializer};

use super::Storage;
use crate::cache::watch_cache::{Entry, Snapshot};
use crate::outbound::service::{ServiceError, ServiceReference, ServiceResolver};
use keel::blocking;
use kinds::core::node::is_simulated;
use store::Revision;

/// The maximum number of addresses of a service.
const MAX_ADDRESSES: usize = 100;

/// The maximum size of the endpoint slices that are read for a service. Slices without ready
/// endpoints count as well.
const MAX_SLICE_BYTES: usize = 16 << 20;

/// The maximum size of the objects of a service that are read on the calling worker.
const MAX_INLINE_BYTES: usize = 256 << 10;

/// The maximum number of cached services; the cache is emptied when it is exceeded.
const MAX_SERVICES: usize = 1024;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct ResolvedServices {
    /// By namespace, name and port. Held for lookups only, never while objects are read.
    by_reference: Mutex<HashMap<(String, String, u16), Resolved>>,
}

type Resolution = Result<Arc<[String]>, ServiceError>;

#[derive(Debug)]
struct Resolved {
    /// The revisions of the snapshots in which the objects of the service were last looked up.
    snapshots: [Revision; 3],
    /// A hash of the revisions of the objects of the service.
    state: u64,
    resolution: Arc<OnceLock<Resolution>>,
}

/// The objects of one service.
struct ServiceObjects<'a> {
    service: Option<&'a Arc<Entry>>,
    slices: Vec<&'a Arc<Entry>>,
    endpoints: Option<&'a Arc<Entry>>,
}

impl ServiceResolver for Storage {
    fn addresses(&self, reference: &ServiceReference) -> Resolution {
        let catalog = self.catalog.load();
        let builtin = |group: &str, plural: &str| {
            let served = catalog.resource(group, plural).expect("the kind is built in");
            let key = |name: &str| served.key(&reference.namespace, name);
            (served.cache.snapshot(), key(&reference.name), key(""))
        };
        let (services, service_key, _) = builtin("", "services");
        let (slices, _, slices_prefix) = builtin("discovery.k8s.io", "endpointslices");
        let (endpoints, endpoints_key, _) = builtin("", "endpoints");
        let snapshots = [&services, &slices, &endpoints].map(|it| it.revision);
        if let Some(known) = self.resolved_services.current(reference, snapshots) {
            return known;
        }
        let objects = ServiceObjects {
            service: find(&services, &service_key),
            slices: slices
                .under(&slices_prefix, None)
                .filter(|it| it.label("kubernetes.io/service-name") == Some(&*reference.name))
                .collect(),
            endpoints: find(&endpoints, &endpoints_key),
        };
        let slot = self.resolved_services.slot(reference, snapshots, objects.state());
        let nodes = catalog.resource("", "nodes").expect("the kind is built in");
        let is_simulated = |node: &str| {
            let found = nodes.cache.get(&nodes.key("", node));
            found.is_some_and(|it| is_simulated(&it.object()))
        };
        let resolve = || {
            slot.get_or_init(|| objects.resolve(reference, &mut Nodes::new(&is_simulated))).clone()
        };
        if objects.len() > MAX_INLINE_BYTES { blocking(resolve) } else { resolve() }
    }
}

fn find<'a>(snapshot: &'a Snapshot, key: &str) -> Option<&'a Arc<Entry>> {
    snapshot.entries.get(key).map(|it| &**it)
}

impl ResolvedServices {
    /// The resolution of a service, if no service has changed since then.
    fn current(
        &self,
        reference: &ServiceReference,
        snapshots: [Revision; 3],
    ) -> Option<Resolution> {
        let by_reference = self.lock();
        let found = by_reference.get(&key(reference))?;
        (found.snapshots == snapshots).then(|| found.resolution.get().cloned())?
    }

    /// The place for the resolution of a service whose objects are in `state`.
    fn slot(
        &self,
        reference: &ServiceReference,
        snapshots: [Revision; 3],
        state: u64,
    ) -> Arc<OnceLock<Resolution>> {
        let mut by_reference = self.lock();
        if by_reference.len() >= MAX_SERVICES {
            by_reference.clear();
        }
        let resolved = by_reference.entry(key(reference)).or_insert_with(|| Resolved {
            snapshots,
            state,
            resolution: Arc::default(),
        });
        if resolved.state != state {
            resolved.resolution = Arc::default();
        }
        (resolved.snapshots, resolved.state) = (snapshots, state);
        Arc::clone(&resolved.resolution)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String, u16), Resolved>> {
        self.by_reference.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(reference: &ServiceReference) -> (String, String, u16) {
    (reference.namespace.clone(), reference.name.clone(), reference.port)
}

impl ServiceObjects<'_> {
    fn all(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.service.into_iter().chain(self.slices.iter().copied()).chain(self.endpoints)
    }

    /// A hash of the revisions of the objects.
    fn state(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.all().for_each(|it| it.revision.hash(&mut hasher));
        hasher.finish()
    }

    /// The size of the objects.
    fn len(&self) -> usize {
        self.all().map(|it| it.len()).sum()
    }

    fn resolve(&self, reference: &ServiceReference, nodes: &mut Nodes<'_>) -> Resolution {
        let Some(service) = self.service else {
            return Err(ServiceError::ServiceNotFound(reference.name.clone()));
        };
        let Service { spec } = service.read().unwrap_or_default();
        if spec.kind == "ExternalName" {
            return Ok([format!("{}:{}", spec.external_name, reference.port)].into());
        }
        let mut ports = spec.ports.into_iter();
        let Some(port) = ports.find(|it| it.port == Some(reference.port)) else {
            return Err(ServiceError::PortNotFound {
                service: reference.name.clone(),
                port: reference.port,
            });
        };
        let mut addresses = Vec::new();
        let mut bytes = 0;
        for slice in &self.slices {
            bytes += slice.len();
            if bytes > MAX_SLICE_BYTES || addresses.len() >= MAX_ADDRESSES {
                break;
            }
            let slice = slice.read().unwrap_or_default();
            addresses.extend(slice_addresses(slice, &port.name, nodes));
        }
        if addresses.is_empty() {
            let endpoints: Option<Endpoints> = self.endpoints.and_then(|it| it.read());
            addresses = endpoints_addresses(endpoints.unwrap_or_default(), &port.name, nodes);
        }
        if addresses.is_empty() {
            let name = reference.name.clone();
            let only_simulated = nodes.found_simulated();
            let error =
                if only_simulated { ServiceError::Simulated } else { ServiceError::NoEndpoints };
            return Err(error(name));
        }
        addresses.truncate(MAX_ADDRESSES);
        Ok(addresses.into())
    }
}

/// Whether nodes are simulated, each looked up once for a service.
struct Nodes<'a> {
    lookup: &'a dyn Fn(&str) -> bool,
    known: HashMap<String, bool>,
}

impl<'a> Nodes<'a> {
    fn new(lookup: &'a dyn Fn(&str) -> bool) -> Self {
        Self { lookup, known: HashMap::new() }
    }

    /// Whether an endpoint is a pod on a simulated node.
    fn is_simulated(&mut self, node: &str) -> bool {
        if node.is_empty() {
            return false;
        }
        *self.known.entry(node.to_owned()).or_insert_with(|| (self.lookup)(node))
    }

    /// Whether one of the endpoints was simulated.
    fn found_simulated(&self) -> bool {
        self.known.values().any(|it| *it)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Service {
    #[serde(deserialize_with = "null_as_default")]
    spec: ServiceSpec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ServiceSpec {
    #[serde(rename = "type")]
    #[serde(deserialize_with = "null_as_default")]
    kind: String,
    #[serde(rename = "externalName")]
    #[serde(deserialize_with = "null_as_default")]
    external_name: String,
    #[serde(deserialize_with = "null_as_default")]
    ports: Vec<Port>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Port {
    #[serde(deserialize_with = "null_as_default")]
    name: String,
    port: Option<u16>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct EndpointSlice {
    #[serde(deserialize_with = "null_as_default")]
    ports: Vec<Port>,
    #[serde(deserialize_with = "null_as_default")]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Endpoint {
    #[serde(deserialize_with = "null_as_default")]
    addresses: Vec<String>,
    #[serde(rename = "nodeName")]
    #[serde(deserialize_with = "null_as_default")]
    node: String,
    #[serde(deserialize_with = "null_as_default")]
    conditions: Conditions,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Endpoints {
    #[serde(deserialize_with = "null_as_default")]
    subsets: Vec<Subset>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Subset {
    #[serde(deserialize_with = "null_as_default")]
    ports: Vec<Port>,
    #[serde(deserialize_with = "null_as_default")]
    addresses: Vec<EndpointAddress>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct EndpointAddress {
    #[serde(deserialize_with = "null_as_default")]
    ip: String,
    #[serde(rename = "nodeName")]
    #[serde(deserialize_with = "null_as_default")]
    node: String,
}

/// Reads null like an absent field.
fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// The port number of the port with this name.
fn port_number(ports: &[Port], name: &str) -> Option<u16> {
    ports.iter().filter(|it| it.name == name).find_map(|it| it.port)
}

fn address(ip: &str, port: u16) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

/// The first addresses of the ready endpoints in a slice, at the port with this name.
fn slice_addresses(slice: EndpointSlice, port: &str, nodes: &mut Nodes<'_>) -> Vec<String> {
    let Some(port) = port_number(&slice.ports, port) else {
        return Vec::new();
    };
    let endpoints = slice.endpoints.into_iter();
    endpoints
        .filter(|it| it.conditions.ready != Some(false) && !nodes.is_simulated(&it.node))
        .flat_map(|it| it.addresses)
        .take(MAX_ADDRESSES)
        .map(|ip| address(&ip, port))
        .collect()
}

/// The first addresses in an Endpoints object, at the port with this name.
fn endpoints_addresses(endpoints: Endpoints, port: &str, nodes: &mut Nodes<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for subset in endpoints.subsets {
        let Some(port) = port_number(&subset.ports, port) else { continue };
        let room = MAX_ADDRESSES - found.len();
        let real = subset.addresses.iter().filter(|it| !nodes.is_simulated(&it.node));
        found.extend(real.take(room).map(|it| address(&it.ip, port)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::{Value, json};

    fn slice(endpoints: &Value) -> EndpointSlice {
        let ports = json!([{"name": "metrics", "port": 9}, {"name": "hook", "port": 8443}]);
        serde_json::from_value(json!({"ports": ports, "endpoints": endpoints})).unwrap()
    }

    #[test]
    fn only_ready_endpoints_are_used_at_the_named_port() {
        let endpoints = json!([
            {"addresses": ["10.0.0.1"]},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
            {"addresses": ["fd00::1"], "conditions": {"ready": true}},
        ]);
        let nodes = &mut Nodes::new(&|_| false);
        let found = slice_addresses(slice(&endpoints), "hook", nodes);
        assert_eq!(found, ["10.0.0.1:8443", "[fd00::1]:8443"]);
        assert!(slice_addresses(slice(&endpoints), "absent", nodes).is_empty());
    }

    #[test]
    fn the_number_of_addresses_is_limited() {
        let addresses: Vec<String> = (0..1000).map(|n| format!("10.0.0.{n}")).collect();
        let nodes = &mut Nodes::new(&|_| false);
        let found = slice_addresses(slice(&json!([{"addresses": addresses}])), "hook", nodes);
        assert_eq!(found.len(), MAX_ADDRESSES);
    }

    #[test]
    fn endpoints_objects_are_used_like_endpoint_slices() {
        let endpoints = json!({"subsets": [
            {"ports": [{"port": 443}], "addresses": [{"ip": "10.0.0.1"}]},
            {"ports": [{"port": 1, "name": "x"}], "addresses": [{"ip": "10.0.0.2"}]},
        ]});
        let endpoints = serde_json::from_value(endpoints).unwrap();
        let nodes = &mut Nodes::new(&|_| false);
        assert_eq!(endpoints_addresses(endpoints, "", nodes), ["10.0.0.1:443"]);
    }

    #[test]
    fn simulated_pods_have_no_addresses_that_are_called() {
        let nodes = &mut Nodes::new(&|node| node == "simulated");
        let endpoints = json!([
            {"addresses": ["10.0.0.1"], "nodeName": "simulated"},
            {"addresses": ["10.0.0.2"], "nodeName": "real"},
            {"addresses": ["10.0.0.3"]},
        ]);
        let found = slice_addresses(slice(&endpoints), "hook", nodes);
        assert_eq!(found, ["10.0.0.2:8443", "10.0.0.3:8443"]);
        assert!(nodes.found_simulated());
        let endpoints = json!({"subsets": [{"ports": [{"port": 443}], "addresses":
            [{"ip": "10.0.0.1", "nodeName": "simulated"}, {"ip": "10.0.0.2"}]}]});
        let endpoints = serde_json::from_value(endpoints).unwrap();
        assert_eq!(endpoints_addresses(endpoints, "", nodes), ["10.0.0.2:443"]);
    }

    #[test]
    fn a_service_is_resolved_again_only_when_its_objects_change() {
        let services = ResolvedServices::default();
        let reference = ServiceReference::from_value(&json!({"namespace": "n", "name": "s"}));
        let first = services.slot(&reference, [1, 1, 1], 7);
        assert_eq!(services.current(&reference, [1, 1, 1]), None);
        first.set(Ok(["a:1".to_owned()].into())).unwrap();
        assert!(services.current(&reference, [1, 1, 1]).is_some());
        assert_eq!(services.current(&reference, [1, 2, 1]), None);
        assert!(Arc::ptr_eq(&first, &services.slot(&reference, [1, 2, 1], 7)));
        assert!(!Arc::ptr_eq(&first, &services.slot(&reference, [1, 3, 1], 8)));
    }
}
