//! What becomes of the values in a body: which of them are kept, and how they are judged and written.

use crate::client::JSON;
use crate::plane::{Plane, THINGS, thing, things};
use http::Method;
use machinery::{Value, json};

/// A plane with a kind whose `spec` has these properties.
async fn plane(properties: &Value) -> Plane {
    let plane = Plane::start().await;
    let spec = json!({"type": "object", "properties": properties});
    plane.define(&things(&json!({"type": "object", "properties": {"spec": spec}}))).await;
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
async fn unknown_metadata_of_embedded_resources_is_told_after_other_unknown_fields() {
    let plane = plane(&json!({
        "a": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true},
        "z": {"type": "object"}}))
    .await;
    let embedded = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"odd": 1}});
    let body = thing("a", &json!({"a": embedded, "z": {"odd": 1}})).to_string();
    let reply = plane.send(Method::POST, THINGS, JSON, body).await;
    let told = ["unknown field \"spec.z.odd\"", "unknown field \"spec.a.metadata.odd\""];
    assert_eq!((reply.code, reply.warnings()), (201, told.map(str::to_owned).to_vec()));
}
