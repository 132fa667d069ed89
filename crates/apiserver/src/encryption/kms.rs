//! [`KmsProvider`]: the provider `kms`, whose keys a plugin encrypts.
//!
//! The server generates a random seed and lets the plugin encrypt it. Each value is encrypted with a
//! key of its own, which HKDF derives from the seed and random bytes in the value; the encrypted seed
//! is stored with each value. The plugin is called once for each seed, not for each value:
//!
//! ```text
//! status, every minute ─▶ key_id has changed ─▶ new seed ─▶ encrypt ─▶ WriteState
//! write: WriteState                  read: seeds by their encrypted form, else decrypt
//! ```
//!
//! A plugin that fails is asked again every ten seconds. Writes continue for three minutes after its
//! last healthy status, reads of known seeds for ever. Upstream: server/options/encryptionconfig and
//! storage/value/encrypt/envelope/kmsv2.

mod client;
mod messages;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use prost::Message;
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use tokio::sync::{Notify, watch};

use super::ciphers::{Gcm, fill_random};
use super::config_file::KmsConfig;
use super::envelope_metrics::{EnvelopeMetrics, Transformation};
use super::reload::Services;
use super::transformers::Opened;
use client::KmsClient;
use keel::{Clock, ClockInstant, Entropy};
use messages::{DecryptRequest, EncryptedObject, HKDF_SEED, StatusResponse, validate_key_id};

/// The interval of calls of `Status` while the plugin is healthy.
const HEALTHY_INTERVAL: Duration = Duration::from_mins(1);

/// The interval of calls of `Status` while the plugin is not healthy.
const UNHEALTHY_INTERVAL: Duration = Duration::from_secs(10);

/// The time after a healthy status for which the seed may encrypt.
const WRITE_LIFETIME: Duration = Duration::from_mins(3);

/// The age of a status after which a health check asks for a new one.
const HEALTHY_AGE: Duration = Duration::from_secs(20);
const UNHEALTHY_AGE: Duration = Duration::from_secs(3);

/// The time for which a seed that cannot be decrypted is not tried again: a list of many values must
/// not wait for the time-out of each.
const FAILURE_LIFETIME: Duration = Duration::from_secs(5);

/// The maximum number of decrypted seeds. There is one for each start of a server and each key.
const MAX_SEEDS: usize = 10_000;

/// The size of a seed, of the random bytes in a value, and of a derived key.
const SIZE: usize = 32;

/// See the [module documentation](self).
pub(super) struct KmsProvider {
    name: String,
    /// `k8s:enc:kms:v2:<name>:`.
    prefix: String,
    client: KmsClient,
    clock: Clock,
    /// The source of the uids of calls.
    entropy: Entropy,
    /// Encrypts; None until the plugin was healthy for the first time.
    write_state: ArcSwapOption<WriteState>,
    /// The decrypted sources of keys, by [`EncryptedObject::source`]. Not locked across an await.
    sources: Mutex<HashMap<Vec<u8>, KnownSource>>,
    /// Not locked across an await.
    last_status: Mutex<LastStatus>,
    /// The version that the plugin had first.
    version: OnceLock<String>,
    status_requested: Arc<Notify>,
    /// Notified when values may have become readable.
    changed: watch::Sender<()>,
    metrics: EnvelopeMetrics,
}

/// The state of the plugin at the last call of `Status`.
struct LastStatus {
    result: Result<(), String>,
    at: ClockInstant,
}

/// The seed that encrypts.
struct WriteState {
    seed: Prk,
    /// What is stored with each value; without data.
    envelope: EncryptedObject,
    /// The time of the last healthy status with the key of `envelope`.
    confirmed: ClockInstant,
}

/// The result of the decryption of a source of keys.
enum KnownSource {
    Decrypted(DataKeys),
    Failed { why: String, at: ClockInstant },
}

/// Decrypts values.
#[derive(Clone)]
enum DataKeys {
    /// The key of all values.
    One(Arc<Gcm>),
    /// A key for each value.
    Derived(Prk),
}

/// The length of a derived key.
struct DerivedKey;

impl KeyType for DerivedKey {
    fn len(&self) -> usize {
        SIZE
    }
}

impl KmsProvider {
    /// A provider that calls the plugin in the background.
    pub(super) fn start(config: KmsConfig, services: &Services) -> Arc<Self> {
        let Services { clock, entropy, tasks, changed, metrics } = services;
        let status_requested = Arc::new(Notify::new());
        let not_asked = Err("the plugin was not asked yet".to_owned());
        let provider = Arc::new(Self {
            prefix: format!("k8s:enc:kms:v2:{}:", config.name),
            client: KmsClient::new(&config, tasks, metrics),
            name: config.name,
            clock: clock.clone(),
            entropy: entropy.clone(),
            write_state: ArcSwapOption::empty(),
            sources: Mutex::default(),
            last_status: Mutex::new(LastStatus { result: not_asked, at: clock.instant() }),
            version: OnceLock::new(),
            status_requested: Arc::clone(&status_requested),
            changed: changed.clone(),
            metrics: metrics.clone(),
        });
        let (stop, clock) = (tasks.shutdown(), clock.clone());
        let weak = Arc::downgrade(&provider);
        let polling = async move {
            loop {
                let interval = match weak.upgrade() {
                    // The configuration has another provider now.
                    None => return,
                    Some(provider) => provider.interval(),
                };
                tokio::select! {
                    () = clock.sleep(interval) => {}
                    () = status_requested.notified() => {}
                }
                let Some(provider) = weak.upgrade() else { return };
                provider.update_status().await;
            }
        };
        tasks.spawn("kms-status", async move {
            tokio::select! {
                () = polling => {}
                () = stop => {}
            }
        });
        provider
    }

    fn interval(&self) -> Duration {
        if self.status().result.is_ok() { HEALTHY_INTERVAL } else { UNHEALTHY_INTERVAL }
    }

    /// The prefix of the values of this provider.
    pub(super) fn prefix(&self) -> &[u8] {
        self.prefix.as_bytes()
    }

    /// Why the plugin is not healthy. An old status is renewed in the background.
    pub(super) fn check(&self) -> Result<(), String> {
        let status = self.status();
        let max_age = if status.result.is_ok() { HEALTHY_AGE } else { UNHEALTHY_AGE };
        if self.clock.elapsed_since(&status.at) >= max_age {
            self.status_requested.notify_one();
        }
        status.result.clone()
    }

    /// Asks the plugin for its status, and has a new seed encrypted if its key has changed.
    pub(super) async fn update_status(&self) {
        let result = self.ask_status().await;
        let was_healthy = self.status().result.is_ok();
        match &result {
            Err(why) => {
                tracing::warn!(name = self.name, why, "a KMS plugin is not healthy");
            }
            Ok(()) if !was_healthy => {
                // Values that could not be decrypted are tried again at once.
                let mut sources = self.sources();
                sources.retain(|_, it| matches!(it, KnownSource::Decrypted(_)));
            }
            Ok(()) => {}
        }
        let is_healthy = result.is_ok();
        *self.status() = LastStatus { result, at: self.clock.instant() };
        if is_healthy && !was_healthy {
            self.changed.send_replace(());
        }
    }

    async fn ask_status(&self) -> Result<(), String> {
        let name = &self.name;
        // Before the call, so that the lifetime is an upper bound.
        let asked = self.clock.instant();
        let status = self.client.status().await.map_err(|why| {
            format!(
                "failed to perform status section of the healthz check for KMS Provider {name}, error: {why}"
            )
        })?;
        let mut errors = self.status_errors(&status);
        if let Err(why) = validate_key_id(&status.key_id) {
            // Upstream: `ErrCodeKeyID`.
            let code = if status.key_id.is_empty() { "empty" } else { "too_long" };
            self.metrics.count_invalid_key(name, code);
            errors.push(format!("got invalid KMSv2 KeyID: {why}"));
        } else {
            self.metrics.report_key(name, &status.key_id);
            errors.extend(self.rotate(&status.key_id, asked).await.err());
        }
        if errors.is_empty() {
            return Ok(());
        }
        let why = machinery::status::aggregate_messages(errors);
        Err(format!("kmsv2 Provider {name} is not healthy, error: {why}"))
    }

    /// What is wrong with a status, besides its key.
    fn status_errors(&self, status: &StatusResponse) -> Vec<String> {
        let mut errors = Vec::new();
        if status.healthz != "ok" {
            errors.push(format!("got unexpected healthz status: {}", status.healthz));
        }
        let version = &status.version;
        if !matches!(version.as_str(), "v2" | "v2beta1") {
            errors.push(format!("expected KMSv2 API version v2, got {version}"));
            return errors;
        }
        let first = self.version.get_or_init(|| version.clone());
        if first != version {
            errors.push(format!(
                "KMSv2 API version should not change after the initial status response version {first}, got {version}"
            ));
        }
        errors
    }

    /// Extends the lifetime of the seed if it was encrypted with the key `key_id`; otherwise has a new
    /// seed encrypted. The old one remains if that fails.
    async fn rotate(&self, key_id: &str, confirmed: ClockInstant) -> Result<(), String> {
        if let Some(state) = self.write_state.load_full().filter(|it| it.envelope.key_id == key_id)
        {
            let (seed, envelope) = (state.seed.clone(), state.envelope.clone());
            self.write_state.store(Some(Arc::new(WriteState { seed, envelope, confirmed })));
            return Ok(());
        }
        let mut seed = [0; SIZE];
        fill_random(&mut seed);
        let response = self.client.encrypt(self.entropy.uuid(), seed.to_vec()).await;
        let response = response.map_err(|why| format!("failed to encrypt DEK, error: {why}"))?;
        let envelope = EncryptedObject {
            encrypted_data: Vec::new(),
            key_id: response.key_id,
            encrypted_dek_source: response.ciphertext,
            annotations: response.annotations,
            encrypted_dek_source_type: HKDF_SEED,
        };
        envelope.validate()?;
        if envelope.key_id != key_id {
            return Err(
                "failed to rotate DEK: the plugin has encrypted with another key than that of its status"
                    .to_owned(),
            );
        }
        let seed = Prk::new_less_safe(HKDF_SHA256, &seed);
        let known = KnownSource::Decrypted(DataKeys::Derived(seed.clone()));
        self.add_source(envelope.source(), known);
        self.write_state.store(Some(Arc::new(WriteState { seed, envelope, confirmed })));
        tracing::info!(name = self.name, "a KMS plugin has encrypted a new seed");
        Ok(())
    }

    /// Encrypts `data` with a new key.
    pub(super) fn seal(&self, data: &[u8], location: &str) -> Result<Vec<u8>, String> {
        let state = self.state()?;
        let age = self.clock.elapsed_since(&state.confirmed);
        if age > WRITE_LIFETIME {
            return Err(format!(
                "the seed of KMS provider {} has expired: its plugin was healthy {age:?} ago for the last time",
                self.name
            ));
        }
        let mut info = [0; SIZE];
        fill_random(&mut info);
        let encrypted_data = derived(&state.seed, &info).seal(&info, data, location);
        self.metrics.count_use(Transformation::ToStorage, &self.name, &state.envelope.key_id);
        let envelope = EncryptedObject { encrypted_data, ..state.envelope.clone() };
        let mut sealed = Vec::with_capacity(self.prefix.len() + envelope.encoded_len());
        sealed.extend_from_slice(self.prefix());
        envelope.encode(&mut sealed).expect("a vector grows");
        Ok(sealed)
    }

    /// Decrypts a value without the prefix of the provider.
    pub(super) async fn open(&self, data: &[u8], location: &str) -> Result<Opened, String> {
        let object = EncryptedObject::decode(data).map_err(|it| it.to_string())?;
        if object.encrypted_data.is_empty() {
            return Err("encrypted data is empty".to_owned());
        }
        object.validate()?;
        let state = self.state()?;
        let keys = self.data_keys(&object).await?;
        let value = match keys {
            DataKeys::One(cipher) => cipher.open(&object.encrypted_data, location)?,
            DataKeys::Derived(seed) => {
                let (info, data) = object
                    .encrypted_data
                    .split_first_chunk::<SIZE>()
                    .ok_or("the stored data was shorter than the required size")?;
                derived(&seed, info).open(data, location)?
            }
        };
        self.metrics.count_use(Transformation::FromStorage, &self.name, &object.key_id);
        let is_stale = object.key_id != state.envelope.key_id
            || object.encrypted_dek_source_type != state.envelope.encrypted_dek_source_type;
        Ok(Opened { value: value.into(), is_stale })
    }

    /// The seed that encrypts. Without one, no value can be read either: the key of the plugin, which
    /// tells whether a value is stale, is not known, and a start does not wait for each value.
    fn state(&self) -> Result<Arc<WriteState>, String> {
        self.write_state.load_full().ok_or_else(|| {
            let why = self.status().result.clone().err().unwrap_or_default();
            format!("the plugin of KMS provider {} was never healthy: {why}", self.name)
        })
    }

    /// The keys of a value, which the plugin decrypts if they are not known.
    async fn data_keys(&self, object: &EncryptedObject) -> Result<DataKeys, String> {
        let source = object.source();
        match self.sources().get(&source) {
            Some(KnownSource::Decrypted(keys)) => return Ok(keys.clone()),
            Some(KnownSource::Failed { why, at })
                if self.clock.elapsed_since(at) < FAILURE_LIFETIME =>
            {
                return Err(why.clone());
            }
            _ => {}
        }
        let request = DecryptRequest {
            ciphertext: object.encrypted_dek_source.clone(),
            uid: self.entropy.uuid(),
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone(),
        };
        let decrypted = self.client.decrypt(request).await;
        let keys = decrypted
            .map_err(|why| format!("failed to decrypt DEK, error: {why}"))
            .and_then(|it| DataKeys::new(&it, object.encrypted_dek_source_type));
        let known = match &keys {
            Ok(keys) => KnownSource::Decrypted(keys.clone()),
            Err(why) => KnownSource::Failed { why: why.clone(), at: self.clock.instant() },
        };
        self.add_source(source, known);
        keys
    }

    fn add_source(&self, source: Vec<u8>, known: KnownSource) {
        let mut sources = self.sources();
        if sources.len() >= MAX_SEEDS {
            sources.clear();
        }
        sources.insert(source, known);
        self.metrics.set_sources(&self.name, sources.len());
    }

    fn sources(&self) -> MutexGuard<'_, HashMap<Vec<u8>, KnownSource>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> MutexGuard<'_, LastStatus> {
        self.last_status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DataKeys {
    /// The keys of a decrypted source.
    fn new(source: &[u8], source_type: i32) -> Result<Self, String> {
        if source_type != HKDF_SEED {
            let cipher = Gcm::new(source).map(|it| Self::One(Arc::new(it)));
            return cipher.ok_or_else(|| format!("crypto/aes: invalid key size {}", source.len()));
        }
        if source.len() < SIZE {
            return Err(format!("invalid seed length {} used for key generation", source.len()));
        }
        Ok(Self::Derived(Prk::new_less_safe(HKDF_SHA256, source)))
    }
}

/// The cipher of the key that is derived from a seed and `info`.
fn derived(seed: &Prk, info: &[u8; SIZE]) -> Gcm {
    let mut key = [0; SIZE];
    let expanded = seed.expand(&[info], DerivedKey).and_then(|it| it.fill(&mut key));
    expanded.expect("HKDF derives 32 bytes");
    Gcm::new(&key).expect("a key of 32 bytes")
}

#[cfg(test)]
mod tests;
