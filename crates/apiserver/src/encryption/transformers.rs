//! [`Transformers`]: how the values of each resource are written and read.
//!
//! A rule of the configuration has a list of providers. The first one encrypts; a value is decrypted
//! by each provider whose prefix it has, until one succeeds. Upstream: storage/value/transformer.go.
//!
//! ```text
//! k8s:enc:aescbc:v1:key1:…      provider, name of the key, value of the cipher
//! k8s:enc:kms:v2:plugin:…       provider with its name, EncryptedObject
//! {"kind":…                     identity
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::ciphers::Cipher;
use super::config_file::{NamedKey, ProviderConfig, Rule};
use super::kms::KmsProvider;
use machinery::GroupResource;
use machinery::status::aggregate_messages;

/// The prefix of all encrypted values.
pub(super) const ENCRYPTED: &[u8] = b"k8s:enc:";

/// The error for an encrypted value that no provider may decrypt.
pub(super) const READ_AS_IDENTITY: &str = "identity transformer tried to read encrypted data";

/// The providers of all rules. See the [module documentation](self).
#[derive(Default)]
pub(super) struct Transformers {
    /// By group and plural, each of which may be `*`.
    by_resource: HashMap<String, HashMap<String, Providers>>,
    /// The plugins of all rules, in the order of the file.
    pub(super) plugins: Vec<Arc<KmsProvider>>,
}

impl Transformers {
    /// The providers of `rules`. `plugin` creates the provider of a plugin.
    ///
    /// Fails if an earlier rule applies to all objects of a later one.
    pub(super) fn new(
        rules: Vec<Rule>,
        mut plugin: impl FnMut(super::config_file::KmsConfig) -> Arc<KmsProvider>,
    ) -> Result<Self, String> {
        let mut transformers = Self::default();
        for rule in rules {
            let providers: Vec<Arc<Provider>> = rule
                .providers
                .into_iter()
                .map(|it| {
                    let provider = Provider::new(it, &mut plugin);
                    if let Provider::Kms(plugin) = &provider {
                        transformers.plugins.push(Arc::clone(plugin));
                    }
                    Arc::new(provider)
                })
                .collect();
            for resource in &rule.resources {
                transformers.check_mask(resource)?;
                let in_group = transformers.by_resource.entry(resource.group.clone()).or_default();
                let found = in_group.entry(resource.resource.clone()).or_default();
                found.0.extend(providers.iter().cloned());
            }
        }
        Ok(transformers)
    }

    /// Fails if an earlier rule has a wildcard for `resource`.
    fn check_mask(&self, resource: &GroupResource) -> Result<(), String> {
        for group in [resource.group.as_str(), "*"] {
            if self.by_resource.get(group).is_some_and(|it| it.contains_key("*")) {
                let mask = GroupResource::new(group, "*");
                return Err(format!(
                    "resource {:?} is masked by earlier rule {:?}",
                    as_written(resource),
                    as_written(&mask)
                ));
            }
        }
        Ok(())
    }

    /// The providers of a resource; None if no rule names it.
    pub(super) fn of(&self, group: &str, plural: &str) -> Option<&Providers> {
        let in_group = self.by_resource.get(group);
        in_group
            .and_then(|it| it.get(plural))
            .or_else(|| in_group.and_then(|it| it.get("*")))
            .or_else(|| self.by_resource.get("*").and_then(|it| it.get("*")))
    }

    /// Whether no resource has providers.
    pub(super) fn is_empty(&self) -> bool {
        self.by_resource.is_empty()
    }
}

/// A resource as it is written in the file: `*.` for all resources of the core group.
fn as_written(resource: &GroupResource) -> String {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "*") => "*.".to_owned(),
        _ => resource.to_string(),
    }
}

/// The providers of a resource, the first of which encrypts.
#[derive(Default, Clone)]
pub(super) struct Providers(Vec<Arc<Provider>>);

/// A decrypted value.
pub(super) struct Opened {
    pub(super) value: Bytes,
    /// Whether the value would be stored in another form now.
    pub(super) is_stale: bool,
}

impl Providers {
    /// Encrypts `data`, which is stored at `location`.
    pub(super) fn seal(&self, data: Bytes, location: &str) -> Result<Bytes, String> {
        match self.0.first().map(|it| &**it) {
            None | Some(Provider::Identity) => Ok(data),
            Some(Provider::Keys(provider)) => Ok(provider.seal(&data, location).into()),
            Some(Provider::Kms(plugin)) => plugin.seal(&data, location).map(Bytes::from),
        }
    }

    /// Decrypts `data`, which is stored at `location`.
    pub(super) async fn open(&self, data: &Bytes, location: &str) -> Result<Opened, String> {
        let mut errors = Vec::new();
        for (index, provider) in self.0.iter().enumerate() {
            let opened = match &**provider {
                Provider::Identity if data.starts_with(ENCRYPTED) => continue,
                Provider::Identity => Ok(Opened { value: data.clone(), is_stale: false }),
                Provider::Keys(provider) => match data.strip_prefix(provider.prefix.as_bytes()) {
                    None => continue,
                    Some(data) => provider.open(data, location),
                },
                Provider::Kms(plugin) => match data.strip_prefix(plugin.prefix()) {
                    None => continue,
                    Some(data) => plugin.open(data, location).await,
                },
            };
            match opened {
                Ok(opened) => {
                    return Ok(Opened { is_stale: opened.is_stale || index > 0, ..opened });
                }
                Err(error) => errors.push(error),
            }
        }
        Err(reduce(errors, "no matching prefix found"))
    }
}

/// The errors of several providers as one; `none` if there are none.
fn reduce(mut errors: Vec<String>, none: &str) -> String {
    match errors.len() {
        0 => none.to_owned(),
        1 => errors.remove(0),
        _ => aggregate_messages(errors),
    }
}

/// A provider of the configuration.
enum Provider {
    Identity,
    Keys(KeyProvider),
    Kms(Arc<KmsProvider>),
}

impl Provider {
    fn new(
        config: ProviderConfig,
        plugin: &mut impl FnMut(super::config_file::KmsConfig) -> Arc<KmsProvider>,
    ) -> Self {
        const NO_AES_KEY: &str = "no matching key was found for the provided AES transformer";
        let keys = |prefix, no_key, keys: Vec<NamedKey>| {
            let keys = keys.into_iter().map(|it| (format!("{}:", it.name), it.cipher)).collect();
            Self::Keys(KeyProvider { prefix, no_key, keys })
        };
        match config {
            ProviderConfig::Identity => Self::Identity,
            ProviderConfig::AesCbc(it) => keys("k8s:enc:aescbc:v1:", NO_AES_KEY, it),
            ProviderConfig::AesGcm(it) => keys("k8s:enc:aesgcm:v1:", NO_AES_KEY, it),
            ProviderConfig::Secretbox(it) => {
                let no_key = "no matching key was found for the provided Secretbox transformer";
                keys("k8s:enc:secretbox:v1:", no_key, it)
            }
            ProviderConfig::Kms(it) => Self::Kms(plugin(it)),
        }
    }
}

/// A provider with keys of its own, the first of which encrypts.
struct KeyProvider {
    prefix: &'static str,
    /// The error for a value whose key is not known.
    no_key: &'static str,
    /// By name, which a colon follows. There is at least one.
    keys: Vec<(String, Cipher)>,
}

impl KeyProvider {
    fn seal(&self, data: &[u8], location: &str) -> Vec<u8> {
        let (name, cipher) = self.keys.first().expect("the configuration was validated");
        cipher.seal(format!("{}{name}", self.prefix).as_bytes(), data, location)
    }

    /// Decrypts a value without the prefix of the provider.
    fn open(&self, data: &[u8], location: &str) -> Result<Opened, String> {
        let mut errors = Vec::new();
        for (index, (name, cipher)) in self.keys.iter().enumerate() {
            let Some(data) = data.strip_prefix(name.as_bytes()) else { continue };
            match cipher.open(data, location) {
                Ok(value) => return Ok(Opened { value: value.into(), is_stale: index > 0 }),
                Err(error) => errors.push(error.to_owned()),
            }
        }
        Err(reduce(errors, self.no_key))
    }
}
