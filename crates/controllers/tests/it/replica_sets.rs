//! ReplicaSets and ReplicationControllers.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::{Method, StatusCode};

use crate::interception::{self, Interception};
use crate::objects::{PODS, make_ready, names, template};
use crate::plane::Plane;
use machinery::{Value, json};

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const WEB: &str = "/apis/apps/v1/namespaces/default/replicasets/web";
const EVENTS: &str = "/api/v1/namespaces/default/events";

fn set(replicas: u32) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("web"),
        },
    })
}

async fn plane() -> Plane {
    Plane::start(&["replicaset", "replicationcontroller"]).await
}

/// Waits until the status of the set has this number of replicas.
async fn until_replicas(plane: &Plane, path: &str, replicas: u32) -> Value {
    plane
        .until(path, |_, set| {
            set["status"]["replicas"] == replicas
                && set["status"]["observedGeneration"] == set["metadata"]["generation"]
        })
        .await
}

#[tokio::test]
async fn a_replica_set_creates_the_missing_pods_and_deletes_the_surplus() {
    let plane = plane().await;
    plane.create(SETS, &set(3)).await;
    let found = until_replicas(&plane, WEB, 3).await;
    assert_eq!(found["status"]["fullyLabeledReplicas"], 3);
    assert_eq!(found["status"]["readyReplicas"], Value::Null);
    let pods = plane.read(PODS).await;
    for pod in pods["items"].as_array().unwrap() {
        let owner = &pod["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], found["metadata"]["uid"]);
        assert_eq!(
            (&owner["controller"], &owner["blockOwnerDeletion"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(pod["metadata"]["generateName"], "web-");
        assert_eq!(pod["metadata"]["labels"], json!({"app": "web"}));
    }
    plane.merge(WEB, &json!({"spec": {"replicas": 1}})).await;
    until_replicas(&plane, WEB, 1).await;
    assert_eq!(names(&plane.read(PODS).await).len(), 1);
    plane.stop().await;
}

#[tokio::test]
async fn a_deleted_pod_is_replaced() {
    let plane = plane().await;
    plane.create(SETS, &set(2)).await;
    until_replicas(&plane, WEB, 2).await;
    let before = names(&plane.read(PODS).await);
    plane.delete(&format!("{PODS}/{}", before[0])).await;
    let after = plane.until(PODS, |_, pods| {
        let names = names(pods);
        names.len() == 2 && !names.contains(&before[0])
    });
    assert!(names(&after.await).contains(&before[1]));
    plane.stop().await;
}

#[tokio::test]
async fn pods_become_available_after_they_were_ready_for_the_minimum_time() {
    let plane = plane().await;
    let mut set = set(1);
    set["spec"]["minReadySeconds"] = 10.into();
    plane.create(SETS, &set).await;
    until_replicas(&plane, WEB, 1).await;
    make_ready(&plane, &names(&plane.read(PODS).await)[0]).await;
    let found = plane.until(WEB, |_, set| set["status"]["readyReplicas"] == 1).await;
    assert_eq!(found["status"]["availableReplicas"], Value::Null);
    plane.advance(Duration::from_secs(10));
    plane.until(WEB, |_, set| set["status"]["availableReplicas"] == 1).await;
    plane.stop().await;
}

#[tokio::test]
async fn an_orphan_is_adopted_and_a_pod_with_other_labels_is_released() {
    let plane = plane().await;
    let mut orphan = template("web");
    orphan["metadata"]["name"] = "orphan".into();
    plane.create(PODS, &orphan).await;
    let set = plane.create(SETS, &set(1)).await;
    until_replicas(&plane, WEB, 1).await;
    let pods = plane.read(PODS).await;
    assert_eq!(names(&pods), ["orphan"]);
    let owner = &pods["items"][0]["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], set["metadata"]["uid"]);

    let relabeled = json!({"metadata": {"labels": {"app": "debugged"}}});
    plane.merge(&format!("{PODS}/orphan"), &relabeled).await;
    plane.until(PODS, |_, pods| names(pods).len() == 2).await;
    let released = plane
        .until(&format!("{PODS}/orphan"), |_, pod| pod["metadata"]["ownerReferences"].is_null())
        .await;
    assert_eq!(released["metadata"]["labels"]["app"], "debugged");

    // The released pod is selected again: one of the two is surplus.
    let relabeled = json!({"metadata": {"labels": {"app": "web"}}});
    plane.merge(&format!("{PODS}/orphan"), &relabeled).await;
    plane.until(PODS, |_, pods| names(pods).len() == 1).await;
    plane.stop().await;
}

/// A stopped plane with three pods without a controller.
async fn plane_with_orphans() -> Plane {
    let mut plane = plane().await;
    plane.stop_controllers().await;
    for name in ["orphan-a", "orphan-b", "orphan-c"] {
        let mut orphan = template("web");
        orphan["metadata"]["name"] = name.into();
        plane.create(PODS, &orphan).await;
    }
    plane
}

fn is_owned(_: u16, pod: &Value) -> bool {
    pod["metadata"]["ownerReferences"].is_array()
}

#[tokio::test]
async fn a_set_reads_itself_once_before_it_adopts_several_pods() {
    let mut plane = plane_with_orphans().await;
    plane.create(SETS, &set(3)).await;
    let reads = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&reads);
    let connect = interception::connect(&plane, move |request| {
        if request.method() == Method::GET && request.uri().path() == WEB {
            counter.fetch_add(1, Relaxed);
        }
        Interception::None
    });
    plane.restart_with(connect).await;
    until_replicas(&plane, WEB, 3).await;
    let pods = plane.read(PODS).await;
    assert_eq!(names(&pods), ["orphan-a", "orphan-b", "orphan-c"]);
    assert!(pods["items"].as_array().unwrap().iter().all(|pod| is_owned(200, pod)));
    assert_eq!(reads.load(Relaxed), 1);
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_that_cannot_be_adopted_does_not_hold_up_the_others() {
    let mut plane = plane_with_orphans().await;
    plane.create(SETS, &set(3)).await;
    let connect = interception::connect(&plane, |request| {
        let path = request.uri().path();
        if request.method() == Method::PATCH && path == format!("{PODS}/orphan-a") {
            Interception::Refused(StatusCode::INTERNAL_SERVER_ERROR)
        } else {
            Interception::None
        }
    });
    plane.restart_with(connect).await;
    for name in ["orphan-b", "orphan-c"] {
        plane.until(&format!("{PODS}/{name}"), is_owned).await;
    }
    // No pod is created in place of one that may still be adopted.
    assert_eq!(names(&plane.read(PODS).await).len(), 3);
    plane.stop().await;
}

/// Binds a pod to a node, and writes that it has been ready since now.
async fn run_on(plane: &Plane, pod: &str, node: &str) {
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
    let binding =
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target});
    plane.post(&format!("{PODS}/{pod}/binding"), &binding).await;
    let now = jiff::Timestamp::from_second(plane.clock().now().seconds()).unwrap().to_string();
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
    let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
    plane.merge(&format!("{PODS}/{pod}/status"), &status).await;
}

#[tokio::test]
async fn a_pod_that_shares_its_node_with_another_set_of_the_deployment_is_deleted_first() {
    let plane = plane().await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
        "uid": "6c2f0b7e-0000-4000-8000-000000000001", "controller": true});
    for (name, replicas) in [("new", 2), ("old", 1)] {
        let mut set = set(replicas);
        set["metadata"] = json!({"name": name, "ownerReferences": [owner]});
        set["spec"]["selector"] = json!({"matchLabels": {"app": name}});
        set["spec"]["template"] = template(name);
        plane.create(SETS, &set).await;
        until_replicas(&plane, &format!("{SETS}/{name}"), replicas).await;
    }
    let new = names(&plane.read(&format!("{PODS}?labelSelector=app%3Dnew")).await);
    let old = names(&plane.read(&format!("{PODS}?labelSelector=app%3Dold")).await);
    run_on(&plane, &new[0], "shared").await;
    run_on(&plane, &old[0], "shared").await;
    // Without the other set, this one would be deleted first, since it became ready later.
    plane.advance(Duration::from_hours(1));
    run_on(&plane, &new[1], "alone").await;
    for (name, ready) in [("new", 2), ("old", 1)] {
        let is_ready = |_: u16, set: &Value| set["status"]["readyReplicas"] == ready;
        plane.until(&format!("{SETS}/{name}"), is_ready).await;
    }
    let path = format!("{SETS}/new");
    plane.merge(&path, &json!({"spec": {"replicas": 1}})).await;
    until_replicas(&plane, &path, 1).await;
    let pods = plane.read(&format!("{PODS}?labelSelector=app%3Dnew")).await;
    let is_left = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
    let left: Vec<&Value> = pods["items"].as_array().unwrap().iter().filter(is_left).collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["metadata"]["name"], new[1]);
    plane.stop().await;
}

#[tokio::test]
async fn a_refused_creation_is_shown_by_a_condition_and_an_event() {
    let plane = plane().await;
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "1"}}});
    plane.create("/api/v1/namespaces/default/resourcequotas", &quota).await;
    plane
        .until("/api/v1/namespaces/default/resourcequotas/none", |_, quota| {
            quota["status"]["hard"]["pods"] == "1"
        })
        .await;
    plane.create(SETS, &set(3)).await;
    let found = plane.until(WEB, |_, set| set["status"]["conditions"].is_array()).await;
    let condition = &found["status"]["conditions"][0];
    assert_eq!(condition["type"], "ReplicaFailure");
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("True"), &json!("FailedCreate"))
    );
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("is forbidden: exceeded quota: none"), "{message}");
    let events = plane
        .until(EVENTS, |_, events| {
            events["items"].as_array().unwrap().iter().any(|it| it["reason"] == "FailedCreate")
        })
        .await;
    let failed =
        events["items"].as_array().unwrap().iter().find(|it| it["reason"] == "FailedCreate");
    let failed = failed.unwrap();
    assert!(failed["message"].as_str().unwrap().starts_with("Error creating: pods \"web-"));
    assert_eq!(failed["source"]["component"], "replicaset-controller");

    plane.delete("/api/v1/namespaces/default/resourcequotas/none").await;
    plane.advance(Duration::from_mins(1));
    let found = until_replicas(&plane, WEB, 3).await;
    assert_eq!(found["status"]["conditions"], Value::Null);
    plane.stop().await;
}

#[tokio::test]
async fn a_replica_set_with_more_pods_than_a_burst_is_complete() {
    let plane = plane().await;
    plane.create(SETS, &set(600)).await;
    until_replicas(&plane, WEB, 600).await;
    assert_eq!(names(&plane.read(PODS).await).len(), 600);
    plane.stop().await;
}

#[tokio::test]
async fn a_large_set_counts_its_pods_at_intervals_but_follows_its_spec_at_once() {
    let plane = plane().await;
    let mut small = set(1);
    small["metadata"]["name"] = "small".into();
    small["spec"]["selector"] = json!({"matchLabels": {"app": "small"}});
    small["spec"]["template"] = template("small");
    plane.create(SETS, &small).await;
    plane.create(SETS, &set(120)).await;
    until_replicas(&plane, WEB, 120).await;
    let is_ready = |count: u32| move |_: u16, set: &Value| set["status"]["readyReplicas"] == count;
    let small = format!("{SETS}/small");
    until_replicas(&plane, &small, 1).await;
    let pods = |app: &'static str| {
        let path = format!("{PODS}?labelSelector=app%3D{app}");
        let plane = &plane;
        async move { names(&plane.read(&path).await) }
    };

    // The pod of the small set shows that the controller has seen the one before.
    let large = pods("web").await;
    make_ready(&plane, &large[0]).await;
    make_ready(&plane, &pods("small").await[0]).await;
    plane.until(&small, is_ready(1)).await;
    assert_eq!(plane.read(WEB).await["status"]["readyReplicas"], Value::Null);
    plane.advance(Duration::from_millis(6));
    plane.until(WEB, is_ready(1)).await;

    make_ready(&plane, &large[1]).await;
    plane.merge(WEB, &json!({"spec": {"replicas": 121}})).await;
    until_replicas(&plane, WEB, 121).await;
    plane.until(WEB, is_ready(2)).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_replication_controller_keeps_its_pods() {
    let plane = plane().await;
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    let controller =
        json!({"metadata": {"name": "web"}, "spec": {"replicas": 2, "template": template("web")}});
    plane.create(controllers, &controller).await;
    let found = until_replicas(&plane, &format!("{controllers}/web"), 2).await;
    assert_eq!(found["status"]["terminatingReplicas"], Value::Null);
    let pods = plane.read(PODS).await;
    assert_eq!(pods["items"][0]["metadata"]["ownerReferences"][0]["kind"], "ReplicationController");
    plane.stop().await;
}

#[tokio::test]
async fn an_idle_plane_is_not_written_to() {
    let plane = plane().await;
    plane.create(SETS, &set(2)).await;
    until_replicas(&plane, WEB, 2).await;
    plane.until(EVENTS, |_, events| names(events).len() == 2).await;
    let before = plane.read(WEB).await;
    for _ in 0..30 {
        plane.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(plane.read(WEB).await, before);
    assert_eq!(names(&plane.read(EVENTS).await).len(), 2);
    plane.stop().await;
}

#[tokio::test]
async fn a_set_in_a_namespace_that_is_being_deleted_waits_for_a_change() {
    let plane = plane().await;
    let path = "/api/v1/namespaces/gone";
    plane.create("/api/v1/namespaces", &json!({"metadata": {"name": "gone"}})).await;
    let sets = "/apis/apps/v1/namespaces/gone/replicasets";
    plane.create(sets, &set(0)).await;
    let web = format!("{sets}/web");
    until_replicas(&plane, &web, 0).await;
    plane.delete(path).await;
    plane.merge(&web, &json!({"spec": {"replicas": 2}})).await;
    until_replicas(&plane, &web, 0).await;
    let reconciles = || {
        let text = plane.controllers().manager().metrics_text();
        let lines = text.lines().filter(|line| {
            line.starts_with("controller_runtime_reconcile_total") && line.contains("\"replicaset")
        });
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
    };
    let before = reconciles();
    for _ in 0..100 {
        plane.read(&web).await;
        tokio::task::yield_now().await;
    }
    assert!(before > 0 && reconciles() - before <= 2, "{before} and then {}", reconciles());
    plane.stop().await;
}
