//! Objects that several tests create, and changes of pods that a node would make.

use machinery::{Value, json};
use testenv::Client;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// A template of pods with the label `app`.
pub(crate) fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    })
}

/// The names of the items of a list.
pub(crate) fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Writes the status of a pod as a node does when it runs.
pub(crate) async fn make_ready(client: &Client, pod: &str) {
    let now = client.read(&format!("{PODS}/{pod}")).await["metadata"]["creationTimestamp"].clone();
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
    let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
    client.merge(&format!("{PODS}/{pod}/status"), &status).await;
}

/// Waits for an event with this reason.
pub(crate) async fn until_event(client: &Client, reason: &str) -> Value {
    let path = format!("/api/v1/namespaces/default/events?fieldSelector=reason={reason}");
    let has_event =
        |_: u16, list: &Value| list["items"].as_array().is_some_and(|it| !it.is_empty());
    client.until(&path, has_event).await["items"][0].clone()
}
