//! Tokens of service accounts. They are signed by the plane, so nothing is stored for them.
//!
//! A token is a JSON web token with Kubernetes' claims, signed with ES256. It is valid until it
//! expires or its service account is deleted. A token that is bound to a pod, a secret or a node is
//! also invalid after the deletion of that object.

mod claims;
mod legacy_claims;

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};

use super::User;
use legacy_claims::LEGACY_ISSUER;
use machinery::{Object, Value, json, names};

pub use claims::{Claims, Lookup, Reference};
pub(crate) use legacy_claims::LAST_USED;
pub use legacy_claims::{LegacyClaims, ReferencedObject, UsedSecret};

/// The issuer of tokens, which is also the audience of tokens for the API server itself.
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

/// Signs and verifies tokens.
pub struct TokenSigner {
    key: EcdsaKeyPair,
    key_id: String,
    random: SystemRandom,
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
    },
    /// Not expected: the system's source of randomness failed.
    #[error("cannot generate a key")]
    GenerateKey,
}

impl TokenSigner {
    /// A signer with a new key, which is not stored.
    pub fn new() -> Result<Self, Error> {
        Self::from_der(&new_key()?).ok_or(Error::GenerateKey)
    }

    /// A signer with the key in `directory`, which is generated at the first start.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let path = directory.join("sa.key");
        let file = |source| Error::File { path: path.clone(), source };
        keel::create_private_directory(directory).map_err(file)?;
        if path.try_exists().map_err(file)? {
            keel::restrict_access(&path).map_err(file)?;
        } else {
            let der = new_key()?;
            keel::write_private(&path, &der).map_err(file)?;
        }
        let der = fs::read(&path).map_err(file)?;
        Self::from_der(&der).ok_or(Error::Key { path })
    }

    fn from_der(der: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random).ok()?;
        let digest = ring::digest::digest(&ring::digest::SHA256, key.public_key().as_ref());
        Some(Self { key, key_id: BASE64_URL_SAFE_NO_PAD.encode(digest), random })
    }

    /// A token with these claims; None if the system's source of randomness failed.
    pub fn sign(&self, claims: &Claims) -> Option<String> {
        self.sign_payload(&json!({
            "aud": claims.audiences, "exp": claims.expires, "iat": claims.issued,
            "nbf": claims.issued, "iss": ISSUER, "jti": claims.id,
            "sub": claims.subject(), "kubernetes.io": claims.to_private(),
        }))
    }

    /// A token for a secret; None if the system's source of randomness failed.
    pub fn sign_legacy(&self, claims: &LegacyClaims) -> Option<String> {
        self.sign_payload(&claims.to_payload())
    }

    fn sign_payload(&self, payload: &Value) -> Option<String> {
        let header = json!({"alg": "ES256", "kid": self.key_id, "typ": "JWT"});
        let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(payload));
        let signature = self.key.sign(&self.random, signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a token whose signature is valid and whose lifetime includes `now`.
    pub fn verify(&self, token: &str, now: i64) -> Result<Claims, TokenError> {
        let (claims, not_before) = Self::read(token).ok_or(TokenError::Unknown)?;
        self.check_signature(token)?;
        let why = if now - LEEWAY > claims.expires {
            "service account token has expired"
        } else if now + LEEWAY < not_before {
            "service account token is not valid yet"
        } else if now + LEEWAY < claims.issued {
            "service account token is issued in the future"
        } else {
            return Ok(claims);
        };
        Err(TokenError::Invalid(why.to_owned()))
    }

    /// The claims of a token of a secret, whose signature is valid.
    pub fn verify_legacy(&self, token: &str) -> Result<LegacyClaims, TokenError> {
        let payload = Self::payload(token).ok_or(TokenError::Unknown)?;
        if payload.str_at(&["iss"]) != LEGACY_ISSUER {
            return Err(TokenError::Unknown);
        }
        self.check_signature(token)?;
        LegacyClaims::from_payload(&payload).map_err(TokenError::Invalid)
    }

    /// An error if the signature is not that of this signer's key.
    fn check_signature(&self, token: &str) -> Result<(), TokenError> {
        let verify = || {
            let (signed, signature) = token.rsplit_once('.')?;
            let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
            let public = self.key.public_key().as_ref();
            let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public);
            key.verify(signed.as_bytes(), &signature).ok()
        };
        // Upstream: the message of its library for JSON web tokens.
        let why = "go-jose/go-jose: error in cryptographic primitive";
        verify().ok_or_else(|| TokenError::Invalid(why.to_owned()))
    }

    /// The payload of a token. The signature is not verified.
    fn payload(token: &str) -> Option<Object> {
        let (signed, _) = token.rsplit_once('.')?;
        let (_, payload) = signed.split_once('.')?;
        let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
        Some(Object::new(serde_json::from_slice(&payload).ok()?))
    }

    /// The claims and the `nbf` time of a token with this issuer. The signature is not verified.
    fn read(token: &str) -> Option<(Claims, i64)> {
        let payload = Self::payload(token)?;
        let number = |key: &str| payload.get(&[key]).and_then(Value::as_i64);
        let private = payload.get(&["kubernetes.io"])?;
        let claims = Claims {
            audiences: strings(payload.get(&["aud"])),
            issued: number("iat")?,
            expires: number("exp")?,
            id: payload.str_at(&["jti"]).to_owned(),
            ..Claims::from_private(private)
        };
        (payload.str_at(&["iss"]) == ISSUER).then_some((claims, number("nbf")?))
    }
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

fn strings(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

fn new_key() -> Result<Vec<u8>, Error> {
    let random = SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
    der.map(|it| it.as_ref().to_vec()).map_err(|_| Error::GenerateKey)
}

impl std::fmt::Debug for TokenSigner {
    /// Omits the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenSigner({})", self.key_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            namespace: "ns".to_owned(),
            name: "robot".to_owned(),
            uid: "1".to_owned(),
            audiences: vec![ISSUER.to_owned()],
            issued: 1000,
            expires: 2000,
            id: "x".to_owned(),
            ..Claims::default()
        }
    }

    #[test]
    fn a_verified_token_has_the_signed_claims() {
        let signer = TokenSigner::new().unwrap();
        let token = signer.sign(&claims()).unwrap();
        assert_eq!(signer.verify(&token, 1500), Ok(claims()));
        let user = claims().user();
        assert_eq!(user.name, "system:serviceaccount:ns:robot");
        assert!(user.is_in("system:serviceaccounts:ns") && user.is_in("system:authenticated"));
    }

    #[test]
    fn a_token_is_valid_during_its_lifetime() {
        let signer = TokenSigner::new().unwrap();
        let token = signer.sign(&claims()).unwrap();
        let refused = |why: &str| Err(TokenError::Invalid(why.to_owned()));
        assert_eq!(signer.verify(&token, 939), refused("service account token is not valid yet"));
        assert_eq!(signer.verify(&token, 940), Ok(claims()));
        assert_eq!(signer.verify(&token, 2060), Ok(claims()));
        assert_eq!(signer.verify(&token, 2061), refused("service account token has expired"));
    }

    #[test]
    fn a_token_with_another_signature_is_refused() {
        let signer = TokenSigner::new().unwrap();
        let foreign = TokenSigner::new().unwrap().sign(&claims()).unwrap();
        let refused = Err(TokenError::Invalid(
            "go-jose/go-jose: error in cryptographic primitive".to_owned(),
        ));
        assert_eq!(signer.verify(&foreign, 1500), refused);
        let token = signer.sign(&claims()).unwrap();
        let (head, rest) = token.split_once('.').unwrap();
        let (payload, signature) = rest.split_once('.').unwrap();
        let forged = BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap();
        let forged = String::from_utf8(forged).unwrap().replace("robot", "admin");
        let forged = BASE64_URL_SAFE_NO_PAD.encode(forged);
        let forged = format!("{head}.{forged}.{signature}");
        assert_eq!(signer.verify(&forged, 1500), refused);
        for nonsense in ["", ".", "..", "a.b.c", head] {
            assert_eq!(signer.verify(nonsense, 1500), Err(TokenError::Unknown), "{nonsense}");
        }
    }

    #[test]
    fn the_key_is_the_same_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let token = TokenSigner::open(directory.path()).unwrap().sign(&claims()).unwrap();
        let again = TokenSigner::open(directory.path()).unwrap();
        assert_eq!(again.verify(&token, 1500), Ok(claims()));
    }
}
