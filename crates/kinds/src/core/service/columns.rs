//! The columns of `kubectl get services`.

use std::collections::BTreeSet;

use super::{kind, spec_of};
use machinery::fields::{at, entries, list, number, text, texts, top};
use machinery::{Object, Value};
use types::columns::{AGE, NAME, age, column, or_none, wide};
use types::resource::{Column, Now};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Type",
        "How the service is exposed: ClusterIP, NodePort, LoadBalancer or ExternalName.",
    ),
    column(
        "Cluster-IP",
        "The address of the service inside of the cluster, or None for a headless service.",
    ),
    column(
        "External-IP",
        "The addresses outside of the cluster: those of the load balancer and the external IPs.",
    ),
    column("Port(s)", "The ports of the service, each with its node port after a colon."),
    AGE,
    wide("Selector", "The labels of the pods to which the service sends its traffic."),
];

pub(super) fn cells(service: &Object, now: &Now) -> Vec<Value> {
    let spec = spec_of(service);
    vec![
        service.name().into(),
        kind(spec).into(),
        or_none(texts(spec, "clusterIPs").next().unwrap_or_default()).into(),
        external(service).into(),
        or_none(&ports(spec)).into(),
        age(service, now),
        or_none(&selector(spec)).into(),
    ]
}

fn external(service: &Object) -> String {
    let spec = spec_of(service);
    let external_ips: Vec<&str> = texts(spec, "externalIPs").collect();
    match kind(spec) {
        "ClusterIP" | "NodePort" => or_none(&external_ips.join(",")).to_owned(),
        "LoadBalancer" => {
            let ingress = list(at(top(service, "status"), &["loadBalancer"]), "ingress");
            let balanced: BTreeSet<&str> =
                ingress
                    .iter()
                    .map(|it| {
                        if text(it, "ip").is_empty() {
                            text(it, "hostname")
                        } else {
                            text(it, "ip")
                        }
                    })
                    .filter(|address| !address.is_empty())
                    .collect();
            let all: Vec<&str> = balanced.into_iter().chain(external_ips).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => text(spec, "externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(spec: &Value) -> String {
    let ports: Vec<String> = list(spec, "ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (number(port, "port"), text(port, "protocol"));
            match machinery::fields::number(port, "nodePort") {
                0 => format!("{number}/{protocol}"),
                node_port => format!("{number}:{node_port}/{protocol}"),
            }
        })
        .collect();
    ports.join(",")
}

fn selector(spec: &Value) -> String {
    let labels: Vec<String> = entries(spec, "selector")
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    labels.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;
    use machinery::json;

    fn check(service: Value, expected: Value) {
        let mut cells = cells(&object(service), &Now { unix_seconds: 0 });
        cells.remove(5); // the age
        assert_eq!(Value::from(cells), expected);
    }

    #[test]
    fn a_headless_service_shows_none_as_its_cluster_ip() {
        check(
            json!({"metadata": {"name": "a"}, "spec": {"type": "ClusterIP", "clusterIPs": ["None"],
                "selector": {"x": "y"}, "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}),
            json!(["a", "ClusterIP", "None", "<none>", "80/TCP,53/UDP", "x=y"]),
        );
    }

    #[test]
    fn a_load_balancer_without_an_address_is_pending() {
        check(
            json!({"metadata": {"name": "a"}, "spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"],
                "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}]}}),
            json!(["a", "LoadBalancer", "10.0.0.1", "<pending>", "80:30001/TCP", "<none>"]),
        );
    }
}
