//! Events about the containers of simulated pods.

use std::time::Duration;

use crate::plane::{PODS, Plane, condition};
use machinery::{Value, json};

const EVENTS: &str = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind%3DPod";

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
async fn a_container_with_another_image_is_killed_and_restarted() {
    let plane = Plane::start(1, &["none"]).await;
    plane.create_pod("web", json!({}), json!({"restartPolicy": "Never"})).await;
    let before = plane.until_phase("web", "Running").await;
    plane.until(EVENTS, |_, list| about(list, "web").len() == 3).await;
    let containers = json!([{"name": "main", "image": "example.com/app:2"}]);
    let (code, changed) = plane
        .patch(
            &format!("{PODS}/web"),
            "application/strategic-merge-patch+json",
            &json!({"spec": {"containers": containers}}),
        )
        .await;
    assert_eq!(code, 200, "{changed}");
    let generation = &changed["metadata"]["generation"];
    let pod = plane.until_pod("web", |it| it["status"]["observedGeneration"] == *generation).await;
    let container = |pod: &Value| pod["status"]["containerStatuses"][0].clone();
    let (old, new) = (container(&before), container(&pod));
    assert_eq!((&new["restartCount"], &new["ready"]), (&json!(1), &json!(true)));
    assert_eq!(new["image"], "example.com/app:2");
    assert_ne!(new["containerID"], old["containerID"]);
    assert_eq!(new["lastState"]["terminated"]["containerID"], old["containerID"]);
    let list = plane.until(EVENTS, |_, list| about(list, "web").len() == 5).await;
    let killing = "Container main definition changed, will be restarted";
    let pulled = "Container image \"example.com/app:2\" already present on machine and can be accessed by the pod";
    for (reason, message) in [("Killing", killing), ("Pulled", pulled)] {
        let expect = (reason.to_owned(), message.to_owned());
        assert!(about(&list, "web").contains(&expect), "{:?}", about(&list, "web"));
    }
    plane.stop().await;
}

#[tokio::test]
async fn a_container_that_waits_for_its_image_is_told_as_by_a_kubelet() {
    let plane = Plane::start(1, &["none"]).await;
    plane.create_pod("bad", json!({"sampan.dev/waiting": "ImagePullBackOff"}), json!({})).await;
    let pod = plane.until_pod("bad", |pod| pod["status"]["podIP"].is_string()).await;
    let why = "simulated by the annotation sampan.dev/waiting";
    let image = "\"example.com/app:1\"";
    let status = &pod["status"];
    assert_eq!(status["phase"], "Pending");
    assert_eq!(condition(&pod, "PodReadyToStartContainers")["status"], "True");
    assert_eq!(condition(&pod, "Initialized")["status"], "True");
    let message = format!("Back-off pulling image {image}: ErrImagePull: {why}");
    assert_eq!(
        status["containerStatuses"][0]["state"]["waiting"],
        json!({"reason": "ImagePullBackOff", "message": message})
    );
    let list = plane.until(EVENTS, |_, list| about(list, "bad").len() == 5).await;
    let expect = [
        ("BackOff", format!("Back-off pulling image {image}")),
        ("Failed", "Error: ErrImagePull".to_owned()),
        ("Failed", "Error: ImagePullBackOff".to_owned()),
        ("Failed", format!("Failed to pull image {image}: {why}")),
        ("Pulling", format!("Pulling image {image}")),
    ];
    assert_eq!(about(&list, "bad"), expect.map(|(reason, it)| (reason.to_owned(), it)));
    plane.merge(&format!("{PODS}/bad"), &json!({"metadata": {"annotations": null}})).await;
    plane.until_phase("bad", "Running").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_container_can_wait_for_its_next_restart_for_ever() {
    let plane = Plane::start(1, &["none"]).await;
    plane.create_pod("bad", json!({"sampan.dev/waiting": "CrashLoopBackOff"}), json!({})).await;
    let pod = plane.until_phase("bad", "Running").await;
    let container = &pod["status"]["containerStatuses"][0];
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let message = format!("back-off 10s restarting failed container=main pod=bad_default({uid})");
    assert_eq!(
        container["state"]["waiting"],
        json!({"reason": "CrashLoopBackOff", "message": message})
    );
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(condition(&pod, "Ready")["reason"], "ContainersNotReady");
    let is_told = |list: &Value| about(list, "bad").iter().any(|(reason, _)| reason == "BackOff");
    plane.until(EVENTS, |_, list| is_told(list)).await;
    plane.advance(Duration::from_mins(10));
    plane.merge(&format!("{PODS}/bad"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    plane.create_pod("next", json!({}), json!({})).await;
    plane.until_phase("next", "Running").await;
    let later = plane.get(&format!("{PODS}/bad")).await.1;
    assert_eq!(later["status"], pod["status"]);
    plane.stop().await;
}

#[tokio::test]
async fn each_start_of_an_init_container_that_fails_is_told() {
    let plane = Plane::start(1, &["none"]).await;
    let init = json!([{"name": "init", "image": "example.com/init:1"}]);
    let annotations = json!({"exit-code.sampan.dev/init": "1"});
    plane.create_pod("bad", annotations, json!({"initContainers": init})).await;
    let status = |pod: &Value| pod["status"]["initContainerStatuses"][0].clone();
    let is_waiting = |pod: &Value| status(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    plane.until_pod("bad", is_waiting).await;
    plane.advance(Duration::from_secs(10));
    let pod = plane.until_pod("bad", |it| status(it)["restartCount"] == 2 && is_waiting(it)).await;
    let count = |list: &Value, reason: &str| {
        let items = list["items"].as_array().unwrap().iter();
        let mut about = items.filter(|event| event["reason"] == reason);
        about.next().map_or(0, |event| event["count"].as_i64().unwrap())
    };
    assert_eq!(status(&pod)["lastState"]["terminated"]["exitCode"], 1);
    let list = plane.until(EVENTS, |_, list| count(list, "BackOff") == 2).await;
    let counts = ["Pulled", "Created", "Started"].map(|reason| count(&list, reason));
    assert_eq!(counts, [3; 3]);
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
