//! A plane of a test's own.

use crate::client::Client;
use apiserver::{Config, Server};
use keel::{Clock, Entropy, Timestamp};
use machinery::{Value, json};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use store::Store;

/// When every plane starts, 2024-01-01T00:00:00Z, in seconds since 1970.
pub(crate) const START: i64 = 1_704_067_200;

/// Where config maps of the default namespace are: the kind that most tests use, since it has no
/// rules of its own.
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Where definitions are.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A running server; asking it asks as somebody who may do everything.
pub(crate) struct Plane {
    pub(crate) server: Server,
    pub(crate) clock: Clock,
    client: Client,
}

impl Plane {
    /// One like any other.
    pub(crate) async fn start() -> Self {
        Self::start_with(Self::config(1)).await
    }

    /// One with settings of its own. Only a manual clock can be moved.
    pub(crate) async fn start_with(config: Config) -> Self {
        let clock = config.clock.clone();
        let server = Server::start(config).await.unwrap();
        let client = Client::new(server.in_process_client());
        Self { server, clock, client }
    }

    /// One on a store of the test's; its clock must be a manual one.
    pub(crate) async fn start_on(config: Config, store: Arc<dyn Store>) -> Self {
        let clock = config.clock.clone();
        let server = Server::start_on(config, store).await.unwrap();
        let client = Client::new(server.in_process_client());
        Self { server, clock, client }
    }

    /// The settings of a plane whose uids and names come from `seed`.
    pub(crate) fn config(seed: u64) -> Config {
        Config {
            clock: Clock::manual(Timestamp::from_seconds(START)),
            entropy: Entropy::seeded(seed),
            ..Config::default()
        }
    }

    /// Moves time.
    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Somebody who has yet to say who they are.
    pub(crate) fn stranger(&self) -> Client {
        Client::new(self.server.in_process_client().unauthenticated())
    }

    /// Somebody with a bearer token.
    pub(crate) fn bearer(&self, token: &str) -> Client {
        self.stranger().with("authorization", &format!("Bearer {token}"))
    }

    /// Creates a definition and waits until its kind is served.
    pub(crate) async fn define(&self, definition: &Value) {
        self.create(DEFINITIONS, definition).await;
        let spec = &definition["spec"];
        let version = spec["versions"].as_array().unwrap().iter().find(|it| it["served"] == true);
        let path = format!(
            "/apis/{}/{}/{}",
            spec["group"].as_str().unwrap(),
            version.unwrap()["name"].as_str().unwrap(),
            spec["names"]["plural"].as_str().unwrap(),
        );
        self.until(&path, |code, _| code == 200).await;
    }
}

impl Deref for Plane {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// A config map.
pub(crate) fn map(name: &str, data: &Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

/// A config map with one label.
pub(crate) fn labeled(name: &str, label: &str, value: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {label: value}}})
}

/// The definition of `things.example.com`, kind Thing, with one version.
pub(crate) fn things(schema: &Value) -> Value {
    json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// A schema that lets everything pass.
pub(crate) fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Where things of the default namespace are.
pub(crate) const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// A thing.
pub(crate) fn thing(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name},
        "spec": spec})
}
