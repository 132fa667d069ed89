//! [`Plane`]: a test environment with a manual clock, and the entropy and tasks for parts of the runtime.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use kube_client::api::WatchParams;
use kube_client::{Api, Client};
use kube_core::{Resource, WatchEvent};
use serde::de::DeserializeOwned;

use keel::{Clock, Entropy, Tasks};
use runtime::webhook::{CertificateOptions, ServerOptions};
use testenv::TestEnv;

/// See the [module documentation](self).
pub(crate) struct Plane {
    pub(crate) env: TestEnv,
    pub(crate) client: Client,
    /// The clock of the environment.
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) tasks: Tasks,
}

impl Plane {
    /// Starts with a manual clock at the present time, so that a certificate that is signed now is
    /// valid for the system clock too.
    pub(crate) async fn start() -> Self {
        let clock = Clock::manual(Clock::system().now());
        let env = TestEnv::builder().clock(clock.clone()).start().await;
        Self { client: env.kube(), env, clock, entropy: Entropy::seeded(2), tasks: Tasks::new() }
    }

    /// The objects of all namespaces, or of the cluster.
    pub(crate) fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// The objects of the default namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }
}

/// Waits until the object of this name is as expected.
pub(crate) async fn until<K>(api: &Api<K>, name: &str, is_expected: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    until_any(api, &format!("metadata.name={name}"), is_expected).await
}

/// Waits for the first object with these fields that is as expected.
pub(crate) async fn until_any<K>(api: &Api<K>, fields: &str, is_expected: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    let waiting = async {
        loop {
            let watch = WatchParams::default().fields(fields);
            let mut events = Box::pin(api.watch(&watch, "0").await.unwrap());
            while let Some(event) = futures_util::StreamExt::next(&mut events).await {
                if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event.unwrap()
                    && is_expected(&object)
                {
                    return object;
                }
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("an object is as expected")
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
