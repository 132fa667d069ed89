//! The steps of a Stage, and changes of others between them.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request};
use kube_client::client::Body;

use crate::interference;
use crate::plane::{PODS, Plane};
use crate::stages::{FAILURES, create_stage, install_crd};
use machinery::{Value, json};

/// A Stage for pods with the label `mark`, until they have the label `done`.
fn marking_stage(steps: &Value) -> Value {
    let is_done = json!({"key": ".metadata.labels.done", "operator": "DoesNotExist"});
    json!({"resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {"matchLabels": {"mark": "yes"}, "matchExpressions": [is_done]},
        "steps": steps})
}

/// A step that adds a label.
fn label_step(type_: &str, label: &str) -> Value {
    let template = match type_ {
        "json" => format!("[{{op: add, path: /labels/{label}, value: 'yes'}}]"),
        _ => format!("labels: {{{label}: 'yes'}}"),
    };
    json!({"patch": {"type": type_, "root": "metadata", "template": template}})
}

async fn mark(plane: &Plane, name: &str) {
    let patch = json!({"metadata": {"labels": {"mark": "yes"}}});
    plane.merge(&format!("{PODS}/{name}"), &patch).await;
}

/// A plane whose nodes are preceded by `before`, when they send the second patch of the pod `a`.
async fn start_interfering(
    before: impl Fn() -> Vec<Request<Body>> + Send + Sync + 'static,
) -> Plane {
    let mut plane = Plane::start(0, &["none"]).await;
    plane.stop_nodes().await;
    let patches = AtomicUsize::new(0);
    let connect = interference::connect(&plane, move |request| {
        let is_step = request.method() == Method::PATCH
            && request.uri().path() == format!("{PODS}/a")
            && patches.fetch_add(1, Ordering::Relaxed) == 1;
        if is_step { before() } else { Vec::new() }
    });
    plane.start_nodes_with(1, connect);
    install_crd(&plane).await;
    plane
}

fn administrator_request(method: Method, path: &str, body: &Value) -> Request<Body> {
    let media_type = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder().method(method).uri(path).header("content-type", media_type);
    request.body(Body::from(body.to_string().into_bytes())).unwrap()
}

#[tokio::test]
async fn a_step_sees_what_the_step_before_it_has_written() {
    let plane = Plane::start(1, &["none"]).await;
    install_crd(&plane).await;
    let finalizers = json!({"finalizers": {"add": [{"value": "example.com/hold"}]}});
    let copy = json!({"patch": {"type": "merge", "root": "metadata",
        "template": "annotations: {seen: {{ or .metadata.labels.done `no` | Quote }}}"}});
    let label = label_step("merge", "done");
    create_stage(&plane, "mark", marking_stage(&json!([label, finalizers, copy]))).await;
    plane.create_pod("a", json!({}), json!({})).await;
    mark(&plane, "a").await;
    let pod = plane.until_pod("a", |pod| pod["metadata"]["annotations"]["seen"].is_string()).await;
    assert_eq!(pod["metadata"]["annotations"]["seen"], "yes");
    assert_eq!(pod["metadata"]["finalizers"], json!(["example.com/hold"]));
    plane.stop().await;
}

#[tokio::test]
async fn a_stage_goes_on_after_another_change_between_its_steps() {
    let change = json!({"metadata": {"finalizers": ["example.com/other"]}});
    let path = format!("{PODS}/a");
    let plane =
        start_interfering(move || vec![administrator_request(Method::PATCH, &path, &change)]).await;
    let finalizers = json!({"finalizers": {"add": [{"value": "example.com/hold"}]}});
    let steps = json!([label_step("merge", "done"), finalizers, label_step("json", "end")]);
    create_stage(&plane, "mark", marking_stage(&steps)).await;
    plane.create_pod("a", json!({}), json!({})).await;
    mark(&plane, "a").await;
    let pod = plane.until_pod("a", |pod| pod["metadata"]["labels"]["end"] == "yes").await;
    let both = json!(["example.com/other", "example.com/hold"]);
    assert_eq!(pod["metadata"]["finalizers"], both);
    plane.stop().await;
}

#[tokio::test]
async fn the_steps_of_a_stage_do_not_change_the_next_pod_of_the_name() {
    for type_ in ["merge", "strategic", "json"] {
        let path = format!("{PODS}/a");
        let next = json!({"metadata": {"name": "a", "labels": {"next": "yes"}}, "spec": {
            "nodeName": "sampan-0", "containers": [{"name": "main", "image": "example.com/app:1"}]}});
        let plane = start_interfering(move || {
            let delete = json!({"gracePeriodSeconds": 0});
            vec![
                administrator_request(Method::DELETE, &path, &delete),
                administrator_request(Method::POST, PODS, &next),
            ]
        })
        .await;
        let steps = json!([label_step("merge", "done"), label_step(type_, "end")]);
        create_stage(&plane, "mark", marking_stage(&steps)).await;
        plane.create_pod("a", json!({}), json!({})).await;
        mark(&plane, "a").await;
        let is_next = |pod: &Value| {
            pod["metadata"]["labels"]["next"] == "yes" && pod["status"]["phase"] == "Running"
        };
        let pod = plane.until_pod("a", is_next).await;
        assert_eq!(pod["metadata"]["labels"], json!({"next": "yes"}), "{type_}");
        let list = plane.read(FAILURES).await;
        assert_eq!(list["items"], json!([]), "a pod that is gone is no failure");
        plane.stop().await;
    }
}
