//! [`World`]: a server with the CRDs, and an operator that can be killed and started again.

use std::collections::BTreeMap;
use std::sync::Arc;

use network_operator::backend::dry_run::DryRun;
use vpc_operator::{Network, Options, Vpc, add_to, manifests};

use crate::installation::{LIMIT, Operator, client_of, decode, install, strict};
use machinery::{Value, json};
use runtime::reconcile_history::ReconcileOutcome;
use runtime::{ManagerOptions, prelude::*};
use testenv::{TestEnv, TestEnvBuilder};

/// The path of the collection of Vpcs.
pub(crate) const VPCS: &str = "/apis/network.example.com/v1/namespaces/default/vpcs";
/// The path of the collection of Networks.
pub(crate) const NETWORKS: &str = "/apis/samplecrd.k8s.io/v2/namespaces/default/networks";

/// The path of the Events.
pub(crate) const EVENTS: &str = "/api/v1/namespaces/default/events";

const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/networks.samplecrd.k8s.io";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/networks.samplecrd.k8s.io";

/// See the [module documentation](self).
pub(crate) struct World {
    pub(crate) env: TestEnv,
    operator: Option<Operator>,
    /// The operator of the Networks, in the tests that need its finalizers and webhooks.
    network_operator: Option<Operator>,
}

impl World {
    /// A server with an operator, and a clock that stands still.
    pub(crate) async fn new() -> Self {
        let mut world = Self::without_operator(TestEnv::builder()).await;
        world.start_operator();
        world
    }

    pub(crate) async fn without_operator(builder: TestEnvBuilder) -> Self {
        let env = builder.config(strict).start().await;
        install(&env.kube(), &documents()).await;
        Self { env, operator: None, network_operator: None }
    }

    /// The same with the network operator, its CRD and its webhooks.
    pub(crate) async fn with_network_operator(builder: TestEnvBuilder) -> Self {
        const LOCAL_URL: &str = "https://localhost:9443";
        let env = builder.config(strict).start().await;
        let of_webhooks = |document: &String| document.contains(LOCAL_URL);
        let (_, mut documents): (Vec<_>, Vec<_>) =
            network_operator::manifests(LOCAL_URL).into_iter().partition(of_webhooks);
        let is_namespace = |document: &String| decode(document)["kind"] == "Namespace";
        documents.retain(|document| !is_namespace(document));
        install(&env.kube(), &[manifests(), documents].concat()).await;
        let options = ManagerOptions { clock: env.clock().clone(), ..ManagerOptions::default() };
        let client = client_of(env.server(), "network-operator");
        let operator = Operator::start(client, options, |manager| {
            let webhook_listen = ([127, 0, 0, 1], 0).into();
            let options = network_operator::Options {
                webhook_listen,
                ..network_operator::Options::default()
            };
            network_operator::add_with(manager, &options, Arc::new(DryRun::default()));
        });
        let url = format!("https://{}", operator.manager.webhook_endpoint().await.unwrap());
        let mut documents = network_operator::manifests(&url);
        documents.retain(|document| document.contains(&url));
        install(&env.kube(), &documents).await;
        let has_ca = |config: &Value| config["caBundle"].as_str().is_some();
        env.until(CRD, |_, crd| has_ca(&crd["spec"]["conversion"]["webhook"]["clientConfig"]))
            .await;
        env.until(WEBHOOKS, |_, webhooks| has_ca(&webhooks["webhooks"][0]["clientConfig"])).await;
        operator.manager.settled(LIMIT).await.unwrap();
        Self { env, operator: None, network_operator: Some(operator) }
    }

    pub(crate) fn start_operator(&mut self) {
        self.operator = Some(self.start_replica(None));
    }

    /// Starts an operator with the rights of its service account.
    pub(crate) fn start_replica(&self, leader_election: Option<LeaderElection>) -> Operator {
        let clock = self.env.clock().clone();
        let options = ManagerOptions { clock, leader_election, ..ManagerOptions::default() };
        let client = client_of(self.env.server(), "vpc-operator");
        Operator::start(client, options, |manager| {
            add_to(manager, &Options::default());
        })
    }

    pub(crate) fn manager(&self) -> &Manager {
        &self.operator.as_ref().unwrap().manager
    }

    pub(crate) async fn kill_operator(&mut self) {
        if let Some(operator) = self.operator.take() {
            operator.kill().await;
        }
    }

    /// Creates the Vpc `shop`.
    pub(crate) async fn create(&self, block: &str, count: usize) {
        self.env.create(VPCS, &shop(block, count)).await;
    }

    /// Changes the spec of `shop`.
    pub(crate) async fn change(&self, spec: &Value) {
        self.env.merge(&format!("{VPCS}/shop"), &json!({ "spec": spec })).await;
    }

    /// Waits until the operators have nothing left to do. Without the network operator, the Networks
    /// become ready.
    pub(crate) async fn settle(&self) {
        let revisions = async || {
            let networks = self.networks().await;
            networks.values().map(Network::resource_version).collect::<Vec<_>>()
        };
        loop {
            let before = revisions().await;
            self.manager().settled(LIMIT).await.unwrap();
            match &self.network_operator {
                Some(operator) => operator.manager.settled(LIMIT).await.unwrap(),
                None => self.make_networks_ready().await,
            }
            if revisions().await == before {
                return;
            }
        }
    }

    /// Reports the Networks of Vpcs as ready, unless they are.
    pub(crate) async fn make_networks_ready(&self) {
        for network in self.networks().await.values() {
            if network.owner_references().len() == 1 && !network.is_ready() {
                self.report(network, "True").await;
            }
        }
    }

    /// Writes the condition `Ready` of a Network, as the network operator does.
    pub(crate) async fn report(&self, network: &Network, ready: &str) {
        let condition = json!({"type": "Ready", "status": ready, "reason": "Test", "message": "",
            "observedGeneration": network.metadata.generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let path = format!("{NETWORKS}/{}/status", network.name_any());
        let status = json!({"status": {"conditions": [condition]}});
        self.env.merge(&path, &status).await;
    }

    pub(crate) async fn status(&self) -> Value {
        self.env.read(&format!("{VPCS}/shop")).await["status"].clone()
    }

    /// The condition `Ready` of `shop`: status, reason and message.
    pub(crate) async fn ready(&self) -> String {
        let ready = &self.status().await["conditions"][0];
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        [text("status"), text("reason"), text("message")].join(" ").trim_end().to_owned()
    }

    /// The reasons and messages of the Warnings about Vpcs.
    pub(crate) async fn warnings(&self) -> Vec<String> {
        let events = self.env.read(EVENTS).await;
        let warnings =
            events["items"].as_array().unwrap().iter().filter(|event| {
                event["involvedObject"]["kind"] == "Vpc" && event["type"] == "Warning"
            });
        let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
        let warnings =
            warnings.map(|event| [text(event, "reason"), text(event, "message")].join(" "));
        warnings.collect()
    }

    /// Waits until a reconcile has failed; returns why.
    pub(crate) async fn wait_for_failure(&self) -> String {
        let failing = async {
            loop {
                for record in self.manager().records("vpc") {
                    if let ReconcileOutcome::Failed(failure) = record.outcome {
                        return failure;
                    }
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, failing).await.expect("a failed reconcile")
    }

    /// The Networks by name.
    pub(crate) async fn networks(&self) -> BTreeMap<String, Network> {
        let networks = self.env.kube().api_in::<Network>("default");
        let all = networks.list(&ListParams::default()).await.unwrap();
        all.into_iter().map(|network| (network.name_any(), network)).collect()
    }

    /// The addresses of the Networks, in the order of their names: `10.0.0.0/17 10.0.128.0/17`.
    pub(crate) async fn cidrs(&self) -> String {
        let networks = self.networks().await;
        networks.values().map(|network| network.spec.cidr.as_str()).collect::<Vec<_>>().join(" ")
    }

    pub(crate) async fn stop(mut self) {
        self.kill_operator().await;
        if let Some(operator) = self.network_operator {
            operator.kill().await;
        }
        self.env.stop().await.unwrap();
    }
}

/// The manifests of the operator, and a CRD of Network.
pub(crate) fn documents() -> Vec<String> {
    let mut networks = Network::crd();
    let approval = "api-approved.kubernetes.io".to_owned();
    let value = "unapproved, experimental-only".to_owned();
    networks.metadata.annotations = Some([(approval, value)].into());
    let networks = serde_json::to_string(&networks).unwrap();
    [manifests(), vec![networks]].concat()
}

/// The Vpc `shop`.
pub(crate) fn shop(block: &str, count: usize) -> Value {
    let mut vpc = decode(include_str!("../../example/vpc-sample.yaml"));
    vpc["metadata"]["name"] = "shop".into();
    vpc["spec"] = json!({"cidrblock": block, "subnetnum": count});
    let _: Vpc = serde_json::from_value(vpc.clone()).unwrap();
    vpc
}
