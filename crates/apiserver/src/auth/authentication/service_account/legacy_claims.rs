//! [`LegacyClaims`]: the claims of a service account token that is stored in a secret. It does not
//! expire; it is valid while the secret contains it.
//!
//! Upstream: `pkg/serviceaccount/legacy.go`.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{Lookup, USERNAME_PREFIX};
use crate::auth::authentication::User;
use machinery::{GroupResource, Object, Status, Value, json};

/// The issuer of tokens in secrets.
pub(super) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// The prefix of the private claims.
const PREFIX: &str = "kubernetes.io/serviceaccount";

/// The label of a secret whose token was invalidated because it was not used.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The label of a secret with the date of the last use of its token.
pub(crate) const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

/// A secret whose token was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedSecret {
    /// The namespace of the secret.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// See the [module documentation](self).
///
/// ```
/// use apiserver::auth::authentication::service_account::LegacyClaims;
///
/// let claims = LegacyClaims {
///     namespace: "default".to_owned(),
///     name: "robot".to_owned(),
///     uid: "8f1c".to_owned(),
///     secret: "robot-token".to_owned(),
/// };
/// assert_eq!(claims.user().name, "system:serviceaccount:default:robot");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LegacyClaims {
    /// The namespace of the account and of the secret.
    pub namespace: String,
    /// The name of the account.
    pub name: String,
    /// The uid of the account.
    pub uid: String,
    /// The name of the secret.
    pub secret: String,
}

impl LegacyClaims {
    /// The payload of the token.
    pub(super) fn to_payload(&self) -> Value {
        let Self { namespace, name, uid, secret } = self;
        json!({
            "iss": LEGACY_ISSUER,
            format!("{PREFIX}/namespace"): namespace,
            format!("{PREFIX}/secret.name"): secret,
            format!("{PREFIX}/service-account.name"): name,
            format!("{PREFIX}/service-account.uid"): uid,
            "sub": self.subject(),
        })
    }

    /// Reads what [`to_payload`](Self::to_payload) wrote. The error is upstream's message.
    pub(super) fn from_payload(payload: &Object) -> Result<Self, String> {
        let text = |claim: &str, name: &str| match payload.str_at(&[&format!("{PREFIX}/{claim}")]) {
            "" => Err(format!("{name} claim is missing")),
            text => Ok(text.to_owned()),
        };
        if payload.str_at(&["sub"]).is_empty() {
            return Err("sub claim is missing".to_owned());
        }
        let claims = Self {
            namespace: text("namespace", "namespace")?,
            secret: text("secret.name", "secretName")?,
            name: text("service-account.name", "serviceAccountName")?,
            uid: text("service-account.uid", "serviceAccountUID")?,
        };
        if payload.str_at(&["sub"]) != claims.subject() {
            return Err("sub claim is invalid".to_owned());
        }
        Ok(claims)
    }

    pub(in crate::auth::authentication) fn subject(&self) -> String {
        format!("{USERNAME_PREFIX}{}:{}", self.namespace, self.name)
    }

    /// Validates that the secret contains the token and that the account exists. The error is
    /// upstream's message. `used` is called with the secret and its kind, also if it is invalidated.
    pub(in crate::auth::authentication) fn validate(
        &self,
        token: &str,
        lookup: Lookup<'_>,
        used: impl FnOnce(&ReferencedObject, SecretKind),
    ) -> Result<(), String> {
        let Self { namespace, name, uid, secret: secret_name } = self;
        let secret = lookup("secrets", namespace, secret_name);
        let Some(secret) = secret.filter(|secret| secret.deletion_timestamp.is_none()) else {
            return Err("Token has been invalidated".to_owned());
        };
        if !secret.has_token(token) {
            return Err("Token does not match server's copy".to_owned());
        }
        let Some(account) = lookup("serviceaccounts", namespace, name) else {
            let what = GroupResource::new("", "serviceaccounts");
            return Err(Status::not_found(&what, name).message);
        };
        if account.deletion_timestamp.is_some() {
            return Err(format!("ServiceAccount {namespace}/{name} has been deleted"));
        }
        if account.uid != *uid {
            let found = account.uid;
            return Err(format!("ServiceAccount UID ({found}) does not match claim ({uid})"));
        }
        let kind = if secret.is_invalidated {
            SecretKind::Invalidated
        } else if account.secrets.contains(secret_name) {
            SecretKind::Generated
        } else {
            SecretKind::Manual
        };
        used(&secret, kind);
        if kind == SecretKind::Invalidated {
            return Err(format!(
                "the token in secret {namespace}/{secret_name} for service account {namespace}/{name} has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
            ));
        }
        Ok(())
    }

    /// The user that the token authenticates.
    pub fn user(&self) -> User {
        super::user(&self.namespace, &self.name, &self.uid)
    }
}

/// How a secret with a token came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    /// The service account lists it, as controllers of older releases did with the secrets that they
    /// created.
    Generated,
    /// A user has created it.
    Manual,
    /// It is labeled as invalid.
    Invalidated,
}

/// The current state of an object that a token refers to.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ReferencedObject {
    /// The uid of the object.
    pub uid: String,
    /// The deletion timestamp, in seconds since 1970, if the deletion has begun.
    pub deletion_timestamp: Option<i64>,
    /// The token in a secret, in base64; empty for other objects.
    pub token: String,
    /// Whether a secret is labeled as invalid.
    pub is_invalidated: bool,
    /// The date of the last use of the token in a secret; empty if it is not known.
    pub last_used: String,
    /// The names of the secrets that a service account lists.
    pub secrets: Vec<String>,
}

impl fmt::Debug for ReferencedObject {
    /// Omits the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReferencedObject")
            .field("uid", &self.uid)
            .field("deletion_timestamp", &self.deletion_timestamp)
            .field("is_invalidated", &self.is_invalidated)
            .field("last_used", &self.last_used)
            .finish_non_exhaustive()
    }
}

impl ReferencedObject {
    /// The parts of a stored object that tokens depend on.
    pub fn of(object: &Object) -> Self {
        let deletion_timestamp = object.deletion_timestamp().and_then(machinery::timestamp::parse);
        let label = object.str_at(&["metadata", "labels", INVALID_SINCE]);
        let secrets = object.get(&["secrets"]).and_then(Value::as_array).into_iter().flatten();
        let secrets = secrets.filter_map(|it| it["name"].as_str()).map(str::to_owned);
        Self {
            uid: object.uid().to_owned(),
            deletion_timestamp: deletion_timestamp.map(|(seconds, _)| seconds),
            token: object.str_at(&["data", "token"]).to_owned(),
            is_invalidated: !label.is_empty(),
            last_used: object.str_at(&["metadata", "labels", LAST_USED]).to_owned(),
            secrets: secrets.collect(),
        }
    }

    fn has_token(&self, token: &str) -> bool {
        let stored = BASE64_STANDARD.decode(&self.token).unwrap_or_default();
        // The signature of the token was verified before, so the time of the comparison reveals
        // nothing that its sender does not know.
        stored == token.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ServiceAccountSettings, TokenSigner};
    use super::*;

    fn claims() -> LegacyClaims {
        LegacyClaims {
            namespace: "ns".to_owned(),
            name: "robot".to_owned(),
            uid: "1".to_owned(),
            secret: "s".to_owned(),
        }
    }

    fn check(secret: Option<&ReferencedObject>, account_uid: &str, expect: Result<(), &str>) {
        let lookup = |resource: &str, _: &str, _: &str| match resource {
            "secrets" => secret.cloned(),
            _ => Some(ReferencedObject { uid: account_uid.to_owned(), ..Default::default() }),
        };
        assert_eq!(claims().validate("t", &lookup, |_, _| {}), expect.map_err(str::to_owned));
    }

    #[test]
    fn a_token_is_valid_while_its_secret_contains_it() {
        let token = BASE64_STANDARD.encode("t");
        let secret = ReferencedObject { token, ..ReferencedObject::default() };
        check(Some(&secret), "1", Ok(()));
        let uid = "ServiceAccount UID (2) does not match claim (1)";
        check(Some(&secret), "2", Err(uid));
        check(None, "1", Err("Token has been invalidated"));
        let deleted = ReferencedObject { deletion_timestamp: Some(1), ..secret };
        check(Some(&deleted), "1", Err("Token has been invalidated"));
        check(Some(&ReferencedObject::default()), "1", Err("Token does not match server's copy"));
    }

    #[test]
    fn the_debug_output_of_a_secret_has_no_token() {
        let token = "tell-nobody".to_owned();
        let secret = ReferencedObject { token, ..ReferencedObject::default() };
        assert!(!format!("{secret:?}").contains("tell-nobody"), "{secret:?}");
    }

    #[test]
    fn a_signed_token_has_the_claims() {
        let new = || TokenSigner::new(ServiceAccountSettings::default()).unwrap();
        let signer = new();
        let token = signer.sign_legacy(&claims()).unwrap();
        assert_eq!(signer.verify_legacy(&token), Ok(claims()));
        assert!(new().verify_legacy(&token).is_err());
    }
}
