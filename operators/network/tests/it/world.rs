//! [`World`]: a server with the operator's manifests, and an operator that can be killed and started
//! again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use serde_json::json;

use crate::faulty::FaultyBackend;
use crate::installation::{LIMIT, Operator, client_of, decode, install, strict};
use machinery::Value;
use network_operator::api::v2::Network;
use network_operator::backend::{Backend, ClusterName, Desired};
use network_operator::{Options, add_with, manifests};
use runtime::conditions;
use runtime::prelude::*;
use testenv::{TestEnv, TestEnvBuilder};

/// The path of the Networks.
pub(crate) const NETWORKS: &str = "/apis/samplecrd.k8s.io/v2/namespaces/default/networks";

/// The path of the operator's role.
pub(crate) const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/network-operator";

/// See the [module documentation](self).
pub(crate) struct World<B> {
    pub(crate) env: TestEnv,
    pub(crate) backend: Arc<FaultyBackend<B>>,
    operator: Option<Operator>,
}

impl<B: Backend> World<B> {
    /// A server with a manual clock and without webhooks, whose objects can be written while the
    /// operator is down.
    pub(crate) async fn new(backend: B) -> Self {
        Self::with(TestEnv::builder(), backend).await
    }

    /// The same with other settings.
    pub(crate) async fn with(builder: TestEnvBuilder, backend: B) -> Self {
        let env = builder.config(strict).start().await;
        let mut documents = manifests("https://localhost:9443");
        documents.retain(|document| !document.contains("WebhookConfiguration\n"));
        let mut crd = decode(&documents[0]);
        crd["spec"]["conversion"] = json!({"strategy": "None"});
        documents[0] = crd.to_string();
        install(&env.kube(), &documents).await;
        Self { env, backend: Arc::new(FaultyBackend::new(Arc::new(backend))), operator: None }
    }

    pub(crate) fn start_operator(&mut self) {
        self.operator = Some(self.start_replica(None));
    }

    /// Starts an operator with the rights of its service account.
    pub(crate) fn start_replica(&self, leader_election: Option<LeaderElection>) -> Operator {
        let clock = self.env.clock().clone();
        let options = ManagerOptions { clock, leader_election, ..ManagerOptions::default() };
        let client = client_of(self.env.server(), "network-operator");
        Operator::start(client, options, |manager| {
            add_with(manager, &operator_options(), Arc::clone(&self.backend));
        })
    }

    /// Stops the operator at whatever step it is, as a crash does.
    pub(crate) async fn kill_operator(&mut self) {
        if let Some(operator) = self.operator.take() {
            operator.kill().await;
        }
    }

    pub(crate) fn manager(&self) -> &Manager {
        &self.operator.as_ref().unwrap().manager
    }

    /// Waits until the operator has nothing left to do.
    pub(crate) async fn settle(&self) {
        self.manager().settled(LIMIT).await.unwrap();
    }

    pub(crate) fn networks(&self) -> Api<Network> {
        self.env.kube().api_in("default")
    }

    /// Creates a Network; returns whether it was accepted.
    pub(crate) async fn create(&self, name: &str, cidr: &str, gateway: &str) -> bool {
        let network = json!({
            "apiVersion": "samplecrd.k8s.io/v2", "kind": "Network", "metadata": {"name": name},
            "spec": {"cidr": cidr, "gateway": gateway},
        });
        self.env.post(NETWORKS, &network).await.0 == 201
    }

    pub(crate) async fn change(&self, name: &str, spec: &Value) {
        self.env.merge(&format!("{NETWORKS}/{name}"), &json!({"spec": spec})).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.env.delete(&format!("{NETWORKS}/{name}")).await;
    }

    /// The status and the reason of the condition `Ready`, such as `True InSync`.
    pub(crate) async fn ready(&self, name: &str) -> String {
        let network = self.networks().get(name).await.unwrap();
        let conditions = network.status.unwrap_or_default().conditions;
        let ready = conditions::find(&conditions, "Ready");
        ready.map(|ready| format!("{} {}", ready.status, ready.reason)).unwrap_or_default()
    }

    /// Waits until the condition `Ready` is this one.
    pub(crate) async fn wait_until_ready_is(&self, name: &str, expected: &str) {
        until(expected, async || self.ready(name).await == expected).await;
    }

    /// Waits until there is an Event with this reason and text about a Network.
    pub(crate) async fn wait_for_event(&self, name: &str, reason: &str, text: &str) {
        until(&format!("{reason} {text}"), async || {
            let events = self.events(name).await;
            events.iter().any(|(found, message)| found == reason && message.contains(text))
        })
        .await;
    }

    /// The reasons and texts of the Events about a Network.
    pub(crate) async fn events(&self, name: &str) -> Vec<(String, String)> {
        let events = self.env.kube().api_in::<Event>("default");
        let mut events = events.list(&ListParams::default()).await.unwrap().items;
        events.retain(|event| event.involved_object.name.as_deref() == Some(name));
        let text = |text: Option<String>| text.unwrap_or_default();
        events.into_iter().map(|event| (text(event.reason), text(event.message))).collect()
    }

    /// Takes a right from the operator, such as `patch` from `networks/status`.
    pub(crate) async fn revoke(&self, resource: &str, verb: &str) {
        let role = self.env.read(ROLE).await;
        let mut rules = role["rules"].clone();
        let rules_left = rules.as_array_mut().unwrap();
        for rule in rules_left.iter_mut().filter(|rule| rule["resources"] == json!([resource])) {
            rule["verbs"].as_array_mut().unwrap().retain(|known| known != verb);
        }
        rules_left.retain(|rule| rule["verbs"] != json!([]));
        self.env.merge(ROLE, &json!({"rules": rules})).await;
    }

    /// The addresses that the API declares, by name.
    pub(crate) async fn declared(&self) -> BTreeMap<String, (String, String)> {
        let networks = self.networks().list(&ListParams::default()).await.unwrap();
        let spec = |network: &Network| (network.spec.cidr.clone(), network.spec.gateway.clone());
        networks.iter().map(|network| (network.name_any(), spec(network))).collect()
    }

    pub(crate) async fn stop(mut self) {
        self.kill_operator().await;
        self.env.stop().await.unwrap();
    }
}

/// The options of the operator: the cluster is `test`, and the webhooks are at a free port.
pub(crate) fn operator_options() -> Options {
    let webhook_listen = ([127, 0, 0, 1], 0).into();
    Options { cluster_name: Some(cluster()), webhook_listen, ..Options::default() }
}

pub(crate) fn cluster() -> ClusterName {
    "test".parse().unwrap()
}

/// The mark of a Network in the namespace `default`.
pub(crate) fn mark(name: &str) -> String {
    format!("samplecrd.k8s.io:test:default:{name}")
}

pub(crate) fn desired(cidr: &str, gateway: &str) -> Desired {
    let spec = network_operator::api::v2::NetworkSpec {
        cidr: cidr.to_owned(),
        gateway: gateway.to_owned(),
    };
    Desired::parse(&spec).unwrap()
}

/// Waits until `is_done`, which asks a server.
pub(crate) async fn until(what: &str, is_done: impl AsyncFn() -> bool) {
    let polling = async {
        while !is_done().await {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, polling).await.is_ok(), "not yet: {what}");
}

/// The period in which drift is noticed.
pub(crate) const RESYNC: Duration = Duration::from_mins(1);
