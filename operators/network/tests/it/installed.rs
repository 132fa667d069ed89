//! The whole installation: the rules of the CRD, the webhooks, and the textbook's manifests.

use std::net::SocketAddr;

use serde_json::json;

use crate::installation::{LIMIT, Operator, client_of, decode, install, strict};
use crate::world::{NETWORKS, ROLE, operator_options, until};
use machinery::Value;
use network_operator::api::v2;
use network_operator::{BackendKind, Options, add_to, manifests};
use runtime::prelude::*;
use testenv::TestEnv;

const V1: &str = "/apis/samplecrd.k8s.io/v1/namespaces/default/networks";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/networks.samplecrd.k8s.io";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/networks.samplecrd.k8s.io";
const TEXTBOOK_CRD: &str = include_str!("../../crd/textbook/network.yaml");
const EXAMPLE: &str = include_str!("../../example/example-network.yaml");

/// A server with RBAC and the manifests, and an operator with the rights of its service account. The
/// manifests name the port of its webhooks.
async fn installed() -> (TestEnv, Operator) {
    // The operator starts before its CRD exists, and looks for it again after some time.
    let env = TestEnv::builder().system_clock().config(strict).start().await;
    let is_of_webhooks = |document: &String| document.contains("https://localhost:9443");
    let (_, rights): (Vec<_>, Vec<_>) =
        manifests("https://localhost:9443").into_iter().partition(is_of_webhooks);
    install(&env.kube(), &rights).await;
    let operator = start_operator(&env, operator_options().webhook_listen);
    let address = operator.manager.webhook_endpoint().await.unwrap();
    let url = format!("https://{address}");
    let mut documents = manifests(&url);
    documents.retain(|document| document.contains(&url));
    assert_eq!(documents.len(), 3);
    install(&env.kube(), &documents).await;
    let has_ca = |config: &Value| config["caBundle"].as_str().is_some();
    env.until(CRD, |_, crd| has_ca(&crd["spec"]["conversion"]["webhook"]["clientConfig"])).await;
    env.until(WEBHOOKS, |_, webhooks| has_ca(&webhooks["webhooks"][0]["clientConfig"])).await;
    let mutating = WEBHOOKS.replace("validating", "mutating");
    env.until(&mutating, |_, webhooks| has_ca(&webhooks["webhooks"][0]["clientConfig"])).await;
    operator.manager.settled(LIMIT).await.unwrap();
    (env, operator)
}

#[tokio::test]
async fn a_status_in_the_annotation_of_a_v1_object_is_ignored() {
    let (env, operator) = installed().await;
    let forged = json!({"observedGeneration": 99, "backendIds": {"bridge": "eth0"},
        "conditions": []})
    .to_string();
    let forged = json!({"metadata": {"annotations": {"samplecrd.k8s.io/v2-status": forged}}});
    let mut created = network("v1", "a", "10.0.0.0/24", "10.0.0.1");
    created["metadata"]["annotations"] = forged["metadata"]["annotations"].clone();
    let created = env.create(V1, &created).await;
    assert!(!created.to_string().contains("eth0"), "{created}");
    operator.manager.settled(LIMIT).await.unwrap();
    let path = format!("{NETWORKS}/a");
    let status = env.read(&path).await["status"].clone();
    assert_eq!(status["conditions"][0]["reason"], "InSync");

    env.merge(&format!("{V1}/a"), &forged).await;
    assert_eq!(env.read(&path).await["status"], status);
    // Without the annotation, too.
    env.merge(&format!("{V1}/a"), &json!({"metadata": {"annotations": null}})).await;
    assert_eq!(env.read(&path).await["status"], status);
    operator.stop().await;
    env.stop().await.unwrap();
}

fn start_operator(env: &TestEnv, webhook_listen: SocketAddr) -> Operator {
    let options = ManagerOptions { clock: env.clock().clone(), ..ManagerOptions::default() };
    let client = client_of(env.server(), "network-operator");
    Operator::start(client, options, |manager| {
        // The name of the cluster is its uid.
        let (backend, cluster_name) = (Some(BackendKind::DryRun), None);
        let options = Options { backend, cluster_name, webhook_listen, ..Options::default() };
        add_to(manager, &options).unwrap();
    })
}

fn network(version: &str, name: &str, cidr: &str, gateway: &str) -> Value {
    json!({
        "apiVersion": format!("samplecrd.k8s.io/{version}"), "kind": "Network",
        "metadata": {"name": name}, "spec": {"cidr": cidr, "gateway": gateway},
    })
}

#[tokio::test]
async fn the_webhooks_convert_between_the_versions_and_refuse_overlaps() {
    let (env, operator) = installed().await;
    // The textbook's example, of the old version.
    env.create(V1, &decode(EXAMPLE)).await;
    operator.manager.settled(LIMIT).await.unwrap();
    let stored = env.read(&format!("{NETWORKS}/example-network")).await;
    assert_eq!(stored["status"]["conditions"][0]["status"], "True");
    let old = env.read(&format!("{V1}/example-network")).await;
    assert_eq!((&old["spec"], old.get("status")), (&stored["spec"], None));

    // A change in the old version keeps the status.
    env.merge(&format!("{V1}/example-network"), &json!({"spec": {"gateway": "192.168.0.2"}})).await;
    operator.manager.settled(LIMIT).await.unwrap();
    let changed = env.read(&format!("{NETWORKS}/example-network")).await;
    assert_eq!(changed["status"]["observedGeneration"], 2);
    let transition = "/status/conditions/0/lastTransitionTime";
    assert_eq!(changed.pointer(transition), stored.pointer(transition));
    assert_eq!(changed["metadata"].get("annotations"), None);

    for (path, version) in [(V1, "v1"), (NETWORKS, "v2")] {
        let inside = network(version, "b", "192.168.7.0/24", "192.168.7.1");
        let (code, refusal) = env.post(path, &inside).await;
        let message = refusal["message"].as_str().unwrap();
        let why = "192.168.7.0/24 overlaps 192.168.0.0/16 of the Network default/example-network";
        assert!(code == 422 && message.contains(why), "{code} {message}");
    }
    env.create(NETWORKS, &network("v2", "b", "10.0.0.0/24", "10.0.0.1")).await;
    let moved = json!({"spec": {"cidr": "192.168.9.0/24", "gateway": "192.168.9.1"}});
    let merge = "application/merge-patch+json";
    assert_eq!(env.patch(&format!("{NETWORKS}/b"), merge, &moved).await.0, 422);
    // Its own addresses are no overlap.
    env.merge(&format!("{NETWORKS}/b"), &json!({"spec": {"cidr": "10.0.0.0/16"}})).await;

    for name in ["b", "example-network"] {
        env.delete(&format!("{NETWORKS}/{name}")).await;
    }
    operator.manager.settled(LIMIT).await.unwrap();
    assert_eq!(env.read(NETWORKS).await["items"], json!([]));
    operator.stop().await;
    env.stop().await.unwrap();
}

#[tokio::test]
async fn a_webhook_decides_nothing_before_its_cache_is_complete() {
    let (env, operator) = installed().await;
    env.create(NETWORKS, &network("v2", "a", "10.0.0.0/16", "10.0.0.1")).await;
    operator.manager.settled(LIMIT).await.unwrap();
    let address = operator.manager.webhook_endpoint().await.unwrap();
    operator.stop().await;

    // The list of the restarted operator fails for some time.
    let rights = env.read(ROLE).await["rules"].clone();
    let mut fewer = rights.clone();
    fewer[0]["verbs"] = json!(["get", "patch"]);
    env.merge(ROLE, &json!({"rules": fewer})).await;
    let networks = client_of(env.server(), "network-operator").api_in::<v2::Network>("default");
    let list = async || networks.list(&ListParams::default()).await;
    until("the right is revoked", async || list().await.is_err()).await;
    let short = json!([{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 1}]);
    assert_eq!(env.patch(WEBHOOKS, "application/json-patch+json", &short).await.0, 200);

    let operator = start_operator(&env, address);
    operator.manager.webhook_endpoint().await.unwrap();
    let inside = network("v2", "b", "10.0.7.0/24", "10.0.7.1");
    let (code, refusal) = env.post(NETWORKS, &inside).await;
    let message = refusal["message"].as_str().unwrap();
    let why = "a cache of the webhook is not complete yet, try again";
    assert!(code == 500 && message.contains(why), "{code} {message}");

    env.merge(ROLE, &json!({"rules": rights})).await;
    until("the webhook decides", async || {
        let (code, refusal) = env.post(NETWORKS, &inside).await;
        assert!(code == 422 || code == 500, "{code} {refusal}");
        code == 422
    })
    .await;
    operator.stop().await;
    env.stop().await.unwrap();
}

const RESERVED: &str =
    "must not overlap unspecified, loopback, link-local, multicast or broadcast addresses";

#[tokio::test]
async fn the_crd_refuses_addresses_that_are_no_network() {
    let env = TestEnv::start().await;
    let mut crd = decode(&manifests("https://localhost:9443")[0]);
    crd["spec"]["conversion"] = json!({"strategy": "None"});
    install(&env.kube(), &[crd.to_string()]).await;
    let long = "a".repeat(64);
    for (name, cidr, gateway, why) in [
        (
            "a",
            "10.0.0.0/24",
            "10.0.1.1",
            "spec.gateway: Invalid value: the gateway must be in the cidr",
        ),
        ("a", "10.0.0.0/24", "fd00::1", "the gateway must be in the cidr"),
        ("a", "10.0.0.0/24", "x", "must be an IP address"),
        ("a", "10.0.0.0/33", "10.0.0.1", "must be a network in CIDR notation"),
        ("a", "10.0.0.7/24", "10.0.0.1", "must be a network in CIDR notation"),
        ("a", "10.0.0.0", "10.0.0.1", "must be a network in CIDR notation"),
        ("a", "127.0.0.0/8", "127.0.0.1", RESERVED),
        ("a", "128.0.0.0/1", "128.0.0.1", RESERVED),
        ("a", "169.254.169.254/32", "169.254.169.254", RESERVED),
        ("a", "224.0.0.0/4", "224.0.0.1", RESERVED),
        ("a", "255.255.255.255/32", "255.255.255.255", RESERVED),
        ("a", "0.0.0.0/0", "10.0.0.1", RESERVED),
        ("a", "::/0", "fd00::1", RESERVED),
        ("a", "::1/128", "::1", RESERVED),
        ("a", "fe80::/64", "fe80::1", RESERVED),
        ("a", "ff02::/16", "ff02::5", RESERVED),
        (&long, "10.0.0.0/24", "10.0.0.1", "metadata.name: at most 63 characters"),
    ] {
        for (path, version) in [(V1, "v1"), (NETWORKS, "v2")] {
            let (code, refusal) = env.post(path, &network(version, name, cidr, gateway)).await;
            let message = refusal["message"].as_str().unwrap_or_default();
            assert!(code == 422 && message.contains(why), "{cidr} {gateway}: {code} {message}");
        }
    }
    env.create(NETWORKS, &network("v2", "a", "fd00::/64", "fd00::1")).await;
    env.stop().await.unwrap();
}

#[tokio::test]
async fn a_network_that_is_older_than_the_rules_of_the_crd_can_be_deleted() {
    let env = TestEnv::start().await;
    let mut crd = decode(&manifests("https://localhost:9443")[0]);
    crd["spec"]["conversion"] = json!({"strategy": "None"});
    let mut older = crd.clone();
    for version in older["spec"]["versions"].as_array_mut().unwrap() {
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"];
        spec["properties"]["cidr"]["x-kubernetes-validations"] = json!([]);
    }
    install(&env.kube(), &[older.to_string()]).await;
    let mut loopback = network("v2", "a", "127.0.0.0/8", "127.0.0.1");
    loopback["metadata"]["finalizers"] = json!([network_operator::controller::FINALIZER]);
    env.create(NETWORKS, &loopback).await;
    env.merge(CRD, &json!({"spec": crd["spec"]})).await;
    let refused = network("v2", "b", "127.0.0.0/8", "127.0.0.1");
    until("the rules hold", async || env.post(NETWORKS, &refused).await.0 == 422).await;

    let path = format!("{NETWORKS}/a");
    env.delete(&path).await;
    env.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(env.get(&path).await.0, 404);
    env.stop().await.unwrap();
}

#[tokio::test]
async fn the_textbooks_crd_is_upgraded_by_kubectl_apply() {
    // As kubectl sends it: a field that it has applied before, and that is gone, is null.
    let merge = |mut crd: Value| {
        crd["spec"]["version"] = json!(null);
        (CRD.to_owned(), "application/merge-patch+json", crd)
    };
    upgrade_the_textbooks_crd(merge).await;
}

#[tokio::test]
async fn the_textbooks_crd_is_upgraded_by_a_server_side_apply() {
    let apply = |crd| {
        let path = format!("{CRD}?fieldManager=kubectl&force=true");
        (path, "application/apply-patch+yaml", crd)
    };
    upgrade_the_textbooks_crd(apply).await;
}

/// Creates the textbook's manifests, unchanged, and then patches its CRD to the one of the operator.
/// `patch_of` returns the path, the type and the body of the patch.
async fn upgrade_the_textbooks_crd(patch_of: impl FnOnce(Value) -> (String, &'static str, Value)) {
    let env = TestEnv::start().await;
    let old = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";
    env.create(old, &decode(TEXTBOOK_CRD)).await;
    env.until(V1, |code, _| code == 200).await;
    let created = env.create(V1, &decode(EXAMPLE)).await;
    assert_eq!(created["spec"], json!({"cidr": "192.168.0.0/16", "gateway": "192.168.0.1"}));

    // The object that exists is served in both versions.
    let mut crd = decode(&manifests("https://localhost:9443")[0]);
    crd["spec"]["conversion"] = json!({"strategy": "None"});
    let (path, patch_type, patch) = patch_of(crd);
    let (code, patched) = env.patch(&path, patch_type, &patch).await;
    assert_eq!(code, 200, "{patched}");
    assert_eq!(patched["spec"].get("preserveUnknownFields"), None);
    let path = format!("{NETWORKS}/example-network");
    until("v2 is served", async || env.get(&path).await.0 == 200).await;
    assert_eq!(env.read(&path).await["spec"], created["spec"]);
    assert_eq!(env.read(CRDS).await["items"].as_array().unwrap().len(), 1);
    env.stop().await.unwrap();
}
