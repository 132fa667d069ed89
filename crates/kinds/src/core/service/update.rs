//! Validation of updates of services.

use super::validate::{validate_class, validate_service};
use super::{ip_families, is_headless, kind, needs_health_check, spec_of};
use crate::validation::address::{self, Stored};
use crate::validation::rules::{add_invalid, supported_only};
use machinery::fields::{at, list, number, part, text, texts, top};
use machinery::{ErrorList, Object, Path, Value, json, names};

static SPEC: Path<'static> = Path::root("spec");

/// Validates an update of a service.
pub(super) fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    let before = errors.len();
    ip_families::validate(new, Some(old), errors);
    if errors.len() > before {
        return;
    }
    let (after, former) = (spec_of(new), spec_of(old));
    if kind(after) != "ExternalName" && kind(former) != "ExternalName" {
        validate_addresses(after, former, errors);
        validate_families(after, former, errors);
    }
    let class = |spec| at(spec, &["loadBalancerClass"]);
    let are_balancers = kind(after) == "LoadBalancer" && kind(former) == "LoadBalancer";
    if are_balancers && class(after) != class(former) {
        let path = SPEC.child("loadBalancerClass");
        errors.invalid(&path, class(after).clone(), "may not change once set");
    }
    validate_class(after, errors);
    let port = |spec| number(spec, "healthCheckNodePort");
    if needs_health_check(after) && needs_health_check(former) && port(after) != port(former) {
        errors.forbidden(&SPEC.child("healthCheckNodePort"), "field is immutable");
    }
    validate_service(new, Some(old), errors);
}

/// The first address is immutable; a second one may be added and removed.
fn validate_addresses(new: &Value, old: &Value, errors: &mut ErrorList) {
    if is_headless(new) && is_headless(old) {
        return;
    }
    let addresses: Vec<&str> = texts(new, "clusterIPs").collect();
    let former: Vec<&str> = texts(old, "clusterIPs").collect();
    let path = SPEC.child("clusterIPs");
    let changed = |index: usize| addresses[index] != former[index];
    if addresses.len() == former.len() {
        for index in (0..former.len()).filter(|index| changed(*index)) {
            errors.invalid(&path.index(index), json!(addresses), "may not change once set");
        }
        return;
    }
    if addresses.is_empty() {
        errors.invalid(&path.index(0), Value::Null, "primary clusterIP can not be unset");
    } else if !former.is_empty() && changed(0) {
        errors.invalid(&path.index(0), json!(addresses), "may not change once set");
    }
    if former.len() > addresses.len() && addresses.len() == 1 {
        require_single_stack(new, "clusterIP", errors);
    }
}

/// Releasing the second address or family requires the policy `SingleStack`.
fn require_single_stack(new: &Value, what: &str, errors: &mut ErrorList) {
    if text(new, "ipFamilyPolicy") != "SingleStack" {
        let message = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        let path = SPEC.child("ipFamilyPolicy");
        errors.invalid(&path, at(new, &["ipFamilyPolicy"]).clone(), &message);
    }
}

fn validate_families(new: &Value, old: &Value, errors: &mut ErrorList) {
    if is_headless(new) || is_headless(old) {
        return;
    }
    let (families, former) = (list(new, "ipFamilies"), list(old, "ipFamilies"));
    let path = SPEC.child("ipFamilies");
    // As upstream, the index is always 0.
    let path = path.index(0);
    if families.len() == former.len() {
        for _ in families.iter().zip(former).filter(|(new, old)| new != old) {
            errors.invalid(&path, Value::from(families.to_vec()), "may not change once set");
        }
        return;
    }
    if families.first().zip(former.first()).is_some_and(|(new, old)| new != old) {
        // As upstream, the error shows the addresses and not the families.
        let shown = at(new, &["clusterIPs"]).clone();
        errors.invalid(&path, shown, "may not change once set");
    }
    if former.len() > families.len() && families.len() == 1 {
        require_single_stack(new, "ipFamily", errors);
    }
}

/// Validates an update of a service's status.
pub(super) fn validate_status(new: &Object, old: &Object, errors: &mut ErrorList) {
    let ingresses = |service| list(at(top(service, "status"), &["loadBalancer"]), "ingress");
    let root = Path::root("status");
    let path = root.child("loadBalancer");
    let path = path.child("ingress");
    if kind(spec_of(new)) != "LoadBalancer" {
        if !ingresses(new).is_empty() {
            errors.forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'");
        }
        return;
    }
    let stored: Stored<'_> = ingresses(old).iter().map(|ingress| text(ingress, "ip")).collect();
    for (index, ingress) in ingresses(new).iter().enumerate() {
        validate_ingress(errors, &path.index(index), ingress, &stored);
    }
}

fn validate_ingress(errors: &mut ErrorList, path: &Path<'_>, ingress: &Value, stored: &Stored<'_>) {
    let address = text(ingress, "ip");
    if !address.is_empty() {
        address::ip(errors, &path.child("ip"), address, stored);
    }
    let mode = path.child("ipMode");
    match (part(ingress, "ipMode").is_some(), address.is_empty()) {
        (false, false) => errors.required(&mode, "must be specified when `ip` is set"),
        (false, true) => {}
        (true, true) => errors.forbidden(&mode, "may not be specified when `ip` is not set"),
        (true, false) => supported_only(errors, &mode, text(ingress, "ipMode"), &["Proxy", "VIP"]),
    }
    let host = text(ingress, "hostname");
    if !host.is_empty() {
        add_invalid(errors, &path.child("hostname"), host, names::dns1123_subdomain(host));
        if address::parse(host).is_some() {
            let message = "must be a DNS name, not an IP address";
            errors.invalid(&path.child("hostname"), host, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::STRATEGY;
    use super::*;
    use crate::validation::testing::{lines, object, refusals_of_update};

    fn check(new: Value, old: Value, expected: &[&str]) {
        let service = |spec| json!({"spec": spec});
        assert_eq!(refusals_of_update(&STRATEGY, service(new), service(old)), expected);
    }

    #[test]
    fn an_address_cannot_change() {
        let at = |address: &str| json!({"ports": [{"port": 80}], "clusterIP": address});
        check(at("10.0.0.1"), at("10.0.0.1"), &[]);
        check(
            at("10.0.0.2"),
            at("10.0.0.1"),
            &[r#"spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set"#],
        );
    }

    #[test]
    fn a_dual_stack_headless_service_cannot_get_a_cluster_ip() {
        let old = json!({"ports": [{"port": 80}], "clusterIP": "None"});
        let new = json!({"ports": [{"port": 80}], "clusterIP": "10.0.0.77", "clusterIPs": ["None"],
            "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"});
        check(
            new,
            old,
            &[
                r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
                r#"spec.ipFamilies[1]: Invalid value: "IPv6": not configured on this cluster"#,
            ],
        );
    }

    #[test]
    fn only_load_balancers_may_report_ingress_addresses() {
        let service = object(json!({"spec": {"type": "ClusterIP"},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}));
        let mut errors = ErrorList::new();
        validate_status(&service, &service, &mut errors);
        assert_eq!(
            lines(&errors),
            [
                "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"
            ]
        );
    }
}
