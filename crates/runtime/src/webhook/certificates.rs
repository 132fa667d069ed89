//! [`Certificates`]: the certificates of an operator's webhooks, which are shared by its replicas
//! through a Secret and rotated before they expire.
//!
//! ```text
//! Secret   ca.crt   the CA certificates, newest first   ca.key   the key of the newest CA
//!          tls.crt  the serving certificate             tls.key
//! ```
//!
//! After two thirds of its lifetime, the serving certificate is replaced by one that the newest CA
//! signs. A CA gets a successor in the same way: the successor is in the bundle of every
//! configuration for a day before it signs. If there is no valid serving certificate, for instance
//! because the Secret was deleted, the CA signs at once. Inconsistent content of the Secret is
//! replaced.
//!
//! The first replica that writes the Secret wins; the others use its content. They read the Secret
//! every ten minutes, and when a configuration has a CA that they do not know.

mod certificate_secret;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_client::api::PostParams;
use kube_client::{Api, Client};
use tokio::sync::{Mutex, watch};

use super::injection::{InjectionTarget, Injector};
use super::serving::{ServingCertificate, ServingError};
use certificate_secret::CertificateSecret;
use keel::{Clock, Entropy, Tasks, Timestamp};

const DAY: Duration = Duration::from_hours(24);

/// The longest time between two reads of the Secret, which another replica may have written.
pub(super) const MAX_REFRESH_INTERVAL: Duration = Duration::from_mins(10);

/// The delay after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// The number of attempts if replicas write concurrently.
const MAX_ATTEMPTS: usize = 16;

/// The options of [`Certificates`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateOptions {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub secret: String,
    /// The names and addresses of the server.
    pub names: Vec<String>,
    /// The lifetime of a CA; at least three times that of a serving certificate.
    pub authority_lifetime: Duration,
    /// The lifetime of a serving certificate.
    pub serving_lifetime: Duration,
}

impl CertificateOptions {
    /// For a server behind a Service, in the Secret `<service>-certificates` of the same namespace.
    pub fn of_service(namespace: &str, service: &str) -> Self {
        let names = ["", ".cluster.local"].map(|end| format!("{service}.{namespace}.svc{end}"));
        Self {
            namespace: namespace.to_owned(),
            secret: format!("{service}-certificates"),
            names: names.to_vec(),
            authority_lifetime: 365 * DAY,
            serving_lifetime: 90 * DAY,
        }
    }
}

/// The reason why there are no certificates.
///
/// ```no_run
/// # use runtime::{Client, keel::{Clock, Entropy, Tasks}};
/// use runtime::webhook::{CertificateError, CertificateOptions, Certificates};
///
/// # async fn example(client: Client) {
/// # let (clock, entropy, tasks) = (Clock::system(), Entropy::system(), Tasks::new());
/// let options = CertificateOptions::of_service("operators", "my-webhook");
/// match Certificates::start(client, options, &clock, &entropy, &tasks).await {
///     Ok(certificates) => println!("{}", *certificates.bundle().borrow()), // for `caBundle`
///     Err(CertificateError::Secret(error)) => eprintln!("no access to the Secret: {error}"),
///     Err(error) => eprintln!("{error}"),
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The operator needs get, create and update on its Secret.
    #[error("cannot read or write the secret")]
    Secret(#[source] kube_client::Error),
    /// Create the namespace.
    #[error("the namespace of the secret does not exist: run `kubectl create namespace {0}`")]
    NoNamespace(String),
    /// A certificate cannot be issued, for instance because a name is not valid.
    #[error("cannot issue a certificate")]
    Issue(#[source] tls::IssueError),
    /// The certificate cannot be served; not expected.
    #[error("cannot use the certificate")]
    Serve(#[source] ServingError),
    /// Other replicas have written the Secret too often: try again.
    #[error("other replicas keep writing the secret")]
    Contended,
}

/// See the [module documentation](self).
pub struct Certificates {
    manager: Arc<CertificateManager>,
    tasks: Tasks,
}

/// Maintains the Secret.
pub(super) struct CertificateManager {
    pub(super) client: Client,
    secrets: Api<Secret>,
    options: CertificateOptions,
    pub(super) clock: Clock,
    pub(super) entropy: Entropy,
    serving: ServingCertificate,
    /// The CA certificates in PEM, for configurations.
    pub(super) bundle: watch::Sender<String>,
    /// Held by a refresh, so that refreshes do not overlap.
    refresh_lock: Mutex<()>,
}

impl Certificates {
    /// Reads or makes the certificates, and maintains them as one of `tasks`.
    pub async fn start(
        client: Client,
        options: CertificateOptions,
        clock: &Clock,
        entropy: &Entropy,
        tasks: &Tasks,
    ) -> Result<Self, CertificateError> {
        let manager = Arc::new(CertificateManager {
            secrets: Api::namespaced(client.clone(), &options.namespace),
            client,
            options,
            clock: clock.clone(),
            entropy: entropy.clone(),
            serving: ServingCertificate::default(),
            bundle: watch::Sender::new(String::new()),
            refresh_lock: Mutex::default(),
        });
        let due = manager.refresh().await?;
        let tasks = tasks.child("webhook certificates");
        let stop = tasks.shutdown();
        tasks.spawn("rotation", Arc::clone(&manager).rotate(due, stop));
        Ok(Self { manager, tasks })
    }

    /// The certificate for a server.
    pub fn serving(&self) -> ServingCertificate {
        self.manager.serving.clone()
    }

    /// The CA certificates that callers should trust, in PEM; changes when they do.
    pub fn bundle(&self) -> watch::Receiver<String> {
        self.manager.bundle.subscribe()
    }

    /// Writes the CA certificates into a configuration when they or the configuration change, also
    /// into one that is created later. Other CA certificates stay in the configuration for twenty
    /// minutes, for replicas that still serve certificates signed by them.
    pub fn inject(&self, target: InjectionTarget) {
        let injector = Injector::new(&self.manager, target);
        self.tasks.spawn("injection", injector.run(self.tasks.shutdown()));
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("options", &self.manager.options)
            .finish_non_exhaustive()
    }
}

impl CertificateManager {
    async fn rotate(self: Arc<Self>, mut due: Timestamp, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        loop {
            let now = self.clock.now();
            let wake = due.clamp(now + RETRY_DELAY, now + MAX_REFRESH_INTERVAL);
            tokio::select! {
                () = self.clock.sleep_until(wake) => {}
                () = &mut stop => return,
            }
            due = match self.refresh().await {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(error = %error, "cannot refresh the webhook certificates");
                    self.clock.now() + RETRY_DELAY
                }
            };
        }
    }

    /// Updates the Secret, serves its content, and returns the time of the next refresh.
    pub(super) async fn refresh(&self) -> Result<Timestamp, CertificateError> {
        let _guard = self.refresh_lock.lock().await;
        let name = &self.options.secret;
        for _ in 0..MAX_ATTEMPTS {
            let secret = self.secrets.get_opt(name).await.map_err(CertificateError::Secret)?;
            let content =
                CertificateSecret::renew(secret.as_ref(), &self.options, self.clock.now());
            let content = content.map_err(CertificateError::Issue)?;
            let is_current = secret.as_ref().is_some_and(|it| content.is_in(it));
            if !is_current && !self.write(secret, &content).await? {
                continue;
            }
            self.serving.set(&content.serving).map_err(CertificateError::Serve)?;
            let bundle = content.bundle();
            self.bundle.send_if_modified(|present| {
                let changed = *present != bundle;
                *present = bundle;
                changed
            });
            return Ok(content.due);
        }
        Err(CertificateError::Contended)
    }

    /// Writes the Secret; returns false if another replica has written it.
    async fn write(
        &self,
        secret: Option<Secret>,
        content: &CertificateSecret,
    ) -> Result<bool, CertificateError> {
        let post = PostParams::default();
        let is_creation = secret.is_none();
        let written = if let Some(mut secret) = secret {
            secret.data.get_or_insert_default().extend(content.data());
            self.secrets.replace(&self.options.secret, &post, &secret).await
        } else {
            let name = Some(self.options.secret.clone());
            let metadata = ObjectMeta { name, ..ObjectMeta::default() };
            let type_ = Some("kubernetes.io/tls".to_owned());
            let secret =
                Secret { metadata, type_, data: Some(content.data()), ..Secret::default() };
            self.secrets.create(&post, &secret).await
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube_client::Error::Api(status)) if is_creation && status.code == 404 => {
                Err(CertificateError::NoNamespace(self.options.namespace.clone()))
            }
            Err(kube_client::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
            Err(error) => Err(CertificateError::Secret(error)),
        }
    }
}
