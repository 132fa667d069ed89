//! Validation of services.

use std::collections::HashSet;

use super::{ip_families, is_external, is_headless, kind, needs_health_check, spec_of};
use crate::validation::address::{self, Stored};
use crate::validation::go_struct;
use crate::validation::rules::{
    dns_label, dns_subdomain, labels, one_of, port, port_or_name, qualified_name, supported_only,
};
use machinery::field_path::ErrorType;
use machinery::fields::{annotation, at, integer, list, number, part, text, texts, top};
use machinery::{ErrorList, Object, Path, Value, json};

static SPEC: Path<'static> = Path::root("spec");

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const ONLY_LOAD_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// Validates a new service.
pub(super) fn validate_create(service: &Object, errors: &mut ErrorList) {
    let before = errors.len();
    ip_families::validate(service, None, errors);
    if errors.len() == before {
        validate_service(service, None, errors);
    }
}

/// The rules for both new and updated services.
pub(super) fn validate_service(service: &Object, old: Option<&Object>, errors: &mut ErrorList) {
    let spec = spec_of(service);
    validate_annotations(service, errors);
    if list(spec, "ports").is_empty() && !is_headless(spec) && kind(spec) != "ExternalName" {
        errors.required(&SPEC.child("ports"), "");
    }
    validate_type(spec, errors);
    validate_ports(spec, errors);
    labels(errors, &SPEC.child("selector"), at(spec, &["selector"]));
    validate_affinity(spec, errors);
    ip_families::validate_related_fields(service, old, errors);
    validate_external_ips(spec, old, errors);
    one_of(errors, &SPEC.child("type"), kind(spec), TYPES);
    validate_unique_ports(spec, errors);
    validate_source_ranges(service, old, errors);
    validate_balancer(spec, errors);
    validate_traffic(spec, errors);
}

fn validate_annotations(service: &Object, errors: &mut ErrorList) {
    const MODE: &str = "service.kubernetes.io/topology-mode";
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    if let (Some(mode), Some(hints)) = (service.annotation(MODE), service.annotation(HINTS))
        && mode != hints
    {
        let message = format!("must match annotations[{HINTS}] when both are specified");
        let path = Path::root("metadata");
        errors.invalid(&path.child("annotations").key(MODE), mode, &message);
    }
}

fn validate_type(spec: &Value, errors: &mut ErrorList) {
    match kind(spec) {
        name @ ("LoadBalancer" | "NodePort") if is_headless(spec) => {
            let message = format!("may not be set to 'None' for {name} services");
            errors.invalid(&SPEC.child("clusterIPs").index(0), "None", &message);
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let is_set = part(spec, field)
                    .is_some_and(|value| value.as_array().is_none_or(|items| !items.is_empty()));
                if is_set {
                    errors
                        .forbidden(&SPEC.child(field), "may not be set for ExternalName services");
                }
            }
            let name = text(spec, "externalName");
            match name.strip_suffix('.').unwrap_or(name) {
                "" => errors.required(&SPEC.child("externalName"), ""),
                name => dns_subdomain(errors, &SPEC.child("externalName"), name),
            }
        }
        _ => {}
    }
}

fn validate_ports(spec: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("ports");
    let ports = list(spec, "ports");
    let mut names = HashSet::new();
    for (index, entry) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(entry, "name");
        if !name.is_empty() {
            dns_label(errors, &path.child("name"), name);
            if names.contains(&name) {
                errors.duplicate(&path.child("name"), name);
            }
            names.insert(name);
        } else if ports.len() > 1 {
            errors.required(&path.child("name"), "");
        }
        port(errors, &path.child("port"), number(entry, "port"));
        one_of(errors, &path.child("protocol"), text(entry, "protocol"), PROTOCOLS);
        port_or_name(errors, &path.child("targetPort"), at(entry, &["targetPort"]));
        if part(entry, "appProtocol").is_some() {
            qualified_name(errors, &path.child("appProtocol"), text(entry, "appProtocol"));
        }
    }
}

/// Validates that neither the ports nor the node ports have duplicates.
fn validate_unique_ports(spec: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("ports");
    let (mut node_ports, mut ports) = (HashSet::new(), HashSet::new());
    for (index, entry) in list(spec, "ports").iter().enumerate() {
        let path = path.index(index);
        let protocol = text(entry, "protocol");
        let node_port = number(entry, "nodePort");
        if node_port != 0 {
            if kind(spec) == "ClusterIP" {
                let message = "may not be used when `type` is 'ClusterIP'";
                errors.forbidden(&path.child("nodePort"), message);
            }
            if node_ports.contains(&(protocol, node_port)) {
                errors.duplicate(&path.child("nodePort"), node_port);
            }
            node_ports.insert((protocol, node_port));
        }
        let key = (protocol, number(entry, "port"));
        if ports.contains(&key) {
            let key = json!({"protocol": key.0, "port": key.1});
            let shown = go_struct::line("ServicePort", &key);
            errors.add(ErrorType::Duplicate, &path, None, &shown);
        }
        ports.insert(key);
    }
}

fn validate_affinity(spec: &Value, errors: &mut ErrorList) {
    const MAX_SECONDS: i64 = 86_400;
    const MISSING: &str = "when session affinity type is ClientIP";
    let affinity = text(spec, "sessionAffinity");
    one_of(errors, &SPEC.child("sessionAffinity"), affinity, &["ClientIP", "None"]);
    let path = SPEC.child("sessionAffinityConfig");
    let config = part(spec, "sessionAffinityConfig");
    if affinity == "None" && config.is_some() {
        errors.forbidden(&path, "must not be set when session affinity is None");
    }
    if affinity != "ClientIP" {
        return;
    }
    let Some(config) = config else { return errors.required(&path, MISSING) };
    let path = path.child("clientIP");
    let Some(client) = part(config, "clientIP") else { return errors.required(&path, MISSING) };
    let path = path.child("timeoutSeconds");
    match integer(client, "timeoutSeconds") {
        None => errors.required(&path, MISSING),
        Some(seconds) if !(1..=MAX_SECONDS).contains(&seconds) => {
            let message = format!("must be greater than 0 and less than {MAX_SECONDS}");
            errors.invalid(&path, seconds, &message);
        }
        Some(_) => {}
    }
}

fn validate_external_ips(spec: &Value, old: Option<&Object>, errors: &mut ErrorList) {
    let stored: Stored<'_> =
        old.map(|old| texts(spec_of(old), "externalIPs").collect()).unwrap_or_default();
    let path = SPEC.child("externalIPs");
    for (index, address) in texts(spec, "externalIPs").enumerate() {
        let path = path.index(index);
        let before = errors.len();
        address::ip(errors, &path, address, &stored);
        if errors.len() == before {
            address::endpoint_ip(errors, &path, address);
        }
    }
}

fn validate_source_ranges(service: &Object, old: Option<&Object>, errors: &mut ErrorList) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let spec = spec_of(service);
    let ranges = |spec| texts(spec, "loadBalancerSourceRanges").map(str::trim);
    if ranges(spec).next().is_some() {
        // As upstream, the field is capitalized.
        let path = SPEC.child("LoadBalancerSourceRanges");
        if kind(spec) != "LoadBalancer" {
            errors.forbidden(&path, ONLY_LOAD_BALANCERS);
        }
        let stored: Stored<'_> = old.map(|old| ranges(spec_of(old)).collect()).unwrap_or_default();
        for (index, range) in ranges(spec).enumerate() {
            address::cidr(errors, &path.index(index), range, &stored);
        }
    } else if let Some(value) = annotation(top(service, "metadata"), ANNOTATION) {
        let path = Path::root("metadata");
        let path = path.child("annotations");
        let path = path.key(ANNOTATION);
        if kind(spec) != "LoadBalancer" {
            errors.forbidden(&path, ONLY_LOAD_BALANCERS);
        }
        let is_stored = old.is_some_and(|old| old.annotation(ANNOTATION) == Some(value));
        if !is_stored && !value.trim().is_empty() {
            for range in value.split(',') {
                address::cidr(errors, &path, range.trim(), &Stored::new());
            }
        }
    }
}

fn validate_balancer(spec: &Value, errors: &mut ErrorList) {
    let allocate = part(spec, "allocateLoadBalancerNodePorts");
    if kind(spec) == "LoadBalancer" {
        if allocate.is_none() {
            // As upstream, the path has no `spec`.
            errors.required(&Path::root("allocateLoadBalancerNodePorts"), "");
        }
    } else if allocate.is_some() {
        errors.forbidden(&SPEC.child("allocateLoadBalancerNodePorts"), ONLY_LOAD_BALANCERS);
    }
    validate_class(spec, errors);
}

pub(super) fn validate_class(spec: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("loadBalancerClass");
    if part(spec, "loadBalancerClass").is_none() {
        return;
    }
    if kind(spec) == "LoadBalancer" {
        qualified_name(errors, &path, text(spec, "loadBalancerClass"));
    } else {
        errors.forbidden(&path, ONLY_LOAD_BALANCERS);
    }
}

fn validate_traffic(spec: &Value, errors: &mut ErrorList) {
    const POLICIES: &[&str] = &["Cluster", "Local"];
    let external = text(spec, "externalTrafficPolicy");
    let path = SPEC.child("externalTrafficPolicy");
    if is_external(spec) {
        one_of(errors, &path, external, POLICIES);
    } else if !external.is_empty() {
        errors.invalid(&path, external, "may only be set for externally-accessible services");
    }
    let check = number(spec, "healthCheckNodePort");
    let path = SPEC.child("healthCheckNodePort");
    match (needs_health_check(spec), check) {
        (false, 0) => {}
        (false, check) => {
            let message = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&path, check, message);
        }
        (true, 0) => errors.required(&path, ""),
        (true, check) => port(errors, &path, check),
    }
    let path = SPEC.child("internalTrafficPolicy");
    if part(spec, "internalTrafficPolicy").is_some() {
        supported_only(errors, &path, text(spec, "internalTrafficPolicy"), POLICIES);
    } else if matches!(kind(spec), "NodePort" | "LoadBalancer" | "ClusterIP") {
        errors.required(&path, "");
    }
    if part(spec, "trafficDistribution").is_some() {
        let values = &["PreferClose", "PreferSameZone", "PreferSameNode"];
        let distribution = text(spec, "trafficDistribution");
        supported_only(errors, &SPEC.child("trafficDistribution"), distribution, values);
    }
}

#[cfg(test)]
mod tests {
    use super::super::STRATEGY;
    use crate::validation::testing::refusals;
    use machinery::{Value, json};

    fn check(spec: Value, expected: &[&str]) {
        assert_eq!(refusals(&STRATEGY, json!({"spec": spec})), expected);
    }

    #[test]
    fn only_headless_and_external_name_services_need_no_ports() {
        check(json!({}), &["spec.ports: Required value"]);
        check(json!({"clusterIP": "None"}), &[]);
        check(json!({"type": "ExternalName", "externalName": "example.com."}), &[]);
    }

    #[test]
    fn several_ports_require_names() {
        check(
            json!({"ports": [{"port": 80}, {"port": 81}]}),
            &["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
        );
    }

    #[test]
    fn ports_and_types_are_validated() {
        check(
            json!({"type": "Odd", "ports": [{"port": 0, "protocol": "ABC"}]}),
            &[
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                r#"spec.ports[0].protocol: Unsupported value: "ABC": supported values: "SCTP", "TCP", "UDP""#,
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
                r#"spec.type: Unsupported value: "Odd": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort""#,
            ],
        );
    }

    #[test]
    fn the_same_port_twice_is_a_duplicate() {
        check(
            json!({"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]}),
            &[
                r#"spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#,
            ],
        );
    }

    #[test]
    fn a_cluster_ip_service_may_not_have_node_ports() {
        check(
            json!({"ports": [{"port": 80, "nodePort": 30080}]}),
            &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        );
    }

    #[test]
    fn dual_stack_and_ipv6_are_refused() {
        check(
            json!({"ports": [{"port": 80}], "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}),
            &[
                r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
                r#"spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster"#,
            ],
        );
        check(
            json!({"ports": [{"port": 80}], "clusterIP": "x"}),
            &[
                r#"spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
            ],
        );
    }

    #[test]
    fn an_external_name_service_requires_the_name() {
        check(json!({"type": "ExternalName"}), &["spec.externalName: Required value"]);
    }

    #[test]
    fn traffic_fields_that_do_not_fit_the_type_are_refused() {
        check(
            json!({"ports": [{"port": 80}], "externalTrafficPolicy": "Local", "internalTrafficPolicy": "Odd",
                "loadBalancerSourceRanges": ["x"], "sessionAffinity": "Odd"}),
            &[
                r#"spec.sessionAffinity: Unsupported value: "Odd": supported values: "ClientIP", "None""#,
                "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
                r#"spec.LoadBalancerSourceRanges[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"#,
                r#"spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services"#,
                r#"spec.internalTrafficPolicy: Unsupported value: "Odd": supported values: "Cluster", "Local""#,
            ],
        );
    }
}
