//! Values in a body: which are stored, and how they are validated and encoded.

use http::Method;

use crate::objects::{MAPS, THINGS, labeled, map, thing, things};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::{JSON, JSON_PATCH, MERGE_PATCH};

/// A plane with a CRD whose `spec` has the given properties.
async fn plane(properties: &Value) -> TestEnv {
    let plane = TestEnv::start().await;
    let spec = json!({"type": "object", "properties": properties});
    plane.install_crd(&things(&json!({"type": "object", "properties": {"spec": spec}}))).await;
    plane
}

#[tokio::test]
async fn items_of_a_list_that_preserves_unknown_fields_are_stored_whole() {
    let plane = plane(&json!({"pipelines": {"type": "array",
        "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object"}}}))
    .await;
    let spec = json!({"pipelines": [{"pipeline.id": "main", "config": {"deep": [1]}}]});
    let path = format!("{THINGS}?fieldValidation=Strict");
    let (code, created) = plane.post(&path, &thing("a", &spec)).await;
    assert_eq!((code, &created["spec"]), (201, &spec));
    assert_eq!(plane.read(&format!("{THINGS}/a")).await["spec"], spec);
}

#[tokio::test]
async fn unknown_metadata_of_embedded_resources_is_reported_last() {
    let plane = plane(&json!({
        "a": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true},
        "z": {"type": "object"}}))
    .await;
    let embedded = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"odd": 1}});
    let body = thing("a", &json!({"a": embedded, "z": {"odd": 1}})).to_string();
    let reply = plane.send(Method::POST, THINGS, JSON, body).await;
    let expected = ["unknown field \"spec.z.odd\"", "unknown field \"spec.a.metadata.odd\""];
    assert_eq!((reply.code, reply.warnings()), (201, expected.map(str::to_owned).to_vec()));
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const YAML: &str = "application/yaml";

/// A deployment in JSON with the given text as its replicas.
fn deployment(replicas: &str) -> String {
    format!(
        r#"{{"metadata": {{"name": "a"}}, "spec": {{"replicas": {replicas}, "selector": {{"matchLabels":
        {{"a": "b"}}}}, "template": {{"metadata": {{"labels": {{"a": "b"}}}}, "spec": {{"containers":
        [{{"name": "c", "image": "i"}}]}}}}}}}}"#
    )
}

#[tokio::test]
async fn integers_of_built_in_kinds_are_written_without_fraction_and_exponent() {
    let plane = TestEnv::start().await;
    let path = format!("{DEPLOYMENTS}?dryRun=All");
    for number in ["1.0", "1e2", "1.5", "9223372036854775808", "1e400", "4294967296"] {
        let reply = plane.send(Method::POST, &path, JSON, deployment(number)).await;
        let expected = format!(
            "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal number {number} into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
        assert_eq!((reply.code, reply.value()["message"].as_str()), (400, Some(expected.as_str())));
    }
    let reply = plane.send(Method::POST, &path, JSON, deployment("-0")).await;
    assert_eq!((reply.code, &reply.value()["spec"]["replicas"]), (201, &json!(0)));
}

#[tokio::test]
async fn whole_floats_of_yaml_are_integers() {
    let plane = TestEnv::start().await;
    let path = format!("{DEPLOYMENTS}?dryRun=All");
    for (number, replicas) in [("1.0", 1), ("1e2", 100)] {
        let reply = plane.send(Method::POST, &path, YAML, deployment(number)).await;
        assert_eq!((reply.code, &reply.value()["spec"]["replicas"]), (201, &json!(replicas)));
    }
}

#[tokio::test]
async fn a_merge_patch_of_a_built_in_kind_is_decoded_like_its_result() {
    let plane = TestEnv::start().await;
    plane.send(Method::POST, DEPLOYMENTS, JSON, deployment("1")).await;
    let patch = r#"{"spec": {"replicas": 2.0}}"#;
    let reply = plane.send(Method::PATCH, &format!("{DEPLOYMENTS}/a"), MERGE_PATCH, patch).await;
    assert_eq!(reply.code, 422);
    let why = "json: cannot unmarshal number 2.0 into Go struct field DeploymentSpec.spec.replicas of type int32";
    assert!(reply.value()["message"].as_str().unwrap().ends_with(why), "{:?}", reply.value());
}

/// A thing in JSON with the given text as its spec.
fn thing_of(spec: &str) -> String {
    format!(
        r#"{{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {{"name": "a"}}, "spec": {spec}}}"#
    )
}

#[tokio::test]
async fn whole_floats_of_custom_resources_are_stored_as_integers() {
    let plane = plane(&json!({"size": {"type": "integer"}, "ratio": {"type": "number"}})).await;
    let body = thing_of(r#"{"size": 1e2, "ratio": 1.0}"#);
    let reply = plane.send(Method::POST, THINGS, JSON, body).await;
    let text = String::from_utf8(reply.bytes.to_vec()).unwrap();
    assert_eq!(reply.code, 201, "{text}");
    assert!(text.contains(r#""spec":{"ratio":1,"size":100}"#), "{text}");
    let body = thing_of(r#"{"size": 1e400}"#);
    let reply = plane.send(Method::POST, THINGS, JSON, body).await;
    let why = "Thing in version \"v1\" cannot be handled as a Thing: json: cannot unmarshal number 1e400 into Go value of type float64";
    assert_eq!((reply.code, reply.value()["message"].as_str()), (400, Some(why)));
}

#[tokio::test]
async fn rules_distinguish_floats_from_integers() {
    let plane = plane(&json!({"size": {"type": "integer",
        "x-kubernetes-validations": [{"rule": "self > 0"}]}}))
    .await;
    let reply = plane.send(Method::POST, THINGS, JSON, thing_of(r#"{"size": 1.0}"#)).await;
    let message = reply.value()["message"].as_str().unwrap().to_owned();
    assert_eq!(reply.code, 422, "{message}");
    assert!(message.contains("invalid data, expected int, got float64"), "{message}");
}

#[tokio::test]
async fn a_set_can_have_an_equal_integer_and_float() {
    let set =
        json!({"type": "array", "items": {"type": "number"}, "x-kubernetes-list-type": "set"});
    let plane = plane(&json!({"set": set})).await;
    let path = format!("{THINGS}?dryRun=All");
    for (set, code) in [("[1, 1.0]", 201), ("[1, 1]", 422), ("[1.0, 1e0]", 422)] {
        let body = thing_of(&format!(r#"{{"set": {set}}}"#));
        assert_eq!(plane.send(Method::POST, &path, JSON, body).await.code, code, "{set}");
    }
    let body = thing_of(r#"{"set": [1, 1.0]}"#);
    assert_eq!(plane.send(Method::POST, &path, YAML, body).await.code, 422);
}

#[tokio::test]
async fn repeated_keys_of_yaml_are_one_error_in_strict_validation() {
    let plane = TestEnv::start().await;
    let body = "metadata:\n  name: a\n  name: a\ndata:\n  k: v\n  k: w\nodd: 1\n";
    let path = format!("{MAPS}?fieldValidation=Strict");
    let reply = plane.send(Method::POST, &path, YAML, body).await;
    let why = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n  line 3: key \"name\" already set in map\n  line 6: key \"k\" already set in map, unknown field \"odd\"";
    assert_eq!((reply.code, reply.value()["message"].as_str()), (400, Some(why)));
    let path = format!("{MAPS}?fieldValidation=Warn");
    let expected = [
        "line 3: key \"name\" already set in map",
        "line 6: key \"k\" already set in map",
        "unknown field \"odd\"",
    ];
    assert_eq!(plane.send(Method::POST, &path, YAML, body).await.warnings(), expected);
}

#[tokio::test]
async fn a_sent_generation_is_stored_for_kinds_without_one() {
    let plane = plane(&json!({})).await;
    let mut config_map = map("a", &json!({"k": "v"}));
    config_map["metadata"]["generation"] = 7.into();
    assert_eq!(plane.create(MAPS, &config_map).await["metadata"]["generation"], 7);
    let patch = json!({"metadata": {"generation": 9}, "data": {"k": "w"}});
    let merged = plane.merge(&format!("{MAPS}/a"), &patch).await;
    assert_eq!(merged["metadata"]["generation"], 7);
    let mut custom = thing("a", &json!({}));
    custom["metadata"]["generation"] = 7.into();
    assert_eq!(plane.create(THINGS, &custom).await["metadata"]["generation"], 1);
    config_map["metadata"] = json!({"name": "b", "generation": -1});
    assert_eq!(plane.post(MAPS, &config_map).await.0, 422);
}

#[tokio::test]
async fn empty_managed_fields_reset_those_of_built_in_kinds() {
    let plane = plane(&json!({})).await;
    for (path, object, lists) in [
        (MAPS, labeled("a", "k", "v"), [json!([]), json!([{}])]),
        (THINGS, thing("a", &json!({})), [json!([{}]), json!([{}])]),
    ] {
        for list in lists {
            let created = plane.create(path, &object).await;
            assert_eq!(created["metadata"]["managedFields"].as_array().map(Vec::len), Some(1));
            let at = format!("{path}/a");
            let patch =
                json!([{"op": "replace", "path": "/metadata/managedFields", "value": list}]);
            let (code, patched) = plane.patch(&at, JSON_PATCH, &patch).await;
            assert_eq!((code, &patched["metadata"]["managedFields"]), (200, &Value::Null));
            plane.delete(&at).await;
        }
    }
    let mut stored = plane.create(MAPS, &labeled("b", "k", "v")).await;
    stored["metadata"]["managedFields"] = json!([]);
    let (code, updated) = plane.put(&format!("{MAPS}/b"), &stored).await;
    assert_eq!((code, &updated["metadata"]["managedFields"]), (200, &Value::Null));
}

#[tokio::test]
async fn duplicate_keys_in_unknown_fields_of_built_in_kinds_are_not_reported() {
    let plane = plane(&json!({})).await;
    let body = r#"{"metadata": {"name": "a", "name": "a"}, "odd": {"k": 1, "k": 2}, "odd": 1}"#;
    let reply = plane.send(Method::POST, &format!("{MAPS}?dryRun=All"), JSON, body).await;
    let expected = ["duplicate field \"metadata.name\"", "unknown field \"odd\""];
    assert_eq!((reply.code, reply.warnings()), (201, expected.map(str::to_owned).to_vec()));
    let body = thing_of(r#"{"odd": 1, "odd": 2}"#);
    let reply = plane.send(Method::POST, &format!("{THINGS}?dryRun=All"), JSON, body).await;
    let expected = ["duplicate field \"spec.odd\"", "unknown field \"spec.odd\""];
    assert_eq!((reply.code, reply.warnings()), (201, expected.map(str::to_owned).to_vec()));
}

#[tokio::test]
async fn a_slash_before_the_core_version_is_ignored() {
    let plane = plane(&json!({})).await;
    let mut config_map = map("a", &json!({"k": "v"}));
    config_map["apiVersion"] = "/v1".into();
    config_map["kind"] = "ConfigMap".into();
    assert_eq!(plane.create(MAPS, &config_map).await["apiVersion"], "v1");
    let at = format!("{MAPS}/a?fieldManager=m&force=true");
    let apply = "application/apply-patch+yaml";
    let reply = plane.send(Method::PATCH, &at, apply, config_map.to_string()).await;
    assert_eq!((reply.code, &reply.value()["apiVersion"]), (200, &json!("v1")));
    config_map["apiVersion"] = "a/b/c".into();
    let reply = plane.send(Method::PATCH, &at, apply, config_map.to_string()).await;
    let why = "invalid object type: /, Kind=";
    assert_eq!((reply.code, reply.value()["message"].as_str()), (400, Some(why)));
}

#[tokio::test]
async fn an_applied_value_of_the_wrong_type_has_the_conversion_error() {
    let plane = TestEnv::start().await;
    let mut body: Value = serde_json::from_str(&deployment("1.5")).unwrap();
    body["apiVersion"] = "apps/v1".into();
    body["kind"] = "Deployment".into();
    let path = format!("{DEPLOYMENTS}/a?fieldManager=m&force=true");
    let apply = "application/apply-patch+yaml";
    plane.send(Method::POST, DEPLOYMENTS, JSON, deployment("1")).await;
    let reply = plane.send(Method::PATCH, &path, apply, body.to_string()).await;
    let why = "failed to convert new object (/a; apps/v1, Kind=Deployment) to proper version: unable to convert unstructured object to apps/v1, Kind=Deployment: cannot convert float64 to int32";
    assert_eq!((reply.code, reply.value()["message"].as_str()), (500, Some(why)));
}

#[tokio::test]
async fn numbers_in_errors_have_gos_format() {
    let plane = plane(&json!({"ratio": {"type": "number", "maximum": 3_000_000_000_u64},
        "choice": {"type": "number", "enum": [1, 2]}}))
    .await;
    let path = format!("{THINGS}?dryRun=All");
    for (spec, expected) in [
        (
            r#"{"ratio": 3000000001.5}"#,
            "Invalid value: 3.0000000015e+09: spec.ratio in body should be less than or equal to 3e+09",
        ),
        (
            r#"{"ratio": 3000000001}"#,
            "Invalid value: 3000000001: spec.ratio in body should be less than or equal to 3000000000",
        ),
        (r#"{"choice": 1e-7}"#, "Unsupported value: 1e-07: supported values: \"1\", \"2\""),
    ] {
        let reply = plane.send(Method::POST, &path, JSON, thing_of(spec)).await;
        assert_eq!(reply.value()["details"]["causes"][0]["message"], expected);
    }
    // Upstream converts the number to the type of the choice.
    let reply = plane.send(Method::POST, &path, JSON, thing_of(r#"{"choice": 1.5}"#)).await;
    assert_eq!(reply.code, 201);
}
