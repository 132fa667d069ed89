//! [`Plane`]: an API server with controllers, for one test.

use std::ops::Deref;
use std::sync::Arc;

use crate::crash;
use apiserver::auth::authentication::User;
use apiserver::auth::authorization::fixed_roles::FixedRoles;
use controllers::{ControllerManager, ControllerManagerOptions, Selection};
use keel::Entropy;
use runtime::client::{Connect, Identity};
use testenv::{TestEnv, TestEnvBuilder};

/// See the [module documentation](self). The methods of [`TestEnv`] can be called on it.
pub(crate) struct Plane {
    env: TestEnv,
    /// Absent only while the controllers are restarted.
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
        let roles = controllers::roles().into_iter();
        let roles = roles.map(|role| (role.identity.user, role.rules.to_vec()));
        let roles = Arc::new(FixedRoles::new(roles));
        let env = builder.config(|config| config.authorizers.push(roles)).start().await;
        let options = ControllerManagerOptions {
            selection: Selection::parse(controllers).unwrap(),
            connect: connect(&env),
            root_ca: env.server().authority().to_owned(),
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

    /// Restarts the controllers with a connection that breaks after this number of writes: the last
    /// of them is done, but its response is lost, and later requests fail.
    pub(crate) async fn restart_until_crash(&mut self, writes: usize) {
        self.restart_with(crash::connect_until_crash(&self.env, writes)).await;
    }

    async fn restart_with(&mut self, connect: Connect) {
        if let Some(controllers) = self.controllers.take() {
            controllers.stop().await.unwrap();
        }
        let options = ControllerManagerOptions { connect, ..self.options.clone() };
        self.controllers = Some(ControllerManager::start(options));
    }

    /// The manager of the controllers.
    pub(crate) fn controllers(&self) -> &ControllerManager {
        self.controllers.as_ref().unwrap()
    }

    /// Stops the controllers and then the server.
    pub(crate) async fn stop(self) {
        self.controllers.unwrap().stop().await.unwrap();
        self.env.stop().await.unwrap();
    }
}

impl Deref for Plane {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

/// Clients of the plane in the same process.
fn connect(env: &TestEnv) -> Connect {
    let client = env.server().in_process_client();
    Arc::new(move |identity: &Identity| {
        let user = User::authenticated(&identity.user, "", identity.groups.clone());
        kube_client::Client::new(client.for_user(user), "default")
    })
}
