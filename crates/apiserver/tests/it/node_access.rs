//! What nodes may do: the node authorizer and the admission plugin `NodeRestriction`.

mod restriction;

use apiserver::AuthorizerConfig;
use apiserver::auth::authentication::User;
use machinery::{Value, json};
use testenv::{Client, TestEnv};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const NO_RELATION: &str = "no relationship found between node 'a' and this object";

fn node_user(name: &str) -> User {
    User::authenticated(&format!("system:node:{name}"), "", vec!["system:nodes".to_owned()])
}

async fn plane() -> (TestEnv, Client) {
    let plane = TestEnv::builder()
        .config(|config| {
            config.authorizers.extend([AuthorizerConfig::Node, AuthorizerConfig::Rbac]);
        })
        .start()
        .await;
    let node = plane.as_user(node_user("a"));
    (plane, node)
}

/// Creates a pod on a node.
async fn create_pod(plane: &TestEnv, name: &str, node: &str, mut spec: Value) {
    spec["nodeName"] = node.into();
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c", "image": "i"}]);
    }
    plane.create(PODS, &json!({"metadata": {"name": name}, "spec": spec})).await;
}

/// Reviews `verb [group:]resource[/subresource] [namespace/]name [fieldSelector]` for a user; "-" is no
/// name. Returns the reason of a refusal, without the name of the authorizer; None if it is allowed.
async fn refused_to(plane: &TestEnv, user: &str, groups: &[&str], text: &str) -> Option<String> {
    let mut words = text.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (verb, resource, object, selector) = (word(), word(), word(), word());
    let (group, resource) = resource.split_once(':').unwrap_or(("", resource));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    let name = if name == "-" { "" } else { name };
    let mut attributes = json!({
        "verb": verb, "group": group, "resource": resource, "subresource": subresource,
        "namespace": namespace, "name": name,
    });
    if !selector.is_empty() {
        attributes["fieldSelector"] = json!({"rawSelector": selector});
    }
    let review =
        json!({"spec": {"user": user, "groups": groups, "resourceAttributes": attributes}});
    let status = plane.create(REVIEWS, &review).await["status"].clone();
    if status["allowed"] == true {
        return None;
    }
    let reason = status["reason"].as_str().unwrap_or_default();
    Some(reason.strip_prefix("node: ").unwrap_or(reason).to_owned())
}

/// Checks a review for the node `a`; `expected` is the reason of the refusal.
async fn check(plane: &TestEnv, text: &str, expected: Result<(), &str>) {
    let found = refused_to(plane, "system:node:a", &["system:nodes"], text).await;
    assert_eq!(found.as_deref(), expected.err(), "{text}");
}

#[tokio::test]
async fn a_node_reads_what_its_own_pods_refer_to() {
    let (plane, node) = plane().await;
    for name in ["own", "other"] {
        plane.create(SECRETS, &json!({"metadata": {"name": name}})).await;
    }
    let spec = |secret: &str| json!({"volumes": [{"name": "v", "secret": {"secretName": secret}}]});
    let own = format!("{SECRETS}/own");
    let (code, status) = node.get(&own).await;
    let message = concat!(
        r#"secrets "own" is forbidden: User "system:node:a" cannot get resource "secrets" in API "#,
        r#"group "" in the namespace "default": node: no relationship found between node 'a' and this object"#,
    );
    assert_eq!((code, status["message"].as_str().unwrap()), (403, message));
    create_pod(&plane, "own", "a", spec("own")).await;
    create_pod(&plane, "other", "b", spec("other")).await;
    assert_eq!(node.get(&own).await.0, 200);
    assert_eq!(node.get(&format!("{SECRETS}/other")).await.0, 403);
    // A list of that object alone is allowed, one of all objects is not.
    let list = format!("{SECRETS}?fieldSelector=metadata.name%3D");
    let (code, found) = node.get(&format!("{list}own")).await;
    assert_eq!((code, found["items"].as_array().unwrap().len()), (200, 1));
    for refused in [format!("{list}other"), SECRETS.to_owned(), "/api/v1/secrets".to_owned()] {
        assert_eq!(node.get(&refused).await.0, 403, "{refused}");
    }
    plane.delete(&format!("{PODS}/own?gracePeriodSeconds=0")).await;
    assert_eq!(node.get(&own).await.0, 403, "after the deletion of the pod");
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_lists_its_own_pods_and_reads_itself() {
    let (plane, node) = plane().await;
    create_pod(&plane, "own", "a", json!({})).await;
    create_pod(&plane, "other", "b", json!({})).await;
    let (code, list) = node.get("/api/v1/pods?fieldSelector=spec.nodeName%3Da").await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 1));
    for refused in [
        "/api/v1/pods",
        "/api/v1/pods?fieldSelector=spec.nodeName%3Db",
        "/api/v1/pods?fieldSelector=spec.nodeName!%3Da",
        "/api/v1/nodes",
        "/api/v1/nodes/b",
        "/api/v1/nodes?fieldSelector=metadata.name%3Db",
    ] {
        assert_eq!(node.get(refused).await.0, 403, "{refused}");
    }
    assert_eq!(node.get(&format!("{PODS}/own")).await.0, 200);
    assert_eq!(node.get(&format!("{PODS}/other")).await.0, 403);
    assert_eq!(node.get("/api/v1/nodes/a").await.0, 404, "a node reads itself before it exists");
    assert_eq!(node.get("/api/v1/nodes?fieldSelector=metadata.name%3Da").await.0, 200);
    assert_eq!(node.get("/api/v1/services").await.0, 200, "by the rules of system:node");
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_user_is_a_node_by_name_and_group() {
    let (plane, _) = plane().await;
    let review = "get nodes a";
    let refused =
        async |user: &str, groups: &[&str]| refused_to(&plane, user, groups, review).await;
    assert_eq!(refused("system:node:a", &["system:nodes"]).await, None);
    assert_eq!(refused("system:node:a", &["others"]).await.as_deref(), Some(""));
    assert_eq!(refused("a", &["system:nodes"]).await.as_deref(), Some(""));
    let unknown = refused("system:node:", &["system:nodes"]).await;
    assert_eq!(unknown.as_deref(), Some(r#"unknown node for user "system:node:""#));
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn each_resource_of_pods_has_its_own_refusals() {
    let (plane, _) = plane().await;
    create_pod(
        &plane,
        "own",
        "a",
        json!({
            "serviceAccountName": "robot",
            "imagePullSecrets": [{"name": "pull"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
            "volumes": [
                {"name": "m", "configMap": {"name": "map"}},
                {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                }}}},
            ],
        }),
    )
    .await;
    let (get, only_get) = (Ok(()), Err("can only get individual resources of this type"));
    for (review, expected) in [
        ("get secrets default/pull", get),
        ("watch secrets default/pull", get),
        ("get secrets default/other", Err(NO_RELATION)),
        ("get secrets other/pull", Err(NO_RELATION)),
        ("get secrets default/own/pull", Err(NO_RELATION)),
        ("list secrets default/-", Err("No Object name found")),
        ("list secrets -", Err("can only read namespaced object of this type")),
        ("update secrets default/pull", Err("can only read resources of this type")),
        ("get secrets/status default/pull", Err("cannot read subresource")),
        ("get configmaps default/map", get),
        ("get configmaps default/pull", Err(NO_RELATION)),
        ("get persistentvolumeclaims default/data", get),
        ("get persistentvolumeclaims default/own-e", get),
        ("list persistentvolumeclaims default/data", only_get),
        ("get persistentvolumeclaims/x default/data", Err("cannot get subresource")),
        ("patch persistentvolumeclaims/status default/data", get),
        ("patch persistentvolumeclaims/status default/x", Err(NO_RELATION)),
        (
            "get persistentvolumeclaims/status default/data",
            Err("can only get/update/patch this type"),
        ),
        ("get resource.k8s.io:resourceclaims default/gpu", get),
        ("delete resource.k8s.io:resourceclaims default/gpu", only_get),
        ("get serviceaccounts default/robot", get),
        ("get serviceaccounts default/default", Err(NO_RELATION)),
        ("create serviceaccounts/token default/robot", get),
        ("create serviceaccounts/token default/default", Err(NO_RELATION)),
        (
            "list serviceaccounts default/-",
            Err("can only create tokens for individual service accounts"),
        ),
        (
            "create serviceaccounts/status default/robot",
            Err("can only create token subresource of serviceaccount"),
        ),
        ("get pods default/own", get),
        ("watch pods default/own", get),
        ("get pods own", Err(NO_RELATION)),
        ("get pods default/other", Err(NO_RELATION)),
        ("list pods -", Err("can only list/watch pods with spec.nodeName field selector")),
        ("list pods - spec.nodeName=a", get),
        ("create pods default/-", get),
        ("delete pods default/other", get),
        ("patch pods/status default/other", get),
        ("create pods/eviction default/other", get),
        ("deletecollection pods default/-", Err("")),
        ("update pods default/own", Err("")),
        ("get pods/log default/own", Err("")),
    ] {
        check(&plane, review, expected).await;
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_has_its_own_node_lease_and_driver_objects() {
    let (plane, _) = plane().await;
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    for node in ["a", "b"] {
        let slice = json!({"metadata": {"name": format!("of-{node}")},
            "spec": {"driver": "d.example.com", "nodeName": node, "pool": pool}});
        plane.create(slices, &slice).await;
    }
    let lease_verbs = "can only get, create, update, patch, or delete a node lease";
    let lease_name = "can only access node lease with the same name as the requesting node";
    let csi_name = "can only access CSINode with the same name as the requesting node";
    let slice_selector =
        "can only list/watch/deletecollection resourceslices with nodeName field selector";
    for (review, expected) in [
        ("get coordination.k8s.io:leases kube-node-lease/a", Ok(())),
        ("create coordination.k8s.io:leases kube-node-lease/-", Ok(())),
        ("update coordination.k8s.io:leases kube-node-lease/b", Err(lease_name)),
        ("list coordination.k8s.io:leases kube-node-lease/-", Err(lease_verbs)),
        (
            "get coordination.k8s.io:leases default/a",
            Err(r#"can only access leases in the "kube-node-lease" system namespace"#),
        ),
        ("patch storage.k8s.io:csinodes a", Ok(())),
        ("create storage.k8s.io:csinodes -", Ok(())),
        ("get storage.k8s.io:csinodes b", Err(csi_name)),
        (
            "list storage.k8s.io:csinodes -",
            Err("can only get, create, update, patch, or delete a CSINode"),
        ),
        ("get storage.k8s.io:csinodes/x a", Err("cannot authorize CSINode subresources")),
        ("create resource.k8s.io:resourceslices -", Ok(())),
        ("delete resource.k8s.io:resourceslices of-a", Ok(())),
        ("delete resource.k8s.io:resourceslices of-b", Err(NO_RELATION)),
        ("list resource.k8s.io:resourceslices - spec.nodeName=a", Ok(())),
        ("list resource.k8s.io:resourceslices - spec.nodeName=b", Err(slice_selector)),
        ("deletecollection resource.k8s.io:resourceslices -", Err(slice_selector)),
        (
            "get resource.k8s.io:resourceslices/x of-a",
            Err("cannot authorize ResourceSlice subresources"),
        ),
        (
            "proxy resource.k8s.io:resourceslices of-a",
            Err(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        ),
        ("patch nodes a", Ok(())),
        ("update nodes/status a", Ok(())),
        ("list nodes -", Err("node 'a' cannot read all nodes, only its own Node object")),
        ("get nodes b", Err("node 'a' cannot read 'b', only its own Node object")),
        ("delete nodes a", Err("")),
        ("get nodes/proxy a", Err("")),
        ("create certificates.k8s.io:certificatesigningrequests -", Ok(())),
        ("create certificates.k8s.io:podcertificaterequests default/-", Err("")),
        ("get certificates.k8s.io:podcertificaterequests default/x", Err("")),
        ("list apps:deployments -", Err("")),
    ] {
        check(&plane, review, expected).await;
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_reads_the_volumes_of_its_claims_and_their_secrets() {
    let (plane, _) = plane().await;
    let volume = json!({"metadata": {"name": "disk"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "default", "name": "data"},
        "csi": {"driver": "d.example.com", "volumeHandle": "h",
            "nodeStageSecretRef": {"namespace": "vault", "name": "key"},
            "controllerPublishSecretRef": {"namespace": "vault", "name": "controller"}},
    }});
    plane.create(VOLUMES, &volume).await;
    for node in ["a", "b"] {
        let attachment = json!({"metadata": {"name": format!("to-{node}")}, "spec": {
            "attacher": "d.example.com", "nodeName": node,
            "source": {"persistentVolumeName": "disk"},
        }});
        plane.create("/apis/storage.k8s.io/v1/volumeattachments", &attachment).await;
    }
    let related = [
        ("get persistentvolumes disk", Err(NO_RELATION)),
        ("get secrets vault/key", Err(NO_RELATION)),
    ];
    for (review, expected) in related {
        check(&plane, review, expected).await;
    }
    let volumes = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]);
    create_pod(&plane, "own", "a", json!({"volumes": volumes})).await;
    for (review, expected) in [
        ("get persistentvolumes disk", Ok(())),
        ("get secrets vault/key", Ok(())),
        ("get secrets vault/controller", Err(NO_RELATION)),
        ("get persistentvolumes other", Err(NO_RELATION)),
        ("get storage.k8s.io:volumeattachments to-a", Ok(())),
        ("get storage.k8s.io:volumeattachments to-b", Err(NO_RELATION)),
        (
            "list storage.k8s.io:volumeattachments -",
            Err("can only get individual resources of this type"),
        ),
    ] {
        check(&plane, review, expected).await;
    }
    plane.delete(&format!("{VOLUMES}/disk")).await;
    plane.merge(&format!("{VOLUMES}/disk"), &json!({"metadata": {"finalizers": null}})).await;
    for (review, expected) in related {
        check(&plane, review, expected).await;
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn the_rules_of_a_node_cannot_be_listed() {
    let (plane, node) = plane().await;
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review = json!({"spec": {"namespace": "default"}});
    let status = node.create(reviews, &review).await["status"].clone();
    assert_eq!(status["incomplete"], true);
    let error = "node authorizer does not support user rule resolution";
    assert_eq!(status["evaluationError"], error);
    assert_eq!(plane.create(reviews, &review).await["status"].get("evaluationError"), None);
    plane.stop().await.unwrap();
}
