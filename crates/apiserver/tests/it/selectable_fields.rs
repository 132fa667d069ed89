//! Field selectors on resources whose versions have different selectable fields.

use crate::objects::{any_schema, thing_crd};
use machinery::{Value, json};
use testenv::TestEnv;

const EVENTS: &str = "/api/v1/namespaces/default/events";
const EVENTS_GROUP: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// The names of the objects that match a field selector.
async fn selected(plane: &TestEnv, path: &str, selector: &str) -> Vec<String> {
    let list = plane.read(&format!("{path}?fieldSelector={selector}")).await;
    let names = list["items"].as_array().unwrap().iter();
    names.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn each_group_of_events_selects_by_its_own_fields() {
    let plane = TestEnv::start().await;
    for (name, kind) in [("a", "Normal"), ("b", "Warning")] {
        let event = json!({"metadata": {"name": name}, "type": kind, "reason": "R",
            "source": {"component": "probe"}, "involvedObject": {"namespace": "default"}});
        plane.create(EVENTS, &event).await;
    }
    assert_eq!(selected(&plane, EVENTS, "source=probe").await, ["a", "b"]);
    assert_eq!(selected(&plane, EVENTS_GROUP, "type=Warning").await, ["b"]);
    assert_eq!(selected(&plane, EVENTS, "type=Warning").await, ["b"]);
    assert!(selected(&plane, EVENTS_GROUP, "type=probe").await.is_empty());
}

fn version(name: &str, storage: bool, fields: &[&str]) -> Value {
    let fields: Vec<Value> = fields.iter().map(|it| json!({"jsonPath": it})).collect();
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties":
        {"spec": {"type": "object", "properties": {"color": text, "size": text}}}});
    json!({"name": name, "served": true, "storage": storage, "selectableFields": fields,
        "schema": {"openAPIV3Schema": schema}})
}

#[tokio::test]
async fn each_version_of_a_custom_kind_selects_by_its_own_fields() {
    let plane = TestEnv::start().await;
    let mut crd = thing_crd(&any_schema());
    crd["spec"]["versions"] = json!([
        version("v1", true, &[".spec.color", ".spec.size"]),
        version("v2", false, &[".spec.size", ".spec.color"]),
    ]);
    plane.install_crd(&crd).await;
    let path = |version: &str| format!("/apis/example.com/{version}/namespaces/default/things");
    for (name, color, size) in [("a", "red", "big"), ("b", "big", "red")] {
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": name}, "spec": {"color": color, "size": size}});
        plane.create(&path("v1"), &thing).await;
    }
    for version in ["v1", "v2", "v1"] {
        assert_eq!(selected(&plane, &path(version), "spec.color=red").await, ["a"], "{version}");
        assert_eq!(selected(&plane, &path(version), "spec.size=red").await, ["b"], "{version}");
    }
}
