//! `EndpointSlice`: some of the addresses behind a service.

use std::collections::HashSet;

use crate::table;
use crate::validation::address;
use crate::validation::rules::{
    add_invalid, declared_immutable, dns_label, dns_subdomain, labels, one_of, qualified_name,
    supported_only,
};
use machinery::fields::{at, default_value, integer, list, maps_mut, part, same, text, texts, top};
use machinery::{ErrorList, Object, Path, Value, names};
use types::columns::{AGE, NAME, age, column, first_of};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `EndpointSlice`.
pub fn resource() -> Resource {
    let version = table::v1("discovery/v1.EndpointSlice", Columns::Fixed(COLUMNS, cells));
    table::resource("discovery.k8s.io", "EndpointSlice", "endpointslices", &STRATEGY, version)
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create: drop_deprecated_topology,
    prepare_update,
    validate: |object, errors| {
        validate_type_and_ports(object, errors);
        validate_endpoints(object, errors);
    },
    validate_update,
    generation: true,
    warnings: |slice| warnings(slice, None),
    update_warnings: Some(|new, old| warnings(new, Some(old))),
    ..Strategy::DEFAULT
};

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20000;
const MAX_HINTS: usize = 8;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "AddressType",
        "The type of the addresses of all endpoints in the slice: IPv4, IPv6 or FQDN.",
    ),
    column("Ports", "The ports of every endpoint of the slice; at most three are shown."),
    column(
        "Endpoints",
        "The addresses of the endpoints in the slice, of which at most three are shown.",
    ),
    AGE,
];

/// The maximum number of ports and of addresses that are shown.
const MAX_SHOWN: usize = 3;

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let ports: Vec<String> = parts(object, "ports")
        .iter()
        .map(|port| match (integer(port, "port"), part(port, "name").and_then(Value::as_str)) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => "*".to_owned(),
        })
        .collect();
    let addresses: Vec<String> = parts(object, "endpoints")
        .iter()
        .flat_map(|endpoint| texts(endpoint, "addresses"))
        .map(str::to_owned)
        .collect();
    let shown = |items: &[String]| match items {
        [] => "<unset>".to_owned(),
        items => first_of(items, MAX_SHOWN, ","),
    };
    vec![
        object.name().into(),
        object.str_at(&["addressType"]).into(),
        shown(&ports).into(),
        shown(&addresses).into(),
        age(object, now),
    ]
}

fn parts<'a>(slice: &'a Object, key: &str) -> &'a [Value] {
    top(slice, key).as_array().map_or(&[], Vec::as_slice)
}

fn defaults(object: &mut Object) {
    for port in maps_mut(object.map_mut(), "ports") {
        default_value(port, "name", "".into());
        default_value(port, "protocol", "TCP".into());
    }
}

/// Removes the field for data of an older API version, which clients of this version cannot set.
fn drop_deprecated_topology(object: &mut Object) {
    for endpoint in maps_mut(object.map_mut(), "endpoints") {
        endpoint.remove("deprecatedTopology");
    }
}

fn prepare_update(new: &mut Object, old: &Object) {
    if !same(top(new, "endpoints"), top(old, "endpoints")) {
        drop_deprecated_topology(new);
    }
    let labels = |object| at(top(object, "metadata"), &["labels"]);
    if !same(labels(new), labels(old)) {
        // One of the labels names the service of the slice.
        new.set_meta("generation", old.generation() + 1);
    }
}

fn validate_type_and_ports(object: &Object, errors: &mut ErrorList) {
    let kinds = &["FQDN", "IPv4", "IPv6"];
    one_of(errors, &Path::root("addressType"), object.str_at(&["addressType"]), kinds);
    validate_ports(object, errors);
}

fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate_type_and_ports(new, errors);
    if !same(top(new, "endpoints"), top(old, "endpoints")) {
        validate_endpoints(new, errors);
    }
    let path = Path::root("addressType");
    declared_immutable(errors, &path, top(new, "addressType"), top(old, "addressType"));
}

fn validate_ports(object: &Object, errors: &mut ErrorList) {
    let path = Path::root("ports");
    let ports = parts(object, "ports");
    if ports.len() > MAX_PORTS {
        return errors.too_many(&path, ports.len(), MAX_PORTS);
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            dns_label(errors, &path.child("name"), name);
        }
        if seen.contains(&name) {
            errors.duplicate(&path.child("name"), name);
        }
        seen.insert(name);
        let protocols = &["SCTP", "TCP", "UDP"];
        supported_only(errors, &path.child("protocol"), text(port, "protocol"), protocols);
        if let Some(protocol) = part(port, "appProtocol").and_then(Value::as_str) {
            qualified_name(errors, &path.child("appProtocol"), protocol);
        }
    }
}

fn validate_endpoints(object: &Object, errors: &mut ErrorList) {
    let path = Path::root("endpoints");
    let endpoints = parts(object, "endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        return errors.too_many(&path, endpoints.len(), MAX_ENDPOINTS);
    }
    let kind = object.str_at(&["addressType"]);
    for (index, endpoint) in endpoints.iter().enumerate() {
        validate_endpoint(errors, &path.index(index), endpoint, kind);
    }
}

fn validate_endpoint(errors: &mut ErrorList, path: &Path<'_>, endpoint: &Value, kind: &str) {
    let addresses = list(endpoint, "addresses");
    let addresses_path = path.child("addresses");
    if addresses.is_empty() {
        errors.required(&addresses_path, "");
    } else if addresses.len() > MAX_ADDRESSES {
        errors.too_many(&addresses_path, addresses.len(), MAX_ADDRESSES);
    }
    for (index, address) in texts(endpoint, "addresses").enumerate() {
        validate_address(errors, &addresses_path, index, address, kind);
    }
    if let Some(node) = part(endpoint, "nodeName").and_then(Value::as_str) {
        dns_subdomain(errors, &path.child("nodeName"), node);
    }
    labels(errors, &path.child("deprecatedTopology"), at(endpoint, &["deprecatedTopology"]));
    if let Some(host) = part(endpoint, "hostname").and_then(Value::as_str) {
        dns_label(errors, &path.child("hostname"), host);
    }
    let hints = at(endpoint, &["hints"]);
    let path = path.child("hints");
    validate_hints(errors, &path.child("forZones"), list(hints, "forZones"), names::label_value);
    validate_hints(
        errors,
        &path.child("forNodes"),
        list(hints, "forNodes"),
        names::dns1123_subdomain,
    );
}

fn validate_address(
    errors: &mut ErrorList,
    path: &Path<'_>,
    index: usize,
    value: &str,
    kind: &str,
) {
    let before = errors.len();
    let item = path.index(index);
    match kind {
        "IPv4" => address::ip(errors, &item, value, &address::Stored::new()),
        "IPv6" => add_invalid(errors, &item, value, address::canonical_ip(value)),
        "FQDN" => return validate_domain(errors, &item, value),
        _ => return,
    }
    if errors.len() > before {
        return;
    }
    if address::is_ipv6(value) != (kind == "IPv6") {
        errors.invalid(path, value, &format!("must be an {kind} address"));
    }
    address::endpoint_ip(errors, &item, value);
}

/// Validates a domain of at least two labels, with an optional dot at its end.
fn validate_domain(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let found = names::dns1123_subdomain(name);
    if !found.is_empty() {
        return errors.invalid(path, name, &found.join(","));
    }
    if !name.contains('.') {
        let message = "should be a domain with at least two segments separated by dots";
        return errors.invalid(path, name, message);
    }
    let invalid = name.split('.').find(|label| !names::dns1123_label(label).is_empty());
    if let Some(label) = invalid {
        errors.invalid(path, label, &names::dns1123_label(label).join(","));
    }
}

fn validate_hints(errors: &mut ErrorList, path: &Path<'_>, hints: &[Value], rule: names::NameRule) {
    if hints.len() > MAX_HINTS {
        return errors.too_many(path, hints.len(), MAX_HINTS);
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, hint) in hints.iter().enumerate() {
        let path = path.index(index);
        let (path, name) = (path.child("name"), text(hint, "name"));
        if seen.contains(&name) {
            errors.duplicate(&path, name);
        }
        seen.insert(name);
        add_invalid(errors, &path, name, rule(name));
    }
}

fn warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let mut found = Vec::new();
    if old.is_none() && object.str_at(&["addressType"]) == "FQDN" {
        found.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let controllers =
        ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
    let manager = object.label("endpointslice.kubernetes.io/managed-by");
    if manager.is_some_and(|manager| controllers.contains(&manager)) {
        return found;
    }
    let path = Path::root("endpoints");
    for (index, endpoint) in parts(object, "endpoints").iter().enumerate() {
        let path = path.index(index);
        let path = path.child("addresses");
        for (index, address) in texts(endpoint, "addresses").enumerate() {
            found.extend(address::ip_warning(&path.index(index), address));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{object, refusals, refusals_of_update};
    use machinery::json;

    fn slice(kind: &str, addresses: &[&str]) -> Value {
        json!({"addressType": kind, "endpoints": [{"addresses": addresses}]})
    }

    #[test]
    fn addresses_must_have_the_address_type_of_the_slice() {
        assert_eq!(refusals(&STRATEGY, slice("IPv4", &["10.0.0.1"])), Vec::<String>::new());
        assert_eq!(
            refusals(&STRATEGY, slice("IPv4", &["2001:db8::1"])),
            [r#"endpoints[0].addresses: Invalid value: "2001:db8::1": must be an IPv4 address"#]
        );
        assert_eq!(
            refusals(&STRATEGY, slice("FQDN", &["local"])),
            [
                r#"endpoints[0].addresses[0]: Invalid value: "local": should be a domain with at least two segments separated by dots"#
            ]
        );
        assert_eq!(
            refusals(&STRATEGY, slice("", &[])),
            ["addressType: Required value", "endpoints[0].addresses: Required value"]
        );
    }

    #[test]
    fn the_address_type_is_immutable() {
        assert_eq!(
            refusals_of_update(&STRATEGY, slice("FQDN", &["a.b"]), slice("IPv4", &["10.0.0.1"])),
            ["addressType: Invalid value: null: field is immutable"]
        );
    }

    #[test]
    fn changed_labels_increment_the_generation() {
        let old = object(json!({"metadata": {"generation": 3, "labels": {"a": "1"}}}));
        let mut new = object(json!({"metadata": {"generation": 3, "labels": {"a": "2"}}}));
        prepare_update(&mut new, &old);
        assert_eq!(new.generation(), 4);
    }

    #[test]
    fn the_table_shows_ports_and_addresses() {
        let slice = object(json!({"metadata": {"name": "s"}, "addressType": "IPv4",
            "ports": [{"port": 80}, {"name": "x"}], "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]}));
        let mut cells = cells(&slice, &Now { unix_seconds: 0 });
        cells.pop();
        assert_eq!(cells, ["s", "IPv4", "80,x", "10.0.0.1,10.0.0.2"]);
    }
}
