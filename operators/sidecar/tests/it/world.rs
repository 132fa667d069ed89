//! [`World`]: a plane with RBAC and the objects of the operator, and replicas of the operator.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::{Value, json};

use crate::requests::{CONFIG_MAPS, Requests};
use apiserver::auth::authentication::User;
use apiserver::{AuthorizerConfig, Config, InProcessClient};
use cluster::{Cluster, ClusterConfig, Selection};
use machinery::codec::yaml;
use runtime::{BackgroundManager, Client, LeaderElection, ManagerOptions};
use sidecar_operator::{Mode, Options, add_to, manifests_of};

/// The longest wait of a test that fails.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

pub(crate) const CONFIG: &str = include_str!("../../example/envoy-initializer.yaml");
pub(crate) const BOOTSTRAP: &str = include_str!("../../example/envoy.yaml");

const WEBHOOK: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/envoy-sidecar";

/// See the [module documentation](self).
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    /// Requests that may do everything.
    pub(crate) admin: Requests,
    pub(crate) options: Options,
    pub(crate) operator: Option<BackgroundManager>,
}

impl World {
    /// A server without controllers, and one replica of the operator that works.
    pub(crate) async fn start(mode: Mode) -> Self {
        let mut world = Self::with(mode, bare()).await;
        world.start_operator().await;
        world
    }

    /// A plane with the objects of the operator, which does not run.
    pub(crate) async fn with(mode: Mode, config: ClusterConfig) -> Self {
        let cluster = Cluster::start(config).await.unwrap();
        let admin = Requests(client(cluster.server().in_process_client()));
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let options = Options { mode, webhook_listen: listen, ..Options::default() };
        admin.apply(&decode(CONFIG)).await;
        for document in manifests_of(&options, "https://127.0.0.1:1") {
            admin.apply(&decode(&document)).await;
        }
        Self { cluster, admin, options, operator: None }
    }

    /// Starts the operator, and waits until it works.
    pub(crate) async fn start_operator(&mut self) {
        let operator = self.start_replica(None);
        operator.manager().settled(LIMIT).await.unwrap();
        if self.options.mode == Mode::Webhook {
            let address = operator.manager().webhook_endpoint().await.unwrap();
            self.call_webhook_at(address).await;
        }
        self.operator = Some(operator);
    }

    /// Starts a replica with the rights of the service account.
    pub(crate) fn start_replica(&self, election: Option<LeaderElection>) -> BackgroundManager {
        let options = ManagerOptions { leader_election: election, ..ManagerOptions::default() };
        BackgroundManager::start("operator", self.service_account().0, options, |manager| {
            add_to(manager, &self.options).unwrap();
        })
    }

    /// Requests with the rights of the operator.
    pub(crate) fn service_account(&self) -> Requests {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:operators"];
        let groups = groups.map(str::to_owned).to_vec();
        let name = "system:serviceaccount:operators:sidecar-operator";
        let user = User::authenticated(name, "", groups);
        Requests(client(self.cluster.server().in_process_client().for_user(user)))
    }

    /// Configures the webhook at this address, and waits until it has the CA.
    pub(crate) async fn call_webhook_at(&self, address: SocketAddr) {
        let documents = manifests_of(&self.options, &format!("https://{address}"));
        let webhook =
            documents.iter().find(|document| document.contains("MutatingWebhook")).unwrap();
        self.admin.apply(&decode(webhook)).await;
        self.admin
            .until(WEBHOOK, |webhook| {
                webhook["webhooks"][0]["clientConfig"]["caBundle"].is_string()
            })
            .await;
    }

    pub(crate) async fn stop_operator(&mut self) {
        self.operator.take().unwrap().stop().await.unwrap();
    }

    /// Waits until the operator has no work.
    pub(crate) async fn settle(&self) {
        self.operator.as_ref().unwrap().manager().settled(LIMIT).await.unwrap();
    }

    /// Changes the key `config` of the `ConfigMap`, and waits until the operator has seen it.
    pub(crate) async fn configure(&self, config: &str) {
        let path = format!("{CONFIG_MAPS}/envoy-initializer");
        self.admin.merge(&path, &json!({"data": {"config": config}})).await;
        self.settle().await;
    }

    pub(crate) async fn stop(mut self) {
        if self.operator.is_some() {
            self.stop_operator().await;
        }
        drop(self.admin);
        self.cluster.stop().await.unwrap();
    }
}

/// A cluster with RBAC, without controllers and nodes.
pub(crate) fn bare() -> ClusterConfig {
    let none = Selection::parse(&["none"]).unwrap();
    ClusterConfig { controllers: none, nodes: 0, ..with_rbac() }
}

/// A cluster with RBAC, controllers and nodes.
pub(crate) fn with_rbac() -> ClusterConfig {
    let server = Config { authorizers: vec![AuthorizerConfig::Rbac], ..Config::default() };
    ClusterConfig { server, ..ClusterConfig::default() }
}

fn client(service: InProcessClient) -> Client {
    Client::new(service, "default")
}

/// The object in a YAML document.
pub(crate) fn decode(document: &str) -> Value {
    yaml::decode(document.as_bytes()).unwrap().value
}

/// Makes each function a test in each mode.
#[macro_export]
macro_rules! in_each_mode {
    ($($test:ident)*) => {
        $crate::in_each_mode!(@ initializer Initializer $($test)*);
        $crate::in_each_mode!(@ webhook Webhook $($test)*);
        $crate::in_each_mode!(@ policy Policy $($test)*);
    };
    (@ $module:ident $mode:ident $($test:ident)*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    Box::pin(super::$test(sidecar_operator::Mode::$mode)).await;
                }
            )*
        }
    };
}
