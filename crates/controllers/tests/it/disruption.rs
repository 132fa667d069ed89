//! Disruption budgets and evictions.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::interception::{self, Interception};
use crate::objects::until_event;
use crate::plane::Plane;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const BUDGET: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web";

/// Creates a pod that is ready, with this owner.
async fn create_ready_pod(plane: &Plane, name: &str, owner: Option<&Value>) {
    let owners: Vec<&Value> = owner.into_iter().collect();
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": owners},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n",
            "terminationGracePeriodSeconds": 0},
    });
    plane.create(PODS, &pod).await;
    let status = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    plane.merge(&format!("{PODS}/{name}/status"), &status).await;
}

async fn create_budget(plane: &Plane, limit: Value) {
    let mut spec = limit;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    plane.create(BUDGETS, &json!({"metadata": {"name": "web"}, "spec": spec})).await;
}

fn owner(api_version: &str, kind: &str, object: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "controller": true})
}

async fn evict(plane: &Plane, name: &str) -> (u16, Value) {
    plane.post(&format!("{PODS}/{name}/eviction"), &json!({"metadata": {"name": name}})).await
}

/// Waits until the status has these numbers: expected, healthy, desired and allowed.
async fn until_counts(plane: &Plane, numbers: [i64; 4]) -> Value {
    let fields = ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"];
    let read = |budget: &Value| fields.map(|field| budget["status"][field].as_i64().unwrap_or(-1));
    plane.until(BUDGET, |_, budget| read(budget) == numbers).await
}

#[tokio::test]
async fn pods_are_evicted_until_the_budget_refuses() {
    let plane = Plane::start(&["disruption"]).await;
    for name in ["a", "b", "c"] {
        create_ready_pod(&plane, name, None).await;
    }
    create_budget(&plane, json!({"minAvailable": 2})).await;
    let budget = until_counts(&plane, [3, 3, 2, 1]).await;
    let condition = &budget["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("DisruptionAllowed"), &json!("SufficientPods"))
    );
    assert_eq!(budget["status"]["observedGeneration"], 1);

    assert_eq!(evict(&plane, "a").await.0, 201);
    let budget = until_counts(&plane, [2, 2, 2, 0]).await;
    assert_eq!(budget["status"]["conditions"][0]["reason"], "InsufficientPods");
    let (code, status) = evict(&plane, "b").await;
    assert_eq!((code, &status["reason"]), (429, &json!("TooManyRequests")));
    let cause = "The disruption budget web needs 2 healthy pods and has 2 currently";
    assert_eq!(status["details"]["causes"][0]["message"], cause);

    create_ready_pod(&plane, "d", None).await;
    until_counts(&plane, [3, 3, 2, 1]).await;
    assert_eq!(evict(&plane, "b").await.0, 201);
    plane.stop().await;
}

#[tokio::test]
async fn a_percentage_is_one_of_the_replicas_of_the_deployment() {
    let plane = Plane::start(&["disruption"]).await;
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec =
        json!({"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let apps = "/apis/apps/v1/namespaces/default";
    let deployment = json!({"metadata": {"name": "web"}, "spec": spec});
    let deployment = plane.create(&format!("{apps}/deployments"), &deployment).await;
    let owners = [owner("apps/v1", "Deployment", &deployment)];
    let mut replica_set =
        json!({"metadata": {"name": "web-1", "ownerReferences": owners}, "spec": spec});
    replica_set["spec"]["replicas"] = json!(1);
    let replica_set = plane.create(&format!("{apps}/replicasets"), &replica_set).await;
    create_ready_pod(&plane, "a", Some(&owner("apps/v1", "ReplicaSet", &replica_set))).await;
    create_budget(&plane, json!({"maxUnavailable": "75%"})).await;
    until_counts(&plane, [4, 1, 1, 0]).await;
    plane.stop().await;
}

/// Creates an object of a custom kind with three replicas.
async fn create_custom_set(plane: &Plane) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let scale =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": schema}, "subresources": {"scale": scale}});
    plane
        .install_crd(&json!({
            "metadata": {"name": "sets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"plural": "sets", "singular": "set", "kind": "Set"},
                "versions": [version]},
        }))
        .await;
    let set = json!({"apiVersion": "example.com/v1", "kind": "Set", "metadata": {"name": "s"},
        "spec": {"replicas": 3}});
    plane.create("/apis/example.com/v1/namespaces/default/sets", &set).await
}

#[tokio::test]
async fn the_scale_of_a_custom_kind_is_the_expected_number_of_pods() {
    let plane = Plane::start(&["disruption"]).await;
    let set = create_custom_set(&plane).await;
    let owner = owner("example.com/v1", "Set", &set);
    for name in ["a", "b", "c"] {
        create_ready_pod(&plane, name, Some(&owner)).await;
    }
    create_budget(&plane, json!({"maxUnavailable": 1})).await;
    until_counts(&plane, [3, 3, 2, 1]).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_scale_that_cannot_be_read_does_not_stop_other_budgets() {
    let mut plane = Plane::start(&["disruption"]).await;
    let connect = interception::connect(&plane, |request| {
        let is_scale = request.uri().path().ends_with("/scale");
        if is_scale { Interception::Unanswered } else { Interception::None }
    });
    plane.restart_with(connect).await;
    let owner = owner("example.com/v1", "Set", &create_custom_set(&plane).await);
    create_ready_pod(&plane, "a", Some(&owner)).await;
    for (name, spec) in [
        ("hanging", json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}})),
        ("web", json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}})),
    ] {
        plane.create(BUDGETS, &json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    until_counts(&plane, [1, 1, 1, 0]).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_budget_whose_pods_have_an_unknown_controller_allows_nothing() {
    let plane = Plane::start(&["disruption"]).await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "u",
        "controller": true});
    create_ready_pod(&plane, "a", Some(&owner)).await;
    create_budget(&plane, json!({"maxUnavailable": 1})).await;
    let is_failed =
        |_: u16, budget: &Value| budget["status"]["conditions"][0]["reason"] == "SyncFailed";
    let budget = plane.until(BUDGET, is_failed).await;
    let message = "found no controllers for pod \"a\"";
    assert_eq!(budget["status"]["conditions"][0]["message"], message);
    let event = until_event(&plane, "CalculateExpectedPodCountFailed").await;
    assert_eq!(
        event["message"],
        format!("Failed to calculate the number of expected pods: {message}")
    );
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_that_was_evicted_but_not_deleted_counts_again_after_two_minutes() {
    let plane = Plane::start(&["disruption"]).await;
    create_ready_pod(&plane, "a", None).await;
    create_budget(&plane, json!({"minAvailable": 0})).await;
    let budget = until_counts(&plane, [1, 1, 0, 1]).await;
    let status = json!({"status": {"disruptionsAllowed": 0,
        "disruptedPods": {"a": budget["metadata"]["creationTimestamp"]}}});
    plane.merge(&format!("{BUDGET}/status"), &status).await;
    until_counts(&plane, [1, 0, 0, 0]).await;
    plane.advance(Duration::from_secs(121));
    let budget = until_counts(&plane, [1, 1, 0, 1]).await;
    assert_eq!(budget["status"]["disruptedPods"], Value::Null);
    until_event(&plane, "NotDeleted").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_that_is_not_deleted_loses_the_disruption_target_condition() {
    let plane = Plane::start(&["disruption"]).await;
    create_ready_pod(&plane, "a", None).await;
    let status = json!({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True",
        "reason": "EvictionByEvictionAPI", "lastTransitionTime": "2024-01-01T00:00:00Z"}]}});
    plane.merge(&format!("{PODS}/a/status"), &status).await;
    let is_reset = |_: u16, pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it["type"] == "DisruptionTarget" && it["status"] == "False")
    };
    assert!(!is_reset(200, &plane.read(&format!("{PODS}/a")).await));
    // The controller may see the pod only after the clock has advanced.
    plane.advance(Duration::from_secs(121));
    let pod = plane.until(&format!("{PODS}/a"), is_reset).await;
    assert_eq!(pod["status"]["conditions"].as_array().unwrap().len(), 1);
    plane.stop().await;
}

/// Restarts the controllers, and counts their requests to paths with this end.
async fn count_requests(plane: &mut Plane, method: Method, end: &'static str) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let connect = interception::connect(plane, move |request| {
        let is_counted = request.method() == method && request.uri().path().ends_with(end);
        counted.fetch_add(usize::from(is_counted), Relaxed);
        Interception::None
    });
    plane.restart_with(connect).await;
    count
}

/// Creates budgets that allow one pod to be absent, and waits until they were counted.
async fn create_budgets(plane: &Plane, names: &[&str], is_counted: impl Fn(&Value) -> bool) {
    for name in names {
        let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}});
        plane.create(BUDGETS, &json!({"metadata": {"name": name}, "spec": spec})).await;
        plane.until(&format!("{BUDGETS}/{name}"), |_, budget| is_counted(budget)).await;
    }
}

async fn set_ready(plane: &Plane, pod: &str, ready: bool) {
    let status = if ready { "True" } else { "False" };
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    plane.merge(&format!("{PODS}/{pod}/status"), &status).await;
}

#[tokio::test]
async fn a_kind_without_a_scale_is_not_asked_for_scales_again() {
    let mut plane = Plane::start(&["disruption"]).await;
    let requests = count_requests(&mut plane, Method::GET, "/scale").await;
    for name in ["a", "b", "c", "d"] {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name,
            "controller": true});
        create_ready_pod(&plane, name, Some(&owner)).await;
    }
    let is_failed = |budget: &Value| {
        let message = budget["status"]["conditions"][0]["message"].as_str();
        message == Some("jobs.batch does not implement the scale subresource")
    };
    create_budgets(&plane, &["first"], is_failed).await;
    assert!((1..=4).contains(&requests.swap(0, Relaxed)));
    for number in 0..10 {
        set_ready(&plane, "a", number % 2 == 0).await;
    }
    create_budgets(&plane, &["second", "third"], is_failed).await;
    assert_eq!(requests.load(Relaxed), 0);
    plane.stop().await;
}

#[tokio::test]
async fn a_scale_is_read_once_for_all_budgets_and_again_after_the_last_change_of_its_pods() {
    let mut plane = Plane::start(&["disruption"]).await;
    let requests = count_requests(&mut plane, Method::GET, "/scale").await;
    let set = create_custom_set(&plane).await;
    let owner = owner("example.com/v1", "Set", &set);
    for name in ["a", "b", "c"] {
        create_ready_pod(&plane, name, Some(&owner)).await;
    }
    let is_counted = |budget: &Value| budget["status"]["expectedPods"] == 3;
    create_budgets(&plane, &["first", "second", "third", "web"], is_counted).await;
    for is_ready in [false, true, false] {
        set_ready(&plane, "a", is_ready).await;
    }
    until_counts(&plane, [3, 2, 2, 0]).await;
    assert_eq!(requests.load(Relaxed), 1, "the clock has not advanced");
    let set = "/apis/example.com/v1/namespaces/default/sets/s";
    plane.merge(set, &json!({"spec": {"replicas": 5}})).await;
    set_ready(&plane, "b", false).await;
    let is_recounted = |_: u16, budget: &Value| {
        plane.advance(Duration::from_secs(1));
        let status = &budget["status"];
        status["expectedPods"] == 5 && status["currentHealthy"] == 1
    };
    plane.until(BUDGET, is_recounted).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_budget_whose_pods_keep_changing_is_counted_a_few_times_and_after_the_last_change() {
    let mut plane = Plane::start(&["disruption"]).await;
    let writes = count_requests(&mut plane, Method::PUT, "/status").await;
    create_ready_pod(&plane, "a", None).await;
    create_budget(&plane, json!({"minAvailable": 0})).await;
    let is_healthy = |budget: &Value, healthy: u64| budget["status"]["currentHealthy"] == healthy;
    plane.until(BUDGET, |_, budget| is_healthy(budget, 1)).await;
    for number in 0..40 {
        set_ready(&plane, "a", number % 2 == 0).await;
    }
    // The controller has seen the changes when it has seen a later budget.
    plane
        .create(
            BUDGETS,
            &json!({"metadata": {"name": "last"},
        "spec": {"minAvailable": 0, "selector": {}}}),
        )
        .await;
    let last = format!("{BUDGETS}/last");
    plane.until(&last, |_, budget| budget["status"]["expectedPods"] == 1).await;
    let count = writes.load(Relaxed);
    assert!(count <= 13, "{count} writes in one moment");
    let is_last = |_: u16, budget: &Value| {
        plane.advance(Duration::from_secs(1));
        is_healthy(budget, 0)
    };
    plane.until(BUDGET, is_last).await;
    plane.stop().await;
}
