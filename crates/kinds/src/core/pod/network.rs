//! Validation of the network settings of a pod: DNS, host names, host ports.

use crate::validation::address::{self, Stored};
use crate::validation::rules::{add_invalid, dns_label, dns_subdomain, one_of};
use machinery::fields::{boolean, flag, list, number, part, text, texts};
use machinery::{ErrorList, Path, Value, json, names};

/// The limits of a DNS configuration.
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARS: usize = 2048;

const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

/// Validates the network settings of a spec; `is_pod` is false for a pod template.
pub(super) fn validate_network(
    errors: &mut ErrorList,
    path: &Path<'_>,
    spec: &Value,
    is_pod: bool,
) {
    one_of(errors, &path.child("dnsPolicy"), text(spec, "dnsPolicy"), DNS_POLICIES);
    validate_dns_config(errors, &path.child("dnsConfig"), spec);
    validate_host_ports(errors, path, spec, is_pod);
    validate_host_name(errors, path, spec);
    for field in ["hostname", "subdomain"] {
        if !text(spec, field).is_empty() {
            dns_label(errors, &path.child(field), text(spec, field));
        }
    }
    let aliases = path.child("hostAliases");
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = aliases.index(index);
        address::ip(errors, &path.child("ip"), text(alias, "ip"), &Stored::new());
        let names = path.child("hostnames");
        for (index, name) in texts(alias, "hostnames").enumerate() {
            dns_subdomain(errors, &names.index(index), name);
        }
    }
}

fn validate_dns_config(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let config = part(spec, "dnsConfig");
    if text(spec, "dnsPolicy") == "None" {
        let Some(config) = config else {
            return errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        };
        if list(config, "nameservers").is_empty() {
            let message = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(&path.child("nameservers"), message);
        }
    }
    let Some(config) = config else { return };
    let servers: Vec<&str> = texts(config, "nameservers").collect();
    let servers_path = path.child("nameservers");
    if servers.len() > MAX_NAMESERVERS {
        let message = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.invalid(&servers_path, json!(servers), &message);
    }
    for (index, server) in servers.iter().enumerate() {
        address::ip(errors, &servers_path.index(index), server, &Stored::new());
    }
    let searches: Vec<&str> = texts(config, "searches").collect();
    let searches_path = path.child("searches");
    if searches.len() > MAX_SEARCHES {
        let message = format!("must not have more than {MAX_SEARCHES} search paths");
        errors.invalid(&searches_path, json!(searches), &message);
    }
    if searches.join(" ").len() > MAX_SEARCH_CHARS {
        let message = format!(
            "must not have more than {MAX_SEARCH_CHARS} characters (including spaces) in the search list"
        );
        errors.invalid(&searches_path, json!(searches), &message);
    }
    for (index, search) in searches.iter().enumerate() {
        if *search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            add_invalid(errors, &searches_path.index(index), search, search_domain(search));
        }
    }
    let options = path.child("options");
    for (index, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.required(&options.index(index), "must not be empty");
        }
    }
}

/// The errors about a search domain; unlike other domains it may have underscores.
fn search_domain(domain: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if domain.len() > names::SUBDOMAIN_MAX {
        messages.push(format!("must be no more than {} characters", names::SUBDOMAIN_MAX));
    }
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_valid = domain.split('.').all(|label| {
        let label = label.strip_prefix('_').unwrap_or(label);
        label.starts_with(is_edge)
            && label.ends_with(is_edge)
            && label.chars().all(|c| is_edge(c) || "-_".contains(c))
    });
    if !is_valid {
        messages.push("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')".to_owned());
    }
    messages
}

/// In the host network, a host port must equal the container port.
fn validate_host_ports(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, is_pod: bool) {
    if !flag(spec, "hostNetwork") {
        return;
    }
    let containers = path.child("containers");
    for (index, container) in list(spec, "containers").iter().enumerate() {
        let path = containers.index(index);
        let ports = path.child("ports");
        for (index, port) in list(container, "ports").iter().enumerate() {
            let host = number(port, "hostPort");
            if (is_pod || host != 0) && host != number(port, "containerPort") {
                let message = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&ports.index(index).child("hostPort"), host, message);
            }
        }
    }
}

fn validate_host_name(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    if part(spec, "hostnameOverride").is_none() {
        return;
    }
    let (path, name) = (path.child("hostnameOverride"), text(spec, "hostnameOverride"));
    if boolean(spec, "setHostnameAsFQDN") == Some(true) {
        errors.forbidden(&path, "may not be specified when setHostnameAsFQDN is true");
    }
    if flag(spec, "hostNetwork") {
        errors.forbidden(&path, "may not be specified when hostNetwork is true");
    }
    if name.len() > 64 {
        errors.too_long(&path, 64);
    }
    dns_subdomain(errors, &path, name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;

    fn check(spec: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate_network(&mut errors, &Path::root("spec"), &spec, true);
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn dns_policy_none_requires_a_dns_config() {
        check(
            json!({"dnsPolicy": "None"}),
            &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        );
        check(
            json!({"dnsPolicy": "Odd"}),
            &[
                r#"spec.dnsPolicy: Unsupported value: "Odd": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None""#,
            ],
        );
    }

    #[test]
    fn more_than_three_and_invalid_nameservers_are_refused() {
        check(
            json!({"dnsPolicy": "Default", "dnsConfig": {"nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3", "x"],
                "searches": ["_sip.example.com.", "."]}}),
            &[
                r#"spec.dnsConfig.nameservers: Invalid value: ["1.1.1.1","2.2.2.2","3.3.3.3","x"]: must not have more than 3 nameservers"#,
                r#"spec.dnsConfig.nameservers[3]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
            ],
        );
    }

    #[test]
    fn host_ports_must_equal_container_ports_in_the_host_network() {
        check(
            json!({"dnsPolicy": "Default", "hostNetwork": true,
                "containers": [{"ports": [{"containerPort": 80, "hostPort": 81}]}]}),
            &[
                "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
            ],
        );
    }
}
