//! What is handed out to services: what one wants, what it has, and where it is written down.

use super::{ip_families, is_headless, kind, needs_health_check, spec_of};
use crate::fields::{boolean, list, list_mut, number, text, texts};
use machinery::{Faults, Map, Object, Path, Value};
use std::collections::HashMap;

/// The ports that nodes keep for services.
pub const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// Whether the service is to get an address that it does not have yet. A service that asks for
/// something that the cluster does not have gets none, and is refused by its validation.
pub fn wants_cluster_ip(service: &Object) -> bool {
    let spec = spec_of(service);
    let has_none = text(spec, "clusterIP").is_empty() && list(spec, "clusterIPs").is_empty();
    if kind(spec) == "ExternalName" || !has_none {
        return false;
    }
    let mut faults = Faults::new();
    ip_families::validate(service, None, &mut faults);
    faults.is_empty()
}

/// The addresses that the service has or asks for, without `None`.
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

/// Writes down the address that the service was given.
pub fn set_cluster_ip(service: &mut Object, address: &str) {
    let spec = service.map_at(&["spec"]);
    spec.insert("clusterIP".to_owned(), address.into());
    spec.insert("clusterIPs".to_owned(), vec![address].into());
}

/// The indices and numbers of the ports that are to get a node port that they do not have yet.
pub fn node_ports_wanted(service: &Object) -> Vec<(usize, i64)> {
    let spec = spec_of(service);
    let wanted = match kind(spec) {
        "NodePort" => true,
        "LoadBalancer" => boolean(spec, "allocateLoadBalancerNodePorts").unwrap_or(true),
        _ => false,
    };
    let without = |(_, port): &(usize, &Value)| wanted && number(port, "nodePort") == 0;
    let ports = list(spec, "ports").iter().enumerate().filter(without);
    ports.map(|(index, port)| (index, number(port, "port"))).collect()
}

/// The node port that each of the service's ports has or asks for, 0 for none.
pub fn node_ports_by_index(service: &Object) -> Vec<(usize, u16)> {
    let ports = list(spec_of(service), "ports").iter().enumerate();
    let node_port = |port| u16::try_from(number(port, "nodePort")).unwrap_or(0);
    ports.map(|(index, port)| (index, node_port(port))).collect()
}

/// The node ports that the service's ports have, by the number of the port. A port without one shares
/// that of another with the same number: 53 for TCP and UDP is one port to people.
pub fn shared_node_ports(service: &Object) -> HashMap<i64, u16> {
    let mut shared = HashMap::new();
    for port in list(spec_of(service), "ports") {
        let node_port = u16::try_from(number(port, "nodePort")).unwrap_or(0);
        if node_port != 0 {
            shared.entry(number(port, "port")).or_insert(node_port);
        }
    }
    shared
}

/// Writes down the node port that a port was given.
pub fn set_node_port(service: &mut Object, index: usize, node_port: u16) {
    let ports = list_mut(service.map_at(&["spec"]), "ports");
    if let Some(port) = ports.get_mut(index).and_then(Value::as_object_mut) {
        port.insert("nodePort".to_owned(), node_port.into());
    }
}

/// Whether the service is to get a port for health checks that it does not have yet.
pub fn wants_health_check_port(service: &Object) -> bool {
    let spec = spec_of(service);
    needs_health_check(spec) && number(spec, "healthCheckNodePort") == 0
}

/// Writes down the port for health checks that the service was given.
pub fn set_health_check_port(service: &mut Object, port: u16) {
    let spec: &mut Map<String, Value> = service.map_at(&["spec"]);
    spec.insert("healthCheckNodePort".to_owned(), port.into());
}

/// All node ports that the service has or asks for, that for health checks among them; each once.
pub fn node_ports(service: &Object) -> Vec<u16> {
    let spec = spec_of(service);
    let mut ports: Vec<u16> = list(spec, "ports")
        .iter()
        .map(|port| number(port, "nodePort"))
        .chain([number(spec, "healthCheckNodePort")])
        .filter_map(|port| u16::try_from(port).ok().filter(|port| *port != 0))
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Why an address that the service asked for cannot be handed out; `why` is one of
/// `provided IP is already allocated` and the like.
pub fn refuse_cluster_ip(service: &Object, address: &str, why: &str, faults: &mut Faults) {
    let path = Path::root("spec");
    let asked: Vec<&str> = texts(spec_of(service), "clusterIPs").collect();
    let message = format!("failed to allocate IP {address}: {why}");
    faults.invalid(&path.child("clusterIPs"), machinery::json!(asked), &message);
}

/// Why a node port that the service asked for cannot be handed out.
pub fn refuse_node_port(service: &Object, node_port: i64, why: &str, faults: &mut Faults) {
    let spec = Path::root("spec");
    let path = spec.child("ports");
    let ports = list(spec_of(service), "ports");
    let index = ports.iter().position(|port| number(port, "nodePort") == node_port).unwrap_or(0);
    faults.invalid(&path.index(index).child("nodePort"), node_port, why);
}

/// Refuses the first node port that is outside of what nodes keep for services, unless the stored
/// service has it already.
pub fn check_node_port_range(service: &Object, stored: &[u16], faults: &mut Faults) {
    let outside =
        list(spec_of(service), "ports").iter().map(|port| number(port, "nodePort")).find(|port| {
            let number = u16::try_from(*port).unwrap_or(0);
            *port != 0 && !NODE_PORTS.contains(&number) && !stored.contains(&number)
        });
    if let Some(port) = outside {
        refuse_node_port(service, port, &outside_of_range(), faults);
    }
}

/// What is said of a port that nodes do not keep for services.
pub fn outside_of_range() -> String {
    format!(
        "provided port is not in the valid range. The range of valid ports is {}-{}",
        NODE_PORTS.start(),
        NODE_PORTS.end()
    )
}

/// The port for health checks that the service has or asks for.
pub fn health_check_port(service: &Object) -> Option<i64> {
    let spec = spec_of(service);
    Some(number(spec, "healthCheckNodePort")).filter(|it| needs_health_check(spec) && *it != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{lines, object};
    use machinery::json;

    fn service(spec: Value) -> Object {
        object(json!({"spec": spec}))
    }

    #[test]
    fn only_some_services_want_an_address() {
        assert!(wants_cluster_ip(&service(json!({"type": "ClusterIP"}))));
        assert!(!wants_cluster_ip(&service(json!({"type": "ExternalName"}))));
        let headless = json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]});
        assert!(!wants_cluster_ip(&service(headless.clone())));
        assert_eq!(cluster_ips(&service(headless)), Vec::<String>::new());
    }

    #[test]
    fn what_is_given_is_written_down() {
        let mut it = service(
            json!({"type": "NodePort", "ports": [{"port": 80}, {"port": 81, "nodePort": 30081}]}),
        );
        assert_eq!(node_ports_wanted(&it), [(0, 80)]);
        set_node_port(&mut it, 0, 30080);
        set_cluster_ip(&mut it, "10.0.0.5");
        assert_eq!(node_ports(&it), [30080, 30081]);
        assert_eq!(cluster_ips(&it), ["10.0.0.5"]);
        assert!(!wants_cluster_ip(&it) && node_ports_wanted(&it).is_empty());
    }

    #[test]
    fn a_port_outside_of_the_range_is_refused() {
        let mut faults = Faults::new();
        let it = service(json!({"ports": [{"port": 80, "nodePort": 80}]}));
        check_node_port_range(&it, &[], &mut faults);
        assert_eq!(
            lines(&faults),
            [
                "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"
            ]
        );
    }
}
