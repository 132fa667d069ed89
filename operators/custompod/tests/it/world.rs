//! [`World`]: a server with the sample object, and an operator that can be killed and started again.

use k8s_openapi::api::core::v1::Pod;

use crate::installation::{Operator, client_of, decode, install, strict};
use custompod_operator::{Options, add_to, manifests};
use machinery::json;
use runtime::kube_core::params::ListParams;
use runtime::{Manager, ManagerOptions, prelude::*};
use testenv::{TestEnv, TestEnvBuilder};

/// The textbook's sample.
pub(crate) const EXAMPLE: &str = include_str!("../../example/custompod-sample.yaml");
/// The path of the collection of the object.
pub(crate) const CUSTOM_PODS: &str = "/apis/zhhnzw.mock.com/v1/namespaces/default/custompods";
/// The name of the object.
pub(crate) const SAMPLE: &str = "custompod-sample";

/// See the [module documentation](self).
pub(crate) struct World {
    pub(crate) env: TestEnv,
    /// May do everything.
    pub(crate) client: Client,
    operator: Option<Operator>,
}

impl World {
    /// A server with the object, without an operator.
    pub(crate) async fn new(seed: u64) -> Self {
        let world = Self::empty(TestEnv::builder().seed(seed).system_clock()).await;
        world.env.create(CUSTOM_PODS, &decode(EXAMPLE)).await;
        world
    }

    /// A server with the manifests of the operator.
    pub(crate) async fn empty(builder: TestEnvBuilder) -> Self {
        let env = builder.config(strict).start().await;
        install(&env.kube(), &manifests()).await;
        Self { client: env.kube(), env, operator: None }
    }

    pub(crate) fn start_operator(&mut self) {
        self.operator = Some(self.start_replica(None));
    }

    /// Starts an operator with the rights of its service account.
    pub(crate) fn start_replica(&self, leader_election: Option<LeaderElection>) -> Operator {
        let clock = self.env.clock().clone();
        let options = ManagerOptions { clock, leader_election, ..ManagerOptions::default() };
        let client = client_of(self.env.server(), "custompod-operator");
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

    /// The causes of the operator's recent reconciles.
    pub(crate) fn causes(&self) -> Vec<String> {
        let Some(operator) = &self.operator else { return Vec::new() };
        let records = operator.manager.records("custompod");
        records.iter().map(|record| record.causes.to_string()).collect()
    }

    /// Requests a number of pods through the scale subresource; returns the revision.
    pub(crate) async fn scale(&self, replicas: usize) -> u64 {
        let patch = json!({"spec": {"replicas": replicas}});
        let scale = self.env.merge(&format!("{CUSTOM_PODS}/{SAMPLE}/scale"), &patch).await;
        scale["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    /// Acts as a kubelet: a pod gets a node and a phase. A pod that has ended stays so.
    pub(crate) async fn set_phase(&self, name: &str, phase: &str) {
        let binding = json!({"metadata": {"name": name}, "target": {"name": "node-1"}});
        // A pod with a node is not bound again, and a pod may have been deleted.
        let path = format!("/api/v1/namespaces/default/pods/{name}/binding");
        let _ = self.env.post(&path, &binding).await;
        let Some(pod) = self.pods().get_opt(name).await.unwrap() else { return };
        let now = pod.status.and_then(|status| status.phase).unwrap_or_default();
        if matches!(now.as_str(), "Failed" | "Succeeded") {
            return;
        }
        let version = pod.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"phase": phase}});
        let _ = self.pods().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    }

    /// Begins the deletion of a pod; a pod with a node exists until [`World::finish_deletions`].
    pub(crate) async fn delete(&self, name: &str) {
        let _ = self.pods().delete(name, &DeleteParams::default()).await;
    }

    /// Acts as a kubelet: deletes the pods that are being deleted.
    pub(crate) async fn finish_deletions(&self) {
        for pod in self.pods().list(&ListParams::default()).await.unwrap() {
            if pod.metadata.deletion_timestamp.is_some() {
                let now = DeleteParams::default().grace_period(0);
                let _ = self.pods().delete(&pod.metadata.name.unwrap(), &now).await;
            }
        }
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        self.client.api_in("default")
    }

    pub(crate) async fn pod_names(&self) -> Vec<String> {
        let pods = self.pods().list(&ListParams::default()).await.unwrap();
        pods.iter().map(Pod::name_any).collect()
    }

    pub(crate) async fn stop(mut self) {
        self.kill_operator().await;
        drop(self.client);
        self.env.stop().await.unwrap();
    }
}
