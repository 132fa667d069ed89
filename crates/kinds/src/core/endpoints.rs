//! `Endpoints`: all addresses of a service in one object; superseded by `EndpointSlice`.

use crate::table;
use crate::validation::address;
use crate::validation::rules::{dns_label, dns_subdomain, one_of, port, qualified_name};
use machinery::fields::{default_text, list, maps_mut, number, part, same, text, top};
use machinery::{ErrorList, Object, Path, Value};
use types::columns::{AGE, NAME, age, column};
use types::resource::{Column, Columns, Now, Resource, Strategy, Version};

/// The resource of the kind `Endpoints`.
pub fn resource() -> Resource {
    let deprecation = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
    let version = Version {
        deprecation: Some(deprecation.to_owned()),
        ..table::v1("core/v1.Endpoints", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["ep".to_owned()],
        prefix: "/registry/services/endpoints".to_owned(),
        ..table::resource("", "Endpoints", "endpoints", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    validate,
    validate_update: |new, old, errors| {
        if !same(top(new, "subsets"), top(old, "subsets")) {
            validate(new, errors);
        }
    },
    create_on_update: true,
    warnings,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    column("Endpoints", "The ready addresses with their ports, of which at most three are shown."),
    AGE,
];

const ADDRESSES: [&str; 2] = ["addresses", "notReadyAddresses"];

fn subsets(object: &Object) -> &[Value] {
    top(object, "subsets").as_array().map_or(&[], Vec::as_slice)
}

/// The number of address-port pairs in the table's cell.
const SHOWN_MAX: usize = 3;

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    // Each address is shown with each port. Pairs beyond the limit are only counted, since a large
    // object has too many to format them all.
    let (mut shown, mut count) = (Vec::new(), 0_usize);
    for subset in subsets(object) {
        let (addresses, ports) = (list(subset, "addresses"), list(subset, "ports"));
        count = count.saturating_add(addresses.len().saturating_mul(ports.len().max(1)));
        let left = SHOWN_MAX - shown.len();
        if ports.is_empty() {
            shown.extend(addresses.iter().take(left).map(|it| text(it, "ip").to_owned()));
        }
        let pairs = ports.iter().flat_map(|port| addresses.iter().map(move |it| (it, port)));
        shown.extend(pairs.take(left).map(|(address, port)| {
            let (ip, port) = (text(address, "ip"), number(port, "port"));
            if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
        }));
    }
    let shown = match (subsets(object), count.saturating_sub(SHOWN_MAX)) {
        ([], _) => "<none>".to_owned(),
        (_, 0) => shown.join(","),
        (_, more) => format!("{} + {more} more...", shown.join(",")),
    };
    vec![object.name().into(), shown.into(), age(object, now)]
}

fn defaults(object: &mut Object) {
    for subset in maps_mut(object.map_mut(), "subsets") {
        for port in maps_mut(subset, "ports") {
            default_text(port, "protocol", "TCP");
        }
    }
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let path = Path::root("subsets");
    for (index, subset) in subsets(object).iter().enumerate() {
        let path = path.index(index);
        if ADDRESSES.iter().all(|key| list(subset, key).is_empty()) {
            errors.required(&path, "must specify `addresses` or `notReadyAddresses`");
        }
        for key in ADDRESSES {
            let path = path.child(key);
            for (index, address) in list(subset, key).iter().enumerate() {
                validate_address(errors, &path.index(index), address);
            }
        }
        let ports = list(subset, "ports");
        let path = path.child("ports");
        for (index, port) in ports.iter().enumerate() {
            validate_port(errors, &path.index(index), port, ports.len() > 1);
        }
    }
}

fn validate_address(errors: &mut ErrorList, path: &Path<'_>, address: &Value) {
    let ip = text(address, "ip");
    address::ip(errors, &path.child("ip"), ip, &address::Stored::new());
    let host = text(address, "hostname");
    if !host.is_empty() {
        dns_label(errors, &path.child("hostname"), host);
    }
    if let Some(node) = part(address, "nodeName").and_then(Value::as_str) {
        dns_subdomain(errors, &path.child("nodeName"), node);
    }
    address::endpoint_ip(errors, &path.child("ip"), ip);
}

fn validate_port(errors: &mut ErrorList, path: &Path<'_>, value: &Value, is_name_required: bool) {
    let name = text(value, "name");
    if !name.is_empty() {
        dns_label(errors, &path.child("name"), name);
    } else if is_name_required {
        errors.required(&path.child("name"), "");
    }
    port(errors, &path.child("port"), number(value, "port"));
    one_of(errors, &path.child("protocol"), text(value, "protocol"), &["SCTP", "TCP", "UDP"]);
    if let Some(protocol) = part(value, "appProtocol").and_then(Value::as_str) {
        qualified_name(errors, &path.child("appProtocol"), protocol);
    }
}

fn warnings(object: &Object) -> Vec<String> {
    if object.label("endpoints.kubernetes.io/managed-by") == Some("endpoint-controller") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let path = Path::root("subsets");
    for (index, subset) in subsets(object).iter().enumerate() {
        let path = path.index(index);
        for key in ADDRESSES {
            let path = path.child(key);
            for (index, address) in list(subset, key).iter().enumerate() {
                let path = path.index(index);
                found.extend(address::ip_warning(&path.child("ip"), text(address, "ip")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{object, refusals};
    use machinery::json;

    #[test]
    fn a_subset_requires_addresses_that_are_not_loopback() {
        assert_eq!(
            refusals(
                &STRATEGY,
                json!({"subsets": [{}, {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 0}]}]})
            ),
            [
                "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
                r#"subsets[1].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#,
                "subsets[1].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ]
        );
    }

    #[test]
    fn the_table_shows_each_address_with_each_port() {
        let endpoints = object(json!({"metadata": {"name": "e"}, "subsets": [
            {"addresses": [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}], "ports": [{"port": 80}, {"port": 81}]}]}));
        let cells = cells(&endpoints, &Now { unix_seconds: 0 });
        assert_eq!(cells[1], "10.0.0.1:80,[2001:db8::1]:80,10.0.0.1:81 + 1 more...");
    }
}
