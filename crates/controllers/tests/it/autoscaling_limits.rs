//! What the autoscalers of one user cost the others.

use std::future;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::custom_metrics::{AUTOSCALERS, SET, create_autoscaler, create_replica_set, start_after};
use crate::plane::Plane;

/// An external metric with this name and target.
fn external(name: &str, target: usize) -> Value {
    json!({"type": "External", "external": {"metric": {"name": name},
        "target": {"type": "AverageValue", "averageValue": target.to_string()}}})
}

/// Creates a ReplicaSet that an autoscaler of the same name may scale.
async fn create_target(plane: &Plane, namespace: &str, name: &str) {
    let labels = json!({"app": name});
    let set = json!({"metadata": {"name": name}, "spec": {"replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    plane.create(&format!("/apis/apps/v1/namespaces/{namespace}/replicasets"), &set).await;
}

fn condition(autoscaler: &Value, type_: &str) -> Value {
    let mut all = autoscaler["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|it| it["type"] == type_).cloned().unwrap_or_default()
}

#[tokio::test]
async fn autoscalers_that_wait_for_metrics_do_not_stop_those_of_other_namespaces() {
    let waiting = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&waiting);
    let plane = start_after(move |path: String| {
        let is_slow = path.contains("/namespaces/slow/");
        count.fetch_add(usize::from(is_slow), Relaxed);
        async move {
            if is_slow {
                future::pending::<()>().await;
            }
        }
    })
    .await;
    plane.create("/api/v1/namespaces", &json!({"metadata": {"name": "slow"}})).await;
    for number in 0..6 {
        let name = format!("s{number}");
        create_target(&plane, "slow", &name).await;
        create_autoscaler(&plane, "slow", &name, &[external("queue", 20)]).await;
    }
    while waiting.load(Relaxed) < 2 {
        tokio::task::yield_now().await;
    }
    create_replica_set(&plane).await;
    create_autoscaler(&plane, "default", "web", &[external("queue", 20)]).await;
    plane.until(SET, |_, it| it["spec"]["replicas"] == 3).await;
    assert_eq!(waiting.load(Relaxed), 2);
    plane.stop().await;
}

#[tokio::test]
async fn a_list_of_metrics_is_read_once_for_each_decision() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let plane = start_after(move |path: String| {
        if path.contains("/namespaces/default/") {
            seen.lock().unwrap().push(path);
        }
        future::ready(())
    })
    .await;
    create_replica_set(&plane).await;
    let metrics: Vec<Value> = (1..=100).map(|it| external("queue", 19 + it)).collect();
    create_autoscaler(&plane, "default", "web", &metrics).await;
    plane.until(SET, |_, it| it["spec"]["replicas"] == 3).await;
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue";
    assert_eq!(*requests.lock().unwrap(), [path]);

    create_target(&plane, "default", "many").await;
    let metrics = vec![external("other", 20); 101];
    create_autoscaler(&plane, "default", "many", &metrics).await;
    let is_decided = |_: u16, it: &Value| !condition(it, "ScalingActive").is_null();
    let many = plane.until(&format!("{AUTOSCALERS}/many"), is_decided).await;
    let active = condition(&many, "ScalingActive");
    let expect = "the HPA was unable to compute the replica count: the autoscaler has 101 metrics, \
        and at most 100 are evaluated";
    assert_eq!((&active["reason"], &active["message"]), (&json!("TooManyMetrics"), &json!(expect)));
    assert_eq!(requests.lock().unwrap().len(), 1);
    plane.stop().await;
}

#[tokio::test]
async fn the_metrics_of_a_deleted_autoscaler_are_not_evaluated_further() {
    let (reached, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let seconds = Arc::new(AtomicUsize::new(0));
    let (is_reached, is_released, count) =
        (Arc::clone(&reached), Arc::clone(&release), Arc::clone(&seconds));
    let plane = start_after(move |path: String| {
        count.fetch_add(usize::from(path.ends_with("/second")), Relaxed);
        let (is_reached, is_released) = (Arc::clone(&is_reached), Arc::clone(&is_released));
        async move {
            if path.ends_with("/first") {
                is_reached.notify_one();
                is_released.notified().await;
            }
        }
    })
    .await;
    create_target(&plane, "default", "gone").await;
    let metrics = [external("first", 20), external("second", 20)];
    create_autoscaler(&plane, "default", "gone", &metrics).await;
    reached.notified().await;
    plane.delete(&format!("{AUTOSCALERS}/gone")).await;
    // The cache shows the deletion before a later autoscaler.
    create_replica_set(&plane).await;
    create_autoscaler(&plane, "default", "web", &[external("queue", 20)]).await;
    plane.until(SET, |_, it| it["spec"]["replicas"] == 3).await;
    release.notify_one();
    let records = || plane.controllers().manager().records("horizontal-pod-autoscaler-controller");
    while !records().iter().any(|it| it.request.name() == "gone") {
        tokio::task::yield_now().await;
    }
    assert_eq!(seconds.load(Relaxed), 0);
    plane.stop().await;
}
