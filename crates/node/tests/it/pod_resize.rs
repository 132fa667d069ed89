//! Other resources for pods that run.

use crate::plane::{PODS, Plane, condition};
use machinery::{Value, json};

const EVENTS: &str = "/api/v1/namespaces/default/events";

fn spec(resources: &Value) -> Value {
    let policy = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    json!({"containers": [
        {"name": "plain", "image": "nginx"},
        {"name": "main", "image": "nginx", "resources": resources, "resizePolicy": policy},
    ]})
}

async fn resize(plane: &Plane, resources: &Value) -> Value {
    let patch = json!({"spec": {"containers": [{"name": "main", "resources": resources}]}});
    let media_type = "application/strategic-merge-patch+json";
    let (code, pod) = plane.patch(&format!("{PODS}/web/resize"), media_type, &patch).await;
    assert_eq!(code, 200, "{pod}");
    pod["metadata"]["generation"].clone()
}

async fn until_observed(plane: &Plane, generation: &Value) -> Value {
    plane.until_pod("web", |pod| pod["status"]["observedGeneration"] == *generation).await
}

async fn message(plane: &Plane, reason: &str) -> String {
    let is_it = |event: &&Value| event["reason"] == reason;
    let find = |list: &Value| list["items"].as_array().unwrap().iter().find(is_it).cloned();
    let list = plane.until(EVENTS, |_, list| find(list).is_some()).await;
    find(&list).unwrap()["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_running_pod_gets_other_resources() {
    let plane = Plane::start(1, &["none"]).await;
    let resources =
        json!({"limits": {"memory": "2Gi"}, "requests": {"cpu": "0.5", "memory": "1Gi"}});
    plane.create_pod("web", json!({}), spec(&resources)).await;
    let pod = plane.until_phase("web", "Running").await;
    let [plain, main] = [0, 1].map(|index| &pod["status"]["containerStatuses"][index]);
    assert_eq!((&plain["resources"], &plain["allocatedResources"]), (&json!({}), &Value::Null));
    let requests = json!({"cpu": "500m", "memory": "1Gi"});
    assert_eq!(main["resources"], json!({"limits": {"memory": "2Gi"}, "requests": requests}));
    assert_eq!(main["allocatedResources"], requests);

    let generation = resize(&plane, &json!({"requests": {"cpu": "2"}})).await;
    assert_eq!(generation, 2);
    let pod = until_observed(&plane, &generation).await;
    let main = &pod["status"]["containerStatuses"][1];
    assert_eq!(main["resources"]["requests"]["cpu"], "2");
    assert_eq!(main["allocatedResources"], json!({"cpu": "2", "memory": "1Gi"}));
    assert_eq!(main["restartCount"], 0);
    assert_eq!(condition(&pod, "PodResizePending"), &Value::Null);
    assert_eq!(
        message(&plane, "ResizeCompleted").await,
        r#"Pod resize completed: {"containers":[{"name":"plain","resources":{}},{"name":"main","resources":{"limits":{"memory":"2Gi"},"requests":{"cpu":"2","memory":"1Gi"}}}],"generation":2}"#
    );

    let generation = resize(&plane, &json!({"limits": {"memory": "3Gi"}})).await;
    let pod = until_observed(&plane, &generation).await;
    let main = &pod["status"]["containerStatuses"][1];
    assert_eq!(main["resources"]["limits"]["memory"], "3Gi");
    assert_eq!(main["restartCount"], 1, "as its policy says");
    assert_eq!(main["ready"], true);
    assert_eq!(message(&plane, "Killing").await, "Container main resize requires restart");
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_that_wants_more_than_its_node_has_keeps_its_resources() {
    let plane = Plane::start(1, &["none"]).await;
    plane.create_pod("web", json!({}), spec(&json!({"requests": {"cpu": "1"}}))).await;
    plane.until_phase("web", "Running").await;
    let generation = resize(&plane, &json!({"requests": {"cpu": "1001"}})).await;
    let pod = until_observed(&plane, &generation).await;
    let main = &pod["status"]["containerStatuses"][1];
    assert_eq!(main["resources"]["requests"]["cpu"], "1");
    let why = "Node didn't have enough capacity: cpu, requested: 1001000, capacity: 1000000";
    let pending = condition(&pod, "PodResizePending");
    assert_eq!((&pending["status"], &pending["reason"]), (&json!("True"), &json!("Infeasible")));
    assert_eq!((&pending["message"], &pending["observedGeneration"]), (&json!(why), &json!(2)));
    let told = message(&plane, "ResizeInfeasible").await;
    assert!(told.starts_with("Pod resize Infeasible: {"), "{told}");
    assert!(told.ends_with(&format!(r#""generation":2,"error":"{why}"}}"#)), "{told}");

    let generation = resize(&plane, &json!({"requests": {"cpu": "1k"}})).await;
    let pod = until_observed(&plane, &generation).await;
    assert_eq!(pod["status"]["containerStatuses"][1]["resources"]["requests"]["cpu"], "1k");
    assert_eq!(condition(&pod, "PodResizePending"), &Value::Null);
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_that_wants_what_other_pods_have_waits_for_it() {
    let plane = Plane::start(1, &["none"]).await;
    plane.create_pod("other", json!({}), spec(&json!({"requests": {"cpu": "999"}}))).await;
    plane.until_phase("other", "Running").await;
    plane.create_pod("web", json!({}), spec(&json!({"requests": {"cpu": "1"}}))).await;
    plane.until_phase("web", "Running").await;
    let generation = resize(&plane, &json!({"requests": {"cpu": "2"}})).await;
    let pod = until_observed(&plane, &generation).await;
    let pending = condition(&pod, "PodResizePending");
    assert_eq!(pending["reason"], "Deferred");
    let expect =
        "Node didn't have enough resource: cpu, requested: 2000, used: 999000, capacity: 1000000";
    assert_eq!(pending["message"], expect);
    message(&plane, "ResizeDeferred").await;
    plane.delete(&format!("{PODS}/other")).await;
    plane.until(&format!("{PODS}/other"), |code, _| code == 404).await;
    plane.advance(std::time::Duration::from_secs(10));
    let cpu =
        |pod: &Value| pod["status"]["containerStatuses"][1]["resources"]["requests"]["cpu"].clone();
    let pod = plane.until_pod("web", |pod| cpu(pod) == "2").await;
    assert_eq!(condition(&pod, "PodResizePending"), &Value::Null);
    plane.stop().await;
}
