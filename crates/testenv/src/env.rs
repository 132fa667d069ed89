//! [`TestEnv`]: a plane of one test.

use std::ops::Deref;
use std::time::Duration;

use serde::Serialize;

use crate::builder::TestEnvBuilder;
use crate::client::Client;
use crate::kubeconfig;
use apiserver::Server;
use apiserver::auth::authentication::User;
use keel::{Clock, Timestamp, UncleanStop};
use machinery::Value;

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The time of a manual clock when a plane starts: 2024-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp::from_seconds(1_704_067_200);

/// A running plane, and a client that may do everything.
///
/// The methods of [`Client`] can be called on the environment itself:
///
/// ```
/// # use testenv::TestEnv;
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let env = TestEnv::start().await;
/// let namespace = env.read("/api/v1/namespaces/default").await;
/// assert_eq!(namespace["status"]["phase"], "Active");
/// # });
/// ```
#[derive(Debug)]
pub struct TestEnv {
    server: Server,
    clock: Clock,
    client: Client,
}

impl TestEnv {
    /// Starts a plane in memory that does not listen. Its clock is a manual one that shows
    /// [`START`], and uids and generated names are the same in each run.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// A builder for a plane with other settings.
    pub fn builder() -> TestEnvBuilder {
        TestEnvBuilder::new()
    }

    pub(crate) fn new(server: Server, clock: Clock) -> Self {
        let client = Client::new(server.in_process_client());
        Self { server, clock, client }
    }

    /// The server, for example for its address.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The clock of the plane.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Advances the manual clock of the plane.
    pub fn advance(&self, duration: Duration) {
        self.clock.advance(duration);
    }

    /// A client that may do everything, for tasks that outlive a borrow of the environment.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client of the crate `kube` that may do everything, in the namespace `default`.
    ///
    /// ```
    /// # use testenv::TestEnv;
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use kube_client::Api;
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let env = TestEnv::start().await;
    /// let namespaces = Api::<Namespace>::all(env.kube());
    /// assert!(namespaces.get("default").await.is_ok());
    /// # });
    /// ```
    #[cfg(feature = "kube")]
    pub fn kube(&self) -> kube_client::Client {
        kube_client::Client::new(self.server.in_process_client(), "default")
    }

    /// A client of the crate `kube` that acts as a user, in the namespace `default`. A service account
    /// is in the groups of service accounts. What the user may do is decided by roles in a plane with
    /// [RBAC](TestEnvBuilder::rbac).
    ///
    /// ```
    /// # use testenv::TestEnv;
    /// use k8s_openapi::api::core::v1::Secret;
    /// use kube_client::{Api, api::ListParams};
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let env = TestEnv::builder().rbac().start().await;
    /// let site = env.kube_as("system:serviceaccount:operators:site");
    /// let refused = Api::<Secret>::all(site).list(&ListParams::default()).await;
    /// assert!(refused.unwrap_err().to_string().contains("forbidden"));
    /// # });
    /// ```
    #[cfg(feature = "kube")]
    pub fn kube_as(&self, name: &str) -> kube_client::Client {
        let service = self.server.in_process_client().for_user(user(name));
        kube_client::Client::new(service, "default")
    }

    /// A client that acts as a user, like `kube_as`.
    ///
    /// ```
    /// # use testenv::TestEnv;
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let env = TestEnv::builder().rbac().start().await;
    /// let (code, _) = env.client_as("bob").get("/api/v1/secrets").await;
    /// assert_eq!(code, 403);
    /// # });
    /// ```
    pub fn client_as(&self, name: &str) -> Client {
        self.client.as_user(user(name))
    }

    /// Creates a `CustomResourceDefinition` and waits until its first served version is served.
    ///
    /// ```
    /// # use {machinery::json, testenv::TestEnv};
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let env = TestEnv::start().await;
    /// env.install_crd(&json!({
    ///     "metadata": {"name": "boats.example.com"},
    ///     "spec": {
    ///         "group": "example.com", "scope": "Cluster",
    ///         "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
    ///         "versions": [{"name": "v1", "served": true, "storage": true,
    ///             "schema": {"openAPIV3Schema": {"type": "object"}}}],
    ///     },
    /// }))
    /// .await;
    /// assert_eq!(env.read("/apis/example.com/v1/boats").await["kind"], "BoatList");
    /// # });
    /// ```
    pub async fn install_crd(&self, crd: &impl Serialize) {
        let crd = serde_json::to_value(crd).expect("a CRD is valid JSON");
        self.create(CRDS, &crd).await;
        self.until(&list_path(&crd), |code, _| code == 200).await;
    }

    /// A kubeconfig with a client certificate that may do everything. The plane must
    /// [listen](TestEnvBuilder::listen).
    pub fn kubeconfig(&self) -> String {
        kubeconfig::render(&self.server)
    }

    /// Lets requests finish, then stops the plane.
    pub async fn stop(self) -> Result<(), UncleanStop> {
        self.server.stop().await
    }
}

impl Deref for TestEnv {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// The authenticated user of a name, in the groups that a service account has.
fn user(name: &str) -> User {
    let account = name.strip_prefix("system:serviceaccount:");
    let groups = account.and_then(|account| account.split_once(':')).map(|(namespace, _)| {
        vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
    });
    User::authenticated(name, "", groups.unwrap_or_default())
}

/// The path of the objects of a CRD, in all namespaces and in its first served version.
pub(crate) fn list_path(crd: &Value) -> String {
    let spec = &crd["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    let version = versions.into_iter().find(|version| version["served"] == true);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = version.map(|version| text(&version["name"])).expect("a CRD serves a version");
    format!("/apis/{}/{version}/{}", text(&spec["group"]), text(&spec["names"]["plural"]))
}
