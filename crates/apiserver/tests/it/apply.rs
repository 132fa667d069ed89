//! Server-side apply through the whole server: decoding, results and warnings.

use http::Method;

use crate::objects::{MAPS, THINGS, thing, things};
use machinery::{Value, json};
use testenv::{Client, Response, TestEnv};

async fn apply(client: &Client, path: &str, body: impl Into<String>) -> Response {
    let path = format!("{path}{}fieldManager=m", if path.contains('?') { '&' } else { '?' });
    client.send(Method::PATCH, &path, "application/apply-patch+yaml", body.into()).await
}

#[tokio::test]
async fn an_invalid_apply_body_is_refused_with_the_decoders_message() {
    let plane = TestEnv::start().await;
    for (body, expected) in [
        ("a: b: c", "error encoding patch: yaml: mapping values are not allowed in this context"),
        ("a: [", "error encoding patch: yaml: line 1: did not find expected node content"),
        (
            "{a: b, c",
            "error decoding patch: error converting YAML to JSON: yaml: line 1: did not find expected ',' or '}'",
        ),
        (
            "[]",
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ] {
        let reply = apply(&plane, &format!("{MAPS}/a"), body).await;
        assert_eq!((reply.code, reply.value()["message"].as_str().unwrap()), (400, expected));
    }
}

#[tokio::test]
async fn duplicate_fields_are_warned_about_after_the_apply() {
    let plane = TestEnv::start().await;
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: v\n  k: w\n";
    let reply = apply(&plane, &format!("{MAPS}/a?fieldValidation=Strict"), twice).await;
    let expected = "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  line 6: key \"k\" already set in map";
    assert_eq!((reply.code, reply.value()["message"].as_str().unwrap()), (400, expected));
    let reply = apply(&plane, &format!("{MAPS}/a"), twice).await;
    assert_eq!((reply.code, &reply.value()["data"]), (201, &json!({"k": "w"})));
    assert_eq!(reply.warnings(), ["line 6: key \"k\" already set in map"]);
    // Nothing was applied, so there is no warning.
    let reply = apply(&plane, &format!("{MAPS}/a"), twice.replace("ConfigMap", "Secret")).await;
    assert_eq!((reply.code, reply.warnings()), (400, Vec::new()));
}

#[tokio::test]
async fn removing_all_applied_fields_leaves_null_in_a_custom_resource() {
    let plane = TestEnv::start().await;
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let fields = json!({"free": free, "map": map,
        "filled": {"type": "object", "default": {"a": "z"}, "properties": {"a": {"type": "string"}}}});
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
    plane.install_crd(&things(&schema)).await;
    let path = format!("{THINGS}/t");
    let config = |spec: Value| thing("t", &spec).to_string();
    let owned = json!({"map": {"a": "b"}, "free": {"a": 1}, "filled": {"a": "b"}});
    assert_eq!(apply(&plane, &path, config(owned.clone())).await.code, 201);
    for (field, expected) in [("map", "spec.map"), ("free", "spec.free")] {
        let mut emptied = owned.clone();
        emptied[field] = json!({});
        let reply = apply(&plane, &path, config(emptied)).await;
        let refused = format!(
            "Thing.example.com \"t\" is invalid: {expected}: Invalid value: \"null\": {expected} in body must be of type object: \"null\""
        );
        assert_eq!((reply.code, reply.value()["message"].as_str().unwrap()), (422, &*refused));
    }
    // A field with a default gets the default.
    let mut emptied = owned.clone();
    emptied["filled"] = json!({});
    let reply = apply(&plane, &path, config(emptied)).await;
    assert_eq!((reply.code, &reply.value()["spec"]["filled"]), (200, &json!({"a": "z"})));
}
