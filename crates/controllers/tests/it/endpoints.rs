//! The `Endpoints` of services.

use std::time::Duration;

use serde_json::{Value, json};

use crate::endpoint_pods::{PODS, SERVICES, create_pod, create_service, run_pod, set_status};
use crate::plane::Plane;

const PATH: &str = "/api/v1/namespaces/default/endpoints/web";

/// The addresses of the first subset, ready ones and others, by IP.
fn addresses(endpoints: &Value) -> (Vec<String>, Vec<String>) {
    let ips = |list: &str| {
        let addresses = endpoints["subsets"][0][list].as_array().cloned().unwrap_or_default();
        addresses.iter().map(|it| it["ip"].as_str().unwrap().to_owned()).collect()
    };
    (ips("addresses"), ips("notReadyAddresses"))
}

/// Waits until the endpoints have these addresses, ready ones and others.
async fn until(plane: &Plane, ready: &[&str], not_ready: &[&str]) -> Value {
    let owned = |ips: &[&str]| ips.iter().map(|ip| (*ip).to_owned()).collect::<Vec<_>>();
    let expected = (owned(ready), owned(not_ready));
    plane.until(PATH, |code, it| code == 200 && addresses(it) == expected).await
}

#[tokio::test]
async fn endpoints_have_the_addresses_of_the_pods() {
    let plane = Plane::start(&["endpoint"]).await;
    create_service(&plane, "web", &json!({})).await;
    let empty = plane.until(PATH, |code, _| code == 200).await;
    assert_eq!(empty.get("subsets"), None);
    let labels = json!({"team": "x", "endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    assert_eq!(empty["metadata"]["labels"], labels);
    let trigger = "endpoints.kubernetes.io/last-change-trigger-time";
    assert_eq!(empty["metadata"]["annotations"][trigger], "2024-01-01T00:00:00Z");

    run_pod(&plane, "a", "10.1.0.1", true).await;
    run_pod(&plane, "b", "10.1.0.2", false).await;
    let full = until(&plane, &["10.1.0.1"], &["10.1.0.2"]).await;
    let subset = &full["subsets"][0];
    assert_eq!(subset["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    let pod = plane.read(&format!("{PODS}/a")).await;
    let target =
        json!({"kind": "Pod", "namespace": "default", "name": "a", "uid": pod["metadata"]["uid"]});
    let address = json!({"ip": "10.1.0.1", "nodeName": "n", "targetRef": target});
    assert_eq!(subset["addresses"], json!([address]));
    assert_eq!(full["metadata"]["annotations"][trigger], "2024-01-01T00:00:07Z");

    set_status(&plane, "b", &["10.1.0.2"], true).await;
    until(&plane, &["10.1.0.1", "10.1.0.2"], &[]).await;
    // The pod terminates for 30 seconds.
    plane.delete(&format!("{PODS}/a")).await;
    until(&plane, &["10.1.0.2"], &[]).await;
    plane.merge(&format!("{PODS}/b"), &json!({"metadata": {"labels": {"app": "other"}}})).await;
    plane.until(PATH, |_, endpoints| endpoints.get("subsets").is_none()).await;

    assert_eq!(plane.delete(&format!("{SERVICES}/web")).await.0, 200);
    plane.until(PATH, |code, _| code == 404).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_named_port_is_that_of_the_pod() {
    let plane = Plane::start(&["endpoint"]).await;
    let ports = json!([
        {"name": "named", "port": 80, "targetPort": "web"},
        {"name": "missing", "port": 81, "targetPort": "none"},
    ]);
    create_service(&plane, "web", &json!({"ports": ports})).await;
    run_pod(&plane, "a", "10.1.0.1", true).await;
    let endpoints = until(&plane, &["10.1.0.1"], &[]).await;
    let ports = json!([{"name": "named", "port": 9090, "protocol": "TCP"}]);
    assert_eq!(endpoints["subsets"][0]["ports"], ports);
    plane.stop().await;
}

#[tokio::test]
async fn a_headless_service_has_host_names_and_may_publish_all_pods() {
    let plane = Plane::start(&["endpoint"]).await;
    let spec = json!({"clusterIP": "None", "ports": [], "publishNotReadyAddresses": true});
    create_service(&plane, "web", &spec).await;
    create_pod(&plane, "a", &json!({"hostname": "first", "subdomain": "web"})).await;
    set_status(&plane, "a", &["10.1.0.1"], false).await;
    let endpoints = until(&plane, &["10.1.0.1"], &[]).await;
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["hostname"], "first");
    assert_eq!(endpoints["subsets"][0].get("ports"), None);
    assert_eq!(endpoints["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    plane.stop().await;
}

/// The number of addresses that are ready, and of others.
fn count(endpoints: &Value) -> (usize, usize) {
    let (ready, not_ready) = addresses(endpoints);
    (ready.len(), not_ready.len())
}

/// Creates pods while the controllers are stopped.
async fn run_pods(plane: &mut Plane, number: usize, is_ready: impl Fn(usize) -> bool) {
    plane.stop_controllers().await;
    for number in 0..number {
        let ip = format!("10.1.{}.{}", number / 250, number % 250);
        run_pod(plane, &format!("p{number}"), &ip, is_ready(number)).await;
    }
    plane.restart_controllers().await;
}

#[tokio::test]
async fn changes_of_many_endpoints_are_written_together() {
    let mut plane = Plane::start(&["endpoint"]).await;
    create_service(&plane, "web", &json!({})).await;
    run_pods(&mut plane, 150, |_| true).await;
    let full = plane.until(PATH, |_, endpoints| count(endpoints) == (150, 0)).await;
    set_status(&plane, "p0", &["10.1.0.0"], false).await;
    set_status(&plane, "p1", &["10.1.0.1"], false).await;
    // The first endpoints of another service are written at once: the cache shows both changes.
    create_service(&plane, "other", &json!({})).await;
    let other = "/api/v1/namespaces/default/endpoints/other";
    plane.until(other, |_, endpoints| count(endpoints) == (148, 2)).await;
    assert_eq!(plane.read(PATH).await, full);
    plane.advance(Duration::from_millis(149));
    assert_eq!(plane.read(PATH).await, full);
    plane.advance(Duration::from_millis(1));
    let next = plane.until(PATH, |_, endpoints| *endpoints != full).await;
    assert_eq!(count(&next), (148, 2));
    plane.stop().await;
}

#[tokio::test]
async fn endpoints_that_are_up_to_date_are_not_written() {
    let mut plane = Plane::start(&["endpoint"]).await;
    let ports = json!([
        {"name": "b", "port": 81, "targetPort": "web"},
        {"name": "a", "port": 80, "targetPort": 8080},
    ]);
    create_service(&plane, "web", &json!({"ports": ports})).await;
    // More than the 1000 addresses that endpoints have.
    run_pods(&mut plane, 1004, |number| number % 3 != 0).await;
    let full = plane.until(PATH, |_, endpoints| count(endpoints) == (669, 331)).await;
    let annotations = &full["metadata"]["annotations"];
    assert_eq!(annotations["endpoints.kubernetes.io/over-capacity"], "truncated");
    plane.restart_controllers().await;
    plane.controllers().wait_until_ready().await.unwrap();
    let is_reconciled = || {
        let records = plane.controllers().manager().records("endpoints-controller");
        records.iter().any(|record| record.request.name() == "web")
    };
    while !is_reconciled() {
        tokio::task::yield_now().await;
    }
    assert_eq!(plane.read(PATH).await["metadata"], full["metadata"]);
    plane.stop().await;
}

#[tokio::test]
async fn endpoints_are_restored_and_others_are_left_alone() {
    let plane = Plane::start(&["endpoint"]).await;
    let endpoints = "/api/v1/namespaces/default/endpoints";
    let own = json!({"metadata": {"name": "own"}, "subsets": [{"addresses": [{"ip": "1.2.3.4"}]}]});
    create_service(&plane, "own", &json!({"selector": null})).await;
    let own = plane.create(endpoints, &own).await;
    create_service(&plane, "web", &json!({})).await;
    run_pod(&plane, "a", "10.1.0.1", true).await;
    until(&plane, &["10.1.0.1"], &[]).await;
    assert_eq!(plane.delete(PATH).await.0, 200);
    until(&plane, &["10.1.0.1"], &[]).await;
    assert_eq!(plane.read(&format!("{endpoints}/own")).await, own);
    plane.stop().await;
}
