//! A plane of a test's own, and kube's client for it.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use apiserver::{Config, Server};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use keel::{Clock, Entropy, Tasks};
use kube_client::api::{PostParams, WatchParams};
use kube_client::{Api, Client};
use kube_core::{Resource, WatchEvent};
use runtime::webhook::{CertificateOptions, ServerOptions};
use serde::de::DeserializeOwned;

/// A running server, and what a controller needs beside it.
pub(crate) struct Plane {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) tasks: Tasks,
    pub(crate) server: Server,
}

impl Plane {
    /// One whose time stands still at the present: what is signed now is good for other clocks.
    pub(crate) async fn start() -> Self {
        let clock = Clock::manual(Clock::system().now());
        let entropy = Entropy::seeded(1);
        let config = Config { clock: clock.clone(), entropy: entropy.clone(), ..Config::default() };
        let server = Server::start(config).await.unwrap();
        let client = Client::new(server.in_process_client(), "default");
        Self { client, clock, entropy, tasks: Tasks::new(), server }
    }

    pub(crate) fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// Those of the default namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates a definition and waits until its kind is served.
    pub(crate) async fn define(&self, definition: &CustomResourceDefinition) {
        let definitions = self.all::<CustomResourceDefinition>();
        let made = definitions.create(&PostParams::default(), definition).await.unwrap();
        let name = made.metadata.name.unwrap();
        until(&definitions, &name, |it: &CustomResourceDefinition| {
            let conditions = it.status.as_ref().and_then(|it| it.conditions.as_ref());
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|it| it.type_ == "Established" && it.status == "True")
        })
        .await;
    }
}

/// The object of this name, as soon as it is as wanted.
pub(crate) async fn until<K>(api: &Api<K>, name: &str, wanted: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    until_any(api, &format!("metadata.name={name}"), wanted).await
}

/// The first object among those with these fields that is as wanted.
pub(crate) async fn until_any<K>(api: &Api<K>, fields: &str, wanted: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    let waiting = async {
        loop {
            let watch = WatchParams::default().fields(fields);
            let mut events = Box::pin(api.watch(&watch, "0").await.unwrap());
            while let Some(event) = futures_util::StreamExt::next(&mut events).await {
                if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event.unwrap()
                    && wanted(&object)
                {
                    return object;
                }
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it becomes so")
}

/// A webhook server on loopback, on any port.
pub(crate) fn server_options() -> ServerOptions {
    ServerOptions { listen: (Ipv4Addr::LOCALHOST, 0).into(), ..ServerOptions::default() }
}

/// Certificates for a server on loopback.
pub(crate) fn certificate_options() -> CertificateOptions {
    CertificateOptions {
        names: vec!["127.0.0.1".to_owned()],
        ..CertificateOptions::of_service("default", "hook")
    }
}
