//! [`World`]: a server with the CRDs, and an operator that can be killed and started again.

use std::collections::BTreeMap;

use vpc_operator::{Network, Options, Vpc, add_to, manifests};

use crate::installation::{LIMIT, Operator, client_of, decode, install, strict};
use machinery::{Value, json};
use runtime::{ManagerOptions, prelude::*};
use testenv::{TestEnv, TestEnvBuilder};

/// The path of the collection of Vpcs.
pub(crate) const VPCS: &str = "/apis/network.example.com/v1/namespaces/default/vpcs";
/// The path of the collection of Networks.
pub(crate) const NETWORKS: &str = "/apis/samplecrd.k8s.io/v1/namespaces/default/networks";

/// See the [module documentation](self).
pub(crate) struct World {
    pub(crate) env: TestEnv,
    operator: Option<Operator>,
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
        Self { env, operator: None }
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
            add_to(manager, &Options::default()).unwrap();
        })
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

    pub(crate) async fn settle(&self) {
        self.operator.as_ref().unwrap().manager.settled(LIMIT).await.unwrap();
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

    /// The Networks by name.
    pub(crate) async fn networks(&self) -> BTreeMap<String, Network> {
        let networks = self.env.kube().api_in::<Network>("default");
        let all = networks.list(&ListParams::default()).await.unwrap();
        all.into_iter().map(|network| (network.name_any(), network)).collect()
    }

    /// The addresses of the Networks, in the order of their names: `10.0.0.0/17 10.0.128.0/17`.
    pub(crate) async fn cidrs(&self) -> String {
        let networks = self.networks().await;
        networks.values().map(|it| it.spec.cidr.as_str()).collect::<Vec<_>>().join(" ")
    }

    pub(crate) async fn stop(mut self) {
        self.kill_operator().await;
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
    [manifests(""), vec![networks]].concat()
}

/// The Vpc `shop`.
pub(crate) fn shop(block: &str, count: usize) -> Value {
    let mut vpc = decode(include_str!("../../example/vpc-sample.yaml"));
    vpc["metadata"]["name"] = "shop".into();
    vpc["spec"] = json!({"cidrblock": block, "subnetnum": count});
    let _: Vpc = serde_json::from_value(vpc.clone()).unwrap();
    vpc
}
