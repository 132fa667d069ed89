//! [`ServiceAccountSettings`]: keys, issuers and lifetimes of service account tokens.

use std::sync::Arc;
use std::time::Duration;

use super::{ISSUER, issuer_discovery};
use crate::auth::authentication::json_web_token::{PublicKey, SigningKey};

/// The limits of the maximum lifetime. Upstream: `completeServiceAccountOptions`.
const MIN_MAX_EXPIRATION: Duration = Duration::from_hours(1);
const MAX_MAX_EXPIRATION: Duration = Duration::from_secs(1 << 32);

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct ServiceAccountSettings {
    /// The key that signs tokens, instead of the plane's own key, which is not accepted then.
    pub signing_key: Option<Arc<SigningKey>>,
    /// Keys whose tokens are accepted, besides the one that signs.
    pub keys: Vec<PublicKey>,
    /// The issuers of accepted tokens; the first one is that of new tokens.
    pub issuers: Vec<String>,
    /// The audiences of tokens for the server itself; if empty, the issuers.
    pub api_audiences: Vec<String>,
    /// The URL of the key set in the discovery document; if None, that of the server.
    pub jwks_uri: Option<String>,
    /// The maximum lifetime of a token; that of a longer request is shortened.
    pub max_expiration: Option<Duration>,
    /// Whether the tokens that are mounted into pods by default are valid for a year, for programs
    /// that do not read a new one.
    pub extends_expiration: bool,
}

/// The reason why the settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Name an issuer.
    #[error("service-account-issuer should not be an empty string")]
    EmptyIssuer,
    /// Remove the duplicate.
    #[error("service-account-issuer {0:?} is already specified")]
    DuplicateIssuer(String),
    /// Choose an HTTPS URL.
    #[error("service-account-jwks-uri requires https scheme, parsed as: {0}")]
    JwksUri(String),
    /// Choose another lifetime.
    #[error("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds")]
    MaxExpiration,
}

impl Default for ServiceAccountSettings {
    fn default() -> Self {
        Self {
            signing_key: None,
            keys: Vec::new(),
            issuers: vec![ISSUER.to_owned()],
            api_audiences: Vec::new(),
            jwks_uri: None,
            max_expiration: None,
            extends_expiration: true,
        }
    }
}

impl ServiceAccountSettings {
    /// The audiences of tokens for the server itself.
    pub fn audiences(&self) -> &[String] {
        if self.api_audiences.is_empty() { &self.issuers } else { &self.api_audiences }
    }

    /// The issuer of new tokens.
    pub(super) fn issuer(&self) -> &str {
        self.issuers.first().map_or(ISSUER, String::as_str)
    }

    /// Validates the settings.
    pub(super) fn validate(&self) -> Result<(), SettingsError> {
        if self.issuers.is_empty() || self.issuers.iter().any(String::is_empty) {
            return Err(SettingsError::EmptyIssuer);
        }
        for (index, issuer) in self.issuers.iter().enumerate() {
            if self.issuers[..index].contains(issuer) {
                return Err(SettingsError::DuplicateIssuer(issuer.clone()));
            }
        }
        if let Some(uri) = self.jwks_uri.as_ref().filter(|it| !issuer_discovery::is_https(it)) {
            return Err(SettingsError::JwksUri(uri.clone()));
        }
        let limits = MIN_MAX_EXPIRATION..=MAX_MAX_EXPIRATION;
        if self.max_expiration.is_some_and(|it| !limits.contains(&it)) {
            return Err(SettingsError::MaxExpiration);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validated(change: impl FnOnce(&mut ServiceAccountSettings)) -> Result<(), SettingsError> {
        let mut settings = ServiceAccountSettings::default();
        change(&mut settings);
        settings.validate()
    }

    #[test]
    fn issuers_are_distinct_and_not_empty() {
        assert_eq!(validated(|_| {}), Ok(()));
        assert_eq!(validated(|it| it.issuers.clear()), Err(SettingsError::EmptyIssuer));
        assert_eq!(validated(|it| it.issuers.push(String::new())), Err(SettingsError::EmptyIssuer));
        let duplicate = SettingsError::DuplicateIssuer(ISSUER.to_owned());
        assert_eq!(validated(|it| it.issuers.push(ISSUER.to_owned())), Err(duplicate));
    }

    #[test]
    fn the_maximum_lifetime_is_at_least_an_hour() {
        assert_eq!(validated(|it| it.max_expiration = Some(Duration::from_hours(1))), Ok(()));
        let short = Some(Duration::from_secs(3599));
        assert_eq!(validated(|it| it.max_expiration = short), Err(SettingsError::MaxExpiration));
        let long = Some(Duration::from_secs((1 << 32) + 1));
        assert_eq!(validated(|it| it.max_expiration = long), Err(SettingsError::MaxExpiration));
    }

    #[test]
    fn the_url_of_the_key_set_is_an_https_url() {
        assert_eq!(validated(|it| it.jwks_uri = Some("https://a/keys".to_owned())), Ok(()));
        for uri in ["http://a", "a", ""] {
            let error = SettingsError::JwksUri(uri.to_owned());
            assert_eq!(validated(|it| it.jwks_uri = Some(uri.to_owned())), Err(error));
        }
    }

    #[test]
    fn the_audiences_are_the_issuers_unless_they_are_set() {
        let mut settings = ServiceAccountSettings::default();
        assert_eq!(settings.audiences(), [ISSUER]);
        settings.api_audiences = vec!["api".to_owned()];
        assert_eq!(settings.audiences(), ["api"]);
    }
}
