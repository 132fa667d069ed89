//! [`Session`]: a client, a namespace, and the results of the checks.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Resource};

/// The namespace of all checks.
pub const NAMESPACE: &str = "rust";

/// The timeout of a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// See the [module documentation](self).
pub struct Session {
    pub client: Client,
    pub failed: usize,
}

impl Session {
    /// Starts a session with the client of `$KUBECONFIG`.
    pub async fn start() -> Result<Self> {
        let client = Client::try_default().await?;
        let namespace = Namespace { metadata: named(NAMESPACE), ..Namespace::default() };
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
        Ok(Self { client, failed: 0 })
    }

    /// The objects of a kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Runs a check and prints its result.
    pub async fn check(&mut self, name: &str, check: impl Future<Output = Result<()>>) {
        let result = tokio::time::timeout(CHECK_TIMEOUT, check).await;
        let result = result.unwrap_or_else(|_| bail!("not done after {CHECK_TIMEOUT:?}"));
        match result {
            Ok(()) => println!("ok rust {name}"),
            Err(error) => {
                self.failed += 1;
                println!("FAIL rust {name}: {}", format!("{error:#}").replace('\n', " "));
            }
        }
    }
}

/// Metadata with a name, and a label `run` with the same value.
pub fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([("run".to_owned(), name.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

/// Fails unless the two are equal.
pub fn expect<A: PartialEq<B> + Debug, B: Debug>(what: &str, got: A, wanted: B) -> Result<()> {
    if got != wanted {
        bail!("{what}: got {got:?}, expected {wanted:?}");
    }
    Ok(())
}

/// Fails unless the response has a code, and a message that contains some words.
pub fn expect_refusal<T>(result: kube::Result<T>, code: u16, words: &str) -> Result<()> {
    match result.err().context("it was accepted")? {
        kube::Error::Api(status) => {
            expect("code", status.code, code)?;
            expect(&status.message, status.message.contains(words), true)
        }
        other => bail!(other),
    }
}
