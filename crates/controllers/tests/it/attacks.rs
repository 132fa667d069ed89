//! Attacks on the controllers, which have more rights than their users: what mallory writes in her
//! namespace must not make them act on the objects of others. What Kubernetes allows is shown to be
//! allowed.

mod identities;
mod owners;
mod targets;
mod volumes;
mod workloads;

use crate::plane::Plane;
use apiserver::AuthorizerConfig;
use apiserver::auth::authentication::User;
use machinery::{Value, json};
use testenv::{Client, TestEnv};

/// The namespace of mallory.
const OWN: &str = "mallory";

/// A plane with roles and these controllers, and mallory, who has the role `admin` in her namespace and
/// no other rights.
async fn plane(controllers: &[&str]) -> (Plane, Client) {
    let builder =
        TestEnv::builder().config(|config| config.authorizers.push(AuthorizerConfig::Rbac));
    let controllers = [&["clusterrole-aggregation-controller"][..], controllers].concat();
    let plane = Plane::start_with(builder, &controllers).await;
    plane.create("/api/v1/namespaces", &json!({"metadata": {"name": OWN}})).await;
    let binding = json!({
        "metadata": {"name": "mallory"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "User", "name": "mallory"}],
    });
    plane.create(&own("apis/rbac.authorization.k8s.io/v1", "rolebindings"), &binding).await;
    // The rights of `view` come to `edit` and from there to `admin`.
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin";
    let has_all = |_: u16, role: &Value| {
        let rules = role["rules"].to_string();
        rules.contains("pods/eviction") && rules.contains("poddisruptionbudgets/status")
    };
    plane.until(path, has_all).await;
    let mallory = plane.as_user(User::authenticated("mallory", "", vec![]));
    (plane, mallory)
}

/// The path of a collection in the namespace of mallory.
fn own(group_version: &str, plural: &str) -> String {
    format!("/{group_version}/namespaces/{OWN}/{plural}")
}

/// A reference to the controller of an object.
fn controller(api_version: &str, kind: &str, owner: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "controller": true,
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]})
}
