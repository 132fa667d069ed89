//! Clients that disconnect while the disk writes: the addresses, ports and quota that their requests
//! have allocated stay allocated until the result of the write is known and can be read.

use std::time::Duration;

use futures_util::FutureExt;

use crate::objects::{CONFIG_MAPS, config_map};
use crate::slow_disk::{self, SlowDisk, post_and_disconnect};
use keel::Clock;
use machinery::{Value, json};
use testenv::{START, TestEnv};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn start() -> (TestEnv, SlowDisk) {
    slow_disk::start(Clock::manual(START)).await
}

fn service(name: &str) -> Value {
    let port = json!({"port": 80, "nodePort": 30_077});
    json!({"metadata": {"name": name},
        "spec": {"type": "NodePort", "clusterIP": "10.0.0.77", "ports": [port]}})
}

#[tokio::test]
async fn an_address_and_a_port_stay_allocated_while_their_write_is_pending() {
    let (plane, disk) = start().await;
    post_and_disconnect(&plane, &disk, SERVICES, &service("a")).await;
    let (code, status) = plane.post(SERVICES, &service("b")).await;
    assert_eq!(code, 422, "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("provided IP is already allocated"), "{message}");
    // Only the first error is reported, so a second request names the port.
    let mut only_port = service("b");
    only_port["spec"]["clusterIP"] = "".into();
    let (code, status) = plane.post(SERVICES, &only_port).await;
    assert_eq!(code, 422, "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("provided port is already allocated"), "{message}");
    let (code, status) = plane.post(&format!("{SERVICES}?dryRun=All"), &service("b")).await;
    assert_eq!(code, 422, "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("provided port is already allocated"), "{message}");

    disk.resume();
    plane.until(&format!("{SERVICES}/a"), |code, _| code == 200).await;
    assert_eq!(plane.post(SERVICES, &service("b")).await.0, 422);
    plane.delete(&format!("{SERVICES}/a")).await;
    plane.create(SERVICES, &service("b")).await;
}

#[tokio::test]
async fn an_address_is_free_again_once_its_write_is_refused() {
    let (plane, disk) = start().await;
    // The first write of the name wins; the second one is decided after its client has disconnected.
    let mut other = service("a");
    other["spec"] = json!({"ports": [{"port": 80}]});
    post_and_disconnect(&plane, &disk, SERVICES, &other).await;
    assert!(Box::pin(plane.post(SERVICES, &service("a"))).now_or_never().is_none());
    disk.resume();
    plane.until(&format!("{SERVICES}/a"), |code, _| code == 200).await;
    let posted = async {
        while plane.post(SERVICES, &service("b")).await.0 != 201 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), posted).await.unwrap();
}

#[tokio::test]
async fn a_quota_stays_charged_while_writes_are_pending() {
    let (plane, disk) = start().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "3"}}});
    plane.create("/api/v1/namespaces/default/resourcequotas", &quota).await;
    post_and_disconnect(&plane, &disk, CONFIG_MAPS, &config_map("m0", &json!({}))).await;
    let mut refused = 0;
    for index in 1..14 {
        let client = plane.client();
        let object = config_map(&format!("m{index}"), &json!({}));
        // The write is pending when the client disconnects.
        if let Some((code, status)) = client.post(CONFIG_MAPS, &object).now_or_never() {
            assert_eq!(code, 403, "{status}");
            refused += 1;
        }
    }
    assert_eq!(refused, 11);
    disk.resume();
    plane.until(&format!("{CONFIG_MAPS}/m2"), |code, _| code == 200).await;
    assert_eq!(plane.read(CONFIG_MAPS).await["items"].as_array().unwrap().len(), 3);
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("m14", &json!({}))).await.0, 403);
}

#[tokio::test]
async fn a_request_that_times_out_keeps_its_allocations_until_the_write_ends() {
    let (plane, disk) = start().await;
    disk.stop();
    let mut waiting = disk.waiting();
    // Long enough for the write to reach the disk.
    let path = format!("{SERVICES}?timeout=2s");
    let sent = service("a");
    let ((code, _), written) = tokio::join!(plane.post(&path, &sent), waiting.changed());
    assert_eq!((code, written.is_ok()), (504, true));
    let (code, status) = plane.post(&format!("{SERVICES}?dryRun=All"), &service("b")).await;
    assert_eq!(code, 422, "{status}");
    disk.resume();
    plane.until(&format!("{SERVICES}/a"), |code, _| code == 200).await;
}

#[tokio::test]
async fn an_eviction_that_has_charged_a_budget_deletes_its_pod() {
    let (plane, disk) = start().await;
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "a"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    plane.create(PODS, &pod).await;
    let running = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    plane.merge(&format!("{PODS}/p/status"), &running).await;
    let budget = json!({"metadata": {"name": "b"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    plane.create(BUDGETS, &budget).await;
    let allowed = json!({"status": {"disruptionsAllowed": 1, "observedGeneration": 1,
        "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1}});
    plane.merge(&format!("{BUDGETS}/b/status"), &allowed).await;

    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    post_and_disconnect(&plane, &disk, &format!("{PODS}/p/eviction"), &eviction).await;
    disk.resume();
    plane
        .until(&format!("{PODS}/p"), |_, pod| !pod["metadata"]["deletionTimestamp"].is_null())
        .await;
    assert_eq!(plane.read(&format!("{BUDGETS}/b")).await["status"]["disruptionsAllowed"], 0);
}

#[tokio::test]
async fn a_canceled_request_is_counted_with_the_outcome_of_its_write() {
    let (plane, disk) = start().await;
    post_and_disconnect(&plane, &disk, SERVICES, &service("a")).await;
    disk.resume();
    // The server itself has created the service `kubernetes`.
    let counts_both = |line: &str| {
        line.starts_with("apiserver_request_total{")
            && line.contains(r#"code="201""#)
            && line.contains(r#"resource="services""#)
            && line.ends_with("} 2")
    };
    plane.until("/metrics", |_, text| text.as_str().unwrap().lines().any(counts_both)).await;
}

#[tokio::test]
async fn a_stopping_plane_waits_for_pending_writes() {
    let (plane, disk) = start().await;
    post_and_disconnect(&plane, &disk, SERVICES, &service("a")).await;
    let stop = plane.stop();
    tokio::pin!(stop);
    assert!(stop.as_mut().now_or_never().is_none());
    disk.resume();
    stop.await.unwrap();
}
