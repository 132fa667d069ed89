//! The addresses and node ports that are allocated to services: reads those that a service requests
//! or holds, and sets allocated ones.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use super::{ip_families, is_headless, kind, needs_health_check, spec_of};
use crate::validation::address;
use machinery::fields::{boolean, list, list_mut, number, text, texts};
use machinery::{ErrorList, Map, Object, Path, Value};

/// The range of node ports.
pub const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// Whether an address must be allocated to the service. A service that requests an IP family that
/// the cluster does not have gets no address, and its validation fails.
pub fn wants_cluster_ip(service: &Object) -> bool {
    let spec = spec_of(service);
    let has_none = text(spec, "clusterIP").is_empty() && list(spec, "clusterIPs").is_empty();
    if kind(spec) == "ExternalName" || !has_none {
        return false;
    }
    let mut errors = ErrorList::new();
    ip_families::validate(service, None, &mut errors);
    errors.is_empty()
}

/// The addresses that the service has or requests, without `None`.
pub fn cluster_ips(service: &Object) -> Vec<String> {
    let spec = spec_of(service);
    if kind(spec) == "ExternalName" || is_headless(spec) {
        return Vec::new();
    }
    let single = text(spec, "clusterIP");
    if list(spec, "clusterIPs").is_empty() && !matches!(single, "" | "None") {
        return vec![single.to_owned()];
    }
    texts(spec, "clusterIPs").map(str::to_owned).collect()
}

/// The IPv4 addresses among [`cluster_ips`]; the cluster allocates no others.
pub fn held_cluster_ips(service: &Object) -> Vec<Ipv4Addr> {
    let parse = |text: &str| match address::parse(text) {
        Some(IpAddr::V4(address)) => Some(address),
        Some(IpAddr::V6(_)) | None => None,
    };
    cluster_ips(service).iter().filter_map(|text| parse(text)).collect()
}

/// The addresses that a service requests and does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterIpRequest {
    /// No address.
    Nothing,
    /// Any free address.
    Any,
    /// These addresses, at most two.
    Named(Vec<String>),
}

/// The addresses that a service requests and that `old` does not hold. Their number and form are
/// validated first; the errors are those of the service's validation.
///
/// Upstream: `alloc.go` `initIPFamilyFields`, which comes before anything is allocated.
pub fn cluster_ip_request(
    service: &Object,
    old: Option<&Object>,
) -> Result<ClusterIpRequest, ErrorList> {
    if wants_cluster_ip(service) {
        return Ok(ClusterIpRequest::Any);
    }
    let held: HashSet<String> = old.map(cluster_ips).into_iter().flatten().collect();
    let mut named = cluster_ips(service);
    named.retain(|address| !held.contains(address));
    if named.is_empty() {
        return Ok(ClusterIpRequest::Nothing);
    }
    let mut errors = ErrorList::new();
    ip_families::validate(service, old, &mut errors);
    if errors.is_empty() { Ok(ClusterIpRequest::Named(named)) } else { Err(errors) }
}

/// Sets the allocated address.
pub fn set_cluster_ip(service: &mut Object, address: &str) {
    let spec = service.map_at(&["spec"]);
    spec.insert("clusterIP".to_owned(), address.into());
    spec.insert("clusterIPs".to_owned(), vec![address].into());
}

/// Whether node ports must be allocated to the ports that have none.
pub fn wants_node_ports(service: &Object) -> bool {
    let spec = spec_of(service);
    match kind(spec) {
        "NodePort" => true,
        "LoadBalancer" => boolean(spec, "allocateLoadBalancerNodePorts").unwrap_or(true),
        _ => false,
    }
}

/// The port and the node port of each of the service's ports; 0 if it is not set.
pub fn service_ports(service: &Object) -> impl Iterator<Item = (i64, i64)> {
    let ports = list(spec_of(service), "ports").iter();
    ports.map(|port| (number(port, "port"), number(port, "nodePort")))
}

/// The first requested node port for each port number. A port without one shares that of another
/// with the same number, such as 53 for TCP and UDP.
pub fn shared_node_ports(service: &Object) -> HashMap<i64, i64> {
    let mut shared = HashMap::new();
    for (number, node_port) in service_ports(service).filter(|(_, node_port)| *node_port != 0) {
        shared.entry(number).or_insert(node_port);
    }
    shared
}

/// Sets the allocated node port of the port at `index`.
pub fn set_node_port(service: &mut Object, index: usize, node_port: u16) {
    let ports = list_mut(service.map_at(&["spec"]), "ports");
    if let Some(port) = ports.get_mut(index).and_then(Value::as_object_mut) {
        port.insert("nodePort".to_owned(), node_port.into());
    }
}

/// Whether a health check node port must be allocated.
pub fn wants_health_check_port(service: &Object) -> bool {
    let spec = spec_of(service);
    needs_health_check(spec) && number(spec, "healthCheckNodePort") == 0
}

/// Sets the allocated health check node port.
pub fn set_health_check_port(service: &mut Object, port: u16) {
    let spec: &mut Map<String, Value> = service.map_at(&["spec"]);
    spec.insert("healthCheckNodePort".to_owned(), port.into());
}

/// All node ports that the service has or requests, including the health check node port; each
/// once.
pub fn node_ports(service: &Object) -> Vec<u16> {
    let spec = spec_of(service);
    let mut ports: Vec<u16> = service_ports(service)
        .map(|(_, node_port)| node_port)
        .chain([number(spec, "healthCheckNodePort")])
        .filter_map(|port| u16::try_from(port).ok().filter(|port| *port != 0))
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Adds the error about a requested address that cannot be allocated; `why` is `provided IP is
/// already allocated` or similar.
pub fn refuse_cluster_ip(service: &Object, address: &str, why: &str, errors: &mut ErrorList) {
    let path = Path::root("spec");
    let requested: Vec<&str> = texts(spec_of(service), "clusterIPs").collect();
    let message = format!("failed to allocate IP {address}: {why}");
    errors.invalid(&path.child("clusterIPs"), machinery::json!(requested), &message);
}

/// Adds the error about the requested node port of the port at `index`, which cannot be allocated.
pub fn refuse_node_port(index: usize, node_port: i64, why: &str, errors: &mut ErrorList) {
    let spec = Path::root("spec");
    let path = spec.child("ports");
    errors.invalid(&path.index(index).child("nodePort"), node_port, why);
}

/// The error about a port outside of the node port range.
pub fn outside_of_range() -> String {
    format!(
        "provided port is not in the valid range. The range of valid ports is {}-{}",
        NODE_PORTS.start(),
        NODE_PORTS.end()
    )
}

/// The health check node port that the service has or requests.
pub fn health_check_port(service: &Object) -> Option<i64> {
    let spec = spec_of(service);
    Some(number(spec, "healthCheckNodePort")).filter(|it| needs_health_check(spec) && *it != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{lines, object};
    use machinery::json;

    fn service(spec: Value) -> Object {
        object(json!({"spec": spec}))
    }

    #[test]
    fn headless_and_external_name_services_get_no_address() {
        assert!(wants_cluster_ip(&service(json!({"type": "ClusterIP"}))));
        assert!(!wants_cluster_ip(&service(json!({"type": "ExternalName"}))));
        let headless = json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]});
        assert!(!wants_cluster_ip(&service(headless.clone())));
        assert_eq!(cluster_ips(&service(headless)), Vec::<String>::new());
    }

    #[test]
    fn allocated_values_are_set() {
        let mut it = service(
            json!({"type": "NodePort", "ports": [{"port": 80}, {"port": 81, "nodePort": 30081}]}),
        );
        assert_eq!(service_ports(&it).collect::<Vec<_>>(), [(80, 0), (81, 30081)]);
        assert_eq!(shared_node_ports(&it), HashMap::from([(81, 30081)]));
        set_node_port(&mut it, 0, 30080);
        set_cluster_ip(&mut it, "10.0.0.5");
        assert_eq!(node_ports(&it), [30080, 30081]);
        assert_eq!(cluster_ips(&it), ["10.0.0.5"]);
        assert!(!wants_cluster_ip(&it));
    }

    #[test]
    fn too_many_addresses_are_refused_before_any_is_allocated() {
        let addresses: Vec<String> = (0..300).map(|n| format!("10.0.{}.{}", n / 250, n)).collect();
        let it = service(json!({"type": "ClusterIP", "clusterIP": "10.0.0.0",
            "clusterIPs": addresses}));
        let errors = cluster_ip_request(&it, None).unwrap_err();
        assert!(lines(&errors).iter().any(|it| it.ends_with("may only hold up to 2 values")));
    }

    #[test]
    fn held_addresses_are_not_requested_again() {
        let spec = |address: &str| {
            json!({"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address],
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"})
        };
        let (it, other) = (service(spec("10.0.0.5")), service(spec("10.0.0.6")));
        let named = ClusterIpRequest::Named(vec!["10.0.0.5".to_owned()]);
        assert_eq!(cluster_ip_request(&it, None).unwrap(), named);
        assert_eq!(cluster_ip_request(&it, Some(&other)).unwrap(), named);
        assert_eq!(cluster_ip_request(&it, Some(&it)).unwrap(), ClusterIpRequest::Nothing);
    }
}
