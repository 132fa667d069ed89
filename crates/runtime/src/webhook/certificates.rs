//! [`Certificates`]: an operator's webhooks make their own certificates, share them among replicas
//! through a Secret, and exchange them long before they expire.
//!
//! ```text
//! Secret   ca.crt   the authorities, newest first      ca.key   of the newest
//!          tls.crt  what the servers show               tls.key
//! ```
//!
//! When two thirds of its life are over, the serving certificate is made anew, signed by the newest
//! authority. An authority gets a successor in the same way, but signs on as long as its last
//! serving certificate is shown: the successor is in every configuration's bundle long before
//! anything is shown that it signed. Whoever writes the Secret first wins; the others take what
//! they find.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use keel::{Clock, Entropy, Tasks, Timestamp};
use kube_client::{Api, Client, api::PostParams};
use tokio::sync::watch;

use super::{
    authority::{self, Certified, Facts},
    injection::{Injector, Target},
    serving::{ServingCertificate, ServingError},
};

const DAY: Duration = Duration::from_hours(24);

/// How soon a replica notices what another one wrote.
const RECHECK: Duration = Duration::from_mins(10);

/// How soon a failure is tried again, and a new authority may sign.
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
    keeper: Arc<Keeper>,
    tasks: Tasks,
}

struct Keeper {
    client: Client,
    secrets: Api<Secret>,
    options: CertificateOptions,
    clock: Clock,
    entropy: Entropy,
    serving: ServingCertificate,
    /// The authorities, in PEM, as configurations need them.
    bundle: watch::Sender<String>,
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
        let keeper = Arc::new(Keeper {
            secrets: Api::namespaced(client.clone(), &options.namespace),
            client,
            options,
            clock: clock.clone(),
            entropy: entropy.clone(),
            serving: ServingCertificate::default(),
            bundle: watch::Sender::new(String::new()),
        });
        let due = keeper.look_after().await?;
        let tasks = tasks.child("webhook certificates");
        let stop = tasks.shutdown();
        tasks.spawn("rotation", Arc::clone(&keeper).rotate(due, stop));
        Ok(Self { keeper, tasks })
    }

    /// What a server shows.
    pub fn serving(&self) -> ServingCertificate {
        self.keeper.serving.clone()
    }

    /// The authorities that callers should trust, in PEM; changes when they do.
    pub fn bundle(&self) -> watch::Receiver<String> {
        self.keeper.bundle.subscribe()
    }

    /// Writes the authorities into a configuration, whenever they change and whenever somebody
    /// overwrites them; also into one that is yet to be made.
    pub fn inject(&self, target: Target) {
        let keeper = &self.keeper;
        let injector = Injector::new(&keeper.client, target, &keeper.clock, &keeper.entropy);
        let (bundle, stop) = (self.bundle(), self.tasks.shutdown());
        self.tasks.spawn("injection", injector.run(bundle, stop));
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("options", &self.keeper.options)
            .finish_non_exhaustive()
    }
}

impl Keeper {
    async fn rotate(self: Arc<Self>, mut due: Timestamp, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        loop {
            let now = self.clock.now();
            let wake = due.clamp(now + RETRY, now + RECHECK);
            tokio::select! {
                () = self.clock.sleep_until(wake) => {}
                () = &mut stop => return,
            }
            due = match self.look_after().await {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(error = %error, "cannot look after the webhook certificates");
                    self.clock.now() + RETRY
                }
            };
        }
    }

    /// Brings the Secret up to date, shows what is in it, and says when to look again.
    async fn look_after(&self) -> Result<Timestamp, CertificateError> {
        let name = &self.options.secret;
        for _ in 0..TRIES {
            let secret = self.secrets.get_opt(name).await.map_err(CertificateError::Secret)?;
            let found = secret.as_ref().and_then(Kept::read);
            let now = self.clock.now();
            let kept = Kept::renew(found.clone(), &self.options, now);
            let kept = kept.map_err(CertificateError::Make)?;
            if found.as_ref() != Some(&kept) && !self.write(secret, &kept).await? {
                continue;
            }
            self.serving.show(&kept.serving).map_err(CertificateError::Serve)?;
            let bundle = kept.bundle();
            self.bundle.send_if_modified(|present| {
                let changed = *present != bundle;
                *present = bundle;
                changed
            });
            return Ok(kept.due());
        }
        Err(CertificateError::Contended)
    }

    /// Whether it was ours that was written.
    async fn write(&self, secret: Option<Secret>, kept: &Kept) -> Result<bool, CertificateError> {
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

/// What the Secret holds.
#[derive(Clone, PartialEq, Eq)]
struct Kept {
    /// Newest first, and at least one.
    authorities: Vec<String>,
    /// Of the newest.
    authority_key: String,
    serving: Certified,
}

impl Kept {
    /// `None` if anything is missing or unreadable: then all is made anew.
    fn read(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
        let end = "-----END CERTIFICATE-----";
        let all = text("ca.crt")?;
        let authorities: Vec<String> = all
            .split_inclusive(end)
            .filter(|it| it.contains(end))
            .map(|it| format!("{}\n", it.trim()))
            .collect();
        if authorities.is_empty() || authorities.iter().any(|it| Facts::read(it).is_none()) {
            return None;
        }
        let serving = Certified { certificate: text("tls.crt")?, key: text("tls.key")? };
        Facts::read(&serving.certificate)?;
        Some(Self { authorities, authority_key: text("ca.key")?, serving })
    }

    /// What should be kept at this time.
    fn renew(
        found: Option<Self>,
        options: &CertificateOptions,
        now: Timestamp,
    ) -> Result<Self, rcgen::Error> {
        let authority_lifetime = options.authority_lifetime.max(3 * options.serving_lifetime);
        let is_alive = |pem: &String| Facts::read(pem).is_some_and(|it| now < it.not_after);
        let (mut authorities, mut authority_key, serving) = match found {
            Some(it) => (it.authorities, it.authority_key, Some(it.serving)),
            None => (Vec::new(), String::new(), None),
        };
        authorities.retain(is_alive);
        let newest = authorities.first().and_then(|it| Facts::read(it));
        let is_succeeded = newest.is_none_or(|it| it.is_due(now));
        if is_succeeded {
            let made = authority::authority(now, authority_lifetime)?;
            authorities.insert(0, made.certificate);
            authority_key = made.key;
        }
        let trusted: Vec<Facts> = authorities.iter().filter_map(|it| Facts::read(it)).collect();
        let is_good = |it: &Facts| {
            // What is due can wait until the new authority is in every bundle.
            let ends = if is_succeeded { it.not_after } else { it.due() };
            now < ends
                && it.names == options.names
                && trusted.iter().any(|authority| authority.subject == it.issuer)
        };
        let serving = match serving {
            Some(it) if Facts::read(&it.certificate).is_some_and(|it| is_good(&it)) => it,
            _ => {
                let certificate = authorities[0].clone();
                let newest = Certified { certificate, key: authority_key.clone() };
                authority::serving(&newest, &options.names, now, options.serving_lifetime)?
            }
        };
        Ok(Self { authorities, authority_key, serving })
    }

    fn bundle(&self) -> String {
        self.authorities.concat()
    }

    fn due(&self) -> Timestamp {
        let first = Facts::read(&self.authorities[0]).map(|it| it.due());
        let serving = Facts::read(&self.serving.certificate).map(|it| it.due());
        first.into_iter().chain(serving).min().unwrap_or(Timestamp::from_seconds(0))
    }

    fn data(&self) -> BTreeMap<String, ByteString> {
        let parts = [
            ("ca.crt", self.bundle()),
            ("ca.key", self.authority_key.clone()),
            ("tls.crt", self.serving.certificate.clone()),
            ("tls.key", self.serving.key.clone()),
        ];
        parts.map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes()))).into()
    }
}
