//! [`Encryption`]: the encryption at rest of a plane, which follows its file of settings.
//!
//! With [`EncryptionSettings::reloads`], the file is [followed](Followed). A changed file takes
//! effect if it is valid and its plugins are healthy; otherwise the old providers remain, which is
//! logged and counted. Upstream: server/options/encryptionconfig/controller, which reads it every
//! minute.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use ring::digest::{SHA256, digest};
use tokio::sync::watch;

use super::EncryptionSettings;
use super::config_file::{self, Error};
use super::encrypted_store::{EncryptedStore, ValueCodec};
use super::envelope_metrics::{EnvelopeMetrics, seconds};
use super::kms::KmsProvider;
use super::storage_prefixes::StoragePrefixes;
use super::transformers::Transformers;
use crate::config_files::followed::Followed;
use crate::metrics::Counter;
use keel::{Clock, Entropy, Tasks, message_with_causes};
use store::Store;
use types::Resource;

/// See the [module documentation](self).
pub(crate) struct Encryption {
    settings: Option<EncryptionSettings>,
    codec: Arc<ValueCodec>,
    services: Services,
    /// The hash of the file at the start.
    loaded: Vec<u8>,
    reloads: ReloadMetrics,
}

/// What providers need.
#[derive(Clone)]
pub(super) struct Services {
    pub clock: Clock,
    /// The source of the uids of calls.
    pub entropy: Entropy,
    pub tasks: Tasks,
    /// Notified when values may have become readable.
    pub changed: watch::Sender<()>,
    pub metrics: EnvelopeMetrics,
}

impl Encryption {
    /// Reads the file, and asks its plugins for their status, which need not be healthy.
    pub(crate) async fn start(
        settings: Option<&EncryptionSettings>,
        builtin: &[Resource],
        clock: &Clock,
        entropy: &Entropy,
        tasks: &Tasks,
    ) -> Result<Self, Error> {
        let services = Services {
            clock: clock.clone(),
            entropy: entropy.clone(),
            tasks: tasks.clone(),
            changed: watch::Sender::new(()),
            metrics: EnvelopeMetrics::new(clock),
        };
        let prefixes = StoragePrefixes::new(builtin);
        let (transformers, loaded) = match settings {
            None => (Transformers::default(), Vec::new()),
            Some(settings) => {
                let bytes = config_file::read(&settings.path)?;
                (load(settings, &bytes, &prefixes, &services)?, hash(&bytes))
            }
        };
        for plugin in &transformers.plugins {
            plugin.update_status().await;
        }
        let codec = Arc::new(ValueCodec::new(prefixes, transformers));
        let reloads = ReloadMetrics::default();
        Ok(Self { settings: settings.cloned(), codec, services, loaded, reloads })
    }

    /// Registers the metrics of plugins and reloads.
    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        self.services.metrics.register(registry);
        self.reloads.register(registry);
    }

    /// `store` with encrypted values.
    pub(crate) fn wrap(&self, store: Arc<dyn Store>) -> Arc<EncryptedStore> {
        Arc::new(EncryptedStore::new(store, Arc::clone(&self.codec)))
    }

    /// Notified when unreadable values may have become readable; None if that cannot happen.
    pub(crate) fn subscribe(&self) -> Option<watch::Receiver<()>> {
        self.settings.as_ref().map(|_| self.services.changed.subscribe())
    }

    /// The health check `kms-providers`; None if there is nothing to check.
    pub(crate) fn health_check(
        &self,
    ) -> Option<impl Fn() -> Result<(), String> + Send + Sync + 'static> {
        let reloads = self.settings.as_ref().is_some_and(|it| it.reloads);
        if !reloads && self.codec.transformers().plugins.is_empty() {
            return None;
        }
        let codec = Arc::clone(&self.codec);
        Some(move || check_plugins(&codec.transformers().plugins))
    }

    /// Follows the file until the plane stops.
    pub(crate) async fn follow_file(self) {
        let Some(settings) = self.settings.as_ref().filter(|it| it.reloads) else { return };
        let Services { clock, tasks, .. } = &self.services;
        let name = "configuration of encryption";
        let mut followed = Followed::new(name, clock, tasks, Some(self.loaded.clone()));
        let mut bytes = Vec::new();
        loop {
            let read = || {
                bytes = config_file::read(&settings.path)?;
                Ok::<_, Error>(Some(hash(&bytes)))
            };
            let Some(change) = followed.changed(read).await else { return };
            let bytes = mem::take(&mut bytes);
            let Ok(hash) = change else {
                self.reloads.count(false, clock);
                continue;
            };
            let result = match load(settings, &bytes, self.codec.prefixes(), &self.services) {
                Ok(transformers) => self.replace(transformers).await,
                Err(error) => {
                    self.reloads.count(false, clock);
                    followed.fail(message_with_causes(&error));
                    followed.settle(hash);
                    continue;
                }
            };
            self.reloads.count(result.is_ok(), clock);
            match result {
                Ok(()) => {
                    followed.settle(hash);
                    tracing::info!(path = %settings.path.display(), "encryption providers were reloaded");
                }
                Err(error) => drop(followed.fail(error)),
            }
        }
    }

    /// Replaces the providers, unless a new plugin is not healthy.
    async fn replace(&self, transformers: Transformers) -> Result<(), String> {
        for plugin in &transformers.plugins {
            plugin.update_status().await;
        }
        check_plugins(&transformers.plugins)?;
        self.codec.replace(transformers);
        self.services.changed.send_replace(());
        Ok(())
    }
}

/// The providers of a file.
fn load(
    settings: &EncryptionSettings,
    bytes: &[u8],
    prefixes: &StoragePrefixes,
    services: &Services,
) -> Result<Transformers, Error> {
    let invalid = |why| Error::Invalid { path: settings.path.clone(), why };
    let rules = config_file::parse(bytes).map_err(invalid)?;
    config_file::warn_about_mode(&settings.path);
    for resource in rules.iter().flat_map(|it| &it.resources).filter(|it| prefixes.lacks(it)) {
        tracing::warn!(
            %resource,
            path = %settings.path.display(),
            "a rule of encryption at rest names a resource that does not exist in its API group and encrypts nothing: if it is misspelled, the objects that it should encrypt are stored in plaintext; correct it, and write them again"
        );
    }
    let plugin = |config| KmsProvider::start(config, services);
    Transformers::new(rules, plugin).map_err(invalid)
}

/// The errors of plugins, by their index.
fn check_plugins(plugins: &[Arc<KmsProvider>]) -> Result<(), String> {
    let checks =
        plugins.iter().enumerate().filter_map(|(index, it)| Some((index, it.check().err()?)));
    let errors: Vec<String> =
        checks.map(|(index, why)| format!("kms-provider-{index}: {why}")).collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(machinery::status::aggregate_messages(errors))
}

/// Compares files without keeping their keys.
fn hash(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}

/// Counts reloads of the file.
#[derive(Clone, Default)]
struct ReloadMetrics {
    total: Family<ReloadLabels, Counter>,
    last: Family<ReloadLabels, Gauge<f64, AtomicU64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    status: &'static str,
}

impl ReloadMetrics {
    fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("apiserver_encryption_config_controller");
        registry.register(
            "automatic_reloads_total",
            "Reloads of the configuration of encryption that succeeded or failed",
            self.total.clone(),
        );
        registry.register(
            "automatic_reload_last_timestamp_seconds",
            "Time of the last reload of the configuration of encryption that succeeded or failed",
            self.last.clone(),
        );
    }

    fn count(&self, succeeded: bool, clock: &Clock) {
        let labels = ReloadLabels { status: if succeeded { "success" } else { "failure" } };
        self.last.get_or_create(&labels).set(seconds(clock.now()));
        self.total.get_or_create(&labels).inc();
    }
}
