//! Tokens of service accounts. They are signed by the plane, so nothing is stored for them.
//!
//! A token is a JSON web token with Kubernetes' claims. It is valid until it expires or its service
//! account is deleted. A token that is bound to a pod, a secret or a node is also invalid after the
//! deletion of that object.

mod claims;
pub(crate) mod issuer_discovery;
mod legacy_claims;
mod settings;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::User;
use super::json_web_token::{JsonWebToken, PublicKey, SigningKey, UnusableKey};
use legacy_claims::LEGACY_ISSUER;
use machinery::{Value, json, names};

pub use claims::{Claims, Lookup, Reference};
pub(crate) use legacy_claims::LAST_USED;
pub use legacy_claims::{LegacyClaims, ReferencedObject, SecretKind, UsedSecret};
pub use settings::{ServiceAccountSettings, SettingsError};

/// The issuer of tokens unless another is configured. It is also the audience of tokens for the API
/// server itself.
pub const ISSUER: &str = "https://kubernetes.default.svc";

/// The prefix of a service account's user name.
const USERNAME_PREFIX: &str = "system:serviceaccount:";

/// The allowed difference between the clocks of issuer and verifier, in seconds. Upstream:
/// jwt.DefaultLeeway.
const LEEWAY: i64 = 60;

/// The reason why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token has another issuer: another authenticator may accept it.
    #[error("invalid bearer token")]
    Unknown,
    /// The token has this issuer and is not valid, for this reason.
    #[error("[invalid bearer token, {0}]")]
    Invalid(String),
}

impl TokenError {
    /// The error of two authenticators that have both not accepted the token. Upstream: an aggregate
    /// shows each message once.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, other) => other,
            (one, Self::Unknown) => one,
            (Self::Invalid(one), Self::Invalid(other)) if one == other => Self::Invalid(one),
            (Self::Invalid(one), Self::Invalid(other)) => Self::Invalid(format!("{one}, {other}")),
        }
    }
}

/// Signs and verifies tokens.
#[derive(Debug)]
pub struct TokenSigner {
    /// Issuers, audiences and lifetimes of tokens.
    pub settings: ServiceAccountSettings,
    key: Arc<SigningKey>,
    /// The keys whose tokens are accepted. The first one is that of `key`.
    keys: Vec<PublicKey>,
    /// The ID of `key` in tokens that earlier versions have signed, which stay valid.
    former_key_id: String,
}

/// The reason why the signing key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Check the directory and its permissions.
    #[error("cannot read or write {path}")]
    File {
        /// The path of the key file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Delete the file to have a new key generated; tokens signed with the old one are then invalid.
    #[error(
        "the key in {path} cannot be used; restore it from a backup, or delete it: a new key is generated then, and the tokens of service accounts have to be issued again"
    )]
    Key {
        /// The path of the key file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: UnusableKey,
    },
    /// See [`SettingsError`].
    #[error("the settings of service account tokens are not valid")]
    Settings(#[from] SettingsError),
    /// Not expected: the system's source of randomness failed.
    #[error("cannot generate a key")]
    GenerateKey,
}

impl TokenSigner {
    /// A signer with the configured key, or a new one, which is not stored.
    pub fn new(settings: ServiceAccountSettings) -> Result<Self, Error> {
        let generate = || {
            let der = SigningKey::generate().ok_or(Error::GenerateKey)?;
            SigningKey::from_pkcs8(&der).map_err(|_| Error::GenerateKey)
        };
        Self::with_default_key(settings, generate)
    }

    /// A signer with the configured key, or the one in `directory`, which is generated at the first
    /// start.
    pub fn open(directory: &Path, settings: ServiceAccountSettings) -> Result<Self, Error> {
        Self::with_default_key(settings, || open_key(directory))
    }

    fn with_default_key(
        settings: ServiceAccountSettings,
        default: impl FnOnce() -> Result<SigningKey, Error>,
    ) -> Result<Self, Error> {
        settings.validate()?;
        let key = match &settings.signing_key {
            Some(key) => Arc::clone(key),
            None => Arc::new(default()?),
        };
        let mut keys = vec![key.public().clone()];
        for accepted in &settings.keys {
            if !keys.contains(accepted) {
                keys.push(accepted.clone());
            }
        }
        let digest = ring::digest::digest(&ring::digest::SHA256, key.public().bytes());
        let former_key_id = BASE64_URL_SAFE_NO_PAD.encode(digest);
        Ok(Self { settings, key, keys, former_key_id })
    }

    /// The keys whose tokens are accepted.
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// A token with these claims; None if the system's source of randomness failed.
    pub fn sign(&self, claims: &Claims) -> Option<String> {
        self.key.sign(&json!({
            "aud": claims.audiences, "exp": claims.expires, "iat": claims.issued,
            "nbf": claims.not_before, "iss": self.settings.issuer(), "jti": claims.id,
            "sub": claims.subject(), "kubernetes.io": claims.to_private(),
        }))
    }

    /// A token for a secret; None if the system's source of randomness failed.
    pub fn sign_legacy(&self, claims: &LegacyClaims) -> Option<String> {
        self.key.sign(&claims.to_payload())
    }

    /// The claims of a token with a valid signature. Lifetime and audiences are not checked.
    pub fn verify(&self, token: &str) -> Result<Claims, TokenError> {
        let token = JsonWebToken::parse(token).ok_or(TokenError::Unknown)?;
        let issuer = token.payload.str_at(&["iss"]);
        if !self.settings.issuers.iter().any(|it| it == issuer) {
            return Err(TokenError::Unknown);
        }
        self.check_signature(&token)?;
        read_claims(&token).ok_or(TokenError::Unknown)
    }

    /// The claims of a token of a secret, whose signature is valid.
    pub fn verify_legacy(&self, token: &str) -> Result<LegacyClaims, TokenError> {
        let token = JsonWebToken::parse(token).ok_or(TokenError::Unknown)?;
        if token.payload.str_at(&["iss"]) != LEGACY_ISSUER {
            return Err(TokenError::Unknown);
        }
        self.check_signature(&token)?;
        LegacyClaims::from_payload(&token.payload).map_err(TokenError::Invalid)
    }

    /// An error if the signature is not that of an accepted key. A token that names a key must be
    /// signed with that key.
    fn check_signature(&self, token: &JsonWebToken<'_>) -> Result<(), TokenError> {
        let id = match token.key_id() {
            id if id == self.former_key_id => self.key.public().id(),
            id => id,
        };
        let mut named = self.keys.iter().filter(|it| id.is_empty() || it.id() == id).peekable();
        // Upstream: jwt.go; the second message is that of its library for JSON web tokens.
        let why = if named.peek().is_none() {
            "invalid signature, no keys found"
        } else if named.any(|key| token.verify(key)) {
            return Ok(());
        } else {
            "go-jose/go-jose: error in cryptographic primitive"
        };
        Err(TokenError::Invalid(why.to_owned()))
    }
}

/// Reads the key in `directory`, which is generated at the first start.
fn open_key(directory: &Path) -> Result<SigningKey, Error> {
    let path = directory.join("sa.key");
    let file = |source| Error::File { path: path.clone(), source };
    keel::create_private_directory(directory).map_err(file)?;
    if path.try_exists().map_err(file)? {
        keel::restrict_access(&path).map_err(file)?;
    } else {
        let der = SigningKey::generate().ok_or(Error::GenerateKey)?;
        keel::write_private(&path, &der).map_err(file)?;
    }
    let der = fs::read(&path).map_err(file)?;
    SigningKey::from_pkcs8(&der).map_err(|source| Error::Key { path, source })
}

/// The claims of a token that is bound to an account; None if it has not all of them.
fn read_claims(token: &JsonWebToken<'_>) -> Option<Claims> {
    let payload = &token.payload;
    let number = |key: &str| payload.get(&[key]).and_then(Value::as_i64);
    Some(Claims {
        audiences: strings(payload.get(&["aud"])),
        issued: number("iat")?,
        not_before: number("nbf")?,
        expires: number("exp")?,
        id: payload.str_at(&["jti"]).to_owned(),
        ..Claims::from_private(payload.get(&["kubernetes.io"])?)?
    })
}

/// The user of a service account.
pub fn user(namespace: &str, name: &str, uid: &str) -> User {
    User::authenticated(&username(namespace, name), uid, groups(namespace))
}

/// The user name of a service account.
pub fn username(namespace: &str, name: &str) -> String {
    format!("{USERNAME_PREFIX}{namespace}:{name}")
}

/// The groups of the service accounts of a namespace.
pub fn groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// The namespace and the name in a service account's user name.
pub fn parse_user(name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = name.strip_prefix(USERNAME_PREFIX)?.split_once(':')?;
    let is_valid =
        names::namespace_name(namespace).is_empty() && names::dns1123_subdomain(name).is_empty();
    is_valid.then_some((namespace, name))
}

/// The strings of a list. A single string is a list of one, as in the claim `aud`.
fn strings(value: Option<&Value>) -> Vec<String> {
    let items = match value {
        Some(Value::Array(items)) => items.as_slice(),
        Some(item) => std::slice::from_ref(item),
        None => &[],
    };
    items.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests;
