//! The whole installation: the rules of the CRD, the webhooks, and the textbook's manifests.

use serde_json::json;

use crate::installation::{LIMIT, Operator, client_of, decode, install, strict};
use crate::world::{NETWORKS, operator_options, until};
use machinery::Value;
use network_operator::{BackendKind, Options, add_to, manifests};
use runtime::ManagerOptions;
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
    let is_of_webhooks = |it: &String| it.contains("https://localhost:9443");
    let (_, rights): (Vec<_>, Vec<_>) =
        manifests("https://localhost:9443").into_iter().partition(is_of_webhooks);
    install(&env.kube(), &rights).await;
    let options = ManagerOptions { clock: env.clock().clone(), ..ManagerOptions::default() };
    let client = client_of(env.server(), "network-operator");
    let operator = Operator::start(client, options, |manager| {
        // The owner is the uid of the cluster.
        let options = Options { owner: None, ..operator_options() };
        add_to(manager, &Options { backend: Some(BackendKind::DryRun), ..options }).unwrap();
    });
    let address = operator.manager.webhook_endpoint().await.unwrap();
    let url = format!("https://{address}");
    let mut documents = manifests(&url);
    documents.retain(|document| document.contains(&url));
    assert_eq!(documents.len(), 2);
    install(&env.kube(), &documents).await;
    let has_ca = |config: &Value| config["caBundle"].as_str().is_some();
    env.until(CRD, |_, it| has_ca(&it["spec"]["conversion"]["webhook"]["clientConfig"])).await;
    env.until(WEBHOOKS, |_, it| has_ca(&it["webhooks"][0]["clientConfig"])).await;
    operator.manager.settled(LIMIT).await.unwrap();
    (env, operator)
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
        (&long, "10.0.0.0/24", "10.0.0.1", "at most 63 characters"),
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
async fn the_textbooks_manifests_are_accepted_unchanged() {
    let env = TestEnv::start().await;
    let old = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";
    env.create(old, &decode(TEXTBOOK_CRD)).await;
    env.until(V1, |code, _| code == 200).await;
    let created = env.create(V1, &decode(EXAMPLE)).await;
    assert_eq!(created["spec"], json!({"cidr": "192.168.0.0/16", "gateway": "192.168.0.1"}));

    // The operator's CRD replaces it, and the object that exists is served in both versions.
    let mut crd = decode(&manifests("https://localhost:9443")[0]);
    crd["spec"]["conversion"] = json!({"strategy": "None"});
    crd["metadata"]["resourceVersion"] = env.read(CRD).await["metadata"]["resourceVersion"].clone();
    assert_eq!(env.put(CRD, &crd).await.0, 200);
    let path = format!("{NETWORKS}/example-network");
    until("v2 is served", async || env.get(&path).await.0 == 200).await;
    assert_eq!(env.read(&path).await["spec"], created["spec"]);
    assert_eq!(env.read(CRDS).await["items"].as_array().unwrap().len(), 1);
    env.stop().await.unwrap();
}
