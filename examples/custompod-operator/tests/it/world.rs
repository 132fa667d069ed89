//! [`World`]: a server in this process, and an operator that can be killed and started again.

use std::time::Duration;

use apiserver::{Config, Server};
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use machinery::{Value, json};
use runtime::keel::{Clock, Entropy, Tasks};
use runtime::kube_core::params::{DeleteParams, ListParams, Patch, PatchParams};
use runtime::{Api, Client, Manager, ManagerOptions};

use crate::controller;

/// The CRD in the repository.
pub(crate) const DEFINITION: &str = include_str!("../../crd/custompods.yaml");
const EXAMPLE: &str = include_str!("../../example/custompod-sample.yaml");
/// The path of the object.
pub(crate) const CUSTOM_PODS: &str = "/apis/zhhnzw.mock.com/v1/namespaces/default/custompods";
/// The name of the object.
pub(crate) const SAMPLE: &str = "custompod-sample";

/// See the [module documentation](self).
pub(crate) struct World {
    server: Server,
    pub(crate) client: Client,
    operator: Option<(Manager, Tasks)>,
}

impl World {
    /// A server with the object, without an operator.
    pub(crate) async fn new(seed: u64) -> Self {
        let config =
            Config { clock: Clock::system(), entropy: Entropy::seeded(seed), ..Config::default() };
        let server = Server::start(config).await.unwrap();
        let client = Client::new(server.in_process_client(), "default");
        let world = Self { server, client, operator: None };
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        world.post(definitions, "application/yaml", DEFINITION).await.unwrap();
        while world.get(CUSTOM_PODS).await.is_none() {
            tokio::task::yield_now().await;
        }
        world.post(CUSTOM_PODS, "application/yaml", EXAMPLE).await.unwrap();
        world
    }

    pub(crate) fn start_operator(&mut self) {
        let tasks = Tasks::new();
        let options = ManagerOptions { handles_signals: false, ..ManagerOptions::default() };
        let client = Client::new(self.server.in_process_client(), "default");
        let manager = Manager::with_tasks(client, options, &tasks);
        manager.add(controller::controller(&manager));
        let running = manager.clone();
        tasks.spawn("manager", async move { running.run().await.unwrap() });
        self.operator = Some((manager, tasks));
    }

    /// Ends the operator between any two of its steps, like a power cut.
    pub(crate) async fn kill_operator(&mut self) {
        if let Some((_, tasks)) = self.operator.take() {
            // It does not end cleanly, which is intended.
            let _ = tasks.stop(Duration::ZERO).await;
        }
    }

    /// The last reconciles of the operator.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let (manager, _) = self.operator.as_ref().unwrap();
        let records = manager.records("custompod");
        records.iter().map(|record| record.causes.to_string()).collect()
    }

    /// Requests a number of pods through the scale subresource; returns the revision.
    pub(crate) async fn scale(&self, replicas: usize) -> u64 {
        let patch = json!({"spec": {"replicas": replicas}}).to_string();
        let request = Request::patch(format!("{CUSTOM_PODS}/{SAMPLE}/scale"))
            .header("content-type", "application/merge-patch+json")
            .body(patch.into_bytes())
            .unwrap();
        let scale: Value = self.client.request(request).await.unwrap();
        scale["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    /// Acts as a kubelet: a pod gets a node and a phase. A pod that has ended stays so.
    pub(crate) async fn set_phase(&self, name: &str, phase: &str) {
        let binding = json!({"metadata": {"name": name}, "target": {"name": "node-1"}}).to_string();
        // A pod with a node is not bound again, and a pod may have been deleted.
        let path = format!("/api/v1/namespaces/default/pods/{name}/binding");
        let _ = self.post(&path, "application/json", &binding).await;
        let Some(pod) = self.pods().get_opt(name).await.unwrap() else { return };
        let now = pod.status.and_then(|status| status.phase).unwrap_or_default();
        if matches!(now.as_str(), "Failed" | "Succeeded") {
            return;
        }
        let version = pod.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"phase": phase}});
        let _ = self.pods().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    }

    /// Deletes a pod with a node, which starts its deletion.
    pub(crate) async fn delete(&self, name: &str) {
        let _ = self.pods().delete(name, &DeleteParams::default()).await;
    }

    /// Acts as a kubelet: ends the deletion of pods.
    pub(crate) async fn end_marked(&self) {
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

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.client.request(Request::get(path).body(Vec::new()).unwrap()).await.ok()
    }

    async fn post(&self, path: &str, media_type: &str, body: &str) -> Option<Value> {
        let request = Request::post(path).header("content-type", media_type);
        self.client.request(request.body(body.as_bytes().to_vec()).unwrap()).await.ok()
    }

    pub(crate) async fn end(mut self) {
        self.kill_operator().await;
        drop(self.client);
        self.server.stop().await.unwrap();
    }
}
