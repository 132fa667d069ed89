//! Deeply nested values.

use super::{AttackedPlane, COLLECTION, CRDS, JSON, YAML, assert_refused, refusal, traps};
use machinery::{Value, json};

const WELLS: &str = "/apis/hostile.example.dev/v1/namespaces/default/wells";
const WELL: &str = "/apis/hostile.example.dev/v1/namespaces/default/wells/deep";

/// Creates a CRD that preserves unknown fields.
fn create_well_crd(attacked: &mut AttackedPlane) {
    let version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "wells.hostile.example.dev"},
        "spec": {
            "group": "hostile.example.dev", "scope": "Namespaced",
            "names": {"plural": "wells", "kind": "Well"}, "versions": [version],
        },
    });
    attacked.create_crd(&crd);
}

/// `{"a":{"a":…}}` with a number of levels.
fn objects(levels: usize) -> String {
    r#"{"a":"#.repeat(levels) + "1" + &"}".repeat(levels)
}

fn lists(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

fn well(spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"hostile.example.dev/v1","kind":"Well","metadata":{{"name":"deep"}},"spec":{spec}}}"#
    )
}

#[test]
fn ten_thousand_levels_of_nesting_are_refused() {
    let mut attacked = AttackedPlane::start();
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): ";
    for deep in [objects(10_000), lists(10_000)] {
        let body = format!(r#"{{"metadata":{{"name":"a"}},"x":{deep}}}"#);
        let response = attacked.send("POST", COLLECTION, JSON, body.as_bytes());
        let message = refusal(&response, 400, "BadRequest");
        let begins = format!(
            "{unrecognized}couldn't get version/kind; json parse error: exceeded max depth"
        );
        assert!(message.starts_with(&begins), "{message}");
        let body = format!("metadata: {{name: a}}\nx: {deep}");
        let message =
            refusal(&attacked.send("POST", COLLECTION, YAML, body.as_bytes()), 400, "BadRequest");
        assert!(message.starts_with(&format!("{unrecognized}yaml: ")), "{message}");
        for media in ["merge-patch", "strategic-merge-patch"] {
            let path = format!("{COLLECTION}/a");
            let body = format!(r#"{{"x":{deep}}}"#);
            let media = format!("application/{media}+json");
            let response = attacked.send("PATCH", &path, &media, body.as_bytes());
            refusal(&response, 400, "BadRequest");
        }
    }
    let indented: String = (0..1500).map(|it| " ".repeat(it) + "a:\n").collect();
    refusal(&attacked.send("POST", COLLECTION, YAML, indented.as_bytes()), 400, "BadRequest");
    attacked.assert_healthy();
}

#[test]
fn deeply_nested_objects_can_be_read_patched_and_deleted() {
    let mut attacked = AttackedPlane::start();
    create_well_crd(&mut attacked);
    for levels in [500, 990] {
        for deep in [objects(levels), lists(levels)] {
            exercise_nested_object(&mut attacked, &deep);
        }
    }
    attacked.assert_healthy();
}

/// Runs all verbs on an object whose spec is `deep`.
fn exercise_nested_object(attacked: &mut AttackedPlane, deep: &str) {
    let spec: Value = machinery::codec::json::decode(deep.as_bytes()).unwrap().value;
    let response = attacked.send("POST", WELLS, JSON, well(deep).as_bytes());
    assert_eq!((response.code, &response.body["spec"]), (201, &spec));
    for (path, accept) in [
        (WELL, JSON),
        (WELLS, JSON),
        (WELL, YAML),
        (WELLS, "application/json;as=Table;v=v1;g=meta.k8s.io"),
        (&format!("{WELL}?pretty=true"), JSON),
    ] {
        let response = attacked.client.exchange("GET", path, &[("accept", accept)], b"").unwrap();
        assert_eq!(response.code, 200, "{path} {accept}");
    }
    let mut events = attacked.client.watch(&format!("{WELLS}?watch=true")).unwrap();
    assert_eq!(events.next().unwrap().unwrap()["object"]["spec"], spec);
    let merge = format!(r#"{{"more":{deep}}}"#);
    let add = format!(r#"[{{"op":"add","path":"/another","value":{deep}}}]"#);
    let test = format!(r#"[{{"op":"test","path":"/spec","value":{deep}}}]"#);
    for (media, body) in [("merge-patch", merge), ("json-patch", add), ("json-patch", test)] {
        let media = format!("application/{media}+json");
        let response = attacked.send("PATCH", WELL, &media, body.as_bytes());
        assert_eq!((response.code, &response.body["spec"]), (200, &spec), "{media}");
    }
    let status = format!(r#"{{"status":{deep}}}"#);
    let media = "application/merge-patch+json";
    let response = attacked.send("PATCH", &format!("{WELL}/status"), media, status.as_bytes());
    assert_eq!((response.code, &response.body["status"]), (200, &spec));
    let (code, _) = attacked.client.send("DELETE", WELL, None).unwrap();
    assert_eq!(code, 200);
}

#[test]
fn a_json_patch_cannot_exceed_the_nesting_limit() {
    let mut attacked = AttackedPlane::start();
    create_well_crd(&mut attacked);
    attacked.send("POST", WELLS, JSON, well(&objects(900)).as_bytes());
    let copies: Vec<Value> = (0..5)
        .map(|it| format!("/spec{}", "/a".repeat(900 << it)))
        .map(|path| json!({"op": "copy", "from": "/spec", "path": path}))
        .collect();
    let body = Value::from(copies).to_string();
    let response = attacked.send("PATCH", WELL, "application/json-patch+json", body.as_bytes());
    let message = "the server rejected our request due to an error in our request";
    assert_refused(&response, 422, "Invalid", message);
    attacked.assert_healthy();
}

#[test]
fn an_applied_configuration_over_the_nesting_limit_is_refused() {
    let mut attacked = AttackedPlane::start();
    create_well_crd(&mut attacked);
    let apply = format!("{WELL}?fieldManager=digger");
    let media = "application/apply-patch+yaml";
    for code in [201, 200] {
        let response = attacked.send("PATCH", &apply, media, well(&objects(200)).as_bytes());
        assert_eq!(response.code, code, "{}", response.body);
    }
    let response = attacked.send("PATCH", &apply, media, well(&objects(10_000)).as_bytes());
    let message = refusal(&response, 400, "BadRequest");
    assert!(message.starts_with("error decoding patch: "), "{message}");
    // Managed fields are as deep as the fields of the object.
    let owned = objects(900).replace('a', "f:a");
    let entry = format!(
        r#"{{"manager":"m","operation":"Update","apiVersion":"hostile.example.dev/v1","fieldsType":"FieldsV1","fieldsV1":{owned}}}"#
    );
    let patch = format!(r#"{{"metadata":{{"managedFields":[{entry}]}}}}"#);
    let response = attacked.send("PATCH", WELL, "application/merge-patch+json", patch.as_bytes());
    assert_eq!(response.code, 200, "{}", response.body["message"]);
    assert_eq!(attacked.client.send("DELETE", WELL, None).unwrap().0, 200);
    attacked.assert_healthy();
}

#[test]
fn deeply_nested_schemas_are_served() {
    let mut attacked = AttackedPlane::start();
    let mut schema = json!({"type": "object"});
    for _ in 0..400 {
        schema = json!({"type": "object", "properties": {"a": schema}});
    }
    attacked.send_accepted("POST", CRDS, &traps(&schema));
    for path in ["/openapi/v2", "/openapi/v3/apis/hostile.example.dev/v1", CRDS] {
        assert_eq!(attacked.client.send("GET", path, None).unwrap().0, 200, "{path}");
    }
    attacked.assert_healthy();
}
