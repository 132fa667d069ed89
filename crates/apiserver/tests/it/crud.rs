//! Create, read, update and delete, one object at a time.

use std::time::Duration;

use http::Method;

use crate::objects::{CONFIG_MAPS, config_map};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::{JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const APPLY: &str = "application/apply-patch+yaml";
const EVENTS: &str = "/api/v1/namespaces/default/events";

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}},
    }})
}

#[tokio::test]
async fn not_found_errors_name_the_object() {
    let plane = TestEnv::start().await;
    let (code, status) = plane.get(&format!("{CONFIG_MAPS}/missing")).await;
    assert_eq!(code, 404);
    assert_eq!(status["message"], r#"configmaps "missing" not found"#);
    assert_eq!(status["details"], json!({"name": "missing", "kind": "configmaps"}));
}

#[tokio::test]
async fn an_unknown_resource_gets_a_status_and_an_unknown_group_plain_text() {
    let plane = TestEnv::start().await;
    let (code, status) = plane.get("/apis/apps/v1/nonsense").await;
    assert_eq!((code, &status["reason"]), (404, &json!("NotFound")));
    let (code, page) = plane.get("/apis/nonsense.example.com/v1/things").await;
    assert_eq!((code, page), (404, json!("404 page not found\n")));
}

#[tokio::test]
async fn server_managed_metadata_of_a_client_is_ignored() {
    let plane = TestEnv::start().await;
    let mut sent = deployment("a");
    sent["metadata"]["uid"] = "mine".into();
    sent["metadata"]["generation"] = 9.into();
    sent["metadata"]["creationTimestamp"] = "1999-01-01T00:00:00Z".into();
    sent["metadata"]["deletionTimestamp"] = "1999-01-01T00:00:00Z".into();
    let metadata = plane.create(DEPLOYMENTS, &sent).await["metadata"].take();
    assert_ne!(metadata["uid"], "mine");
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["creationTimestamp"], "2024-01-01T00:00:00Z");
    assert_eq!(metadata.get("deletionTimestamp"), None);
    sent["metadata"]["resourceVersion"] = "5".into();
    let (code, status) = plane.post(DEPLOYMENTS, &sent).await;
    let message = "resourceVersion should not be set on objects to be created";
    assert_eq!((code, &status["message"]), (500, &json!(message)));
    // The error comes from storage: it is reported last, and not in a dry run.
    assert_eq!(plane.post(&format!("{DEPLOYMENTS}?dryRun=All"), &sent).await.0, 409);
    sent["spec"]["replicas"] = json!(-1);
    assert_eq!(plane.post(DEPLOYMENTS, &sent).await.0, 422);
}

#[tokio::test]
async fn a_body_cannot_contradict_its_path() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let (code, _) = plane.put(&format!("{CONFIG_MAPS}/a"), &config_map("b", &json!({}))).await;
    assert_eq!(code, 400);
    let elsewhere = json!({"metadata": {"name": "c", "namespace": "kube-system"}});
    assert_eq!(plane.post(CONFIG_MAPS, &elsewhere).await.0, 400);
    let other_kind = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"}});
    assert_eq!(plane.post(CONFIG_MAPS, &other_kind).await.0, 400);
    assert_eq!(plane.get(&format!("{CONFIG_MAPS}/c")).await.0, 404);
}

#[tokio::test]
async fn all_validation_errors_are_reported() {
    let plane = TestEnv::start().await;
    let mut sent = deployment("Bad_Name");
    sent["spec"]["replicas"] = json!(-1);
    let (code, status) = plane.post(DEPLOYMENTS, &sent).await;
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
    let causes = status["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes.iter().map(|it| it["field"].as_str().unwrap()).collect();
    assert!(fields.contains(&"metadata.name") && fields.contains(&"spec.replicas"), "{fields:?}");
}

#[tokio::test]
async fn a_create_in_a_missing_namespace_is_refused() {
    let plane = TestEnv::start().await;
    let path = "/api/v1/namespaces/nowhere/configmaps";
    let (code, status) = plane.post(path, &config_map("a", &json!({}))).await;
    assert_eq!((code, &status["message"]), (404, &json!(r#"namespaces "nowhere" not found"#)));
}

#[tokio::test]
async fn an_update_creates_a_missing_object_if_the_kind_allows_it() {
    let plane = TestEnv::start().await;
    assert_eq!(plane.put(&format!("{CONFIG_MAPS}/a"), &config_map("a", &json!({}))).await.0, 404);
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}});
    let path = format!("{LEASES}/a");
    let (code, created) = plane.put(&path, &lease).await;
    assert_eq!((code, &created["spec"]["holderIdentity"]), (201, &json!("me")));
    assert_eq!(plane.put(&path, &created).await.0, 200);
}

#[tokio::test]
async fn an_update_with_a_uid_does_not_create() {
    let plane = TestEnv::start().await;
    let path = format!("{LEASES}/a");
    let lease = plane.create(LEASES, &json!({"metadata": {"name": "a"}})).await;
    plane.delete(&path).await;
    for query in ["", "?dryRun=All"] {
        let (code, status) = plane.put(&format!("{path}{query}"), &lease).await;
        assert_eq!((code, &status["reason"]), (409, &json!("Conflict")), "{query}");
        let uid = lease["metadata"]["uid"].as_str().unwrap();
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
        assert!(status["message"].as_str().unwrap().ends_with(&why), "{status}");
    }
    assert_eq!(plane.get(&path).await.0, 404);
}

#[tokio::test]
async fn an_update_or_apply_that_creates_ignores_the_resource_version() {
    let plane = TestEnv::start().await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "a", "resourceVersion": "5"}});
    let path = format!("{LEASES}/a");
    let (code, created) = plane.put(&path, &lease).await;
    assert_eq!(code, 201, "{created}");
    assert_ne!(created["metadata"]["resourceVersion"], "5");
    plane.delete(&path).await;
    let (code, applied) = plane.patch(&format!("{path}?fieldManager=me"), APPLY, &lease).await;
    assert_eq!(code, 201, "{applied}");
    let (code, status) = plane.post(LEASES, &lease).await;
    let why = "resourceVersion should not be set on objects to be created";
    assert_eq!((code, &status["message"]), (500, &json!(why)));
}

#[tokio::test]
async fn a_json_patch_is_atomic() {
    let plane = TestEnv::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    let created = plane.create(CONFIG_MAPS, &config_map("a", &json!({"k": "v"}))).await;
    let patch = json!([
        {"op": "add", "path": "/data/new", "value": "1"},
        {"op": "test", "path": "/data/k", "value": "other"},
    ]);
    assert_eq!(plane.patch(&path, JSON_PATCH, &patch).await.0, 422);
    assert_eq!(plane.read(&path).await, created);
    let patch = json!([
        {"op": "test", "path": "/data/k", "value": "v"},
        {"op": "move", "from": "/data/k", "path": "/data/moved"},
    ]);
    let (code, patched) = plane.patch(&path, JSON_PATCH, &patch).await;
    assert_eq!((code, &patched["data"]), (200, &json!({"moved": "v"})));
}

#[tokio::test]
async fn null_in_a_merge_patch_removes_a_field() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({"keep": "1", "drop": "2"}))).await;
    let patch = json!({"data": {"drop": null, "add": "3"}});
    let patched = plane.merge(&format!("{CONFIG_MAPS}/a"), &patch).await;
    assert_eq!(patched["data"], json!({"keep": "1", "add": "3"}));
}

#[tokio::test]
async fn a_strategic_patch_merges_lists_by_key_and_a_merge_patch_replaces_them() {
    let plane = TestEnv::start().await;
    plane.create(DEPLOYMENTS, &deployment("a")).await;
    let path = format!("{DEPLOYMENTS}/a");
    let containers = |it: &Value| {
        let all = it["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        all.iter().map(|it| it["image"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let patch = json!({"spec": {"template": {"spec": {
        "containers": [{"name": "b", "image": "b:2"}]}}}});
    let (code, patched) = plane.patch(&path, STRATEGIC_MERGE_PATCH, &patch).await;
    assert_eq!((code, containers(&patched)), (200, vec!["a:1".to_owned(), "b:2".to_owned()]));
    let (code, patched) = plane.patch(&path, MERGE_PATCH, &patch).await;
    assert_eq!((code, containers(&patched)), (200, vec!["b:2".to_owned()]));
}

#[tokio::test]
async fn the_generation_counts_only_changes_of_the_spec() {
    let plane = TestEnv::start().await;
    plane.create(DEPLOYMENTS, &deployment("a")).await;
    let path = format!("{DEPLOYMENTS}/a");
    let generation = |it: Value| it["metadata"]["generation"].as_i64();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(generation(plane.merge(&path, &label).await), Some(1));
    let status = json!({"status": {"observedGeneration": 1}});
    let reported = plane.merge(&format!("{path}/status"), &status).await;
    assert_eq!(reported["status"]["observedGeneration"], 1);
    assert_eq!(generation(reported), Some(1));
    let spec = json!({"spec": {"replicas": 3}});
    assert_eq!(generation(plane.merge(&path, &spec).await), Some(2));
    assert_eq!(generation(plane.merge(&path, &spec).await), Some(2), "nothing has changed");
}

#[tokio::test]
async fn scale_reads_and_writes_the_replicas() {
    let plane = TestEnv::start().await;
    plane.create(DEPLOYMENTS, &deployment("a")).await;
    let path = format!("{DEPLOYMENTS}/a/scale");
    let mut scale = plane.read(&path).await;
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(1)));
    scale["spec"]["replicas"] = 4.into();
    let (code, scaled) = plane.put(&path, &scale).await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (200, &json!(4)));
    assert_eq!(plane.read(&format!("{DEPLOYMENTS}/a")).await["spec"]["replicas"], 4);
}

#[tokio::test]
async fn a_dry_run_of_an_update_returns_the_object_without_storing_it() {
    let plane = TestEnv::start().await;
    let created = plane.create(CONFIG_MAPS, &config_map("a", &json!({"k": "old"}))).await;
    let path = format!("{CONFIG_MAPS}/a");
    let shown = plane.merge(&format!("{path}?dryRun=All"), &json!({"data": {"k": "new"}})).await;
    assert_eq!(shown["data"]["k"], "new");
    assert_eq!(plane.read(&path).await, created);
}

#[tokio::test]
async fn an_immutable_config_map_cannot_be_changed() {
    let plane = TestEnv::start().await;
    let mut sent = config_map("a", &json!({"k": "v"}));
    sent["immutable"] = true.into();
    plane.create(CONFIG_MAPS, &sent).await;
    let path = format!("{CONFIG_MAPS}/a");
    let (code, status) = plane.patch(&path, MERGE_PATCH, &json!({"data": {"k": "other"}})).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("data")));
    let labeled = plane.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labeled["data"]["k"], "v");
}

#[tokio::test]
async fn a_body_over_the_size_limit_is_refused() {
    let plane = TestEnv::start().await;
    let huge = config_map("a", &json!({"k": "x".repeat(3 << 20)}));
    let reply = plane.send(Method::POST, CONFIG_MAPS, "application/json", huge.to_string()).await;
    assert_eq!((reply.code, &reply.value()["reason"]), (413, &json!("RequestEntityTooLarge")));
}

#[tokio::test]
async fn an_event_expires_after_an_hour_unless_it_is_updated() {
    let plane = TestEnv::start().await;
    let event = |name: &str| {
        json!({"metadata": {"name": name},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}})
    };
    plane.create(EVENTS, &event("a")).await;
    plane.create(EVENTS, &event("b")).await;
    let mut watch = plane.watch(&format!("{EVENTS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=9999")).await;
    plane.advance(Duration::from_mins(30));
    plane.merge(&format!("{EVENTS}/b"), &json!({"count": 2})).await;
    assert_eq!(watch.next_summary().await, "MODIFIED b");
    plane.advance(Duration::from_secs(1799));
    plane.read(&format!("{EVENTS}/a")).await;
    plane.advance(Duration::from_secs(1));
    assert_eq!(watch.next_summary().await, "DELETED a");
    assert_eq!(plane.get(&format!("{EVENTS}/a")).await.0, 404);
    plane.read(&format!("{EVENTS}/b")).await;
    plane.advance(Duration::from_mins(30));
    assert_eq!(watch.next_summary().await, "DELETED b");
}

#[tokio::test]
async fn an_object_over_the_size_limit_is_refused() {
    let plane = TestEnv::start().await;
    let things = "/apis/example.dev/v1/namespaces/default/things";
    plane
        .install_crd(&json!({
            "metadata": {"name": "things.example.dev"},
            "spec": {"group": "example.dev", "scope": "Namespaced",
                "names": {"kind": "Thing", "plural": "things"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema":
                    {"openAPIV3Schema": {"type": "object",
                        "x-kubernetes-preserve-unknown-fields": true}}}]},
        }))
        .await;
    let head = json!({"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": "a"}});
    plane.create(things, &head).await;
    let mut codes = Vec::new();
    for step in 0..4 {
        let patch = json!({format!("k{step}"): "A".repeat(500 << 10)});
        let (code, _) = plane.patch(&format!("{things}/a"), MERGE_PATCH, &patch).await;
        codes.push(code);
    }
    assert_eq!(codes, [200, 200, 200, 413]);
}

#[tokio::test]
async fn duplicate_owner_references_are_removed() {
    let plane = TestEnv::start().await;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let object = json!({"metadata": {"name": "a", "ownerReferences": [owner, owner]}});
    let created = plane.create(CONFIG_MAPS, &object).await;
    assert_eq!(created["metadata"]["ownerReferences"], json!([owner]));
}
