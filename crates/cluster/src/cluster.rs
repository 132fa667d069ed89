//! [`Cluster`]: starts and stops the API server and the components in its process.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use serde::de::IgnoredAny;
use tokio::time::timeout;

use crate::connect::{connect, loopback};
use crate::server_functions::{serve_metrics, signers};
use apiserver::auth::authorization::fixed_roles::FixedRoles;
use apiserver::{Config, Server, server};
use controllers::selection::{RESOURCE_QUOTA, VALIDATING_ADMISSION_POLICY_STATUS};
use controllers::{ControllerManager, ControllerManagerOptions, MetricsApi, Selection};
use keel::{Clock, Entropy, UncleanStop};
use node::{Capacity, SimulatedNodes, SimulatedNodesOptions};
use runtime::Manager;

/// The time that the start waits for the components. The server serves requests in any case.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// A watch of the account that every pod has unless it names another one. Its first event is the
/// account, when it exists.
const DEFAULT_ACCOUNT: &str =
    "/api/v1/namespaces/default/serviceaccounts?watch=true&fieldSelector=metadata.name%3Ddefault";

/// The settings of a [`Cluster`].
pub struct ClusterConfig {
    /// The settings of the API server.
    pub server: Config,
    /// The controllers that run.
    pub controllers: Selection,
    /// The number of simulated nodes. Those of a former run with more nodes are removed. Nodes that
    /// users create for KWOK are simulated as well, unless there are neither nodes nor controllers.
    pub nodes: usize,
    /// The resources of each node.
    pub capacity: Capacity,
    /// The time for which a simulated pod that is being deleted runs on, if its controller may give its
    /// name to the next pod.
    pub termination: Duration,
}

impl Default for ClusterConfig {
    /// In memory, with all controllers and one node.
    fn default() -> Self {
        Self {
            server: Config::default(),
            controllers: Selection::all(),
            nodes: 1,
            capacity: Capacity::default(),
            termination: Duration::ZERO,
        }
    }
}

/// See the [module documentation](self).
pub struct Cluster {
    server: Server,
    clock: Clock,
    entropy: Entropy,
    metrics_api: MetricsApi,
    controllers: Option<ControllerManager>,
    /// The manager of the controllers while they run; the server shows its metrics and health.
    running: Arc<Mutex<Option<Manager>>>,
    nodes: Option<SimulatedNodes>,
    /// The number of nodes, without those of users.
    node_count: usize,
}

impl Cluster {
    /// Starts the server and the components, and returns when they work.
    pub async fn start(config: ClusterConfig) -> Result<Self, server::Error> {
        let cluster = Self::start_server(config).await?;
        cluster.wait_until_ready().await;
        Ok(cluster)
    }

    /// Starts the server and the components, and returns when the server serves requests.
    pub async fn start_server(config: ClusterConfig) -> Result<Self, server::Error> {
        let ClusterConfig { server: mut config, controllers, nodes, capacity, termination } =
            config;
        let metrics_api = MetricsApi::default();
        config.authorizers.insert(0, Arc::new(roles()).into());
        config.require_service_accounts |= controllers.includes("serviceaccount-controller");
        config.writes_quota_status &= controllers.is_on_in_server(RESOURCE_QUOTA);
        config.writes_policy_status &=
            controllers.is_on_in_server(VALIDATING_ADMISSION_POLICY_STATUS);
        serve_metrics(&mut config, &metrics_api);
        let (clock, entropy) = (config.clock.clone(), config.entropy.clone());
        let server = Server::start(config).await?;
        let mut cluster = Self {
            server,
            clock,
            entropy,
            metrics_api,
            controllers: None,
            running: Arc::default(),
            nodes: None,
            node_count: 0,
        };
        if nodes == 0 {
            cluster.remove_former_nodes().await;
        }
        if nodes > 0 || !controllers.is_empty() {
            cluster.start_nodes(nodes, capacity, termination);
        }
        cluster.start_controllers(controllers);
        Ok(cluster)
    }

    /// Starts controllers, if none run.
    pub fn start_controllers(&mut self, selection: Selection) {
        if self.controllers.is_some() || selection.is_empty() {
            return;
        }
        let controllers = ControllerManager::start(ControllerManagerOptions {
            selection,
            connect: connect(self.server.in_process_client()),
            root_ca: self.server.watch_authority(),
            signers: signers(&self.server),
            metrics_api: self.metrics_api.clone(),
            simulated_storage: self.node_count > 0,
            tasks: self.server.component_tasks(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
        });
        self.show_controllers(&controllers);
        self.controllers = Some(controllers);
    }

    /// Shows the metrics and the health of the controllers on the port of the server. The server has
    /// no reference to the controllers, which are its clients, when they have stopped.
    fn show_controllers(&self, controllers: &ControllerManager) {
        *lock(&self.running) = Some(controllers.manager().clone());
        let running = {
            let running = Arc::clone(&self.running);
            move || lock(&running).clone()
        };
        let has_scheduler = controllers.selection().includes("kube-scheduler");
        let components =
            ["controller-manager"].into_iter().chain(has_scheduler.then_some("scheduler"));
        for component in components {
            let running = running.clone();
            self.server.add_component_check(component, move || {
                running().map_or(Err("stopped".to_owned()), |it| it.health().check())
            });
        }
        let (metrics, health, readiness) = (running.clone(), running.clone(), running);
        let check = |failed: Option<Result<(), String>>| failed.unwrap_or(Ok(()));
        self.server.add_metrics(move || metrics().map(|it| it.metrics_text()).unwrap_or_default());
        self.server
            .add_health_check("controllers", move || check(health().map(|it| it.health().check())));
        self.server.add_readiness_check("controller-caches", move || {
            check(readiness().map(|it| it.readiness().check()))
        });
    }

    /// Starts this number of simulated nodes, and simulates those that users create for KWOK, if none
    /// are simulated yet.
    pub fn start_nodes(&mut self, count: usize, capacity: Capacity, termination: Duration) {
        if self.nodes.is_some() {
            return;
        }
        self.node_count = count;
        self.nodes = Some(SimulatedNodes::start(&SimulatedNodesOptions {
            count,
            capacity,
            termination,
            connect: connect(self.server.in_process_client()),
            tasks: self.server.component_tasks(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
        }));
    }

    /// Removes the simulated nodes of a former run.
    async fn remove_former_nodes(&self) {
        let connect = connect(self.server.in_process_client());
        if let Err(error) = SimulatedNodes::remove_former(&connect).await {
            tracing::warn!(%error, "cannot remove the simulated nodes of a former run");
        }
    }

    /// Waits until the controllers work, and pods can be created in the namespace `default`, but not
    /// for long: the log says what does not work then.
    pub async fn wait_until_ready(&self) {
        if timeout(START_TIMEOUT, self.wait_for_components()).await.is_err() {
            tracing::warn!("the controllers have not read all objects yet");
        }
    }

    async fn wait_for_components(&self) {
        let Some(controllers) = &self.controllers else { return };
        if let Err(reasons) = controllers.wait_until_ready().await {
            tracing::warn!(
                "controllers that read these objects do not work until they can be listed: {reasons}"
            );
        }
        if controllers.selection().includes("serviceaccount-controller") {
            let client = loopback(&self.server);
            if let Err(error) = wait_for_event(&client, DEFAULT_ACCOUNT).await {
                tracing::warn!(%error, "cannot watch the default service account");
            }
        }
    }

    /// The API server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The controllers, if they run.
    pub fn controllers(&self) -> Option<&ControllerManager> {
        self.controllers.as_ref()
    }

    /// Stops the controllers; the server and the nodes go on.
    pub async fn stop_controllers(&mut self) -> Result<(), UncleanStop> {
        *lock(&self.running) = None;
        match self.controllers.take() {
            Some(controllers) => controllers.stop().await,
            None => Ok(()),
        }
    }

    /// Stops the nodes, as if their machines were switched off.
    pub async fn stop_nodes(&mut self) -> Result<(), UncleanStop> {
        match self.nodes.take() {
            Some(nodes) => nodes.stop().await,
            None => Ok(()),
        }
    }

    /// Stops the nodes, the controllers and then the server.
    pub async fn stop(mut self) -> Result<(), UncleanStop> {
        let nodes = self.stop_nodes().await;
        let controllers = self.stop_controllers().await;
        let server = self.server.stop().await;
        nodes.and(controllers).and(server)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("server", &self.server).finish_non_exhaustive()
    }
}

fn lock(running: &Mutex<Option<Manager>>) -> MutexGuard<'_, Option<Manager>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The permissions of all components.
pub fn roles() -> FixedRoles {
    let controllers = controllers::roles().into_iter();
    let controllers = controllers.map(|role| (role.identity.user, role.rules.to_vec()));
    let nodes = node::roles().into_iter();
    let nodes = nodes.map(|role| (role.identity.user, role.rules.to_vec()));
    FixedRoles::new(controllers.chain(nodes))
}

/// Waits for the first event of a watch.
async fn wait_for_event(client: &kube_client::Client, path: &str) -> kube_client::Result<()> {
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(kube_client::Error::HttpError)?;
    let events = client.request_events::<IgnoredAny>(request).await?;
    pin!(events).try_next().await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use apiserver::AuthorizerConfig;

    use super::*;

    #[tokio::test]
    async fn the_default_service_account_exists_when_a_cluster_has_started() {
        let cluster = Cluster::start(ClusterConfig::default()).await.unwrap();
        let client = kube_client::Client::new(cluster.server().in_process_client(), "default");
        let path = "/api/v1/namespaces/default/serviceaccounts/default";
        let account = client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await;
        assert!(account.is_ok(), "{account:?}");
        cluster.stop().await.unwrap();
    }

    #[tokio::test]
    async fn the_users_of_controllers_are_those_that_kubernetes_roles_are_bound_to() {
        let server = Config { authorizers: vec![AuthorizerConfig::Rbac], ..Config::default() };
        let config = ClusterConfig { server, ..ClusterConfig::default() };
        let cluster = Cluster::start(config).await.unwrap();
        let client = kube_client::Client::new(cluster.server().in_process_client(), "default");
        for role in controllers::roles() {
            let user = role.identity.user;
            let Some(account) = user.strip_prefix("system:serviceaccount:kube-system:") else {
                continue;
            };
            // Kubernetes has no role for the first one by default, and not the second one at all.
            let others = ["storage-version-migrator-controller", "resource-metrics-controller"];
            if others.contains(&account) {
                continue;
            }
            let path = format!(
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:controller:{account}"
            );
            let request = http::Request::get(path).body(Vec::new()).unwrap();
            let binding = client.request_text(request).await;
            assert!(binding.is_ok(), "{account}: {binding:?}");
        }
        cluster.stop().await.unwrap();
    }

    #[tokio::test]
    async fn a_client_with_the_name_of_a_component_has_only_the_rights_of_roles() {
        let server = Config { authorizers: vec![AuthorizerConfig::Rbac], ..Config::default() };
        let config = ClusterConfig {
            server,
            controllers: Selection::parse(&["none"]).unwrap(),
            ..ClusterConfig::default()
        };
        let cluster = Cluster::start(config).await.unwrap();
        let client = kube_client::Client::new(cluster.server().in_process_client(), "default");
        let send = async |method: &str, path: &str, body: serde_json::Value| {
            let request = http::Request::builder().method(method).uri(path);
            let request = request.header("content-type", "application/json");
            let request = request.body(body.to_string().into_bytes()).unwrap();
            client.request::<serde_json::Value>(request).await.unwrap()
        };
        let may_bind = async || {
            let attributes = serde_json::json!({"verb": "create", "resource": "pods",
                "subresource": "binding", "namespace": "default"});
            let review = serde_json::json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {"user": "system:kube-scheduler", "resourceAttributes": attributes},
            });
            let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
            send("POST", path, review).await["status"]["allowed"] == true
        };
        assert!(may_bind().await);
        let binding =
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:kube-scheduler";
        send("DELETE", binding, serde_json::json!({})).await;
        assert!(!may_bind().await);
        cluster.stop().await.unwrap();
    }
}
