//! [`World`]: a test environment with the CRD `things.example.com`, and clients with simulated faults.

use std::time::Duration;

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use crate::faulty::FaultyClient;
use informer::{InformerOptions, ReflectorOptions};
use machinery::{Value, json};
use runtime::keel::{Clock, Entropy, Tasks};
use runtime::{Client, Manager, ManagerOptions};
use testenv::{START, TestEnv, TestEnvBuilder};

/// The path of the CRD of things.
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";
/// The path of things.
pub(crate) const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
/// The path of config maps.
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A kind whose objects the server does not validate.
#[derive(CustomResource, Serialize, Deserialize, Debug, Clone)]
#[kube(group = "example.com", version = "v1", kind = "Thing", namespaced)]
#[kube(schema = "disabled", crates(kube_core = "runtime::kube_core"))]
pub(crate) struct ThingSpec {
    pub(crate) size: u32,
}

/// See the [module documentation](self).
pub(crate) struct World {
    pub(crate) env: TestEnv,
    /// A client without faults.
    pub(crate) client: Client,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(TestEnv::builder()).await
    }

    /// The environment has the system clock.
    pub(crate) async fn with(builder: TestEnvBuilder) -> Self {
        let env = builder.system_clock().start().await;
        let world = Self { client: env.kube(), env };
        world.install_crd().await;
        world
    }

    pub(crate) async fn install_crd(&self) {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let crd = json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}}],
            },
        });
        self.env.install_crd(&crd).await;
    }

    /// Deletes the CRD and waits until things are not served.
    pub(crate) async fn delete_crd(&self) {
        let (code, deleted) = self.env.delete(CRD).await;
        assert_eq!(code, 200, "{deleted}");
        self.env.until(THINGS, |code, _| code == 404).await;
    }

    pub(crate) async fn create_thing(&self, name: &str, size: Value) {
        let thing = json!({
            "apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": name}, "spec": {"size": size},
        });
        self.env.create(THINGS, &thing).await;
    }

    /// An in-process client with faults.
    pub(crate) fn faulty(&self) -> (FaultyClient, Client) {
        let faulty = FaultyClient::new(self.env.server().in_process_client());
        (faulty.clone(), Client::new(faulty, "default"))
    }
}

/// Options for tests: without signals, and with short delays after failures.
pub(crate) fn options() -> ManagerOptions {
    let reflector = ReflectorOptions {
        backoff_base: Duration::from_millis(2),
        backoff_cap: Duration::from_millis(20),
        ..ReflectorOptions::default()
    };
    ManagerOptions {
        handles_signals: false,
        informer: InformerOptions { reflector, ..InformerOptions::default() },
        entropy: Entropy::seeded(7),
        ..ManagerOptions::default()
    }
}

pub(crate) fn manual_clock() -> Clock {
    Clock::manual(START)
}

/// A manager that runs in the background.
pub(crate) struct Running {
    pub(crate) manager: Manager,
    pub(crate) ended: tokio::task::JoinHandle<Result<(), runtime::ManagerError>>,
}

impl Running {
    pub(crate) fn start(manager: &Manager) -> Self {
        let running = manager.clone();
        let ended = Tasks::new().spawn("manager", async move { running.run().await });
        Self { manager: manager.clone(), ended }
    }

    pub(crate) async fn stop(self) {
        self.manager.stop();
        self.ended.await.unwrap().unwrap();
    }
}

/// Waits until `is_true` returns true. If it never does, the test fails with `what`.
pub(crate) async fn until(what: &str, is_true: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_true().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_mins(1), waiting).await.is_ok(), "never: {what}");
}
