//! Pods that their node rejects.

use std::time::Duration;

use crate::plane::{PODS, Plane};
use machinery::{Value, json};

fn spec(ports: &Value) -> Value {
    json!({"containers": [{"name": "main", "image": "nginx", "ports": ports}]})
}

#[tokio::test]
async fn a_pod_that_wants_a_port_of_another_pod_is_rejected() {
    let plane = Plane::start(2, &["none"]).await;
    let port = json!([{"containerPort": 80, "hostPort": 8080}]);
    plane.create_pod("first", json!({}), spec(&port)).await;
    plane.until_phase("first", "Running").await;
    plane.create_pod("second", json!({}), spec(&port)).await;
    plane.advance(Duration::from_secs(1));
    let second = plane.until_phase("second", "Failed").await;
    let status = &second["status"];
    assert_eq!(status["reason"], "NodePorts");
    let message =
        "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    assert_eq!(status["message"], format!("Pod was rejected: {message}"));
    assert_eq!(status["containerStatuses"], Value::Null);
    let events = "/api/v1/namespaces/default/events?fieldSelector=reason%3DNodePorts";
    let list = plane.until(events, |_, list| list["items"][0] != Value::Null).await;
    assert_eq!(list["items"][0]["message"], message);
    assert_eq!(list["items"][0]["type"], "Warning");

    let mut elsewhere = spec(&port);
    elsewhere["nodeName"] = json!("sampan-1");
    plane.create_pod("elsewhere", json!({}), elsewhere).await;
    plane.until_phase("elsewhere", "Running").await;
    let udp = json!([{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}]);
    plane.create_pod("udp", json!({}), spec(&udp)).await;
    plane.until_phase("udp", "Running").await;

    plane.delete(&format!("{PODS}/first")).await;
    plane.until(&format!("{PODS}/first"), |code, _| code == 404).await;
    plane.create_pod("third", json!({}), spec(&port)).await;
    plane.until_phase("third", "Running").await;
    plane.stop().await;
}
