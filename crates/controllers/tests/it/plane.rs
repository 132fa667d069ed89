//! [`Plane`]: an API server with controllers, for one test.

use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use apiserver::auth::authentication::User;
use apiserver::auth::authentication::service_account::LegacyClaims;
use apiserver::auth::authorization::fixed_roles::FixedRoles;
use controllers::signers::{ApprovedRequest, TokenSubject};
use controllers::{ControllerManager, ControllerManagerOptions, MetricsApi, Selection, Signers};
use keel::Entropy;
use runtime::client::{Connect, Identity};
use testenv::{TestEnv, TestEnvBuilder};

/// See the [module documentation](self). The methods of [`TestEnv`] can be called on it.
pub(crate) struct Plane {
    env: TestEnv,
    controllers: ControllerManager,
    metrics_api: MetricsApi,
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
        let metrics_api = MetricsApi::default();
        let metrics = metrics_api.clone();
        let env = builder
            .config(|config| {
                config.authorizers.push(roles);
                let (namespace, name) = MetricsApi::SERVICE;
                let service = move |request| -> Pin<Box<dyn Future<Output = _> + Send>> {
                    let metrics = metrics.clone();
                    Box::pin(async move { metrics.respond(request).await })
                };
                config.in_process_services.add(namespace, name, Arc::new(service));
            })
            .start()
            .await;
        let controllers = start_controllers(&env, controllers, &metrics_api);
        Self { env, controllers, metrics_api }
    }

    /// Stops the controllers, so that others can be started with the same server.
    pub(crate) async fn stop_controllers(&mut self) {
        let none = start_controllers(&self.env, &["none"], &self.metrics_api);
        std::mem::replace(&mut self.controllers, none).stop().await.unwrap();
    }

    /// Starts controllers after [`stop_controllers`](Self::stop_controllers).
    pub(crate) async fn restart_controllers(&mut self, controllers: &[&str]) {
        let new = start_controllers(&self.env, controllers, &self.metrics_api);
        std::mem::replace(&mut self.controllers, new).stop().await.unwrap();
    }

    /// The manager of the controllers.
    pub(crate) fn controllers(&self) -> &ControllerManager {
        &self.controllers
    }

    /// Stops the controllers and then the server.
    pub(crate) async fn stop(self) {
        self.controllers.stop().await.unwrap();
        self.env.stop().await.unwrap();
    }
}

impl Deref for Plane {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

fn start_controllers(
    env: &TestEnv,
    controllers: &[&str],
    metrics_api: &MetricsApi,
) -> ControllerManager {
    ControllerManager::start(ControllerManagerOptions {
        selection: Selection::parse(controllers).unwrap(),
        connect: connect(env),
        root_ca: env.server().authority().to_owned(),
        signers: signers(env),
        metrics_api: metrics_api.clone(),
        clock: env.clock().clone(),
        entropy: Entropy::seeded(2),
    })
}

/// Clients of the plane in the same process.
fn connect(env: &TestEnv) -> Connect {
    let client = env.server().in_process_client();
    Arc::new(move |identity: &Identity| {
        let user = User::authenticated(&identity.user, "", identity.groups.clone());
        kube_client::Client::new(client.for_user(user), "default")
    })
}

/// The keys of the plane.
fn signers(env: &TestEnv) -> Signers {
    let (token_keys, certificate_keys) = (env.server().signing_keys(), env.server().signing_keys());
    Signers {
        token: Arc::new(move |subject: &TokenSubject| {
            let claims = LegacyClaims {
                namespace: subject.namespace.clone(),
                name: subject.account.clone(),
                uid: subject.account_uid.clone(),
                secret: subject.secret.clone(),
            };
            token_keys.sign_legacy_token(&claims).ok_or_else(|| "cannot sign".into())
        }),
        certificate: Arc::new(move |approved: &ApprovedRequest| {
            let ApprovedRequest { request, usages, lifetime } = approved;
            Ok(certificate_keys.sign_certificate(request, usages, *lifetime)?)
        }),
    }
}
