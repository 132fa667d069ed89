//! Schemas of custom resources: pruning, defaulting and validation.

use http::Method;

use crate::objects::{CONFIG_MAPS, CRDS, THINGS, thing, thing_crd};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::{JSON, MERGE_PATCH};

/// A schema for `spec` with fields of all types.
fn schema() -> Value {
    json!({"type": "object", "required": ["spec"], "properties": {"spec": {
    "type": "object", "required": ["color"], "properties": {
        "color": {"type": "string", "enum": ["red", "blue"]},
        "size": {"type": "integer", "minimum": 1, "default": 2},
        "parts": {"type": "array", "maxItems": 2, "items": {"type": "object",
            "properties": {"on": {"type": "boolean", "default": true}}}},
        "port": {"x-kubernetes-int-or-string": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}})
}

async fn plane() -> TestEnv {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&schema())).await;
    plane
}

#[tokio::test]
async fn unknown_fields_are_pruned_unless_preserved() {
    let plane = plane().await;
    let spec = json!({"color": "red", "odd": 1, "parts": [{"odd": 2}], "free": {"odd": 3}});
    let created = plane.create(THINGS, &thing("a", &spec)).await;
    let expected = json!({"color": "red", "size": 2, "parts": [{"on": true}], "free": {"odd": 3}});
    assert_eq!(created["spec"], expected);
    assert_eq!(plane.read(&format!("{THINGS}/a")).await, created);
}

#[tokio::test]
async fn defaults_apply_to_missing_fields_only() {
    let plane = plane().await;
    let spec = json!({"color": "red", "size": 7, "parts": [{"on": false}, {}]});
    let created = plane.create(THINGS, &thing("a", &spec)).await;
    let expected = json!({"color": "red", "size": 7, "parts": [{"on": false}, {"on": true}]});
    assert_eq!(created["spec"], expected);
    let reset = plane.merge(&format!("{THINGS}/a"), &json!({"spec": {"size": null}})).await;
    assert_eq!(reset["spec"]["size"], 2);
}

#[tokio::test]
async fn every_error_has_its_field_path() {
    let plane = plane().await;
    let spec = json!({"color": "green", "size": 0, "parts": [{}, {}, {}], "port": true});
    let (code, status) = plane.post(THINGS, &thing("a", &spec)).await;
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
    let causes = status["details"]["causes"].as_array().unwrap();
    let mut fields: Vec<&str> = causes.iter().map(|it| it["field"].as_str().unwrap()).collect();
    fields.sort_unstable();
    fields.dedup();
    assert_eq!(fields, ["spec.color", "spec.parts", "spec.port", "spec.size"]);
    let (code, status) = plane.post(THINGS, &thing("a", &json!({}))).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("spec.color")));
}

#[tokio::test]
async fn int_or_string_accepts_both() {
    let plane = plane().await;
    for (name, port) in [("a", json!(80)), ("b", json!("http"))] {
        let created =
            plane.create(THINGS, &thing(name, &json!({"color": "red", "port": port}))).await;
        assert_eq!(created["spec"]["port"], port);
    }
}

#[tokio::test]
async fn an_update_is_validated_like_a_create() {
    let plane = plane().await;
    plane.create(THINGS, &thing("a", &json!({"color": "red"}))).await;
    let path = format!("{THINGS}/a");
    let patch = json!({"spec": {"color": "green"}});
    let (code, status) = plane.patch(&path, MERGE_PATCH, &patch).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("spec.color")));
    assert_eq!(plane.read(&path).await["spec"]["color"], "red");
}

#[tokio::test]
async fn field_validation_refuses_warns_or_ignores() {
    let plane = plane().await;
    let custom = thing("a", &json!({"color": "red", "odd": 1}));
    let builtin = json!({"metadata": {"name": "a"}, "odd": 1});
    for (path, object, field) in [(THINGS, custom, "spec.odd"), (CONFIG_MAPS, builtin, "odd")] {
        let send = async |validation: &str| {
            let path = format!("{path}?dryRun=All&fieldValidation={validation}");
            plane.send(Method::POST, &path, JSON, object.to_string()).await
        };
        let strict = send("Strict").await;
        assert_eq!(strict.code, 400);
        let message = strict.value()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("strict decoding error"), "{message}");
        assert!(message.contains(&format!("unknown field \"{field}\"")), "{message}");
        let warn = send("Warn").await;
        assert_eq!((warn.code, warn.warnings()), (201, vec![format!("unknown field \"{field}\"")]));
        let ignore = send("Ignore").await;
        assert_eq!((ignore.code, ignore.warnings()), (201, Vec::new()));
        assert_eq!(send("Sometimes").await.code, 422);
    }
}

#[tokio::test]
async fn the_last_of_duplicate_fields_counts_with_a_warning() {
    let plane = plane().await;
    let twice = r#"{"metadata": {"name": "a"}, "data": {"k": "1", "k": "2"}}"#;
    let reply = plane.send(Method::POST, CONFIG_MAPS, JSON, twice).await;
    assert_eq!((reply.code, &reply.value()["data"]["k"]), (201, &json!("2")));
    assert_eq!(reply.warnings(), ["duplicate field \"data.k\""]);
    let path = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    assert_eq!(plane.send(Method::POST, &path, JSON, twice).await.code, 400);
}

#[tokio::test]
async fn strict_errors_have_the_order_of_upstream() {
    let plane = plane().await;
    let refusal = async |path: &str, media: &str, body: &str| {
        let path = format!("{path}?dryRun=All&fieldValidation=Strict");
        let reply = plane.send(Method::POST, &path, media, body.to_owned()).await;
        let message = reply.value()["message"].as_str().unwrap().to_owned();
        message.split_once("strict decoding error: ").unwrap().1.to_owned()
    };
    let json = r#"{"zeta": 1, "metadata": {"name": "a", "odd": {"x": 1, "x": 2}, "name": "b"},
        "alpha": 1, "data": {"k": "1", "k": "2"}, "beta": 1, "immutable": true, "immutable": true}"#;
    assert_eq!(
        refusal(CONFIG_MAPS, JSON, json).await,
        r#"unknown field "zeta", unknown field "metadata.odd", duplicate field "metadata.name", unknown field "alpha", duplicate field "data.k", unknown field "beta", duplicate field "immutable""#
    );
    let yaml = "zeta: 1\nmetadata: {name: a, odd: 1}\ndata: {k: v, k: w}\nalpha: 1\n";
    assert_eq!(
        refusal(CONFIG_MAPS, "application/yaml", yaml).await,
        "yaml: unmarshal errors:\n  line 3: key \"k\" already set in map, unknown field \"alpha\", unknown field \"metadata.odd\", unknown field \"zeta\""
    );
    let custom = r#"{"apiVersion": "example.com/v1", "kind": "Thing", "zeta": 1, "alpha": 1,
        "metadata": {"name": "a", "odd": 1}, "spec": {"odd": 1, "color": "red", "color": "red"}}"#;
    assert_eq!(
        refusal(THINGS, JSON, custom).await,
        r#"duplicate field "spec.color", unknown field "metadata.odd", unknown field "alpha", unknown field "spec.odd", unknown field "zeta""#
    );
}

#[tokio::test]
async fn a_value_of_the_wrong_type_is_refused_with_gos_message() {
    let plane = plane().await;
    let (code, status) =
        plane.post(CONFIG_MAPS, &json!({"metadata": {"name": "a"}, "data": {"k": 1}})).await;
    assert_eq!(code, 400);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("cannot unmarshal number into Go struct field ConfigMap.data"),
        "{message}"
    );
}

#[tokio::test]
async fn rules_apply_to_every_write_with_ratcheting() {
    let plane = TestEnv::start().await;
    let rules = |bound: u32| {
        json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                format!("below{bound}"): {"type": "boolean", "default": true},
                "size": {"type": "integer",
                    "x-kubernetes-validations": [{"rule": format!("self < {bound}")}]},
                "name": {"type": "string",
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]}}},
            "status": {"type": "object", "properties": {"ready": {"type": "integer",
                "x-kubernetes-validations": [{"rule": "self >= 0"}]}}}}})
    };
    let mut crd = thing_crd(&rules(9));
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    plane.install_crd(&crd).await;
    let message = |status: &Value| status["details"]["causes"][0]["message"].clone();
    let (code, status) = plane.post(THINGS, &thing("a", &json!({"size": 9}))).await;
    assert_eq!((code, message(&status)), (422, json!("Invalid value: 9: failed rule: self < 9")));
    let spec = json!({"size": 8, "name": "x"});
    let mut stored = plane.create(THINGS, &thing("a", &spec)).await;

    let path = format!("{THINGS}/a");
    stored["spec"]["name"] = "y".into();
    let (code, status) = plane.put(&path, &stored).await;
    assert_eq!((code, message(&status)), (422, json!(r#"Invalid value: "y": fixed"#)));
    stored["status"] = json!({"ready": -1});
    let (code, status) = plane.put(&format!("{path}/status"), &stored).await;
    assert_eq!((code, message(&status)), (422, json!("Invalid value: -1: failed rule: self >= 0")));

    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = rules(5);
    let patch = json!({"spec": {"versions": crd["spec"]["versions"].take()}});
    plane.merge(&format!("{CRDS}/things.example.com"), &patch).await;
    plane.until(&path, |_, it| it["spec"]["below5"] == true).await;
    assert_eq!(plane.post(THINGS, &thing("b", &json!({"size": 8}))).await.0, 422);
    let labeled = plane.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labeled["spec"]["size"], 8);
}
