//! [`Certificates`]: an operator's webhooks make their own certificates, share them among replicas
//! through a Secret, and exchange them long before they expire.
//!
//! ```text
//! Secret   ca.crt   the authorities, newest first      ca.key   of the newest
//!          tls.crt  what the servers show               tls.key
//! ```
//!
//! When two thirds of its life are over, the serving certificate is made anew, signed by the newest
//! authority. An authority gets a successor in the same way, and what it signed is shown on: the
//! successor is in every configuration's bundle for a day before anything is shown that it signed.
//! Only if there is nothing else to show, because the Secret was deleted for example, it signs at
//! once. What does not fit together in the Secret is made anew.
//!
//! Whoever writes the Secret first wins; the others take what they find. They look every ten
//! minutes, and whenever a configuration has other authorities than they know.

mod certificate_secret;

use std::{fmt, sync::Arc, time::Duration};

use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use keel::{Clock, Entropy, Tasks, Timestamp};
use kube_client::{Api, Client, api::PostParams};
use tokio::sync::{Mutex, watch};

use super::{
    injection::{InjectionTarget, Injector},
    serving::{ServingCertificate, ServingError},
};
use certificate_secret::CertificateSecret;

const DAY: Duration = Duration::from_hours(24);

/// How soon a replica notices what another one wrote, at the latest.
pub(super) const RECHECK: Duration = Duration::from_mins(10);

/// How soon a failure is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// As many replicas may write at once.
const TRIES: usize = 16;

/// What is made, and where it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateOptions {
    /// Of the Secret.
    pub namespace: String,
    /// Of the Secret.
    pub secret: String,
    /// Under which names and addresses the server is called.
    pub names: Vec<String>,
    /// How long an authority lives; at least three times as long as what it signs.
    pub authority_lifetime: Duration,
    /// How long a serving certificate lives.
    pub serving_lifetime: Duration,
}

impl CertificateOptions {
    /// For a server behind a Service, in the Secret `<service>-certificates` beside it.
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

/// Why there are no certificates.
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
///     Err(CertificateError::Secret(error)) => eprintln!("may it use its secret? {error}"),
///     Err(error) => eprintln!("{error}"),
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The operator needs get, create and update on its Secret.
    #[error("cannot read or write the secret")]
    Secret(#[source] kube_client::Error),
    /// Not expected; a name may be none.
    #[error("cannot make a certificate")]
    Make(#[source] rcgen::Error),
    /// Not expected: the certificate is our own.
    #[error("cannot use the certificate")]
    Serve(#[source] ServingError),
    /// Worth another try.
    #[error("other replicas keep writing the secret")]
    Contended,
}

/// See the [module documentation](self).
pub struct Certificates {
    manager: Arc<CertificateManager>,
    tasks: Tasks,
}

/// Looks after the Secret.
pub(super) struct CertificateManager {
    pub(super) client: Client,
    secrets: Api<Secret>,
    options: CertificateOptions,
    pub(super) clock: Clock,
    pub(super) entropy: Entropy,
    serving: ServingCertificate,
    /// The authorities, in PEM, as configurations need them.
    pub(super) bundle: watch::Sender<String>,
    /// One look at a time, so that the last one to look is the last one to show.
    looking: Mutex<()>,
}

impl Certificates {
    /// Reads or makes the certificates, and looks after them from now on as one of `tasks`.
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
            looking: Mutex::default(),
        });
        let due = manager.refresh().await?;
        let tasks = tasks.child("webhook certificates");
        let stop = tasks.shutdown();
        tasks.spawn("rotation", Arc::clone(&manager).rotate(due, stop));
        Ok(Self { manager, tasks })
    }

    /// What a server shows.
    pub fn serving(&self) -> ServingCertificate {
        self.manager.serving.clone()
    }

    /// The authorities that callers should trust, in PEM; changes when they do.
    pub fn bundle(&self) -> watch::Receiver<String> {
        self.manager.bundle.subscribe()
    }

    /// Writes the authorities into a configuration, whenever they change and whenever somebody
    /// overwrites them; also into one that is yet to be made. Others that it has are left in it for
    /// twenty minutes, for replicas that still show what those signed.
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
            let wake = due.clamp(now + RETRY, now + RECHECK);
            tokio::select! {
                () = self.clock.sleep_until(wake) => {}
                () = &mut stop => return,
            }
            due = match self.refresh().await {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(error = %error, "cannot look after the webhook certificates");
                    self.clock.now() + RETRY
                }
            };
        }
    }

    /// Brings the Secret up to date, shows what is in it, and says when to look again.
    pub(super) async fn refresh(&self) -> Result<Timestamp, CertificateError> {
        let _looking = self.looking.lock().await;
        let name = &self.options.secret;
        for _ in 0..TRIES {
            let secret = self.secrets.get_opt(name).await.map_err(CertificateError::Secret)?;
            let kept = CertificateSecret::renew(secret.as_ref(), &self.options, self.clock.now());
            let kept = kept.map_err(CertificateError::Make)?;
            let is_kept = secret.as_ref().is_some_and(|it| kept.is_in(it));
            if !is_kept && !self.write(secret, &kept).await? {
                continue;
            }
            self.serving.show(&kept.serving).map_err(CertificateError::Serve)?;
            let bundle = kept.bundle();
            self.bundle.send_if_modified(|present| {
                let changed = *present != bundle;
                *present = bundle;
                changed
            });
            return Ok(kept.due);
        }
        Err(CertificateError::Contended)
    }

    /// Whether it was ours that was written.
    async fn write(
        &self,
        secret: Option<Secret>,
        kept: &CertificateSecret,
    ) -> Result<bool, CertificateError> {
        let post = PostParams::default();
        let written = if let Some(mut secret) = secret {
            secret.data.get_or_insert_default().extend(kept.data());
            self.secrets.replace(&self.options.secret, &post, &secret).await
        } else {
            let name = Some(self.options.secret.clone());
            let metadata = ObjectMeta { name, ..ObjectMeta::default() };
            let type_ = Some("kubernetes.io/tls".to_owned());
            let secret = Secret { metadata, type_, data: Some(kept.data()), ..Secret::default() };
            self.secrets.create(&post, &secret).await
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube_client::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
            Err(error) => Err(CertificateError::Secret(error)),
        }
    }
}
