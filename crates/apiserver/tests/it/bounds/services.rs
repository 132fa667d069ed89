//! Services that request many addresses and node ports.

use http::Method;

use super::{TestRequest, check};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::JSON;

const SERVICES: &str = "/api/v1/namespaces/default/services";

/// A dry run and a create of a service.
fn requests(spec: &Value) -> [TestRequest; 2] {
    let service = json!({"metadata": {"name": "a"}, "spec": spec});
    let real = TestRequest::new(Method::POST, SERVICES.to_owned(), JSON, service.to_string());
    [TestRequest::post(SERVICES, &service), real]
}

/// Measures dry runs and creates of services, whose responses have `codes`.
async fn check_both(codes: [u16; 2], size: usize, spec: impl Fn(usize) -> Value) {
    let plane = TestEnv::start().await;
    let taken = json!({"type": "NodePort", "clusterIP": "10.0.0.9",
        "ports": [{"port": 80, "nodePort": 30009}]});
    plane.create(SERVICES, &json!({"metadata": {"name": "first"}, "spec": taken})).await;
    for (index, code) in codes.into_iter().enumerate() {
        check(&plane, code, size, |n| {
            let [dry_run, real] = requests(&spec(n));
            if index == 0 { dry_run } else { real }
        })
        .await;
    }
}

fn ports(count: usize, one: impl Fn(usize) -> Value) -> Value {
    (0..count).map(one).collect()
}

#[tokio::test]
async fn services_with_many_cluster_ips_are_refused_in_linear_time() {
    // Outside of the range of cluster IPs, and in it.
    for network in ["10.1", "10.0"] {
        check_both([422, 422], 2000, |n| {
            let address = |it: usize| format!("{network}.{}.{}", it / 250, it % 250);
            let addresses: Value = (0..n).map(address).collect();
            json!({"ports": [{"port": 80}], "clusterIP": address(0), "clusterIPs": addresses})
        })
        .await;
    }
}

#[tokio::test]
async fn allocation_of_many_node_ports_takes_linear_time() {
    // The ports are allocated before the affinity is refused.
    check_both([422, 422], 1600, |n| {
        let ports = ports(n, |it| json!({"name": format!("p{it}"), "port": it + 1}));
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports,
            "sessionAffinity": "Odd"})
    })
    .await;
}

#[tokio::test]
async fn requests_for_many_given_node_ports_take_linear_time() {
    // Ports in the range, one of which is in use, and ports outside of it, which a dry run accepts.
    for (codes, first, count) in [([422, 422], 30_000, 2_700), ([201, 422], 1, 29_000)] {
        check_both(codes, 1600, |n| {
            let port = |it: usize| {
                json!({"name": format!("p{it}"), "port": it + 1, "nodePort": first + it % count})
            };
            json!({"type": "NodePort", "ports": ports(n, port)})
        })
        .await;
    }
}
