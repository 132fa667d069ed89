//! Pods that refer to `ConfigMap`s and Secrets.

use std::time::Duration;

use crate::plane::{PODS, Plane, condition};
use machinery::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// The spec of a pod with this environment.
fn with_env(field: &str, value: &Value) -> Value {
    let mut container = json!({"name": "main", "image": "example.com/app:1"});
    container[field] = value.clone();
    json!({"containers": [container]})
}

fn waiting(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]["waiting"]
}

/// Waits until the container of a pod waits with this message.
async fn until_error(plane: &Plane, name: &str, message: &str) {
    let is_expected = |pod: &Value| waiting(pod)["message"] == message;
    let pod = plane.until_pod(name, is_expected).await;
    assert_eq!(waiting(&pod)["reason"], "CreateContainerConfigError");
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(condition(&pod, "Ready")["reason"], "ContainersNotReady");
}

/// The number of events about a pod with this reason and message.
fn count(list: &Value, name: &str, reason: &str, message: &str) -> usize {
    let events = list["items"].as_array().unwrap().iter();
    let is_expected = |it: &&Value| {
        it["involvedObject"]["name"] == name && it["reason"] == reason && it["message"] == message
    };
    events.filter(is_expected).count()
}

#[tokio::test]
async fn a_container_waits_for_the_objects_of_its_variables() {
    let plane = Plane::start(1, &["none"]).await;
    let key = json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}}]);
    plane.create_pod("a", json!({}), with_env("env", &key)).await;
    until_error(&plane, "a", "configmap \"x\" not found").await;
    let message = "Error: configmap \"x\" not found";
    plane.until(EVENTS, |_, list| count(list, "a", "Failed", message) == 1).await;

    plane.create(CONFIG_MAPS, &json!({"metadata": {"name": "x"}, "data": {"other": "1"}})).await;
    plane.advance(Duration::from_secs(1));
    until_error(&plane, "a", "couldn't find key k in ConfigMap default/x").await;
    plane.merge(&format!("{CONFIG_MAPS}/x"), &json!({"data": {"k": "1"}})).await;
    plane.advance(Duration::from_secs(2));
    let pod = plane.until_phase("a", "Running").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    assert_eq!(condition(&pod, "Ready")["status"], "True");

    let all = json!([{"secretRef": {"name": "y"}}]);
    plane.create_pod("b", json!({}), with_env("envFrom", &all)).await;
    until_error(&plane, "b", "secret \"y\" not found").await;
    plane.create(SECRETS, &json!({"metadata": {"name": "y"}})).await;
    plane.advance(Duration::from_secs(1));
    plane.until_phase("b", "Running").await;
    plane.stop().await;
}

#[tokio::test]
async fn an_object_with_a_wrong_name_does_not_exist() {
    let plane = Plane::start(1, &["none"]).await;
    plane.create(CONFIG_MAPS, &json!({"metadata": {"name": "x"}})).await;
    for (pod, name) in [("a", "x?y"), ("b", "x y"), ("c", "../configmaps/x")] {
        let volumes = json!([{"name": "v", "configMap": {"name": name}}]);
        plane.create_pod(pod, json!({}), json!({"volumes": volumes})).await;
        let why = format!("configmap {name:?} not found");
        let message = format!("MountVolume.SetUp failed for volume \"v\" : {why}");
        plane.until(EVENTS, |_, list| count(list, pod, "FailedMount", &message) == 1).await;
    }
    plane.stop().await;
}

#[tokio::test]
async fn objects_that_may_be_absent_are_not_waited_for() {
    let plane = Plane::start(1, &["none"]).await;
    let mut spec = with_env("envFrom", &json!([{"secretRef": {"name": "y", "optional": true}}]));
    let optional = json!({"name": "x", "key": "k", "optional": true});
    spec["containers"][0]["env"] =
        json!([{"name": "A", "valueFrom": {"configMapKeyRef": optional}}]);
    spec["volumes"] = json!([{"name": "v", "secret": {"secretName": "z", "optional": true}}]);
    plane.create_pod("a", json!({}), spec).await;
    plane.until_phase("a", "Running").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_waits_for_the_objects_of_its_volumes() {
    let plane = Plane::start(1, &["none"]).await;
    let volumes = json!([
        {"name": "v", "configMap": {"name": "x", "items": [{"key": "k", "path": "k"}]}},
        {"name": "w", "projected": {"sources": [{"secret": {"name": "y"}}]}},
    ]);
    plane.create_pod("a", json!({}), json!({"volumes": volumes})).await;
    let pod = plane.until_pod("a", |pod| waiting(pod)["reason"] == "ContainerCreating").await;
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(condition(&pod, "PodReadyToStartContainers")["status"], "False");
    let until_told = async |volume: &str, why: &str| {
        let message = format!("MountVolume.SetUp failed for volume \"{volume}\" : {why}");
        plane.until(EVENTS, |_, list| count(list, "a", "FailedMount", &message) == 1).await;
    };
    until_told("v", "configmap \"x\" not found").await;
    plane.create(CONFIG_MAPS, &json!({"metadata": {"name": "x"}})).await;
    plane.advance(Duration::from_secs(1));
    until_told("v", "configmap references non-existent config key: k").await;
    // A change of the pod does not lead to another check before its time.
    plane.merge(&format!("{CONFIG_MAPS}/x"), &json!({"binaryData": {"k": "AA=="}})).await;
    plane.merge(&format!("{PODS}/a"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    plane.create_pod("other", json!({}), json!({})).await;
    plane.until_phase("other", "Running").await;
    let reason = |it: &Value| it["reason"] == "FailedMount";
    let list = plane.read(EVENTS).await;
    assert_eq!(list["items"].as_array().unwrap().iter().filter(|it| reason(it)).count(), 2);
    plane.advance(Duration::from_secs(2));
    until_told("w", "secret \"y\" not found").await;
    plane.create(SECRETS, &json!({"metadata": {"name": "y"}})).await;
    plane.advance(Duration::from_secs(4));
    plane.until_phase("a", "Running").await;
    plane.stop().await;
}

/// A pod with this number of containers.
fn containers(count: usize, container: &Value) -> Value {
    let named = (0..count).map(|number| {
        let mut container = container.clone();
        container["name"] = json!(format!("c{number}"));
        container
    });
    json!({"containers": named.collect::<Vec<_>>()})
}

#[tokio::test]
async fn the_status_of_many_containers_that_wait_fits() {
    let plane = Plane::start(1, &["none"]).await;
    let name = "s".repeat(253);
    let container =
        json!({"image": "i", "envFrom": [{"secretRef": {"name": name}, "prefix": "P"}]});
    plane.create_pod("a", json!({}), containers(1300, &container)).await;
    let reason = "CreateContainerConfigError";
    let pod = plane.until_pod("a", |pod| waiting(pod)["reason"] == reason).await;
    let status = &pod["status"];
    assert_eq!(status["containerStatuses"].as_array().unwrap().len(), 1300);
    let message = &status["containerStatuses"][1299]["state"]["waiting"]["message"];
    assert_eq!(*message, format!("secret \"{}", "s".repeat(42)));
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_whose_status_is_too_large_fails_once() {
    let plane = Plane::start(1, &["none"]).await;
    let container = json!({"image": "i".repeat(2000)});
    plane.create_pod("a", json!({}), containers(300, &container)).await;
    let pod = plane.until_phase("a", "Failed").await;
    assert_eq!(pod["status"]["reason"], "StatusTooLarge");
    let message =
        "Pod was rejected: the status of its 300 containers is larger than the server accepts";
    assert_eq!(pod["status"]["message"], message);
    let message = message.trim_start_matches("Pod was rejected: ");
    plane.until(EVENTS, |_, list| count(list, "a", "StatusTooLarge", message) == 1).await;
    plane.delete(&format!("{PODS}/a")).await;
    plane.until(&format!("{PODS}/a"), |code, _| code == 404).await;
    plane.stop().await;
}
