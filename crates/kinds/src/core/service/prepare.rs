//! Prepares services for validation.
//!
//! A service has fields that depend on each other or are set by the server. A client that sends the
//! same manifest twice, or changes only the type, need not repeat or remove them.

use std::collections::{HashMap, HashSet};

use super::{ip_families, is_external, kind, needs_health_check, spec_of};
use machinery::fields::{
    boolean, default_number, default_text, keep, list, maps_mut, number, text, texts,
};
use machinery::{Map, Object, Value, json};

pub(super) fn prepare_create(service: &mut Object) {
    service.map_mut().insert("status".to_owned(), json!({"loadBalancer": {}}));
    let address = text(spec_of(service), "clusterIP").to_owned();
    if !address.is_empty() && list(spec_of(service), "clusterIPs").is_empty() {
        service.map_at(&["spec"]).insert("clusterIPs".to_owned(), json!([address]));
    }
    ip_families::set_defaults(service, None);
    drop_internal_traffic_policy(service);
}

pub(super) fn prepare_update(new: &mut Object, old: &Object) {
    keep_allocated(new, old);
    normalize_addresses(new, old);
    ip_families::set_defaults(new, Some(old));
    keep(new, old, "status");
    drop_type_dependent_fields(new, old);
    drop_internal_traffic_policy(new);
}

/// An `ExternalName` service has no internal traffic policy. An unsupported policy is kept, and
/// refused.
///
/// Upstream: storage.go defaultOnReadInternalTrafficPolicy, which removes it from reads.
fn drop_internal_traffic_policy(service: &mut Object) {
    let spec = spec_of(service);
    let policy = text(spec, "internalTrafficPolicy");
    if kind(spec) == "ExternalName" && matches!(policy, "Cluster" | "Local") {
        service.map_at(&["spec"]).remove("internalTrafficPolicy");
    }
}

fn needs_cluster_ip(spec: &Value) -> bool {
    kind(spec) != "ExternalName"
}

fn needs_node_ports(spec: &Value) -> bool {
    match kind(spec) {
        "NodePort" => true,
        "LoadBalancer" => boolean(spec, "allocateLoadBalancerNodePorts").unwrap_or(true),
        _ => false,
    }
}

/// Copies the allocated addresses and ports of the old service that the new one does not set.
///
/// Upstream: `patchAllocatedValues`.
pub fn keep_allocated(new: &mut Object, old: &Object) {
    let (before, after) = (spec_of(old), spec_of(new).clone());
    let spec = new.map_at(&["spec"]);
    if needs_cluster_ip(before) && needs_cluster_ip(&after) {
        let address = text(before, "clusterIP");
        if !address.is_empty() {
            default_text(spec, "clusterIP", address);
        }
        if list(&after, "clusterIPs").is_empty() && !list(before, "clusterIPs").is_empty() {
            spec.insert("clusterIPs".to_owned(), before["clusterIPs"].clone());
        }
    }
    if needs_node_ports(before) && needs_node_ports(&after) {
        keep_node_ports(spec, before, &after);
    }
    let health_check_port = number(before, "healthCheckNodePort");
    if needs_health_check(before) && needs_health_check(&after) && health_check_port != 0 {
        default_number(spec, "healthCheckNodePort", health_check_port);
    }
}

fn keep_node_ports(spec: &mut Map<String, Value>, before: &Value, after: &Value) {
    let used: HashSet<i64> =
        list(after, "ports").iter().map(|port| number(port, "nodePort")).collect();
    let known: HashMap<&str, i64> = list(before, "ports")
        .iter()
        .map(|old| (text(old, "name"), number(old, "nodePort")))
        .collect();
    for port in maps_mut(spec, "ports") {
        let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
        let node_port = known.get(name).copied().unwrap_or_default();
        if node_port != 0 && !used.contains(&node_port) {
            default_number(port, "nodePort", node_port);
        }
    }
}

/// Sets `clusterIPs` from `clusterIP` if the client changed only the latter.
fn normalize_addresses(new: &mut Object, old: &Object) {
    let (before, after) = (spec_of(old).clone(), spec_of(new).clone());
    let same_list = texts(&before, "clusterIPs").eq(texts(&after, "clusterIPs"));
    let (was, is) = (text(&before, "clusterIP"), text(&after, "clusterIP"));
    if was == is || !same_list {
        return;
    }
    let spec = new.map_at(&["spec"]);
    if is.is_empty() {
        spec.remove("clusterIPs");
    } else {
        spec.insert("clusterIPs".to_owned(), json!([is]));
    }
}

/// Removes the fields that the new type does not use, unless the client changed them too.
fn drop_type_dependent_fields(new: &mut Object, old: &Object) {
    let (before, after) = (spec_of(old).clone(), spec_of(new).clone());
    let spec = new.map_at(&["spec"]);
    let mut drop_if_unchanged = |field: &str| {
        if before.get(field) == after.get(field) {
            spec.remove(field);
        }
    };
    if needs_cluster_ip(&before) && !needs_cluster_ip(&after) {
        if before.get("clusterIPs") == after.get("clusterIPs") {
            drop_if_unchanged("clusterIP");
        }
        drop_if_unchanged("clusterIPs");
        drop_if_unchanged("ipFamilies");
        drop_if_unchanged("ipFamilyPolicy");
    }
    if needs_health_check(&before) && !needs_health_check(&after) {
        drop_if_unchanged("healthCheckNodePort");
    }
    if kind(&before) == "LoadBalancer" && kind(&after) != "LoadBalancer" {
        drop_if_unchanged("allocateLoadBalancerNodePorts");
        drop_if_unchanged("loadBalancerClass");
    }
    if is_external(&before) && !is_external(&after) {
        drop_if_unchanged("externalTrafficPolicy");
    }
    drop_node_ports(spec, &before, &after);
    if kind(&after) != "LoadBalancer" {
        new.map_at(&["status"]).insert("loadBalancer".to_owned(), json!({}));
    }
}

fn drop_node_ports(spec: &mut Map<String, Value>, before: &Value, after: &Value) {
    let is_exposed = |spec| matches!(kind(spec), "NodePort" | "LoadBalancer");
    let of = |spec| list(spec, "ports").iter().map(|port| number(port, "nodePort"));
    let known: HashSet<i64> = of(before).collect();
    let is_new = |node_port: i64| node_port != 0 && !known.contains(&node_port);
    if is_exposed(before) && !is_exposed(after) && !of(after).any(is_new) {
        for port in maps_mut(spec, "ports") {
            port.remove("nodePort");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::STRATEGY;
    use super::*;
    use crate::validation::testing::{created, defaulted, object};

    fn updated(new: Value, old: Value) -> Value {
        let old = object(json!({"spec": old, "status": {"loadBalancer": {}}}));
        let mut new = object(defaulted(&STRATEGY, json!({"spec": new})));
        prepare_update(&mut new, &old);
        new.into_value()["spec"].clone()
    }

    fn stored(kind: &str) -> Value {
        json!({"type": kind, "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP", "nodePort": 30080}]})
    }

    #[test]
    fn ip_families_and_their_policy_get_defaults() {
        let families = |spec: Value| {
            let service = created(&STRATEGY, json!({"spec": spec}));
            (service["spec"]["ipFamilies"].clone(), service["spec"]["ipFamilyPolicy"].clone())
        };
        assert_eq!(
            families(json!({"selector": {"a": "b"}})),
            (json!(["IPv4"]), json!("SingleStack"))
        );
        assert_eq!(
            families(json!({"clusterIP": "None"})),
            (json!(["IPv4", "IPv6"]), json!("RequireDualStack"))
        );
        assert_eq!(
            families(json!({"clusterIP": "None", "selector": {"a": "b"}})),
            (json!(["IPv4"]), json!("SingleStack"))
        );
        assert_eq!(families(json!({"type": "ExternalName"})), (Value::Null, Value::Null));
    }

    #[test]
    fn an_external_name_service_has_no_internal_traffic_policy() {
        let policy = |policy: &str| {
            let spec = json!({"type": "ExternalName", "internalTrafficPolicy": policy});
            created(&STRATEGY, json!({"spec": spec}))["spec"]["internalTrafficPolicy"].clone()
        };
        assert_eq!(policy("Cluster"), Value::Null);
        assert_eq!(policy("Local"), Value::Null);
        assert_eq!(policy("Odd"), "Odd", "an unsupported policy is left to validation");
    }

    #[test]
    fn allocated_values_are_kept() {
        let new = updated(json!({"type": "NodePort", "ports": [{"port": 80}]}), stored("NodePort"));
        assert_eq!(new, stored("NodePort"));
    }

    #[test]
    fn fields_that_a_type_does_not_use_are_dropped() {
        let mut manifest = stored("NodePort");
        manifest["type"] = "ExternalName".into();
        let new = updated(manifest, stored("NodePort"));
        for field in [
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "externalTrafficPolicy",
            "internalTrafficPolicy",
        ] {
            assert_eq!(new.get(field), None, "{field}");
        }
        assert_eq!(new["ports"][0].get("nodePort"), None);
    }
}
