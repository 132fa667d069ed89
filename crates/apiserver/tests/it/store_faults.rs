//! A store that compacts events before they are read, or whose disk fails: answers and health checks.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::Method;

use crate::faulty_store::{Fault, FaultyStore, HISTORY};
use crate::objects::{CONFIG_MAPS, CRDS, THINGS, any_schema, config_map, thing, thing_crd};
use crate::slow_disk::{self, post_and_disconnect};
use keel::{Clock, Tasks};
use machinery::json;
use testenv::media_type::JSON;
use testenv::{START, TestEnv};

/// A plane on a faulty store; the tasks are those of the store.
async fn start() -> (Arc<FaultyStore>, TestEnv, Tasks) {
    let (clock, tasks) = (Clock::manual(START), Tasks::new());
    let store = FaultyStore::open(&clock, &tasks);
    let plane =
        TestEnv::builder().clock(clock).store(Arc::<FaultyStore>::clone(&store)).start().await;
    (store, plane, tasks)
}

/// The code and the body of a health check.
async fn health(plane: &TestEnv, path: &str) -> (u16, String) {
    let reply = plane.send(Method::GET, path, JSON, "").await;
    (reply.code, String::from_utf8(reply.bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn a_commit_larger_than_the_history_is_served_and_ends_older_watches_with_410() {
    let (store, plane, _tasks) = start().await;
    let created = plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let from = created["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}");
    let mut older = plane.watch(&path).await;
    store.put_at_once(2 * HISTORY).await;
    let list = plane.read(CONFIG_MAPS).await;
    let names = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["metadata"]["name"].as_str().unwrap().starts_with("bulk-"));
    assert_eq!(names.count(), 2 * HISTORY);
    for watch in [&mut older, &mut plane.watch(&path).await] {
        let error = watch.expect("ERROR").await;
        assert_eq!((&error["code"], &error["reason"]), (&json!(410), &json!("Expired")));
        assert_eq!(watch.next().await, None);
    }
    let now = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = plane.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={now}")).await;
    plane.delete(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(watch.next_summary().await, "DELETED a");
    assert_eq!(health(&plane, "/readyz").await, (200, "ok".to_owned()));
}

#[tokio::test]
async fn a_deletion_is_seen_even_if_its_event_was_compacted() {
    let (store, plane, _tasks) = start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let key = "/registry/configmaps/default/a";
    store::Store::delete(&*store, key, store::Expect::Any).await.unwrap();
    store.put_at_once(2 * HISTORY).await;
    assert_eq!(plane.get(&format!("{CONFIG_MAPS}/a")).await.0, 404);
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
}

#[tokio::test]
async fn readyz_fails_while_the_watch_cache_cannot_list() {
    let (store, plane, _tasks) = start().await;
    store.set_fault(Fault::LateLists);
    store.put_at_once(2 * HISTORY).await;
    let not_ready = |code: u16, _: &machinery::Value| code == 500;
    let report = plane.until("/readyz", not_ready).await;
    let report = report.as_str().unwrap();
    assert!(report.contains("[-]watch-cache failed: reason withheld\n"), "{report}");
    assert!(report.contains("[+]etcd ok\n"), "{report}");
    assert_eq!(health(&plane, "/readyz/watch-cache").await.0, 500);
    // The cache recovers without a restart.
    assert_eq!(health(&plane, "/livez").await.0, 200);
    store.end_fault();
    plane.until("/readyz", |code, _| code == 200).await;
    assert_eq!(plane.read(CONFIG_MAPS).await["metadata"]["continue"], json!(null));
}

#[tokio::test]
async fn health_checks_fail_when_the_store_refuses_writes() {
    let (store, plane, _tasks) = start().await;
    assert_eq!(health(&plane, "/readyz").await.0, 200);
    store.set_fault(Fault::Broken);
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("a", &json!({}))).await.0, 500);
    for path in ["/readyz", "/livez", "/healthz"] {
        let (code, report) = health(&plane, path).await;
        assert_eq!(code, 500, "{path}: {report}");
        assert!(report.contains("[-]etcd failed: reason withheld\n"), "{path}: {report}");
        assert_eq!(health(&plane, &format!("{path}/etcd")).await.0, 500);
    }
    // Reads continue.
    plane.read(CONFIG_MAPS).await;
}

#[tokio::test]
async fn health_checks_fail_while_a_write_hangs_on_the_disk() {
    let (plane, disk) = slow_disk::start(Clock::manual(START)).await;
    post_and_disconnect(&plane, &disk, CONFIG_MAPS, &config_map("a", &json!({}))).await;
    plane.advance(Duration::from_millis(1999));
    assert_eq!(health(&plane, "/readyz").await, (200, "ok".to_owned()));
    plane.advance(Duration::from_millis(1));
    for path in ["/readyz", "/livez", "/healthz"] {
        let (code, report) = health(&plane, path).await;
        assert_eq!(code, 500, "{path}: {report}");
        assert!(report.contains("[-]etcd failed: reason withheld\n"), "{path}: {report}");
    }
    assert_eq!(health(&plane, "/readyz/etcd-readiness").await.0, 500);
    disk.resume();
    for path in ["/readyz", "/livez", "/healthz"] {
        plane.until(path, |code, _| code == 200).await;
    }
    plane.read(&format!("{CONFIG_MAPS}/a")).await;
}

#[tokio::test]
async fn readyz_measures_the_age_of_each_pending_write() {
    let (plane, disk) = slow_disk::start(Clock::manual(START)).await;
    post_and_disconnect(&plane, &disk, CONFIG_MAPS, &config_map("a", &json!({}))).await;
    plane.advance(Duration::from_secs(1));
    let second = config_map("b", &json!({}));
    assert!(Box::pin(plane.post(CONFIG_MAPS, &second)).now_or_never().is_none());
    plane.advance(Duration::from_secs(1));
    assert_eq!(health(&plane, "/readyz").await.0, 500);
    // Only the second write is pending, for a second.
    let mut waiting = disk.waiting();
    disk.release_one();
    waiting.changed().await.unwrap();
    assert_eq!(health(&plane, "/readyz").await.0, 200);
    plane.advance(Duration::from_secs(1));
    assert_eq!(health(&plane, "/readyz").await.0, 500);
    disk.resume();
    plane.until("/readyz", |code, _| code == 200).await;
}

#[tokio::test]
async fn a_continue_token_expires_even_if_the_store_cannot_be_compacted() {
    let (store, plane, _tasks) = start().await;
    for name in ["a", "b"] {
        plane.create(CONFIG_MAPS, &config_map(name, &json!({}))).await;
    }
    let page = plane.read(&format!("{CONFIG_MAPS}?limit=1")).await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    plane.create(CONFIG_MAPS, &config_map("c", &json!({}))).await;
    store.set_fault(Fault::Broken);
    let expires = |code: u16, _: &machinery::Value| {
        plane.advance(Duration::from_mins(5));
        code == 410
    };
    plane.until(&format!("{CONFIG_MAPS}?limit=1&continue={token}"), expires).await;
}

#[tokio::test]
async fn a_failed_repair_of_the_authentication_config_map_is_retried() {
    const AUTHENTICATION_CONFIG_MAP: &str =
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let (store, plane, _tasks) = start().await;
    let complete = plane.read(AUTHENTICATION_CONFIG_MAP).await["data"].clone();
    let key = "/registry/configmaps/kube-system/extension-apiserver-authentication";
    store.set_fault(Fault::Broken);
    store.edit(key, |map| map["data"] = json!({})).await;
    store.until_refused(key).await;
    store.end_fault();
    let is_repaired = |_: u16, map: &machinery::Value| {
        plane.advance(Duration::from_secs(1));
        map["data"] == complete
    };
    plane.until(AUTHENTICATION_CONFIG_MAP, is_repaired).await;
}

#[tokio::test]
async fn a_crd_that_cannot_be_served_is_not_deleted_before_its_objects() {
    let (store, plane, _tasks) = start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.create(THINGS, &thing("a", &json!({}))).await;
    let key = "/registry/apiextensions.k8s.io/customresourcedefinitions/things.example.com";
    let edit = |generation: i64, storage: bool| {
        store.edit(key, move |crd| {
            crd["metadata"]["generation"] = generation.into();
            crd["spec"]["versions"][0]["storage"] = storage.into();
        })
    };
    // A CRD without a storage version cannot be served.
    edit(2, false).await;
    let path = format!("{CRDS}/things.example.com");
    assert_eq!(plane.delete(&path).await.0, 200);
    for _ in 0..100 {
        plane.advance(Duration::from_secs(1));
        assert_eq!(plane.get(&path).await.0, 200);
    }
    edit(3, true).await;
    let is_gone = |code: u16, _: &machinery::Value| {
        plane.advance(Duration::from_secs(1));
        code == 404
    };
    plane.until(&path, is_gone).await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    assert_eq!(plane.read(THINGS).await["items"], json!([]));
}
