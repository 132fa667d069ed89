//! Attacks by authenticated users: requests that try to pass authorization, to gain rights, or to
//! read secrets without the right to. What Kubernetes allows is shown to be allowed.

mod escalation;
mod http2;
mod http2_floods;
mod http2_frames;
mod identities;
mod paths;
mod raw_requests;
mod secrets;
mod subresources;

use http::Method;

use apiserver::AuthorizerConfig;
use apiserver::auth::authentication::User;
use machinery::{Value, json};
use testenv::media_type::{JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH};
use testenv::{Client, TestEnv};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// The four media types of patches.
const PATCH_TYPES: [&str; 4] = [JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH];

/// A plane with roles, and alice, who has no rights of her own.
async fn plane() -> (TestEnv, Client) {
    let plane = TestEnv::builder()
        .config(|config| config.authorizers.push(AuthorizerConfig::Rbac))
        .start()
        .await;
    let alice = plane.as_user(User::authenticated("alice", "", vec![]));
    (plane, alice)
}

/// Rules of rights that are written `VERB,VERB RESOURCE [NAME]`, in any API group.
fn rules(rights: &[&str]) -> Value {
    let rule = |right: &&str| {
        let mut words = right.split(' ');
        let verbs: Vec<&str> = words.next().unwrap().split(',').collect();
        let resource = words.next().unwrap();
        let names: Vec<&str> = words.collect();
        json!({"verbs": verbs, "apiGroups": ["*"], "resources": [resource], "resourceNames": names})
    };
    rights.iter().map(rule).collect()
}

fn role(name: &str, rights: &[&str]) -> Value {
    json!({"metadata": {"name": name}, "rules": rules(rights)})
}

/// A binding of a cluster role to alice.
fn binding(name: &str, role: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}],
    })
}

/// Grants alice rights in the namespace `default`, besides those that she has.
async fn grant(plane: &TestEnv, name: &str, rights: &[&str]) {
    plane.create(CLUSTER_ROLES, &role(name, rights)).await;
    plane.create(BINDINGS, &binding(name, name)).await;
}

/// Grants alice rights in the whole cluster.
async fn grant_everywhere(plane: &TestEnv, name: &str, rights: &[&str]) {
    plane.create(CLUSTER_ROLES, &role(name, rights)).await;
    plane.create(CLUSTER_BINDINGS, &binding(name, name)).await;
}

/// Sends a patch of a type that sets the field at `pointer`, such as `/metadata/labels`. An apply
/// configuration also has the type and the name of the object in `base`.
async fn patch(
    client: &Client,
    path: &str,
    patch_type: &str,
    base: &Value,
    pointer: &str,
    value: &Value,
) -> (u16, Value) {
    let body = match patch_type {
        JSON_PATCH => json!([{"op": "add", "path": pointer, "value": value}]),
        _ => pointer
            .rsplit('/')
            .filter(|it| !it.is_empty())
            .fold(value.clone(), |inner, field| json!({ field: inner })),
    };
    if patch_type != APPLY_PATCH {
        return client.patch(path, patch_type, &body).await;
    }
    let mut configuration = body;
    for field in ["apiVersion", "kind"] {
        configuration[field] = base[field].clone();
    }
    configuration["metadata"]["name"] = base["metadata"]["name"].clone();
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}fieldManager=attack&force=true");
    client.patch(&path, APPLY_PATCH, &configuration).await
}

/// The code of a request without a body, or with one in JSON.
async fn code(client: &Client, method: Method, path: &str, body: &Value) -> u16 {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.send(method, path, JSON, body).await.code
}
