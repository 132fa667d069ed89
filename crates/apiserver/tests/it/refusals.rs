//! Errors of invalid objects, patches and options.

use http::Method;

use crate::objects::{CONFIG_MAPS, THINGS, any_schema, config_map, labeled, thing, thing_crd};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::{JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH};

async fn plane() -> TestEnv {
    let plane = TestEnv::start().await;
    plane
        .install_crd(&thing_crd(
            &json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"t": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true}}}}}),
        ))
        .await;
    plane
}

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap()
}

#[tokio::test]
async fn a_custom_resource_requires_kind_and_api_version() {
    let plane = plane().await;
    let with = |member: &str, value: Value| {
        let mut it = thing("a", &json!({}));
        it[member] = value;
        it
    };
    let api_version = thing("a", &json!({}))["apiVersion"].as_str().unwrap().to_owned();
    let (code, status) = plane.post(THINGS, &with("kind", json!(""))).await;
    assert_eq!(code, 400);
    assert!(message(&status).contains("Object 'Kind' is missing in"), "{status}");
    assert_eq!(
        message(&plane.post(THINGS, &with("apiVersion", json!(""))).await.1),
        format!(
            "the API version in the data () does not match the expected API version ({api_version})"
        )
    );
    let (_, status) = plane.post(THINGS, &with("apiVersion", Value::Null)).await;
    assert!(
        message(&status)
            .ends_with(".apiVersion accessor error: <nil> is of the type <nil>, expected string"),
        "{status}"
    );
}

#[tokio::test]
async fn a_patch_cannot_change_the_kind() {
    let plane = plane().await;
    plane.create(THINGS, &thing("a", &json!({}))).await;
    let path = format!("{THINGS}/a");
    let (code, status) = plane.patch(&path, MERGE_PATCH, &json!({"kind": "Other"})).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("kind")));
    let (code, status) = plane.patch(&path, MERGE_PATCH, &json!({"kind": 5})).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("patch")));
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let path = format!("{CONFIG_MAPS}/a");
    let (code, status) = plane.patch(&path, MERGE_PATCH, &json!({"kind": "Secret"})).await;
    assert_eq!(code, 422);
    assert!(
        message(&status)
            .ends_with("converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        "{status}"
    );
    assert_eq!(plane.patch(&path, STRATEGIC_MERGE_PATCH, &json!({"kind": "Secret"})).await.0, 200);
}

#[tokio::test]
async fn the_metadata_of_an_embedded_resource_is_decoded_as_object_meta() {
    let plane = plane().await;
    let embedded = |metadata: Value| {
        thing("a", &json!({"t": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}}))
    };
    let (code, status) = plane.post(THINGS, &embedded(json!({"name": -1}))).await;
    assert_eq!(code, 400);
    assert!(
        message(&status).ends_with("cannot be handled as a Thing: spec.t.metadata: Invalid value: {\"name\":-1}: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"),
        "{status}"
    );
    let created = plane.create(THINGS, &embedded(json!({"labels": {"k": null}}))).await;
    assert_eq!(created["spec"]["t"]["metadata"], json!({"labels": {"k": ""}}));
}

#[tokio::test]
async fn unreadable_delete_options_delete_nothing() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let path = format!("{CONFIG_MAPS}/a");
    let (code, status) = plane.delete_with(&path, &json!({"dryRun": "All"})).await;
    assert_eq!(
        (code, message(&status)),
        (
            400,
            "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string"
        )
    );
    assert_eq!(plane.delete_with(&path, &json!([])).await.0, 400);
    plane.read(&path).await;
}

#[tokio::test]
async fn a_page_of_a_collection_can_be_deleted() {
    let plane = TestEnv::start().await;
    for name in ["a", "b", "c"] {
        plane.create(CONFIG_MAPS, &labeled(name, "k", "v")).await;
    }
    let (_, gone) = plane.delete(&format!("{CONFIG_MAPS}?labelSelector=k&limit=2")).await;
    assert_eq!(gone["items"].as_array().unwrap().len(), 2);
    assert!(gone["metadata"]["continue"].is_string());
    assert_eq!(plane.delete(&format!("{CONFIG_MAPS}?limit=x")).await.0, 400);
    plane.read(&format!("{CONFIG_MAPS}/c")).await;
}

#[tokio::test]
async fn another_uid_is_refused_and_a_creation_timestamp_is_ignored() {
    let plane = TestEnv::start().await;
    let mut whole = plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(plane.patch(&path, MERGE_PATCH, &json!({"metadata": {"uid": "x"}})).await.0, 422);
    let old = json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}});
    assert_eq!(plane.merge(&path, &old).await["metadata"], whole["metadata"]);
    whole["metadata"]["uid"] = "x".into();
    assert_eq!(plane.put(&path, &whole).await.0, 409);
}

#[tokio::test]
async fn unusual_finalizers_and_owner_references_get_warnings() {
    let plane = plane().await;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let mut it = thing("a", &json!({}));
    it["metadata"]["finalizers"] = json!(["mine", "example.com/mine"]);
    it["metadata"]["ownerReferences"] = json!([owner, owner]);
    let reply = plane.send(Method::POST, THINGS, JSON, it.to_string()).await;
    assert_eq!(reply.value()["metadata"]["ownerReferences"], json!([owner]));
    let warnings = reply.warnings();
    assert!(warnings.iter().any(|it| it.contains("duplicate UID(s) observed: u")), "{warnings:?}");
    let named: Vec<&String> =
        warnings.iter().filter(|it| it.contains("domain-qualified")).collect();
    assert_eq!(named.len(), 1, "{warnings:?}");
}

#[tokio::test]
async fn an_invalid_patch_has_the_message_of_its_type() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let path = format!("{CONFIG_MAPS}/a");
    let (_, status) = plane.patch(&path, MERGE_PATCH, &json!(5)).await;
    assert_eq!(
        message(&status),
        "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}"
    );
    assert_eq!(plane.patch(&path, JSON_PATCH, &Value::Null).await.0, 200);
    let twice = r#"{"data":{"a":"b","a":"c"}}"#;
    let reply = plane.send(Method::PATCH, &path, MERGE_PATCH, twice).await;
    assert_eq!(reply.warnings(), ["duplicate field \"data.a\""]);
}

#[tokio::test]
async fn watches_of_a_deprecated_version_get_a_warning() {
    let plane = TestEnv::start().await;
    let mut crd = thing_crd(&any_schema());
    crd["spec"]["versions"][0]["deprecated"] = true.into();
    plane.install_crd(&crd).await;
    let reply = plane.get_as(&format!("{THINGS}?watch=1&labelSelector=a+b"), JSON).await;
    assert_eq!((reply.code, reply.warnings().len()), (400, 1));
}

#[tokio::test]
async fn unsupported_methods_and_paths_of_custom_resources_are_refused() {
    let plane = plane().await;
    let send = async |method: Method, path: &str| plane.send(method, path, JSON, "").await.value();
    assert_eq!(
        message(&send(Method::OPTIONS, THINGS).await),
        " is not supported on resources of kind \"things.example.com\""
    );
    assert_eq!(message(&send(Method::PUT, THINGS).await), "name must be provided");
    assert_eq!(
        message(&send(Method::GET, &format!("{THINGS}/a/odd")).await),
        "things.example.com \"a\" not found"
    );
    for nowhere in ["/nowhere", "/apis/example.com/v1/things"] {
        assert_eq!(send(Method::POST, nowhere).await, "404 page not found\n");
    }
}

#[tokio::test]
async fn all_errors_of_patch_options_are_reported() {
    let plane = TestEnv::start().await;
    let path = format!("{CONFIG_MAPS}/a?dryRun=x");
    let apply = "application/apply-patch+yaml";
    let (code, status) = plane.patch(&path, apply, &config_map("a", &json!({}))).await;
    let causes = &status["details"]["causes"];
    assert_eq!(code, 422);
    assert_eq!(
        (&causes[0]["field"], &causes[1]["field"]),
        (&json!("fieldManager"), &json!("dryRun"))
    );
    let (_, status) =
        plane.patch(&format!("{CONFIG_MAPS}/a?fieldManager=a%00b"), MERGE_PATCH, &json!({})).await;
    assert!(message(&status).ends_with("invalid character U+0000 (at position 1)"), "{status}");
}

#[tokio::test]
async fn errors_distinguish_empty_and_missing_maps() {
    let plane = TestEnv::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = |metadata: Value| {
        json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": metadata,
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    };
    let volume = |capacity: Value| {
        json!({"metadata": {"name": "v"}, "spec": {"capacity": capacity,
            "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}})
    };
    let volumes = "/api/v1/persistentvolumes";
    for (path, object, why) in [
        (deployments, deployment(json!({"labels": {}})), "labels: Invalid value: {}: "),
        (deployments, deployment(json!({})), "labels: Invalid value: null: "),
        (volumes, volume(json!({})), "capacity: Unsupported value: {}: "),
        (volumes, volume(Value::Null), "capacity: Unsupported value: null: "),
    ] {
        let (code, status) = plane.post(path, &object).await;
        assert_eq!(code, 422);
        assert!(message(&status).contains(why), "{why}: {status}");
    }
    plane.create(deployments, &deployment(json!({"labels": {"a": "b"}}))).await;
    let none = json!([{"op": "replace", "path": "/spec/template/metadata/labels", "value": {}}]);
    let (code, status) = plane.patch(&format!("{deployments}/d"), JSON_PATCH, &none).await;
    assert_eq!(code, 422);
    assert!(message(&status).contains("labels: Invalid value: {}: "), "{status}");
}
