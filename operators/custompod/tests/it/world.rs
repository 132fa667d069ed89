//! [`World`]: a test environment, and an operator that can be killed and started again.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::controller;
use machinery::codec::yaml;
use machinery::{Value, json};
use runtime::keel::Tasks;
use runtime::kube_core::params::{DeleteParams, ListParams, Patch, PatchParams};
use runtime::{Api, Client, Manager, ManagerOptions};
use testenv::TestEnv;

/// The CRD in the repository.
pub(crate) const CRD: &str = include_str!("../../crd/custompods.yaml");
const EXAMPLE: &str = include_str!("../../example/custompod-sample.yaml");
/// The path of the collection of the object.
pub(crate) const CUSTOM_PODS: &str = "/apis/zhhnzw.mock.com/v1/namespaces/default/custompods";
/// The name of the object.
pub(crate) const SAMPLE: &str = "custompod-sample";

/// See the [module documentation](self).
pub(crate) struct World {
    pub(crate) env: TestEnv,
    pub(crate) client: Client,
    operator: Option<(Manager, Tasks)>,
}

impl World {
    /// A server with the object, without an operator.
    pub(crate) async fn new(seed: u64) -> Self {
        let env = TestEnv::builder().seed(seed).system_clock().start().await;
        env.install_crd(&decode(CRD)).await;
        env.create(CUSTOM_PODS, &decode(EXAMPLE)).await;
        Self { client: env.kube(), env, operator: None }
    }

    pub(crate) fn start_operator(&mut self) {
        let tasks = Tasks::new();
        let options = ManagerOptions { handles_signals: false, ..ManagerOptions::default() };
        let manager = Manager::with_tasks(self.env.kube(), options, &tasks);
        manager.add(controller::controller(&manager));
        let running = manager.clone();
        tasks.spawn("manager", async move { running.run().await.unwrap() });
        self.operator = Some((manager, tasks));
    }

    /// Stops the operator at whatever step it is, as a crash does.
    pub(crate) async fn kill_operator(&mut self) {
        if let Some((_, tasks)) = self.operator.take() {
            // The tasks are aborted, so the result is an error.
            let _ = tasks.stop(Duration::ZERO).await;
        }
    }

    /// The causes of the operator's recent reconciles.
    pub(crate) fn causes(&self) -> Vec<String> {
        let (manager, _) = self.operator.as_ref().unwrap();
        let records = manager.records("custompod");
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
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn stop(mut self) {
        self.kill_operator().await;
        drop(self.client);
        self.env.stop().await.unwrap();
    }
}

/// The object in a YAML document.
pub(crate) fn decode(document: &str) -> Value {
    yaml::decode(document.as_bytes()).unwrap().value
}
