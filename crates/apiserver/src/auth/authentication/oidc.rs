//! [`OidcAuthenticator`]: accepts the JSON web tokens of other issuers, such as those of a provider of
//! `OpenID` Connect, as the structured [`AuthenticationConfiguration`] says.
//!
//! ```text
//! configuration   the file or the flags
//! validation      checks it, and compiles its expressions
//! token_issuer    verifies a token of one issuer, and reads the user from its claims
//! key_set         the keys of an issuer, fetched over HTTPS
//! reload          replaces the issuers when the file changes
//! ```

mod claims;
pub mod configuration;
mod expressions;
mod key_set;
pub(crate) mod reload;
mod token_issuer;
mod validation;

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::User;
use super::json_web_token::{Algorithm, JsonWebToken};
use crate::auth::metrics::AuthenticationMetrics;
use configuration::AuthenticationConfiguration;
use keel::{Clock, Tasks};
use machinery::ErrorList;
use machinery::field_path::quote;
use token_issuer::TokenIssuer;

/// The algorithms of RFC 7518 that a configuration file accepts: all that a key of an issuer can have.
pub const ALGORITHMS: [&str; 8] =
    ["ES256", "ES384", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"];

/// The issuers whose tokens are accepted, besides that of service account tokens.
#[derive(Debug, Clone)]
pub struct OidcSettings {
    /// The issuers.
    pub configuration: AuthenticationConfiguration,
    /// The algorithms of accepted tokens, by their names in RFC 7518.
    pub algorithms: Vec<String>,
    /// The file that is read again when it changes, if the issuers are those of a file.
    pub file: Option<ConfigurationFile>,
}

/// A file of `--authentication-config`.
#[derive(Debug, Clone)]
pub struct ConfigurationFile {
    /// The path.
    pub path: PathBuf,
    /// What it contained when it was read.
    pub text: String,
}

/// The reason why the issuers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Check the path.
    #[error("failed to load authentication configuration from file {path:?}")]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Correct the file.
    #[error("failed to load authentication configuration from file {path:?}: {why}")]
    Parse {
        /// The path.
        path: PathBuf,
        /// Why it cannot be read.
        why: String,
    },
    /// Correct the fields.
    #[error("invalid authentication configuration: {0}")]
    Invalid(String),
    /// Use another algorithm.
    #[error("oidc: unsupported signing alg: {0:?}")]
    Algorithm(String),
    /// Remove the field `egressSelectorType`.
    #[error("oidc: egress lookup required with egress selector type {0:?}")]
    Egress(String),
}

impl OidcSettings {
    /// Reads a file; its issuers may use all algorithms.
    pub fn read(path: PathBuf) -> Result<Self, Error> {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) => return Err(Error::Read { path, source }),
        };
        match AuthenticationConfiguration::parse(text.as_bytes()) {
            Ok(configuration) => Ok(Self {
                configuration,
                algorithms: ALGORITHMS.map(ToOwned::to_owned).to_vec(),
                file: Some(ConfigurationFile { path, text }),
            }),
            Err(why) => Err(Error::Parse { path, why }),
        }
    }
}

/// The issuers of one configuration.
#[derive(Debug)]
struct TokenIssuers(Vec<TokenIssuer>);

/// See the [module documentation](self).
#[derive(Debug)]
pub struct OidcAuthenticator {
    issuers: ArcSwap<TokenIssuers>,
    /// The issuers of service account tokens, whose tokens are verified elsewhere.
    disallowed: Vec<String>,
    algorithms: Vec<String>,
    clock: Clock,
    tasks: Tasks,
    metrics: Arc<AuthenticationMetrics>,
}

impl OidcAuthenticator {
    /// Checks the settings and starts to fetch the keys of the issuers.
    pub(crate) fn start(
        settings: &OidcSettings,
        disallowed: &[String],
        clock: &Clock,
        tasks: &Tasks,
        metrics: Arc<AuthenticationMetrics>,
    ) -> Result<Self, Error> {
        if let Some(other) = settings.algorithms.iter().find(|it| Algorithm::parse(it).is_none()) {
            return Err(Error::Algorithm(other.clone()));
        }
        let authenticator = Self {
            issuers: ArcSwap::from_pointee(TokenIssuers(Vec::new())),
            disallowed: disallowed.to_vec(),
            algorithms: settings.algorithms.clone(),
            clock: clock.clone(),
            tasks: tasks.clone(),
            metrics,
        };
        let issuers = authenticator.issuers(&settings.configuration, &ErrorList::new())?;
        authenticator.issuers.store(Arc::new(issuers));
        Ok(authenticator)
    }

    /// The issuers of a configuration, whose keys are fetched. `also` are errors that were found before.
    fn issuers(
        &self,
        configuration: &AuthenticationConfiguration,
        also: &ErrorList,
    ) -> Result<TokenIssuers, Error> {
        let mut errors = ErrorList::new();
        let compiled = validation::compile(configuration, &self.disallowed, &mut errors);
        also.iter().for_each(|it| errors.push(it.clone()));
        if !errors.is_empty() {
            return Err(Error::Invalid(errors.summary()));
        }
        for jwt in &configuration.jwt {
            let egress = &jwt.issuer.egress_selector_type;
            if !egress.is_empty() {
                return Err(Error::Egress(egress.clone()));
            }
        }
        let start = |(jwt, compiled)| {
            TokenIssuer::start(jwt, compiled, &self.algorithms, &self.clock, &self.tasks)
        };
        Ok(TokenIssuers(configuration.jwt.iter().zip(compiled).map(start).collect()))
    }

    /// The user of a token; None if it is not that of an issuer.
    pub(super) async fn authenticate(&self, token: &str) -> Result<Option<User>, String> {
        let Some(token) = JsonWebToken::parse(token) else { return Ok(None) };
        let issuers = self.issuers.load_full();
        let Some(issuer) = issuers.0.iter().find(|it| it.has_issued(&token)) else {
            return Ok(None);
        };
        let began = self.clock.instant();
        let result = issuer.authenticate(&token, self.clock.now_unix_nanos().into()).await;
        let duration = self.clock.elapsed_since(&began);
        self.metrics.observe_token(issuer.url(), result.is_ok(), duration);
        result.map(|user| Some(user.with_authenticated_group()))
    }
}

impl TokenIssuers {
    /// An error that names the issuers whose document was not read yet.
    fn check_health(&self) -> Result<(), String> {
        let unhealthy = self.0.iter().filter_map(|issuer| {
            let why = issuer.keys().check_health().err()?;
            let url = quote(issuer.url());
            Some(format!("oidc: authenticator for issuer {url} is not healthy: {why}"))
        });
        let unhealthy: Vec<String> = unhealthy.collect();
        match unhealthy.as_slice() {
            [] => Ok(()),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}
