//! [`TestEnvBuilder`]: the settings of a plane that is not started yet.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use crate::env::{START, TestEnv};
use apiserver::server::Error;
use apiserver::{AuthorizerConfig, Config, Server, StoreConfig};
use keel::{Clock, Entropy};
use store::Store;

/// The settings of a [`TestEnv`].
///
/// ```
/// # use testenv::{TestEnv, TestEnvBuilder};
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let builder: TestEnvBuilder = TestEnv::builder().seed(7).listen();
/// let env = builder.config(|config| config.max_writes = 4).start().await;
/// assert!(env.kubeconfig().contains(&env.server().address().unwrap().to_string()));
/// # });
/// ```
#[must_use]
pub struct TestEnvBuilder {
    config: Config,
    store: Option<Arc<dyn Store>>,
}

impl TestEnvBuilder {
    pub(crate) fn new() -> Self {
        let clock = Clock::manual(START);
        let config = Config { clock, entropy: Entropy::seeded(1), ..Config::default() };
        Self { config, store: None }
    }

    /// Generates uids and names from `seed`; the default is 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.entropy = Entropy::seeded(seed);
        self
    }

    /// Uses `clock`, which the plane may share with others.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.config.clock = clock;
        self
    }

    /// Uses a manual clock that shows the present when it is made. Certificates of webhooks are
    /// dated by the clock of their operator and verified by the time of the machine, so a plane that
    /// calls webhooks of an operator with the same clock needs this one or the
    /// [system clock](Self::system_clock).
    ///
    /// ```
    /// # use testenv::TestEnv;
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let env = TestEnv::builder().manual_clock_at_present().start().await;
    /// let before = env.clock().now();
    /// env.advance(std::time::Duration::from_secs(9));
    /// assert_eq!(env.clock().now().seconds(), before.seconds() + 9);
    /// # });
    /// ```
    pub fn manual_clock_at_present(self) -> Self {
        self.clock(Clock::manual(Clock::system().now()))
    }

    /// Uses the system clock, which [`TestEnv::advance`] cannot advance.
    pub fn system_clock(self) -> Self {
        self.clock(Clock::system())
    }

    /// Listens on a free port of the loopback interface.
    pub fn listen(mut self) -> Self {
        self.config.listen = Some((Ipv4Addr::LOCALHOST, 0).into());
        self
    }

    /// Lets roles and their bindings decide what users may do, as in a cluster. A
    /// client of a user (`kube_as`) then has exactly the rights of its roles;
    /// `TestEnv::kube` may still do everything. The admission plugin
    /// `OwnerReferencesPermissionEnforcement`, which some clusters enable, is enabled: who sets a
    /// controller reference needs the permission to update the `finalizers` of the owner.
    ///
    /// ```
    /// # use testenv::TestEnv;
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let env = TestEnv::builder().rbac().start().await;
    /// assert_eq!(env.client_as("bob").get("/api/v1/namespaces").await.0, 403);
    /// # });
    /// ```
    pub fn rbac(mut self) -> Self {
        self.config.authorizers.push(AuthorizerConfig::Rbac);
        self.config.enabled_plugins.push("OwnerReferencesPermissionEnforcement".to_owned());
        self
    }

    /// Keeps objects and keys in `directory`, where another plane finds them later.
    pub fn data_dir(mut self, directory: &Path) -> Self {
        self.config.store = StoreConfig::Embedded(directory.to_owned());
        self
    }

    /// Keeps objects in a store of the test, which must have the [clock](Self::clock) of the plane.
    /// The store is closed when the plane stops.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Changes any other setting of the server.
    pub fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Starts the plane and returns when it is ready.
    pub async fn start(self) -> TestEnv {
        self.try_start().await.unwrap_or_else(|error| panic!("the plane does not start: {error:?}"))
    }

    /// Starts the plane, or returns the reason why it does not start.
    pub async fn try_start(self) -> Result<TestEnv, Error> {
        let clock = self.config.clock.clone();
        let server = match self.store {
            Some(store) => Server::start_on(self.config, store).await?,
            None => Server::start(self.config).await?,
        };
        Ok(TestEnv::new(server, clock))
    }
}

impl std::fmt::Debug for TestEnvBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestEnvBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}
