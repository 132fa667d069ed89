//! Deletion: finalizers, grace periods, propagation policies and collections.

use std::time::Duration;

use crate::objects::{CONFIG_MAPS, config_map, labeled};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::MERGE_PATCH;

const PODS: &str = "/api/v1/namespaces/default/pods";
const NAMESPACES: &str = "/api/v1/namespaces";

fn with_finalizers(name: &str, finalizers: &[&str]) -> Value {
    json!({"metadata": {"name": name, "finalizers": finalizers}})
}

fn pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"nodeName": node,
        "containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn an_object_exists_until_its_last_finalizer_is_removed() {
    let plane = TestEnv::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    plane.create(CONFIG_MAPS, &with_finalizers("a", &["example.com/one", "example.com/two"])).await;
    let (code, marked) = plane.delete(&path).await;
    assert_eq!(
        (code, &marked["metadata"]["deletionTimestamp"]),
        (200, &json!("2024-01-01T00:00:00Z"))
    );
    plane.advance(Duration::from_mins(1));
    let again = plane.delete(&path).await.1;
    assert_eq!(
        again["metadata"]["deletionTimestamp"], "2024-01-01T00:00:00Z",
        "the first deletion set it"
    );
    let two = json!({"metadata": {"finalizers": ["example.com/two"]}});
    plane.merge(&path, &two).await;
    plane.read(&path).await;
    plane.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(plane.get(&path).await.0, 404);
}

#[tokio::test]
async fn a_terminating_object_refuses_new_finalizers_and_a_create_of_its_name() {
    let plane = TestEnv::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    plane.create(CONFIG_MAPS, &with_finalizers("a", &["example.com/one"])).await;
    plane.delete(&path).await;
    let more = json!({"metadata": {"finalizers": ["example.com/one", "example.com/two"]}});
    let (code, status) = plane.patch(&path, MERGE_PATCH, &more).await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["field"]),
        (422, &json!("metadata.finalizers"))
    );
    let (code, status) = plane.post(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(code, 409);
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("object is being deleted"), "{message}");
    plane.merge(&path, &json!({"data": {"still": "writable"}})).await;
}

#[tokio::test]
async fn a_recreated_object_has_another_uid() {
    let plane = TestEnv::start().await;
    let first = plane.create(CONFIG_MAPS, &config_map("a", &json!({"k": "v"}))).await;
    let (code, status) = plane.delete(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!((code, &status["details"]["uid"]), (200, &first["metadata"]["uid"]));
    let second = plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_ne!(second["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(second.get("data"), None);
}

#[tokio::test]
async fn only_pods_on_a_node_have_a_grace_period() {
    let plane = TestEnv::start().await;
    plane.create(PODS, &pod("running", "node")).await;
    let (code, marked) = plane.delete(&format!("{PODS}/running")).await;
    assert_eq!((code, &marked["kind"]), (200, &json!("Pod")));
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2024-01-01T00:00:30Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    plane.create(PODS, &pod("waiting", "")).await;
    assert_eq!(plane.delete(&format!("{PODS}/waiting")).await.0, 200);
    assert_eq!(plane.get(&format!("{PODS}/waiting")).await.0, 404);
    assert_eq!(plane.get(&format!("{PODS}/running")).await.0, 200);
}

#[tokio::test]
async fn a_grace_period_can_only_be_shortened() {
    let plane = TestEnv::start().await;
    let path = format!("{PODS}/a");
    plane.create(PODS, &pod("a", "node")).await;
    let delete_within = async |seconds: i64| {
        let (code, marked) =
            plane.delete_with(&path, &json!({"gracePeriodSeconds": seconds})).await;
        assert_eq!(code, 200, "{marked}");
        marked["metadata"]["deletionGracePeriodSeconds"].clone()
    };
    assert_eq!(delete_within(20).await, 20);
    assert_eq!(delete_within(300).await, 20);
    assert_eq!(delete_within(5).await, 5);
    assert_eq!(plane.get(&path).await.0, 200);
    delete_within(0).await;
    assert_eq!(plane.get(&path).await.0, 404);
}

#[tokio::test]
async fn a_pod_with_an_endless_grace_period_can_still_be_changed() {
    let plane = TestEnv::start().await;
    let path = format!("{PODS}/a");
    plane.create(PODS, &pod("a", "node")).await;
    let options = json!({"gracePeriodSeconds": i64::MAX});
    let (code, marked) = plane.delete_with(&path, &options).await;
    assert_eq!(code, 200, "{marked}");
    assert_eq!(marked["metadata"]["deletionTimestamp"], "9999-12-29T23:59:59Z");
    plane.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await;
}

#[tokio::test]
async fn a_propagation_policy_adds_a_finalizer_for_the_garbage_collector() {
    let plane = TestEnv::start().await;
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
        let path = format!("{CONFIG_MAPS}/a");
        let options = json!({"propagationPolicy": policy});
        let (code, marked) = plane.delete_with(&path, &options).await;
        assert_eq!((code, &marked["metadata"]["finalizers"]), (200, &json!([finalizer])));
        plane.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
        assert_eq!(plane.get(&path).await.0, 404, "{policy}");
    }
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let path = format!("{CONFIG_MAPS}/a?propagationPolicy=Background");
    assert_eq!(plane.delete(&path).await.0, 200);
    assert_eq!(plane.get(&format!("{CONFIG_MAPS}/a")).await.0, 404);
}

#[tokio::test]
async fn invalid_delete_options_are_refused() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    for options in [
        json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
        json!({"propagationPolicy": "Sideways"}),
        json!({"dryRun": ["Some"]}),
    ] {
        let (code, status) = plane.delete_with(&format!("{CONFIG_MAPS}/a"), &options).await;
        assert_eq!((code, &status["details"]["kind"]), (422, &json!("DeleteOptions")), "{options}");
    }
    plane.read(&format!("{CONFIG_MAPS}/a")).await;
}

#[tokio::test]
async fn a_terminating_namespace_refuses_creates_and_is_deleted_when_finalized() {
    let plane = TestEnv::start().await;
    let path = format!("{NAMESPACES}/n");
    plane.create(NAMESPACES, &json!({"metadata": {"name": "n"}})).await;
    let maps = format!("{path}/configmaps");
    plane.create(&maps, &config_map("a", &json!({}))).await;
    let mut marked = plane.delete(&path).await.1;
    assert_eq!(marked["status"]["phase"], "Terminating");
    let (code, status) = plane.post(&maps, &config_map("b", &json!({}))).await;
    let cause = &status["details"]["causes"][0]["reason"];
    assert_eq!((code, cause), (403, &json!("NamespaceTerminating")));
    plane.merge(&format!("{maps}/a"), &json!({"data": {"still": "writable"}})).await;
    marked["spec"]["finalizers"] = json!([]);
    assert_eq!(plane.put(&format!("{path}/finalize"), &marked).await.0, 200);
    assert_eq!(plane.get(&path).await.0, 404);
    assert_eq!(plane.post(&maps, &config_map("b", &json!({}))).await.0, 404);
}

#[tokio::test]
async fn system_namespaces_cannot_be_deleted() {
    let plane = TestEnv::start().await;
    for name in ["default", "kube-system", "kube-public"] {
        let (code, status) = plane.delete(&format!("{NAMESPACES}/{name}")).await;
        assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")), "{name}");
        let namespace = plane.read(&format!("{NAMESPACES}/{name}")).await;
        assert_eq!(namespace["status"]["phase"], "Active");
    }
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector_and_finalizers_apply_to_each_object() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &labeled("a", "tier", "front")).await;
    plane.create(CONFIG_MAPS, &labeled("b", "tier", "back")).await;
    let mut stays = labeled("c", "tier", "front");
    stays["metadata"]["finalizers"] = json!(["example.com/one"]);
    plane.create(CONFIG_MAPS, &stays).await;
    let elsewhere = "/api/v1/namespaces/kube-public/configmaps";
    plane.create(elsewhere, &labeled("d", "tier", "front")).await;
    let (code, deleted) = plane.delete(&format!("{CONFIG_MAPS}?labelSelector=tier%3Dfront")).await;
    let names = |list: &Value| {
        let items = list["items"].as_array().unwrap();
        items.iter().map(|it| it["metadata"]["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((code, names(&deleted)), (200, vec![json!("a"), json!("c")]));
    let left = plane.read(CONFIG_MAPS).await;
    assert_eq!(names(&left), [json!("b"), json!("c")]);
    assert!(left["items"][1]["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(names(&plane.read(elsewhere).await), [json!("d")]);
}

#[tokio::test]
async fn a_dry_run_deletes_nothing() {
    let plane = TestEnv::start().await;
    let created = plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(plane.delete(&format!("{path}?dryRun=All")).await.0, 200);
    assert_eq!(plane.delete_with(&path, &json!({"dryRun": ["All"]})).await.0, 200);
    assert_eq!(plane.delete(&format!("{CONFIG_MAPS}?dryRun=All")).await.0, 200);
    assert_eq!(plane.read(&path).await, created);
}

#[tokio::test]
async fn an_immediate_deletion_sets_no_deletion_timestamp() {
    let plane = TestEnv::start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    plane.create(accounts, &json!({"metadata": {"name": "a"}})).await;
    let (code, gone) = plane.delete(&format!("{accounts}/a")).await;
    assert_eq!((code, &gone["metadata"]["deletionTimestamp"]), (200, &Value::Null));
    assert_eq!(gone["metadata"]["name"], "a");
}

#[tokio::test]
async fn an_eviction_must_have_the_name_of_its_pod() {
    let plane = TestEnv::start().await;
    plane.create(PODS, &pod("p", "")).await;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction"});
    let (code, refused) = plane.post(&format!("{PODS}/p/eviction"), &eviction).await;
    assert_eq!(
        (code, &refused["message"]),
        (400, &json!("name in URL does not match name in Eviction object"))
    );
    assert_eq!(plane.get(&format!("{PODS}/p")).await.0, 200);
}

#[tokio::test]
async fn an_evicted_pod_has_the_condition_disruption_target() {
    let plane = TestEnv::start().await;
    let mut sent = pod("p", "n");
    sent["metadata"]["finalizers"] = json!(["example.com/hold"]);
    plane.create(PODS, &sent).await;
    let (path, eviction) = (format!("{PODS}/p"), format!("{PODS}/p/eviction"));
    let evict = |options: Value| {
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"},
            "deleteOptions": options})
    };
    assert_eq!(plane.post(&eviction, &evict(json!({"dryRun": ["All"]}))).await.0, 201);
    let other = evict(json!({"preconditions": {"uid": "other"}}));
    assert_eq!(plane.post(&eviction, &other).await.0, 409);
    let before = plane.read(&path).await;
    assert_eq!(before["status"]["conditions"], Value::Null);
    let revision = &before["metadata"]["resourceVersion"];
    let this = evict(json!({"preconditions": {"resourceVersion": revision}}));
    assert_eq!(plane.post(&eviction, &this).await.0, 201);
    let evicted = plane.read(&path).await;
    assert_ne!(evicted["metadata"]["deletionTimestamp"], Value::Null);
    let time = &evicted["status"]["conditions"][0]["lastTransitionTime"];
    assert_ne!(*time, Value::Null);
    assert_eq!(
        evicted["status"]["conditions"],
        json!([{"type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": time, "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting"}])
    );
}
