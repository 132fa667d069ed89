//! The defaults of services.

use super::{is_external, kind};
use machinery::fields::{at, default_text, default_value, map_mut, maps_mut, top};
use machinery::{Object, Value, json};

/// The default timeout of the session affinity of a client, three hours.
const AFFINITY_SECONDS: i64 = 10_800;

pub(super) fn defaults(service: &mut Object) {
    let spec = service.map_at(&["spec"]);
    default_text(spec, "sessionAffinity", "None");
    default_text(spec, "type", "ClusterIP");
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => drop(spec.remove("sessionAffinityConfig")),
        Some("ClientIP") => {
            let config = spec.get("sessionAffinityConfig").unwrap_or(&Value::Null);
            if at(config, &["clientIP", "timeoutSeconds"]).is_null() {
                let config = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
                spec.insert("sessionAffinityConfig".to_owned(), config);
            }
        }
        _ => {}
    }
    for port in maps_mut(spec, "ports") {
        default_text(port, "protocol", "TCP");
        let target = port.get("targetPort").unwrap_or(&Value::Null);
        if target.is_null() || *target == 0 || *target == "" {
            let number = port.get("port").cloned().unwrap_or_else(|| 0.into());
            port.insert("targetPort".to_owned(), number);
        }
    }
    let whole = Value::Object(spec.clone());
    if is_external(&whole) {
        default_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind(&whole), "NodePort" | "LoadBalancer" | "ClusterIP") {
        default_value(spec, "internalTrafficPolicy", "Cluster".into());
    }
    if kind(&whole) == "LoadBalancer" {
        default_value(spec, "allocateLoadBalancerNodePorts", true.into());
        default_ip_modes(service);
    }
}

/// Sets the mode `VIP` of the IPs of a load balancer that have none.
fn default_ip_modes(service: &mut Object) {
    if top(service, "status").is_null() {
        return;
    }
    if let Some(load_balancer) = map_mut(service.map_at(&["status"]), "loadBalancer") {
        for ingress in maps_mut(load_balancer, "ingress") {
            if ingress.get("ip").and_then(Value::as_str).is_some_and(|ip| !ip.is_empty()) {
                default_value(ingress, "ipMode", "VIP".into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::STRATEGY;
    use super::*;
    use crate::validation::testing::defaulted;

    fn check(spec: Value, expected: Value) {
        assert_eq!(defaulted(&STRATEGY, json!({"spec": spec}))["spec"], expected);
    }

    #[test]
    fn a_cluster_ip_service_gets_defaults() {
        check(
            json!({"ports": [{"port": 80}]}),
            json!({"ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}], "type": "ClusterIP",
                "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}),
        );
    }

    #[test]
    fn a_load_balancer_service_gets_defaults() {
        check(
            json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP"}),
            json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
                "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster",
                "allocateLoadBalancerNodePorts": true}),
        );
    }
}
