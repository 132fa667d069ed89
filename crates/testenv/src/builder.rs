//! [`TestEnvBuilder`]: the settings of a plane that is not started yet.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use crate::env::{START, TestEnv};
use apiserver::server::Error;
use apiserver::{Config, Server, StoreConfig};
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

    /// Uses the system clock, which [`TestEnv::advance`] cannot advance.
    pub fn system_clock(self) -> Self {
        self.clock(Clock::system())
    }

    /// Listens on a free port of the loopback interface.
    pub fn listen(mut self) -> Self {
        self.config.listen = Some((Ipv4Addr::LOCALHOST, 0).into());
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
