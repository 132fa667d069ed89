//! Values within values within values.

use super::{COLLECTION, DEFINITIONS, JSON, Siege, YAML, assert_refused, refusal, traps};
use machinery::{Value, json};

const WELLS: &str = "/apis/hostile.example.dev/v1/namespaces/default/wells";
const WELL: &str = "/apis/hostile.example.dev/v1/namespaces/default/wells/deep";

/// A resource that takes everything.
fn define_wells(siege: &mut Siege) {
    let version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "wells.hostile.example.dev"},
        "spec": {
            "group": "hostile.example.dev", "scope": "Namespaced",
            "names": {"plural": "wells", "kind": "Well"}, "versions": [version],
        },
    });
    siege.define(&definition);
}

/// `{"a":{"a":…}}`, so deep.
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
fn ten_thousand_levels_are_too_many() {
    let mut siege = Siege::begin();
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): ";
    for deep in [objects(10_000), lists(10_000)] {
        let body = format!(r#"{{"metadata":{{"name":"a"}},"x":{deep}}}"#);
        let answer = siege.send("POST", COLLECTION, JSON, body.as_bytes());
        let message = refusal(&answer, 400, "BadRequest");
        let begins = format!(
            "{unrecognized}couldn't get version/kind; json parse error: exceeded max depth"
        );
        assert!(message.starts_with(&begins), "{message}");
        let body = format!("metadata: {{name: a}}\nx: {deep}");
        let message =
            refusal(&siege.send("POST", COLLECTION, YAML, body.as_bytes()), 400, "BadRequest");
        assert!(message.starts_with(&format!("{unrecognized}yaml: ")), "{message}");
        for media in ["merge-patch", "strategic-merge-patch"] {
            let path = format!("{COLLECTION}/a");
            let body = format!(r#"{{"x":{deep}}}"#);
            let media = format!("application/{media}+json");
            let answer = siege.send("PATCH", &path, &media, body.as_bytes());
            refusal(&answer, 400, "BadRequest");
        }
    }
    let indented: String = (0..1500).map(|it| " ".repeat(it) + "a:\n").collect();
    refusal(&siege.send("POST", COLLECTION, YAML, indented.as_bytes()), 400, "BadRequest");
    siege.survived();
}

#[test]
fn what_is_stored_at_depth_can_be_read_patched_and_deleted() {
    let mut siege = Siege::begin();
    define_wells(&mut siege);
    for levels in [500, 990] {
        for deep in [objects(levels), lists(levels)] {
            go_down(&mut siege, &deep);
        }
    }
    siege.survived();
}

/// Everything that can be done with an object, done with one whose spec is `deep`.
fn go_down(siege: &mut Siege, deep: &str) {
    let spec: Value = machinery::codec::json::decode(deep.as_bytes()).unwrap().value;
    let answer = siege.send("POST", WELLS, JSON, well(deep).as_bytes());
    assert_eq!((answer.code, &answer.body["spec"]), (201, &spec));
    for (path, accept) in [
        (WELL, JSON),
        (WELLS, JSON),
        (WELL, YAML),
        (WELLS, "application/json;as=Table;v=v1;g=meta.k8s.io"),
        (&format!("{WELL}?pretty=true"), JSON),
    ] {
        let answer = siege.client.exchange("GET", path, &[("accept", accept)], b"").unwrap();
        assert_eq!(answer.code, 200, "{path} {accept}");
    }
    let mut events = siege.client.watch(&format!("{WELLS}?watch=true")).unwrap();
    assert_eq!(events.next().unwrap().unwrap()["object"]["spec"], spec);
    let merge = format!(r#"{{"more":{deep}}}"#);
    let add = format!(r#"[{{"op":"add","path":"/another","value":{deep}}}]"#);
    let test = format!(r#"[{{"op":"test","path":"/spec","value":{deep}}}]"#);
    for (media, body) in [("merge-patch", merge), ("json-patch", add), ("json-patch", test)] {
        let media = format!("application/{media}+json");
        let answer = siege.send("PATCH", WELL, &media, body.as_bytes());
        assert_eq!((answer.code, &answer.body["spec"]), (200, &spec), "{media}");
    }
    let status = format!(r#"{{"status":{deep}}}"#);
    let media = "application/merge-patch+json";
    let answer = siege.send("PATCH", &format!("{WELL}/status"), media, status.as_bytes());
    assert_eq!((answer.code, &answer.body["status"]), (200, &spec));
    let (code, _) = siege.client.send("DELETE", WELL, None).unwrap();
    assert_eq!(code, 200);
}

#[test]
fn a_patch_cannot_nest_an_object_into_itself_for_ever() {
    let mut siege = Siege::begin();
    define_wells(&mut siege);
    siege.send("POST", WELLS, JSON, well(&objects(900)).as_bytes());
    let copies: Vec<Value> = (0..5)
        .map(|it| format!("/spec{}", "/a".repeat(900 << it)))
        .map(|path| json!({"op": "copy", "from": "/spec", "path": path}))
        .collect();
    let body = Value::from(copies).to_string();
    let answer = siege.send("PATCH", WELL, "application/json-patch+json", body.as_bytes());
    let message = "the server rejected our request due to an error in our request";
    assert_refused(&answer, 422, "Invalid", message);
    siege.survived();
}

#[test]
fn what_is_applied_may_be_deep_but_not_endless() {
    let mut siege = Siege::begin();
    define_wells(&mut siege);
    let apply = format!("{WELL}?fieldManager=digger");
    let media = "application/apply-patch+yaml";
    for code in [201, 200] {
        let answer = siege.send("PATCH", &apply, media, well(&objects(200)).as_bytes());
        assert_eq!(answer.code, code, "{}", answer.body);
    }
    let answer = siege.send("PATCH", &apply, media, well(&objects(10_000)).as_bytes());
    let message = refusal(&answer, 400, "BadRequest");
    assert!(message.starts_with("error decoding patch: "), "{message}");
    // Who owns what is as deep as what is owned.
    let owned = objects(900).replace('a', "f:a");
    let entry = format!(
        r#"{{"manager":"m","operation":"Update","apiVersion":"hostile.example.dev/v1","fieldsType":"FieldsV1","fieldsV1":{owned}}}"#
    );
    let patch = format!(r#"{{"metadata":{{"managedFields":[{entry}]}}}}"#);
    let answer = siege.send("PATCH", WELL, "application/merge-patch+json", patch.as_bytes());
    assert_eq!(answer.code, 200, "{}", answer.body["message"]);
    assert_eq!(siege.client.send("DELETE", WELL, None).unwrap().0, 200);
    siege.survived();
}

#[test]
fn a_schema_may_be_deep_as_well() {
    let mut siege = Siege::begin();
    let mut schema = json!({"type": "object"});
    for _ in 0..400 {
        schema = json!({"type": "object", "properties": {"a": schema}});
    }
    siege.accepted("POST", DEFINITIONS, &traps(&schema));
    for path in ["/openapi/v2", "/openapi/v3/apis/hostile.example.dev/v1", DEFINITIONS] {
        assert_eq!(siege.client.send("GET", path, None).unwrap().0, 200, "{path}");
    }
    siege.survived();
}
