//! [`AuthorizationConfiguration`]: the contents of the file of `--authorization-config`, which names
//! the authorizers in the order in which they are called.
//!
//! Upstream: `apiserver.config.k8s.io` `AuthorizationConfiguration`, whose versions have the same
//! fields.

mod duration;
mod validation;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Authorizer;
use super::abac::PolicyFile;
use super::webhook::WebhookAuthorizerSettings;
use crate::config_files::strict_decoding;
use duration::ConfiguredDuration;
use machinery::ErrorList;
use machinery::status::aggregate_messages;

/// The kind of the configuration.
const KIND: &str = "AuthorizationConfiguration";

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AuthorizationConfiguration {
    /// The group and the version of the configuration.
    api_version: String,
    /// `AuthorizationConfiguration`.
    kind: String,
    /// The authorizers.
    authorizers: Vec<AuthorizerConfiguration>,
}

/// An authorizer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AuthorizerConfiguration {
    /// One of [`AuthorizerType::ALL`].
    #[serde(rename = "type")]
    authorizer_type: String,
    /// The type in lower case, or any name of a webhook.
    name: String,
    /// The settings of a webhook.
    webhook: Option<WebhookConfiguration>,
}

/// The settings of a webhook.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WebhookConfiguration {
    /// The time for which answers that allow a request are cached.
    #[serde(rename = "authorizedTTL")]
    authorized_ttl: ConfiguredDuration,
    /// Whether they are cached.
    cache_authorized_requests: Option<bool>,
    /// The time for which other answers are cached.
    #[serde(rename = "unauthorizedTTL")]
    unauthorized_ttl: ConfiguredDuration,
    /// Whether they are cached.
    cache_unauthorized_requests: Option<bool>,
    /// The time limit of a call.
    timeout: ConfiguredDuration,
    /// `v1` or `v1beta1`.
    subject_access_review_version: String,
    /// `v1`.
    match_condition_subject_access_review_version: String,
    /// `NoOpinion` or `Deny`.
    failure_policy: String,
    /// The server.
    connection_info: ConnectionInfo,
    /// The requests about which the server is asked.
    match_conditions: Vec<MatchConditionConfiguration>,
}

/// The server of a webhook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConnectionInfo {
    /// `KubeConfigFile`.
    #[serde(rename = "type")]
    connection_type: String,
    /// The path of the kubeconfig.
    kube_config_file: Option<String>,
}

/// An expression about `request` that is true.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MatchConditionConfiguration {
    /// The expression.
    expression: String,
}

/// The type of an authorizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuthorizerType {
    /// Policies in a file.
    Abac,
    /// Allows everything.
    AlwaysAllow,
    /// Allows nothing.
    AlwaysDeny,
    /// The rights of nodes.
    Node,
    /// The rights of roles.
    Rbac,
    /// Another server.
    Webhook,
}

impl AuthorizerType {
    /// All types, in the order of their names.
    const ALL: [Self; 6] =
        [Self::Abac, Self::AlwaysAllow, Self::AlwaysDeny, Self::Node, Self::Rbac, Self::Webhook];

    /// The name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Abac => "ABAC",
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Node => "Node",
            Self::Rbac => "RBAC",
            Self::Webhook => "Webhook",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }
}

/// An authorizer of a valid configuration.
#[derive(Debug, Clone)]
pub(crate) enum ConfiguredAuthorizer {
    /// An authorizer without settings.
    BuiltIn(AuthorizerType),
    /// A webhook.
    Webhook(Box<WebhookAuthorizerSettings>),
}

impl ConfiguredAuthorizer {
    /// The type.
    pub(crate) fn authorizer_type(&self) -> AuthorizerType {
        match self {
            Self::BuiltIn(found) => *found,
            Self::Webhook(_) => AuthorizerType::Webhook,
        }
    }
}

/// The reason why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Check the path.
    #[error("cannot read the authorization configuration {path:?}")]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Correct the file.
    #[error("failed to load AuthorizationConfiguration from file: {0}")]
    Parse(String),
    /// Correct the fields.
    #[error("{0}")]
    Invalid(String),
    /// Name a file of policies.
    #[error("authorization-mode ABAC's authorization policy file not passed")]
    NoPolicies,
}

/// A file of `--authorization-config` that was read.
#[derive(Debug)]
pub struct AuthorizationFile {
    /// The path.
    pub(crate) path: PathBuf,
    /// What it contained when it was read.
    pub(crate) text: String,
    /// Its authorizers.
    pub(crate) authorizers: Vec<ConfiguredAuthorizer>,
    /// The authorizer of the type `ABAC`, whose file is named by a flag.
    pub(crate) policies: Option<Arc<dyn Authorizer>>,
}

impl AuthorizationFile {
    /// Reads a file.
    pub fn read(path: &Path, policies: Option<Arc<PolicyFile>>) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let authorizers = parse(&text, &[])?;
        let has_policies =
            authorizers.iter().any(|it| it.authorizer_type() == AuthorizerType::Abac);
        if has_policies && policies.is_none() {
            return Err(Error::NoPolicies);
        }
        let policies = policies.map(|it| it as _);
        Ok(Self { path: path.to_owned(), text, authorizers, policies })
    }

    /// Whether an authorizer decides by the file of policies.
    pub fn has_policies(&self) -> bool {
        self.has(AuthorizerType::Abac)
    }

    /// Whether an authorizer has this type.
    pub(crate) fn has(&self, authorizer_type: AuthorizerType) -> bool {
        self.authorizers.iter().any(|it| it.authorizer_type() == authorizer_type)
    }

    /// The authorizers of a new text, which must have the same ones as at the start, besides webhooks.
    pub(crate) fn parse_again(&self, text: &str) -> Result<Vec<ConfiguredAuthorizer>, Error> {
        let types = AuthorizerType::ALL.into_iter();
        let required: Vec<AuthorizerType> =
            types.filter(|it| *it != AuthorizerType::Webhook && self.has(*it)).collect();
        let authorizers = parse(text, &required)?;
        for needed in [AuthorizerType::Node, AuthorizerType::Rbac, AuthorizerType::Abac] {
            let is_new = authorizers.iter().any(|it| it.authorizer_type() == needed);
            if is_new && !self.has(needed) {
                return Err(Error::Invalid(format!(
                    "authorizer type {} is not allowed if it was not enabled at initial server startup",
                    needed.as_str()
                )));
            }
        }
        Ok(authorizers)
    }
}

/// Reads YAML or JSON and the kubeconfigs that it names. `required` are types that it must have.
///
/// Upstream: kubeapiserver/authorizer `LoadAndValidateData`
fn parse(text: &str, required: &[AuthorizerType]) -> Result<Vec<ConfiguredAuthorizer>, Error> {
    let configuration = if text.is_empty() {
        AuthorizationConfiguration::default()
    } else {
        strict_decoding::decode(text.as_bytes(), KIND, |_: &AuthorizationConfiguration, _| {})
            .map_err(Error::Parse)?
    };
    let mut errors = ErrorList::new();
    let authorizers = validation::compile(&configuration, &mut errors);
    if !errors.is_empty() {
        return Err(Error::Invalid(errors.summary()));
    }
    let mut errors = Vec::new();
    for configured in &configuration.authorizers {
        let (found, name) = (&configured.authorizer_type, &configured.name);
        let expected = found.to_lowercase();
        if *found != AuthorizerType::Webhook.as_str() && *name != expected {
            errors
                .push(format!("expected name {expected} for authorizer {found} instead of {name}"));
        }
    }
    let is_missing =
        |wanted: &&AuthorizerType| !authorizers.iter().any(|it| it.authorizer_type() == **wanted);
    let missing: Vec<&str> = required.iter().filter(is_missing).map(|it| it.as_str()).collect();
    if !missing.is_empty() {
        errors.push(format!("missing required types: [{}]", missing.join(" ")));
    }
    if errors.is_empty() {
        Ok(authorizers)
    } else {
        Err(Error::Invalid(aggregate_messages(errors)))
    }
}

impl WebhookConfiguration {
    /// The time for which answers that allow a request are cached; zero for none.
    fn authorized_cache_ttl(&self) -> Duration {
        cache_ttl(self.authorized_ttl, self.cache_authorized_requests, Duration::from_mins(5))
    }

    /// The time for which other answers are cached; zero for none.
    fn unauthorized_cache_ttl(&self) -> Duration {
        cache_ttl(self.unauthorized_ttl, self.cache_unauthorized_requests, Duration::from_secs(30))
    }
}

fn cache_ttl(ttl: ConfiguredDuration, is_cached: Option<bool>, default: Duration) -> Duration {
    match is_cached {
        Some(false) => Duration::ZERO,
        _ if ttl.is_zero() => default,
        _ => ttl.duration(),
    }
}

#[cfg(test)]
mod tests;
