//! Events about the containers of simulated pods.

use std::time::Duration;

use crate::plane::{PODS, Plane};
use machinery::{Value, json};

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// The reasons and messages of the events about a pod.
fn about(list: &Value, pod: &str) -> Vec<(String, String)> {
    let items = list["items"].as_array().unwrap().iter();
    let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
    let mut found: Vec<(String, String)> = items
        .filter(|event| event["involvedObject"]["name"] == pod)
        .map(|event| (text(event, "reason"), text(event, "message")))
        .collect();
    found.sort();
    found
}

#[tokio::test]
async fn the_life_of_a_pod_is_told_in_the_words_of_kubernetes() {
    let plane = Plane::start(1, &["none"]).await;
    plane.create_pod("web", json!({}), json!({})).await;
    plane.until_phase("web", "Running").await;
    plane.delete(&format!("{PODS}/web")).await;
    let list = plane.until(EVENTS, |_, list| about(list, "web").len() == 4).await;
    let image = "example.com/app:1";
    let pulled = format!(
        "Container image \"{image}\" already present on machine and can be accessed by the pod"
    );
    assert_eq!(
        about(&list, "web"),
        [
            ("Created", "Container created"),
            ("Killing", "Stopping container main"),
            ("Pulled", &pulled),
            ("Started", "Container started"),
        ]
        .map(|(reason, message)| (reason.to_owned(), message.to_owned()))
    );
    let first = &list["items"][0];
    assert_eq!(first["involvedObject"]["fieldPath"], "spec.containers{main}");
    assert_eq!(first["type"], "Normal");
    assert_eq!(first["source"], json!({"component": "kubelet", "host": "sampan-0"}));
    assert_eq!(first["reportingComponent"], "kubelet");
    assert_eq!(first["reportingInstance"], "sampan-0");
    plane.stop().await;
}

#[tokio::test]
async fn the_events_of_many_pods_are_bounded() {
    let plane = Plane::start(1, &["none"]).await;
    for index in 0..110 {
        plane.create_pod(&format!("p-{index:03}"), json!({}), json!({})).await;
    }
    for index in 0..110 {
        plane.until_phase(&format!("p-{index:03}"), "Running").await;
    }
    // Warnings are recorded after the budget is used, and after the events before them.
    let bad = json!({"restartPolicy": "OnFailure"});
    plane.create_pod("bad", json!({"sampan.dev/exit-code": "1"}), bad).await;
    let is_told = |list: &Value| about(list, "bad").iter().any(|(reason, _)| reason == "BackOff");
    let list = plane.until(EVENTS, |_, list| is_told(list)).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 301);
    plane.stop().await;
}

#[tokio::test]
async fn a_wrong_annotation_is_reported_once_and_ignored() {
    let plane = Plane::start(1, &["none"]).await;
    let annotations = json!({"sampan.dev/run-for": "3", "sampan.dev/start-after": "5s",
        "sampan.dev/exitcode": "1"});
    plane.create_pod("typo", annotations, json!({})).await;
    plane.until_pod("typo", |pod| pod["status"]["startTime"].is_string()).await;
    plane.advance(Duration::from_secs(5));
    plane.until_phase("typo", "Running").await;
    plane.delete(&format!("{PODS}/typo")).await;
    let is_told = |list: &Value| about(list, "typo").iter().any(|(reason, _)| reason == "Killing");
    let list = plane.until(EVENTS, |_, list| is_told(list)).await;
    let events = list["items"].as_array().unwrap().iter();
    let warnings: Vec<&Value> = events.filter(|event| event["type"] == "Warning").collect();
    let mut messages: Vec<&str> =
        warnings.iter().map(|event| event["message"].as_str().unwrap()).collect();
    messages.sort_unstable();
    assert_eq!(
        messages,
        [
            "sampan.dev/exitcode: there is no such annotation; ignored",
            "sampan.dev/run-for: \"3\" is not a duration such as 30s or 500ms; ignored",
        ]
    );
    for event in warnings {
        assert_eq!((&event["reason"], &event["count"]), (&json!("InvalidAnnotation"), &json!(1)));
    }
    plane.stop().await;
}
