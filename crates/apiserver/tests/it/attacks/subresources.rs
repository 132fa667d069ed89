//! Rights on an object and on its subresources: neither gives the other, and a subresource changes
//! only what belongs to it.

use http::Method;

use super::{
    BINDINGS, CLUSTER_ROLES, PATCH_TYPES, PODS, binding, code, grant, grant_everywhere, patch,
    plane, role,
};
use crate::objects::{CONFIG_MAPS, THINGS, any_schema, config_map, thing, thing_crd};
use apiserver::auth::authentication::User;
use machinery::{Value, json};
use testenv::media_type::{JSON, MERGE_PATCH};
use testenv::{Client, TestEnv};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

async fn create_objects(plane: &TestEnv) {
    plane.create(PODS, &pod("a")).await;
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": pod("")});
    plane.create(DEPLOYMENTS, &json!({"metadata": {"name": "a"}, "spec": spec})).await;
    let node = json!({"metadata": {"name": "n"}});
    plane.create("/api/v1/nodes", &node).await;
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    plane.create("/api/v1/namespaces/default/services", &service).await;
}

/// Requests for subresources: the verb and the resource that they need, and what is sent. None of
/// them changes anything.
fn requests() -> Vec<(&'static str, &'static str, Method, String, Value)> {
    let scale = json!({"metadata": {"name": "a", "namespace": "default"}, "spec": {"replicas": 1}});
    let target = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    let pod_path = |rest: &str| format!("{PODS}/a/{rest}");
    let deployment = |rest: &str| format!("{DEPLOYMENTS}/a/{rest}");
    let service = |rest: &str| format!("/api/v1/namespaces/default/services/a/{rest}");
    let dry = "?dryRun=All";
    let eviction = json!({"metadata": {"name": "a"}});
    let none = Value::Null;
    vec![
        ("get", "pods/status", Method::GET, pod_path("status"), none.clone()),
        ("get", "pods/log", Method::GET, pod_path("log"), none.clone()),
        ("create", "pods/exec", Method::POST, pod_path("exec?command=sh"), none.clone()),
        ("create", "pods/attach", Method::POST, pod_path("attach"), none.clone()),
        ("create", "pods/portforward", Method::POST, pod_path("portforward"), none.clone()),
        ("get", "pods/proxy", Method::GET, pod_path("proxy/x"), none.clone()),
        ("create", "pods/proxy", Method::POST, pod_path("proxy/x"), none.clone()),
        ("delete", "pods/proxy", Method::DELETE, pod_path("proxy/x"), none.clone()),
        ("create", "pods/binding", Method::POST, pod_path(&format!("binding{dry}")), target),
        ("create", "pods/eviction", Method::POST, pod_path(&format!("eviction{dry}")), eviction),
        (
            "get",
            "pods/ephemeralcontainers",
            Method::GET,
            pod_path("ephemeralcontainers"),
            none.clone(),
        ),
        ("get", "pods/resize", Method::GET, pod_path("resize"), none.clone()),
        ("get", "deployments/scale", Method::GET, deployment("scale"), none.clone()),
        ("update", "deployments/scale", Method::PUT, deployment(&format!("scale{dry}")), scale),
        ("get", "deployments/status", Method::GET, deployment("status"), none.clone()),
        ("get", "services/proxy", Method::GET, service("proxy/"), none.clone()),
        ("get", "services/status", Method::GET, service("status"), none),
    ]
}

#[tokio::test]
async fn a_subresource_needs_a_right_of_its_own() {
    let (plane, alice) = plane().await;
    create_objects(&plane).await;
    // All rights on the objects themselves, and a right on another subresource.
    let objects = ["* pods", "* deployments", "* services", "* pods/other", "* scale", "* proxy"];
    grant(&plane, "objects", &objects).await;
    for (verb, resource, method, path, body) in requests() {
        let refused = code(&alice, method, &path, &body).await;
        assert_eq!(refused, 403, "{verb} {resource} {path}");
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_right_on_a_subresource_is_for_one_verb_and_not_for_the_object() {
    let (plane, _) = plane().await;
    create_objects(&plane).await;
    for (index, (verb, resource, method, path, body)) in requests().into_iter().enumerate() {
        let name = format!("r{index}");
        let user = plane.as_user(User::authenticated(&name, "", vec![]));
        plane.create(CLUSTER_ROLES, &role(&name, &[&format!("{verb} {resource}")])).await;
        let mut binding = binding(&name, &name);
        binding["subjects"][0]["name"] = name.as_str().into();
        plane.create(BINDINGS, &binding).await;
        let allowed = code(&user, method.clone(), &path, &body).await;
        assert_ne!(allowed, 403, "{verb} {resource} {path}");
        let bare = path.split('?').next().unwrap();
        for other in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            if other != method {
                let refused = code(&user, other.clone(), bare, &body).await;
                assert_eq!(refused, 403, "{other} with {verb} {resource}");
            }
        }
        let (object, _) = path.split_once("/a/").unwrap();
        let object = format!("{object}/a");
        for other in [Method::GET, Method::PUT, Method::DELETE] {
            let refused = code(&user, other.clone(), &object, &json!({})).await;
            assert_eq!(refused, 403, "{other} {object} with {verb} {resource}");
        }
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_stream_by_get_needs_the_right_to_create_it() {
    let (plane, alice) = plane().await;
    create_objects(&plane).await;
    grant(&plane, "reader", &["get pods/exec", "get pods/attach", "get pods/portforward"]).await;
    let streams = ["exec?command=sh", "attach", "portforward"];
    for stream in streams {
        for upgrade in ["websocket", "SPDY/3.1"] {
            let client = alice.with_header("upgrade", upgrade);
            let (code, status) = client.get(&format!("{PODS}/a/{stream}")).await;
            let message = r#"pods "a" is forbidden: "#;
            assert_eq!((code, status["message"].as_str()), (403, Some(message)), "{stream}");
        }
    }
    grant(
        &plane,
        "creator",
        &["create pods/exec", "create pods/attach", "create pods/portforward"],
    )
    .await;
    for stream in streams {
        let (code, status) = alice.get(&format!("{PODS}/a/{stream}")).await;
        let message = "pod a does not have a host assigned";
        assert_eq!((code, status["message"].as_str()), (400, Some(message)), "{stream}");
    }
    plane.stop().await.unwrap();
}

/// Patches a field by every type of patch; the field must not change.
async fn cannot_change(
    client: &Client,
    plane: &TestEnv,
    path: &str,
    subresource: &str,
    field: &str,
) {
    let before = plane.read(path).await;
    let value = match field {
        "/spec/nodeName" => json!("n"),
        "/status/phase" => json!("Failed"),
        "/spec/ephemeralContainers" => json!([{"name": "e", "image": "evil"}]),
        "/spec/containers" => json!([{"name": "c", "image": "evil"}]),
        "/spec/finalizers" => json!([]),
        "/spec/template" => json!({"metadata": {"labels": {"x": "evil"}}}),
        _ => json!({"x": "evil"}),
    };
    let read = |object: &Value| {
        let fields = field.split('/').skip(1);
        fields.fold(object.clone(), |it, field| it[field].clone())
    };
    for patch_type in PATCH_TYPES {
        let target = format!("{path}{subresource}");
        let answer = patch(client, &target, patch_type, &before, field, &value).await;
        // A server that refuses the patch and one that ignores the field are equally safe.
        assert!(
            matches!(answer.0, 200 | 400 | 404 | 409 | 415 | 422),
            "{target} {patch_type}: {answer:?}"
        );
        let after = plane.read(path).await;
        assert_eq!(read(&after), read(&before), "{patch_type} of {field} by {target}");
    }
}

#[tokio::test]
async fn a_subresource_changes_only_its_own_fields_by_every_type_of_patch() {
    let (plane, alice) = plane().await;
    create_objects(&plane).await;
    let mut crd = thing_crd(&any_schema());
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    plane.install_crd(&crd).await;
    plane.create(THINGS, &thing("a", &json!({"x": "good"}))).await;
    let rights = [
        "patch pods",
        "patch pods/status",
        "patch pods/ephemeralcontainers",
        "patch pods/resize",
        "patch things",
        "patch things/status",
        "patch deployments/scale",
        "patch deployments/status",
    ];
    grant(&plane, "patcher", &rights).await;
    grant_everywhere(&plane, "namespaces", &["patch namespaces", "patch namespaces/status"]).await;
    let (pod, thing) = (format!("{PODS}/a"), format!("{THINGS}/a"));
    for (path, subresource, field) in [
        (pod.as_str(), "", "/status/phase"),
        (&pod, "", "/spec/nodeName"),
        (&pod, "", "/spec/ephemeralContainers"),
        (&pod, "/status", "/spec/containers"),
        (&pod, "/status", "/spec/nodeName"),
        (&pod, "/ephemeralcontainers", "/spec/containers"),
        (&pod, "/ephemeralcontainers", "/metadata/labels"),
        (&pod, "/resize", "/spec/nodeName"),
        (&thing, "", "/status"),
        (&thing, "/status", "/spec"),
        (&format!("{DEPLOYMENTS}/a"), "/scale", "/spec/template"),
        (&format!("{DEPLOYMENTS}/a"), "/status", "/spec/template"),
        ("/api/v1/namespaces/default", "", "/spec/finalizers"),
        ("/api/v1/namespaces/default", "/status", "/spec/finalizers"),
        ("/api/v1/namespaces/default", "", "/status/phase"),
    ] {
        cannot_change(&alice, &plane, path, subresource, field).await;
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn to_delete_one_object_is_not_the_right_to_delete_a_collection() {
    let (plane, alice) = plane().await;
    for name in ["a", "b"] {
        plane.create(CONFIG_MAPS, &config_map(name, &json!({}))).await;
    }
    grant(&plane, "deleter", &["delete configmaps", "deletecollection configmaps a"]).await;
    for query in ["", "?fieldSelector=metadata.name=a", "?limit=1", "?dryRun=All", "?watch=true"] {
        let path = format!("{CONFIG_MAPS}{query}");
        assert_eq!(code(&alice, Method::DELETE, &path, &Value::Null).await, 403, "{query}");
    }
    assert_eq!(plane.read(CONFIG_MAPS).await["items"].as_array().unwrap().len(), 2);
    assert_eq!(code(&alice, Method::DELETE, &format!("{CONFIG_MAPS}/a"), &Value::Null).await, 200);
    // Nor does the right to delete a collection delete by a name, an update or an eviction.
    let (plane, alice) = super::plane().await;
    create_objects(&plane).await;
    grant(&plane, "collector", &["deletecollection pods", "update pods", "patch pods"]).await;
    assert_eq!(code(&alice, Method::DELETE, &format!("{PODS}/a"), &Value::Null).await, 403);
    let deletion = json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}});
    alice.patch(&format!("{PODS}/a"), MERGE_PATCH, &deletion).await;
    let stored = plane.read(&format!("{PODS}/a")).await;
    assert_eq!(stored["metadata"]["deletionTimestamp"], Value::Null);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn what_a_subresource_allows_in_kubernetes_is_allowed() {
    let (plane, alice) = plane().await;
    create_objects(&plane).await;
    // An eviction deletes the pod, a binding decides where it runs, a scale how many run.
    let rights = ["create pods/binding", "create pods/eviction", "patch deployments/scale"];
    grant(&plane, "operator", &rights).await;
    let target = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(alice.post(&format!("{PODS}/a/binding"), &target).await.0, 201);
    assert_eq!(plane.read(&format!("{PODS}/a")).await["spec"]["nodeName"], "n");
    alice.merge(&format!("{DEPLOYMENTS}/a/scale"), &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(plane.read(&format!("{DEPLOYMENTS}/a")).await["spec"]["replicas"], 5);
    let eviction = json!({"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": 0}});
    assert_eq!(alice.post(&format!("{PODS}/a/eviction"), &eviction).await.0, 201);
    assert_eq!(plane.get(&format!("{PODS}/a")).await.0, 404);
    // The path of a binding without a pod is another resource.
    let bindings = "/api/v1/namespaces/default/bindings";
    let other = alice.send(Method::POST, bindings, JSON, target.to_string()).await;
    assert_eq!(other.code, 403);
    plane.stop().await.unwrap();
}
