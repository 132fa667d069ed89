//! [`World`]: a server in this process with a kind of its own, and managers that get to it through
//! faulty doors.

use std::time::Duration;

use apiserver::{Config, Server};
use http::Request;
use informer::{InformerOptions, ReflectorOptions};
use kube_derive::CustomResource;
use machinery::{Value, json};
use runtime::keel::{Clock, Entropy, Tasks, Timestamp};
use runtime::{Client, Manager, ManagerOptions};
use serde::{Deserialize, Serialize};

use crate::faulty::Faulty;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Where things are.
pub(crate) const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
/// Where config maps are.
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A kind whose objects the server does not check.
#[derive(CustomResource, Serialize, Deserialize, Debug, Clone)]
#[kube(group = "example.com", version = "v1", kind = "Thing", namespaced)]
#[kube(schema = "disabled", crates(kube_core = "runtime::kube_core"))]
pub(crate) struct ThingSpec {
    pub(crate) size: u32,
}

/// See the [module documentation](self).
pub(crate) struct World {
    pub(crate) server: Server,
    /// Without faults.
    pub(crate) client: Client,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Config::default()).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        let server = Server::start(config).await.unwrap();
        let client = Client::new(server.in_process_client(), "default");
        let world = Self { server, client };
        world.define_things().await;
        world
    }

    pub(crate) async fn define_things(&self) {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}}],
            },
        });
        self.post(DEFINITIONS, &definition).await.unwrap();
        until("things are served", async || self.get(THINGS).await.is_some()).await;
    }

    pub(crate) async fn undefine_things(&self) {
        let request = Request::delete(format!("{DEFINITIONS}/things.example.com"));
        let deleted: Value = self.client.request(request.body(Vec::new()).unwrap()).await.unwrap();
        assert!(deleted.is_object());
        until("things are gone", async || self.get(THINGS).await.is_none()).await;
    }

    pub(crate) async fn make_thing(&self, name: &str, size: Value) {
        let thing = json!({
            "apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": name}, "spec": {"size": size},
        });
        self.post(THINGS, &thing).await.unwrap();
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.client.request(Request::get(path).body(Vec::new()).unwrap()).await.ok()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, kube_client::Error> {
        let request = Request::post(path).header("content-type", "application/json");
        self.client.request(request.body(body.to_string().into_bytes()).unwrap()).await
    }

    /// An in-process client with faults.
    pub(crate) fn faulty(&self) -> (Faulty, Client) {
        let faulty = Faulty::new(self.server.in_process_client());
        (faulty.clone(), Client::new(faulty, "default"))
    }
}

/// Settings for tests: no signals, and failures are tried again soon.
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

/// A clock that stands.
pub(crate) fn standing_clock() -> Clock {
    Clock::manual(Timestamp::from_seconds(1_704_067_200))
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

/// Waits until `is_so`; `what` is said if that does not happen.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_mins(1), waiting).await.is_ok(), "never: {what}");
}
