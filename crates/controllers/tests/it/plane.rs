//! [`Plane`]: an API server with controllers, for one test.

use std::ops::Deref;
use std::sync::Arc;

use crate::crash::Crash;
use controllers::{ControllerManager, ControllerManagerOptions, MetricsApi, Selection};
use keel::{Entropy, Tasks};
use runtime::Connect;
use testenv::{TestEnv, TestEnvBuilder};

/// See the [module documentation](self). The methods of [`TestEnv`] can be called on it.
pub(crate) struct Plane {
    env: TestEnv,
    /// Absent while the controllers are stopped.
    controllers: Option<ControllerManager>,
    options: ControllerManagerOptions,
}

impl Plane {
    /// A plane in memory with these controllers, as in `--controllers`.
    pub(crate) async fn start(controllers: &[&str]) -> Self {
        Self::start_with(TestEnv::builder(), controllers).await
    }

    /// A plane with other settings.
    pub(crate) async fn start_with(builder: TestEnvBuilder, controllers: &[&str]) -> Self {
        let metrics_api = MetricsApi::default();
        let builder = builder.config(|config| {
            config.authorizers.push(Arc::new(cluster::roles()).into());
            cluster::serve_metrics(config, &metrics_api);
        });
        let env = builder.start().await;
        let options = ControllerManagerOptions {
            tasks: Tasks::new(),
            selection: Selection::parse(controllers).unwrap(),
            connect: cluster::connect(env.server().in_process_client()),
            root_ca: env.server().watch_authority(),
            signers: cluster::signers(env.server()),
            metrics_api,
            simulated_storage: true,
            clock: env.clock().clone(),
            entropy: Entropy::seeded(2),
        };
        let controllers = Some(ControllerManager::start(options.clone()));
        Self { env, controllers, options }
    }

    /// Stops the controllers, and starts them again with empty caches.
    pub(crate) async fn restart_controllers(&mut self) {
        self.restart_with(Arc::clone(&self.options.connect)).await;
    }

    /// Restarts the controllers with connections that break at the crash.
    pub(crate) async fn restart_until(&mut self, crash: &Crash) {
        self.restart_with(crash.connect(&self.env)).await;
    }

    /// Restarts the controllers with other connections.
    pub(crate) async fn restart_with(&mut self, connect: Connect) {
        self.stop_controllers().await;
        let options = ControllerManagerOptions { connect, ..self.options.clone() };
        self.controllers = Some(ControllerManager::start(options));
    }

    /// Stops the controllers; the server goes on.
    pub(crate) async fn stop_controllers(&mut self) {
        if let Some(controllers) = self.controllers.take() {
            controllers.stop().await.unwrap();
        }
    }

    /// The manager of the controllers.
    pub(crate) fn controllers(&self) -> &ControllerManager {
        self.controllers.as_ref().unwrap()
    }

    /// Stops the controllers and then the server.
    pub(crate) async fn stop(mut self) {
        self.stop_controllers().await;
        self.env.stop().await.unwrap();
    }
}

impl Deref for Plane {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}
