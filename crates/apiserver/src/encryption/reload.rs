//! [`Encryption`]: the encryption at rest of a plane, which follows its file of settings.
//!
//! With [`EncryptionSettings::reloads`], the file is [followed](Followed). A changed file takes
//! effect if it is valid and its plugins are healthy; otherwise the old providers remain, which is
//! logged and counted. Upstream: server/options/encryptionconfig/controller, which reads it every
//! minute.

use std::mem;
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use ring::digest::{SHA256, digest};
use tokio::sync::watch;

use super::EncryptionSettings;
use super::config_file::{self, Error};
use super::encrypted_store::{EncryptedStore, ValueCodec};
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
}

/// What providers need.
#[derive(Clone)]
struct Services {
    clock: Clock,
    entropy: Entropy,
    tasks: Tasks,
    changed: watch::Sender<()>,
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
        Ok(Self { settings: settings.cloned(), codec, services, loaded })
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
    pub(crate) async fn follow_file(self, metrics: EncryptionMetrics) {
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
                metrics.count_reload(false);
                continue;
            };
            let result = match load(settings, &bytes, self.codec.prefixes(), &self.services) {
                Ok(transformers) => self.replace(transformers).await,
                Err(error) => {
                    metrics.count_reload(false);
                    followed.fail(message_with_causes(&error));
                    followed.settle(hash);
                    continue;
                }
            };
            metrics.count_reload(result.is_ok());
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
            "a rule of encryption at rest names a resource that its API group does not have: correct it"
        );
    }
    let Services { clock, entropy, tasks, changed } = services;
    let plugin = |config| KmsProvider::start(config, clock, entropy, tasks, changed);
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
#[derive(Clone)]
pub(crate) struct EncryptionMetrics {
    reloads: Family<ReloadLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    status: &'static str,
}

impl EncryptionMetrics {
    /// Registers kube-apiserver's counter of reloads.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let reloads = Family::default();
        registry.register(
            "apiserver_encryption_config_controller_automatic_reloads_total",
            "Total number of reload successes and failures of encryption configuration split by apiserver identity",
            reloads.clone(),
        );
        Self { reloads }
    }

    fn count_reload(&self, succeeded: bool) {
        let status = if succeeded { "success" } else { "failure" };
        self.reloads.get_or_create(&ReloadLabels { status }).inc();
    }
}
