//! Resolves a reference to a Service to the addresses of its endpoints. No kube-proxy is assumed to
//! run on this machine, so requests go to the endpoints directly.

use std::sync::Arc;

use super::Storage;
use crate::outbound::service::{ServiceError, ServiceReference, ServiceResolver};
use machinery::{Object, Value};

impl ServiceResolver for Storage {
    fn addresses(&self, reference: &ServiceReference) -> Result<Vec<String>, ServiceError> {
        let catalog = self.catalog.load();
        let builtin = |group: &str, plural: &str| {
            Arc::clone(catalog.resource(group, plural).expect("the kind is built in"))
        };
        let services = builtin("", "services");
        let Some(service) =
            services.cache.get(&services.key(&reference.namespace, &reference.name))
        else {
            return Err(ServiceError::ServiceNotFound(reference.name.clone()));
        };
        let service = service.object_as_stored();
        if service.str_at(&["spec", "type"]) == "ExternalName" {
            let name = service.str_at(&["spec", "externalName"]);
            return Ok(vec![format!("{name}:{}", reference.port)]);
        }
        let ports = items(service.get(&["spec", "ports"]));
        let mut ports = ports.filter(|it| it["port"].as_u64() == Some(reference.port.into()));
        let Some(port) = ports.next().map(|it| it["name"].as_str().unwrap_or_default()) else {
            return Err(ServiceError::PortNotFound {
                service: reference.name.clone(),
                port: reference.port,
            });
        };
        let slices = builtin("discovery.k8s.io", "endpointslices");
        let snapshot = slices.cache.snapshot();
        let label = "kubernetes.io/service-name";
        let mut addresses: Vec<String> = snapshot
            .under(&slices.key(&reference.namespace, ""), None)
            .filter(|it| it.label(label) == Some(&*reference.name))
            .flat_map(|slice| slice_addresses(&slice.object_as_stored(), port))
            .collect();
        if addresses.is_empty() {
            let endpoints = builtin("", "endpoints");
            let entry = endpoints.cache.get(&endpoints.key(&reference.namespace, &reference.name));
            addresses.extend(
                entry.iter().flat_map(|it| endpoints_addresses(&it.object_as_stored(), port)),
            );
        }
        if addresses.is_empty() {
            return Err(ServiceError::NoEndpoints(reference.name.clone()));
        }
        Ok(addresses)
    }
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

/// The port number of the port with this name.
fn port_number(ports: Option<&Value>, name: &str) -> Option<u64> {
    let mut named = items(ports).filter(|it| it["name"].as_str().unwrap_or_default() == name);
    named.find_map(|it| it["port"].as_u64())
}

fn address(ip: &str, port: u64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

/// The addresses of the ready endpoints in a slice, at the port with this name.
fn slice_addresses(slice: &Object, port: &str) -> Vec<String> {
    let Some(port) = port_number(slice.map().get("ports"), port) else { return Vec::new() };
    items(slice.map().get("endpoints"))
        .filter(|it| it["conditions"]["ready"] != Value::Bool(false))
        .flat_map(|it| items(it.get("addresses")))
        .filter_map(Value::as_str)
        .map(|ip| address(ip, port))
        .collect()
}

fn endpoints_addresses(endpoints: &Object, port: &str) -> Vec<String> {
    let mut found = Vec::new();
    for subset in items(endpoints.map().get("subsets")) {
        let Some(port) = port_number(subset.get("ports"), port) else { continue };
        let addresses = items(subset.get("addresses")).filter_map(|it| it["ip"].as_str());
        found.extend(addresses.map(|ip| address(ip, port)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn only_ready_endpoints_are_used_at_the_named_port() {
        let slice = json!({
            "ports": [{"name": "metrics", "port": 9}, {"name": "hook", "port": 8443}],
            "endpoints": [
                {"addresses": ["10.0.0.1"]},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
                {"addresses": ["fd00::1"], "conditions": {"ready": true}},
            ],
        });
        let slice = Object::from_value(slice).unwrap();
        assert_eq!(slice_addresses(&slice, "hook"), ["10.0.0.1:8443", "[fd00::1]:8443"]);
        assert!(slice_addresses(&slice, "absent").is_empty());
    }

    #[test]
    fn endpoints_objects_are_used_like_endpoint_slices() {
        let endpoints = json!({"subsets": [
            {"ports": [{"port": 443}], "addresses": [{"ip": "10.0.0.1"}]},
            {"ports": [{"port": 1, "name": "x"}], "addresses": [{"ip": "10.0.0.2"}]},
        ]});
        let endpoints = Object::from_value(endpoints).unwrap();
        assert_eq!(endpoints_addresses(&endpoints, ""), ["10.0.0.1:443"]);
    }
}
