//! The address of the kubelet of a node.
//!
//! Upstream: `kubelet/client/kubelet_client.go`, `GetConnectionInfo`.

use machinery::{Object, Value};

/// The types of addresses, in order of preference.
const PREFERRED: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

/// The default port of a kubelet.
const PORT: i64 = 10250;

/// `host:port` of the node's kubelet; the error is in Kubernetes' words.
pub fn address(node: &Object) -> Result<String, String> {
    let addresses = node.get(&["status", "addresses"]).and_then(Value::as_array);
    let addresses = addresses.map_or(&[][..], Vec::as_slice);
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    let found = PREFERRED.iter().find_map(|kind| addresses.iter().find(|it| it["type"] == *kind));
    let Some(found) = found else {
        let known =
            addresses.iter().map(|it| format!("{{{} {}}}", text(it, "type"), text(it, "address")));
        let known: Vec<String> = known.collect();
        let known = known.join(" ");
        return Err(format!("no preferred addresses found; known addresses: [{known}]"));
    };
    let port = node.get(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]);
    let port = port.and_then(Value::as_i64).filter(|it| *it > 0).unwrap_or(PORT);
    let host = text(found, "address");
    Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn check(status: Value, expect: Result<&str, &str>) {
        let node = Object::from_value(json!({"status": status})).unwrap();
        assert_eq!(address(&node).as_deref().map_err(String::as_str), expect);
    }

    #[test]
    fn a_host_name_is_preferred_to_an_ip() {
        let addresses = json!([{"type": "InternalIP", "address": "10.1.2.3"},
            {"type": "Hostname", "address": "n"}]);
        check(json!({"addresses": addresses}), Ok("n:10250"));
        let port = json!({"kubeletEndpoint": {"Port": 7}});
        let internal = json!([{"type": "InternalIP", "address": "fd00::1"}]);
        check(json!({"addresses": internal, "daemonEndpoints": port}), Ok("[fd00::1]:7"));
    }

    #[test]
    fn a_node_without_an_address_of_a_known_type_is_an_error() {
        check(json!({}), Err("no preferred addresses found; known addresses: []"));
        let other = json!([{"type": "X", "address": "a"}]);
        check(
            json!({"addresses": other}),
            Err("no preferred addresses found; known addresses: [{X a}]"),
        );
    }
}
