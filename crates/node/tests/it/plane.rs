//! [`Plane`]: an API server with simulated nodes and controllers, for one test.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use controllers::{ControllerManager, ControllerManagerOptions, MetricsApi, Selection};
use keel::{Entropy, Tasks};
use machinery::{Value, json};
use node::{Capacity, SimulatedNodes, SimulatedNodesOptions};
use runtime::Connect;
use testenv::TestEnv;

/// See the [module documentation](self). The methods of [`TestEnv`] can be called on it.
pub(crate) struct Plane {
    env: TestEnv,
    controllers: ControllerManager,
    nodes: Option<SimulatedNodes>,
}

impl Plane {
    /// A plane in memory with this number of nodes and these controllers.
    pub(crate) async fn start(count: usize, controllers: &[&str]) -> Self {
        let metrics_api = MetricsApi::default();
        let builder = TestEnv::builder().config(|config| {
            config.authorizers.push(Arc::new(cluster::roles()).into());
            cluster::serve_metrics(config, &metrics_api);
        });
        let env = builder.start().await;
        let controllers = ControllerManager::start(ControllerManagerOptions {
            tasks: Tasks::new(),
            selection: Selection::parse(controllers).unwrap(),
            connect: cluster::connect(env.server().in_process_client()),
            root_ca: env.server().watch_authority(),
            signers: cluster::signers(env.server()),
            metrics_api,
            simulated_storage: true,
            clock: env.clock().clone(),
            entropy: Entropy::seeded(2),
        });
        let mut plane = Self { env, controllers, nodes: None };
        plane.start_nodes(count);
        plane
    }

    /// Starts the nodes, which were stopped.
    pub(crate) fn start_nodes(&mut self, count: usize) {
        self.start_nodes_with(count, cluster::connect(self.env.server().in_process_client()));
    }

    /// Starts the nodes with other connections.
    pub(crate) fn start_nodes_with(&mut self, count: usize, connect: Connect) {
        self.nodes = Some(SimulatedNodes::start(&SimulatedNodesOptions {
            tasks: Tasks::new(),
            count,
            termination: Duration::ZERO,
            capacity: Capacity::default(),
            connect,
            clock: self.env.clock().clone(),
            entropy: Entropy::seeded(3),
        }));
    }

    /// Stops the nodes, as if their machines were switched off.
    pub(crate) async fn stop_nodes(&mut self) {
        self.nodes.take().unwrap().stop().await.unwrap();
    }

    /// Creates a pod that is bound to a node.
    pub(crate) async fn create_pod(&self, name: &str, annotations: Value, spec: Value) -> Value {
        let mut whole = json!({
            "nodeName": "sampan-0",
            "containers": [{"name": "main", "image": "example.com/app:1"}],
        });
        machinery::patch::merge::apply(&mut whole, &spec);
        let metadata = json!({"name": name, "annotations": annotations});
        self.create(PODS, &json!({"metadata": metadata, "spec": whole})).await
    }

    /// Waits until a pod is as expected.
    pub(crate) async fn until_pod(
        &self,
        name: &str,
        is_expected: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until(&format!("{PODS}/{name}"), |code, pod| code == 200 && is_expected(pod)).await
    }

    /// Waits until a pod has a phase.
    pub(crate) async fn until_phase(&self, name: &str, phase: &str) -> Value {
        self.until_pod(name, |pod| pod["status"]["phase"] == phase).await
    }

    /// Advances the clock in steps until the object at `path` is as expected.
    pub(crate) async fn advance_until(
        &self,
        step: Duration,
        path: &str,
        is_expected: impl Fn(u16, &Value) -> bool,
    ) -> Value {
        for _ in 0..5_000 {
            let (code, found) = self.get(path).await;
            if is_expected(code, &found) {
                return found;
            }
            self.advance(step);
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
        panic!("{path} is not as expected: {:?}", self.get(path).await);
    }

    /// Stops the nodes, the controllers, and then the server.
    pub(crate) async fn stop(self) {
        if let Some(nodes) = self.nodes {
            nodes.stop().await.unwrap();
        }
        self.controllers.stop().await.unwrap();
        self.env.stop().await.unwrap();
    }
}

/// The path of the pods in the namespace `default`.
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// A condition in the status of an object.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

impl Deref for Plane {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}
