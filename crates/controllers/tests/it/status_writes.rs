//! The status of workloads, which others write, too.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use http::{Method, Request};

use crate::interception::{self, Interception};
use crate::objects::template;
use crate::plane::Plane;
use machinery::{Value, json};

const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

fn workload(replicas: u32) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template("web"),
    }})
}

fn is_observed(workload: &Value) -> bool {
    workload["status"]["observedGeneration"] == workload["metadata"]["generation"]
}

/// The lines of a metric with this label and a value that is not zero.
fn counted(plane: &Plane, metric: &str, label: &str) -> Vec<String> {
    let text = plane.controllers().manager().metrics_text();
    let is_counted =
        |line: &&str| line.starts_with(metric) && line.contains(label) && !line.ends_with(" 0");
    text.lines().filter(is_counted).map(str::to_owned).collect()
}

/// Another client adds a condition between the last read of the controller and its write.
async fn check(controller: &str, collection: &str, workload: &Value) {
    let mut plane = Plane::start(&[controller]).await;
    let path = format!("{collection}/web");
    let status = format!("{path}/status");
    let is_armed = Arc::new(AtomicBool::new(false));
    let armed = Arc::clone(&is_armed);
    let connect = interception::connect(&plane, move |request| {
        let is_write = request.method() == Method::PATCH && request.uri().path() == status;
        if !is_write || !armed.swap(false, Relaxed) {
            return Interception::None;
        }
        let condition = json!({"type": "Checked", "status": "True"});
        let patch = json!({"status": {"conditions": [condition]}}).to_string().into_bytes();
        let media_type = "application/strategic-merge-patch+json";
        let patch =
            Request::patch(&status).header("content-type", media_type).body(patch.into()).unwrap();
        Interception::After(Box::new(patch))
    });
    plane.restart_with(connect).await;
    plane.create(collection, workload).await;
    plane.until(&path, |_, it| is_observed(it)).await;
    is_armed.store(true, Relaxed);
    plane.merge(&path, &json!({"spec": {"minReadySeconds": 1}})).await;
    let found = plane.until(&path, |_, it| is_observed(it)).await;
    assert!(!is_armed.load(Relaxed));
    let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
    let types: Vec<&Value> = conditions.map(|it| &it["type"]).collect();
    assert!(types.contains(&&json!("Checked")), "{controller}: {types:?}");
    let errors = counted(&plane, "controller_runtime_reconcile_total", "result=\"error\"");
    assert_eq!(errors, Vec::<String>::new());
    plane.stop().await;
}

#[tokio::test]
async fn a_condition_of_another_writer_stays_in_a_replica_set() {
    check("replicaset", REPLICA_SETS, &workload(0)).await;
}

#[tokio::test]
async fn a_condition_of_another_writer_stays_in_a_replication_controller() {
    let mut controller = workload(0);
    controller["spec"]["selector"] = json!({"app": "web"});
    let collection = "/api/v1/namespaces/default/replicationcontrollers";
    check("replicationcontroller", collection, &controller).await;
}

#[tokio::test]
async fn a_condition_of_another_writer_stays_in_a_stateful_set() {
    let mut set = workload(0);
    set["spec"]["serviceName"] = "web".into();
    check("statefulset", "/apis/apps/v1/namespaces/default/statefulsets", &set).await;
}

#[tokio::test]
async fn a_condition_of_another_writer_stays_in_a_daemon_set() {
    let mut set = workload(0);
    set["spec"].as_object_mut().unwrap().remove("replicas");
    check("daemonset", "/apis/apps/v1/namespaces/default/daemonsets", &set).await;
}

#[tokio::test]
async fn a_condition_of_another_writer_stays_in_a_deployment() {
    check("deployment", "/apis/apps/v1/namespaces/default/deployments", &workload(0)).await;
}

#[tokio::test]
async fn a_set_that_grows_by_several_bursts_has_no_conflicts() {
    let plane = Plane::start(&["replicaset"]).await;
    plane.create(REPLICA_SETS, &workload(1)).await;
    let path = format!("{REPLICA_SETS}/web");
    let has = |replicas: u32| {
        move |_: u16, set: &Value| is_observed(set) && set["status"]["replicas"] == replicas
    };
    plane.until(&path, has(1)).await;
    plane.merge(&path, &json!({"spec": {"replicas": 600}})).await;
    plane.until(&path, has(600)).await;
    let requests = "rest_client_requests_total";
    assert!(!counted(&plane, requests, "code=\"201\"").is_empty());
    assert_eq!(counted(&plane, requests, "code=\"409\""), Vec::<String>::new());
    plane.stop().await;
}
