//! The file of `--encryption-provider-config`: an `EncryptionConfiguration` of
//! `apiserver.config.k8s.io/v1`, with kube-apiserver's rules and messages.
//!
//! Errors never show values of the file beside names of resources, keys and plugins: a key may be in
//! the wrong place. Upstream:
//! `apis/apiserver/validation/validation_encryption.go`.

mod fields;

use std::collections::HashSet;
use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::ciphers::{AesCbc, Cipher, Gcm, Secretbox};
use crate::config_files::strict_decoding;
use fields::Fields;
use machinery::field_path::quote;
use machinery::{ErrorList, GroupResource, Path, Value, go_duration};

/// The default of `timeout` of a plugin.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(3);

const AES_SIZES: &str = "[16 24 32]";
const SECRETBOX_SIZES: &str = "[32]";
const OVERLAP: &str = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked";
const SEVERAL_PROVIDERS: &str = "more than one provider specified in a single element, should split into different list elements";
const NO_PROVIDER: &str = "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity";

/// The reason why a file of encryption providers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Make the file readable, or name another one.
    #[error("cannot read the encryption provider configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Correct the file.
    #[error("the encryption provider configuration file {} cannot be used: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, without keys.
        why: String,
    },
}

/// Resources, and how their objects are stored.
pub(super) struct Rule {
    pub(super) resources: Vec<GroupResource>,
    pub(super) providers: Vec<ProviderConfig>,
}

/// One element of `providers`.
pub(super) enum ProviderConfig {
    Identity,
    AesCbc(Vec<NamedKey>),
    AesGcm(Vec<NamedKey>),
    Secretbox(Vec<NamedKey>),
    Kms(KmsConfig),
}

/// A key with its name.
pub(super) struct NamedKey {
    pub(super) name: String,
    pub(super) cipher: Cipher,
}

/// A plugin of the KMS API v2.
pub(super) struct KmsConfig {
    pub(super) name: String,
    /// The path of the Unix socket; one that begins with `@` is abstract.
    pub(super) socket: String,
    pub(super) timeout: Duration,
}

/// The bytes of the file.
pub(super) fn read(path: &FilePath) -> Result<Vec<u8>, Error> {
    let read_error = |source| Error::Read { path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(read_error)?;
    if bytes.is_empty() {
        let why = "it is empty".to_owned();
        return Err(Error::Invalid { path: path.to_owned(), why });
    }
    Ok(bytes)
}

/// Warns if other users can read the file.
#[cfg(unix)]
pub(super) fn warn_about_mode(path: &FilePath) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).map(|it| it.permissions().mode());
    if mode.is_ok_and(|it| it & 0o077 != 0) {
        tracing::warn!(
            path = %path.display(),
            "other users can read the keys of encryption at rest: chmod 600 the file"
        );
    }
}

/// Other systems have no mode.
#[cfg(not(unix))]
pub(super) fn warn_about_mode(_: &FilePath) {}

/// The rules of a file, or what is wrong with it.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Rule>, String> {
    let decoded = strict_decoding::decode_secret(bytes)?;
    let mut unknown = decoded.strict_errors();
    let mut errors = ErrorList::new();
    let root = Fields::new(&decoded.value, String::new());
    let (version, kind) = (root.text("apiVersion"), root.text("kind"));
    if (version, kind) != ("apiserver.config.k8s.io/v1", "EncryptionConfiguration") {
        return Err(format!(
            "it should be of kind EncryptionConfiguration in apiserver.config.k8s.io/v1, but is of \
             kind {} in {}",
            quote(kind),
            quote(version)
        ));
    }
    root.allow(&["apiVersion", "kind", "resources"], &mut unknown);
    let path = Path::root("resources");
    let rules = root.list("resources", &mut unknown);
    if rules.is_empty() {
        errors.required(&path, "at least one resources is required");
    }
    let mut parser = Parser { unknown, errors, plugins: HashSet::new() };
    let rules = rules
        .iter()
        .enumerate()
        .map(|(index, rule)| parser.rule(rule, &path.index(index)))
        .collect();
    strict_decoding::refuse(&parser.unknown)?;
    if !parser.errors.is_empty() {
        return Err(parser.errors.summary());
    }
    Ok(rules)
}

/// Collects the errors of a file.
struct Parser {
    /// Fields that are repeated, do not exist or have another type.
    unknown: Vec<String>,
    errors: ErrorList,
    /// The names of the plugins so far.
    plugins: HashSet<String>,
}

impl Parser {
    fn rule(&mut self, rule: &Fields<'_>, path: &Path<'_>) -> Rule {
        rule.allow(&["resources", "providers"], &mut self.unknown);
        let resources = rule.texts("resources", &mut self.unknown);
        let providers = rule.list("providers", &mut self.unknown);
        let at = path.child("resources");
        if resources.is_empty() {
            self.errors.required(&at, &format!("at least one {at} is required"));
        }
        self.check_overlap(&resources, &at);
        for (index, resource) in resources.iter().enumerate() {
            if let Some(why) = resource_error(resource) {
                self.errors.invalid(&at.index(index), resource.as_str(), why);
            }
        }
        let at = path.child("providers");
        if providers.is_empty() {
            self.errors.required(&at, &format!("at least one {at} is required"));
        }
        let providers = providers
            .iter()
            .enumerate()
            .filter_map(|(index, it)| self.provider(it, &at.index(index)))
            .collect();
        Rule { resources: resources.iter().map(|it| parse_resource(it)).collect(), providers }
    }

    /// Resources of one list must neither be equal nor include each other.
    fn check_overlap(&mut self, resources: &[String], path: &Path<'_>) {
        let parsed: Vec<GroupResource> = resources.iter().map(|it| parse_resource(it)).collect();
        let pairs = || {
            parsed
                .iter()
                .enumerate()
                .flat_map(|(index, one)| parsed[index + 1..].iter().map(move |other| (one, other)))
        };
        let is_all = |it: &GroupResource| it.group == "*" && it.resource == "*";
        let has_wildcard = |it: &GroupResource| it.resource == "*";
        let has_duplicate = pairs().any(|(one, other)| one == other);
        let has_overlap = pairs().filter(|(one, other)| one != other).any(|(one, other)| {
            is_all(one)
                || is_all(other)
                || (one.group == other.group && (has_wildcard(one) || has_wildcard(other)))
        });
        let value = || Value::from(resources.to_vec());
        if has_duplicate {
            let why = "the same resource cannot be specified multiple times";
            self.errors.invalid(path, value(), why);
        }
        if has_overlap {
            self.errors.invalid(path, value(), OVERLAP);
        }
    }

    /// One element of `providers`; None if it has errors.
    fn provider(&mut self, provider: &Fields<'_>, path: &Path<'_>) -> Option<ProviderConfig> {
        let known = ["kms", "aesgcm", "aescbc", "secretbox", "identity"];
        provider.allow(&known, &mut self.unknown);
        let found: Vec<(&str, Fields<'_>)> = known
            .iter()
            .filter_map(|it| Some((*it, provider.object(it, &mut self.unknown)?)))
            .collect();
        let [(kind, config)] = found.as_slice() else {
            let why = if found.is_empty() { NO_PROVIDER } else { SEVERAL_PROVIDERS };
            self.errors.invalid(path, "REDACTED", why);
            return None;
        };
        let at = path.child(kind);
        Some(match *kind {
            "identity" => {
                config.allow(&[], &mut self.unknown);
                ProviderConfig::Identity
            }
            "kms" => ProviderConfig::Kms(self.plugin(config, &at)?),
            "aesgcm" => ProviderConfig::AesGcm(
                self.keys(config, &at, AES_SIZES, |key| Gcm::new(key).map(Cipher::AesGcm)),
            ),
            "aescbc" => ProviderConfig::AesCbc(
                self.keys(config, &at, AES_SIZES, |key| AesCbc::new(key).map(Cipher::AesCbc)),
            ),
            _ => ProviderConfig::Secretbox(self.keys(config, &at, SECRETBOX_SIZES, |key| {
                Secretbox::new(key).map(Cipher::Secretbox)
            })),
        })
    }

    /// The keys of a provider, which are those without errors.
    fn keys(
        &mut self,
        config: &Fields<'_>,
        path: &Path<'_>,
        sizes: &str,
        cipher: fn(&[u8]) -> Option<Cipher>,
    ) -> Vec<NamedKey> {
        config.allow(&["keys"], &mut self.unknown);
        let path = path.child("keys");
        let keys = config.list("keys", &mut self.unknown);
        if keys.is_empty() {
            self.errors.required(&path, "at least one keys is required");
        }
        let mut named = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            key.allow(&["name", "secret"], &mut self.unknown);
            let path = path.index(index);
            let (name, secret) = (key.text("name"), key.text("secret"));
            if name.is_empty() {
                let why = "name is a mandatory field for a key";
                self.errors.required(&path.child("name"), why);
            }
            let path = path.child("secret");
            if secret.is_empty() {
                self.errors.required(&path, "secret is a mandatory field for a key");
                continue;
            }
            let Ok(bytes) = STANDARD.decode(secret) else {
                self.errors.invalid(&path, "REDACTED", "secrets must be base64 encoded");
                continue;
            };
            let Some(cipher) = cipher(&bytes) else {
                let why = format!(
                    "secret is not of the expected length, got {}, expected one of {sizes}",
                    bytes.len()
                );
                self.errors.invalid(&path, "REDACTED", &why);
                continue;
            };
            named.push(NamedKey { name: name.to_owned(), cipher });
        }
        named
    }

    /// The plugin of a `kms` provider; None if it has errors.
    fn plugin(&mut self, config: &Fields<'_>, path: &Path<'_>) -> Option<KmsConfig> {
        let known = ["apiVersion", "name", "cachesize", "endpoint", "timeout"];
        config.allow(&known, &mut self.unknown);
        let before = self.errors.len();
        let version = Some(config.text("apiVersion")).filter(|it| !it.is_empty()).unwrap_or("v1");
        let name = config.text("name");
        let at = path.child("name");
        if name.is_empty() {
            self.errors.required(&at, "name is a mandatory field for a provider");
        }
        if name.contains(':') {
            let why = format!("invalid KMS provider name {name}, must not contain ':'");
            self.errors.invalid(&at, name, &why);
        }
        if !self.plugins.insert(name.to_owned()) {
            let why = format!("duplicate KMS provider name {name}, names must be unique");
            self.errors.invalid(&at, name, &why);
        }
        let timeout = self.timeout(config, path);
        let socket = self.socket(config.text("endpoint"), &path.child("endpoint"));
        if version == "v2" && config.has("cachesize") {
            let why = "cachesize is not supported in v2";
            self.errors.invalid(&path.child("cachesize"), "REDACTED", why);
        }
        match version {
            "v2" => {}
            // Upstream: with the feature gate KMSv1 off, as it is by default.
            "v1" => self.errors.invalid(
                &path.child("apiVersion"),
                version,
                "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.",
            ),
            _ => self.errors.invalid(
                &path.child("apiVersion"),
                version,
                "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported",
            ),
        }
        (self.errors.len() == before).then(|| KmsConfig { name: name.to_owned(), socket, timeout })
    }

    fn timeout(&mut self, config: &Fields<'_>, path: &Path<'_>) -> Duration {
        let text = config.text("timeout");
        if text.is_empty() {
            return PLUGIN_TIMEOUT;
        }
        let timeout = go_duration::parse_duration(text).ok();
        timeout.filter(|it| !it.is_zero()).unwrap_or_else(|| {
            let why = "timeout should be a positive value";
            self.errors.invalid(&path.child("timeout"), text, why);
            PLUGIN_TIMEOUT
        })
    }

    /// The path in `unix:///run/plugin.sock`, or the name in `unix:///@plugin`.
    fn socket(&mut self, endpoint: &str, path: &Path<'_>) -> String {
        if endpoint.is_empty() {
            self.errors.invalid(path, "", "endpoint is a mandatory field for a kms");
            return String::new();
        }
        let (scheme, rest) = endpoint.split_once(':').unwrap_or(("", endpoint));
        if scheme != "unix" {
            let scheme = quote(scheme);
            let why =
                format!("unsupported scheme {scheme} for KMS provider, only unix is supported");
            self.errors.invalid(path, endpoint, &why);
            return String::new();
        }
        let socket = rest.strip_prefix("//").unwrap_or(rest);
        socket.strip_prefix("/@").map_or_else(|| socket.to_owned(), |name| format!("@{name}"))
    }
}

/// Parses `plural.group`, `*.` or `*.*`.
fn parse_resource(text: &str) -> GroupResource {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    GroupResource::new(group, resource)
}

/// Why a resource cannot be encrypted.
fn resource_error(text: &str) -> Option<&'static str> {
    let GroupResource { group, resource } = parse_resource(text);
    if text.to_lowercase() != text {
        return Some("resource name should not contain capital letters");
    }
    match (group.as_str(), resource.as_str()) {
        _ if text == "*" => Some(
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
        ),
        ("", "apiserveripinfo" | "serviceipallocations" | "servicenodeportallocations") => {
            Some("resources which do not have REST API/s cannot be encrypted")
        }
        ("events.k8s.io", _) => Some(
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file",
        ),
        ("extensions", _) => {
            Some("'extensions' group has been removed and cannot be used for encryption")
        }
        ("*", resource) if resource != "*" => {
            Some("encrypting the same resource across groups is not supported")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
