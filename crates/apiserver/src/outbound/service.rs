//! From a reference to a service to the addresses behind it. No proxy stands between this server
//! and the pods, so it goes to the endpoints themselves.

use super::{Destination, Trust};
use crate::plane::Plane;
use machinery::{Object, Value};
use std::sync::Arc;

/// Why a reference leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Nowhere {
    /// There is no such service.
    #[error("service {0:?} not found")]
    MissingService(String),
    /// It does not listen there.
    #[error("no service port {port} found for service {service:?}")]
    ClosedPort {
        /// Its name.
        service: String,
        /// The port that was asked for.
        port: u16,
    },
    /// Nobody stands behind it.
    #[error("no endpoints available for service {0:?}")]
    Deserted(String),
}

/// `service` in the configuration of a webhook, a conversion or an aggregated API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceReference {
    /// Of the service.
    pub namespace: String,
    /// Of the service.
    pub name: String,
    /// One of its ports.
    pub port: u16,
    /// Where its requests go, or "".
    pub path: String,
}

impl ServiceReference {
    /// From its manifest.
    pub(crate) fn from_value(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let port = value["port"].as_u64().and_then(|it| u16::try_from(it).ok()).unwrap_or(443);
        Self { namespace: text("namespace"), name: text("name"), port, path: text("path") }
    }

    /// The name that its certificate must have, and that its requests are addressed to.
    pub(crate) fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// `https://name.namespace.svc:443`, to which a path is appended.
    pub(crate) fn origin(&self) -> String {
        format!("https://{}:{}", self.host(), self.port)
    }

    /// Where it leads now.
    pub(crate) fn destination(&self, plane: &Plane, trust: Trust) -> Result<Destination, Nowhere> {
        let addresses = self.addresses(plane)?;
        Ok(Destination { server_name: self.host(), addresses, trust, identity: None })
    }

    fn addresses(&self, plane: &Plane) -> Result<Vec<String>, Nowhere> {
        let catalog = plane.catalog.load();
        let found = |group: &str, plural: &str| {
            Arc::clone(catalog.resource(group, plural).expect("the kind is built in"))
        };
        let services = found("", "services");
        let Some(service) = services.cache.get(&services.key(&self.namespace, &self.name)) else {
            return Err(Nowhere::MissingService(self.name.clone()));
        };
        let service = service.object_as_stored();
        if service.str_at(&["spec", "type"]) == "ExternalName" {
            let name = service.str_at(&["spec", "externalName"]);
            return Ok(vec![format!("{name}:{}", self.port)]);
        }
        let ports = items(service.get(&["spec", "ports"]));
        let mut ports = ports.filter(|it| it["port"].as_u64() == Some(self.port.into()));
        let Some(port) = ports.next().map(|it| it["name"].as_str().unwrap_or_default()) else {
            return Err(Nowhere::ClosedPort { service: self.name.clone(), port: self.port });
        };
        let slices = found("discovery.k8s.io", "endpointslices");
        let snapshot = slices.cache.snapshot();
        let label = "kubernetes.io/service-name";
        let mut addresses: Vec<String> = snapshot
            .under(&slices.key(&self.namespace, ""), None)
            .filter(|it| it.label(label) == Some(&*self.name))
            .flat_map(|slice| of_slice(&slice.object_as_stored(), port))
            .collect();
        if addresses.is_empty() {
            let endpoints = found("", "endpoints");
            let entry = endpoints.cache.get(&endpoints.key(&self.namespace, &self.name));
            addresses
                .extend(entry.iter().flat_map(|it| of_endpoints(&it.object_as_stored(), port)));
        }
        if addresses.is_empty() {
            return Err(Nowhere::Deserted(self.name.clone()));
        }
        Ok(addresses)
    }
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

/// The number of the port with this name.
fn number(ports: Option<&Value>, name: &str) -> Option<u64> {
    let mut named = items(ports).filter(|it| it["name"].as_str().unwrap_or_default() == name);
    named.find_map(|it| it["port"].as_u64())
}

fn address(ip: &str, port: u64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

fn of_slice(slice: &Object, port: &str) -> Vec<String> {
    let Some(port) = number(slice.map().get("ports"), port) else { return Vec::new() };
    items(slice.map().get("endpoints"))
        .filter(|it| it["conditions"]["ready"] != Value::Bool(false))
        .flat_map(|it| items(it.get("addresses")))
        .filter_map(Value::as_str)
        .map(|ip| address(ip, port))
        .collect()
}

fn of_endpoints(endpoints: &Object, port: &str) -> Vec<String> {
    let mut found = Vec::new();
    for subset in items(endpoints.map().get("subsets")) {
        let Some(port) = number(subset.get("ports"), port) else { continue };
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
    fn only_ready_endpoints_are_dialed_at_the_port_of_that_name() {
        let slice = json!({
            "ports": [{"name": "metrics", "port": 9}, {"name": "hook", "port": 8443}],
            "endpoints": [
                {"addresses": ["10.0.0.1"]},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
                {"addresses": ["fd00::1"], "conditions": {"ready": true}},
            ],
        });
        let slice = Object::from_value(slice).unwrap();
        assert_eq!(of_slice(&slice, "hook"), ["10.0.0.1:8443", "[fd00::1]:8443"]);
        assert!(of_slice(&slice, "absent").is_empty());
    }

    #[test]
    fn old_endpoints_will_do() {
        let endpoints = json!({"subsets": [
            {"ports": [{"port": 443}], "addresses": [{"ip": "10.0.0.1"}]},
            {"ports": [{"port": 1, "name": "x"}], "addresses": [{"ip": "10.0.0.2"}]},
        ]});
        let endpoints = Object::from_value(endpoints).unwrap();
        assert_eq!(of_endpoints(&endpoints, ""), ["10.0.0.1:443"]);
    }
}
