//! The admission plugin `NodeRestriction`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Method;

use super::{PODS, create_pod, node_user};
use apiserver::AuthorizerConfig;
use apiserver::auth::authentication::User;
use machinery::{Value, json};
use testenv::media_type::{JSON, MERGE_PATCH};
use testenv::{Client, TestEnv};

const NODES: &str = "/api/v1/nodes";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A plane with the plugin, in which nodes may do everything that it does not forbid.
async fn plane() -> (TestEnv, Client) {
    let plane = TestEnv::builder()
        .config(|config| {
            config.authorizers.extend([AuthorizerConfig::Node, AuthorizerConfig::Rbac]);
            config.enabled_plugins.push("NodeRestriction".to_owned());
        })
        .start()
        .await;
    let all = json!([{"verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "apiGroups": ["*"], "resources": ["*"]}]);
    plane
        .create(&format!("{RBAC}/clusterroles"), &json!({"metadata": {"name": "n"}, "rules": all}))
        .await;
    let binding = json!({"metadata": {"name": "n"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "n"},
        "subjects": [{"kind": "Group", "name": "system:nodes"}]});
    plane.create(&format!("{RBAC}/clusterrolebindings"), &binding).await;
    let node = plane.as_user(node_user("a"));
    (plane, node)
}

/// Sends a request, which must be refused with this reason; None if it must be accepted.
async fn check(client: &Client, method: Method, path: &str, body: &Value, why: Option<&str>) {
    let media_type = if method == Method::PATCH { MERGE_PATCH } else { JSON };
    let response = client.send(method.clone(), path, media_type, body.to_string()).await;
    let found = response.value();
    let message = found["message"].as_str().unwrap_or_default();
    match why {
        None => assert!(response.code < 300, "{method} {path}: {message}"),
        Some(why) => {
            assert_eq!(response.code, 403, "{method} {path}: {message}");
            let found = message.split_once(" is forbidden: ").map_or(message, |(_, why)| why);
            assert_eq!(found, why, "{method} {path}");
        }
    }
}

async fn posts(client: &Client, path: &str, body: &Value, why: Option<&str>) {
    check(client, Method::POST, path, body, why).await;
}

async fn patches(client: &Client, path: &str, body: &Value, why: Option<&str>) {
    check(client, Method::PATCH, path, body, why).await;
}

#[tokio::test]
async fn a_node_registers_itself_without_reserved_labels() {
    let (plane, node) = plane().await;
    let other = r#"node "a" is not allowed to modify node "b""#;
    posts(&node, NODES, &json!({"metadata": {"name": "b"}}), Some(other)).await;
    let labeled = |labels: Value| json!({"metadata": {"name": "a", "labels": labels}});
    let reserved = labeled(json!({
        "node-role.kubernetes.io/x": "", "x.node-restriction.kubernetes.io/y": "", "mine": "",
    }));
    let why = r#"node "a" is not allowed to set the following labels: node-role.kubernetes.io/x, x.node-restriction.kubernetes.io/y"#;
    posts(&node, NODES, &reserved, Some(why)).await;
    let own = labeled(json!({"kubernetes.io/hostname": "a", "mine": "x"}));
    posts(&node, NODES, &own, None).await;
    let path = format!("{NODES}/a");
    let label = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/z": "1"}}});
    let why = "is not allowed to modify labels: node-restriction.kubernetes.io/z";
    patches(&node, &path, &label, Some(why)).await;
    patches(&node, &format!("{path}/status"), &label, Some(why)).await;
    plane.merge(&path, &label).await;
    let removal = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/z": null}}});
    patches(&node, &path, &removal, Some(why)).await;
    patches(&node, &path, &json!({"metadata": {"labels": {"mine": "y"}}}), None).await;
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    patches(&node, &path, &taint, Some(r#"node "a" is not allowed to modify taints"#)).await;
    let owner = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": "b", "uid": "1"},
    ]}});
    let why = r#"node "a" is not allowed to modify ownerReferences"#;
    patches(&node, &path, &owner, Some(why)).await;
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    patches(&node, &format!("{path}/status"), &status, None).await;
    plane.create(NODES, &json!({"metadata": {"name": "b"}})).await;
    patches(&node, &format!("{NODES}/b/status"), &status, Some(other)).await;
    check(&node, Method::DELETE, &format!("{NODES}/b"), &json!({}), Some(other)).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_creates_mirror_pods_of_its_own() {
    let (plane, node) = plane().await;
    let stored = plane.create(NODES, &json!({"metadata": {"name": "a"}})).await;
    let uid = stored["metadata"]["uid"].clone();
    let owner =
        json!({"apiVersion": "v1", "kind": "Node", "name": "a", "uid": uid, "controller": true});
    let mirror = json!({
        "metadata": {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [owner]},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]},
    });
    let with = |path: &str, value: Value| {
        let mut pod = mirror.clone();
        *pod.pointer_mut(path).unwrap() = value;
        pod
    };
    let owned = |key: &str, value: Value| {
        let mut owner = owner.clone();
        owner[key] = value;
        with("/metadata/ownerReferences", json!([owner]))
    };
    let node_name = r#"node "a" can only create pods with spec.nodeName set to itself"#;
    let own = r#"node "a" can only create pods with an owner reference set to itself"#;
    let mut with_account = mirror.clone();
    with_account["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "m"}}]);
    for (pod, why) in [
        (
            with("/metadata/annotations", json!({})),
            r#"pod does not have "kubernetes.io/config.mirror" annotation, node "a" can only create mirror pods"#,
        ),
        (with("/spec/nodeName", "b".into()), node_name),
        (with("/metadata/ownerReferences", json!([])), own),
        (owned("name", "b".into()), own),
        (owned("kind", "Pod".into()), own),
        (
            with(
                "/metadata/ownerReferences",
                json!([owner, {"apiVersion": "v1", "kind": "Node", "name": "b", "uid": "2"}]),
            ),
            r#"node "a" can only create pods with a single owner reference set to itself"#,
        ),
        (
            owned("controller", false.into()),
            r#"node "a" can only create pods with a controller owner reference set to itself"#,
        ),
        (
            owned("blockOwnerDeletion", true.into()),
            r#"node "a" must not set blockOwnerDeletion on an owner reference"#,
        ),
        (with_account, r#"node "a" can not create pods that reference configmaps"#),
    ] {
        posts(&node, PODS, &pod, Some(why)).await;
    }
    let why = format!("node a UID mismatch: expected other got {}", uid.as_str().unwrap());
    posts(&node, PODS, &owned("uid", "other".into()), Some(&why)).await;
    posts(&node, PODS, &mirror, None).await;
    let why = r#"unexpected operation "UPDATE", node "a" can only create and delete mirror pods"#;
    let change = json!({"metadata": {"labels": {"x": "y"}}});
    patches(&node, &format!("{PODS}/m"), &change, Some(why)).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_changes_evicts_and_deletes_its_own_pods() {
    let (plane, node) = plane().await;
    create_pod(&plane, "own", "a", json!({})).await;
    create_pod(&plane, "other", "b", json!({})).await;
    let status = json!({"status": {"phase": "Running"}});
    patches(&node, &format!("{PODS}/own/status"), &status, None).await;
    let why = r#"node "a" can only update pod status for pods with spec.nodeName set to itself"#;
    patches(&node, &format!("{PODS}/other/status"), &status, Some(why)).await;
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    let why = r#"node "a" cannot update labels through pod status"#;
    patches(&node, &format!("{PODS}/own/status"), &labels, Some(why)).await;
    let claims =
        json!({"status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]}});
    let why = r#"node "a" cannot update resource claim statues"#;
    patches(&node, &format!("{PODS}/own/status"), &claims, Some(why)).await;
    let why = r#"unexpected pod subresource "ephemeralcontainers", only 'status' and 'eviction' are allowed"#;
    let container = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}});
    patches(&node, &format!("{PODS}/own/ephemeralcontainers"), &container, Some(why)).await;
    let eviction = |name: &str| json!({"metadata": {"name": name}});
    let why = "node a can only evict pods with spec.nodeName set to itself";
    posts(&node, &format!("{PODS}/other/eviction"), &eviction("other"), Some(why)).await;
    let why = r#"node "a" can only delete pods with spec.nodeName set to itself"#;
    check(&node, Method::DELETE, &format!("{PODS}/other"), &json!({}), Some(why)).await;
    // Upstream: the pods of a collection are not found, and are skipped.
    assert_eq!(node.delete(PODS).await.0, 200);
    for name in ["own", "other"] {
        let pod = plane.read(&format!("{PODS}/{name}")).await;
        assert_eq!(pod["metadata"]["deletionTimestamp"], Value::Null, "{name}");
    }
    posts(&node, &format!("{PODS}/own/eviction"), &eviction("own"), None).await;
    create_pod(&plane, "second", "a", json!({})).await;
    check(&node, Method::DELETE, &format!("{PODS}/second"), &json!({}), None).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_has_its_own_lease_driver_objects_and_slices() {
    let (plane, node) = plane().await;
    let named = |name: &str| json!({"metadata": {"name": name}});
    let why = "can only access node lease with the same name as the requesting node";
    posts(&node, LEASES, &named("b"), Some(why)).await;
    posts(&node, LEASES, &named("a"), None).await;
    let elsewhere = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let why = r#"can only access leases in the "kube-node-lease" system namespace"#;
    posts(&node, elsewhere, &named("a"), Some(why)).await;
    let csi_nodes = "/apis/storage.k8s.io/v1/csinodes";
    let csi_node = |name: &str| json!({"metadata": {"name": name}, "spec": {"drivers": []}});
    let why = "can only access CSINode with the same name as the requesting node";
    posts(&node, csi_nodes, &csi_node("b"), Some(why)).await;
    posts(&node, csi_nodes, &csi_node("a"), None).await;
    let slice = |name: &str, node: &str| {
        json!({"metadata": {"name": name}, "spec": {"driver": "d.example.com", "nodeName": node,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}})
    };
    let why = "can only create ResourceSlice with the same NodeName as the requesting node";
    posts(&node, SLICES, &slice("s", "b"), Some(why)).await;
    posts(&node, SLICES, &slice("s", "a"), None).await;
    plane.create(SLICES, &slice("other", "b")).await;
    let why = "can only delete ResourceSlice with the same NodeName as the requesting node";
    check(&node, Method::DELETE, &format!("{SLICES}/other"), &json!({}), Some(why)).await;
    check(&node, Method::DELETE, &format!("{SLICES}/s"), &json!({}), None).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_changes_the_capacity_and_conditions_of_claims_only() {
    let (plane, node) = plane().await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    posts(&node, claims, &claim, Some("may only update PVC status")).await;
    plane.create(claims, &claim).await;
    let path = format!("{claims}/c/status");
    let resized = json!({"status": {"capacity": {"storage": "1Gi"}, "conditions": [
        {"type": "FileSystemResizePending", "status": "True"},
    ]}});
    patches(&node, &path, &resized, None).await;
    let why = r#"node "a" is not allowed to update fields other than status.quantity and status.conditions: metadata.labels.x"#;
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    patches(&node, &path, &labels, Some(why)).await;
    let why = r#"node "a" is not allowed to update fields other than status.quantity and status.conditions: status.phase"#;
    patches(&node, &path, &json!({"status": {"phase": "Bound"}}), Some(why)).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_requests_tokens_that_its_own_pods_need() {
    let (plane, node) = plane().await;
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    let driver = json!({"metadata": {"name": "d.example.com"},
        "spec": {"tokenRequests": [{"audience": "of-driver"}]}});
    plane.create("/apis/storage.k8s.io/v1/csidrivers", &driver).await;
    let volumes = json!([
        {"name": "t", "projected": {"sources": [
            {"serviceAccountToken": {"path": "t", "audience": "vault"}},
        ]}},
        {"name": "d", "csi": {"driver": "d.example.com"}},
    ]);
    let spec = json!({"serviceAccountName": "robot", "volumes": volumes});
    create_pod(&plane, "own", "a", spec.clone()).await;
    create_pod(&plane, "other", "b", spec).await;
    let uid =
        async |name: &str| plane.read(&format!("{PODS}/{name}")).await["metadata"]["uid"].clone();
    let (own, other) = (uid("own").await, uid("other").await);
    let bound = |name: &str, uid: &Value, audiences: Value| {
        json!({"spec": {"audiences": audiences, "boundObjectRef":
            {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}}})
    };
    let path = format!("{ACCOUNTS}/robot/token");
    for audiences in [json!([]), json!(["vault"]), json!(["of-driver"])] {
        posts(&node, &path, &bound("own", &own, audiences), None).await;
    }
    let unbound = "node requested token not bound to a pod";
    posts(&node, &path, &json!({"spec": {}}), Some(unbound)).await;
    let why = "node requested token with a pod binding without a uid";
    posts(&node, &path, &bound("own", &json!(""), json!([])), Some(why)).await;
    let why = "the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated";
    posts(&node, &path, &bound("own", &json!("x"), json!([])), Some(why)).await;
    let why = "node requested token bound to a pod scheduled on a different node";
    posts(&node, &path, &bound("other", &other, json!([])), Some(why)).await;
    let why = "node may only request 0 or 1 audiences";
    posts(&node, &path, &bound("own", &own, json!(["vault", "x"])), Some(why)).await;
    let why = r#"audience "x" not found in pod spec volume, system:node:a is not authorized to request tokens for this audience"#;
    let request = bound("own", &own, json!(["x"]));
    posts(&node, &path, &request, Some(why)).await;
    let rule = json!([{"verbs": ["request-serviceaccounts-token-audience"], "apiGroups": [""],
        "resources": ["x"], "resourceNames": ["robot"]}]);
    plane
        .merge(
            &format!("{RBAC}/clusterroles/n"),
            &json!({"rules": [
                {"verbs": ["create"], "apiGroups": ["*"], "resources": ["*"]}, rule[0],
            ]}),
        )
        .await;
    posts(&node, &path, &request, None).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_requests_certificates_with_its_own_name() {
    let (plane, node) = plane().await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = |name: &str, common_name: &str, signer: &str| {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, common_name);
        parameters.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
        json!({"metadata": {"name": name}, "spec": {"signerName": signer,
            "request": BASE64_STANDARD.encode(pem), "usages": ["digital signature", "client auth"]}})
    };
    let signer = "kubernetes.io/kube-apiserver-client-kubelet";
    let why = "can only create a node CSR with CN=system:node:a";
    posts(&node, requests, &request("x", "system:node:b", signer), Some(why)).await;
    posts(&node, requests, &request("own", "system:node:a", signer), None).await;
    posts(&node, requests, &request("free", "x", "example.com/signer"), None).await;
    let mut malformed = request("x", "system:node:a", signer);
    malformed["spec"]["request"] = BASE64_STANDARD.encode("x").into();
    let why = "unable to parse csr: PEM block type must be CERTIFICATE REQUEST";
    posts(&node, requests, &malformed, Some(why)).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn users_who_are_no_nodes_are_not_restricted() {
    let (plane, _) = plane().await;
    let unknown =
        plane.as_user(User::authenticated("system:node:", "", vec!["system:nodes".to_owned()]));
    let why = r#"could not determine node from user "system:node:""#;
    posts(&unknown, NODES, &json!({"metadata": {"name": "x"}}), Some(why)).await;
    let outside =
        plane.as_user(User::authenticated("system:node:a", "", vec!["system:masters".to_owned()]));
    posts(&outside, NODES, &json!({"metadata": {"name": "x"}}), None).await;
    plane.stop().await.unwrap();
}
