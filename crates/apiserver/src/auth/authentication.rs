//! Authentication of requests by client certificate or bearer token; others are anonymous.
//!
//! What the server knows itself is tried first and never waits: certificates, static tokens, tokens of
//! service accounts. A token that it does not accept is then passed to the authenticators that may wait
//! for other servers ([`remote`]), if there are any. The first one that accepts the token decides.

pub mod anonymous;
mod bearer;
pub mod client_authorities;
pub mod remote;
pub mod json_web_token;
mod notes;
pub mod oidc;
pub mod request_header;
pub mod service_account;
pub mod token;
pub mod token_webhook;
pub mod x509;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use tokio::sync::mpsc;

use crate::auth::metrics::ServiceAccountMetrics;
use crate::request::is_well_escaped;
use anonymous::Anonymous;
use machinery::field_path::quote_list;
use machinery::{Value, json, timestamp};
use remote::{RemoteAuthenticators, TokenSender};
use service_account::{
    Claims, LegacyClaims, Lookup, ReferencedObject, SecretKind, TokenError, TokenSigner, UsedSecret,
};
use token::TokenFile;

pub(crate) use bearer::protocols_without_token;
pub use notes::Notes;

/// The name of the user of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";

/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";

/// The group of the anonymous user.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The key of the attribute that identifies the credential of a user.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The warning about a header that is otherwise ignored.
const EXTRA_SPACE: &str = "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// The warning about a token in a secret that the service account lists.
const GENERATED_SECRET: &str = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.";

/// The group of nodes.
pub const NODES: &str = "system:nodes";

/// The prefix of the user name of a node; the rest is the name of the node.
pub(crate) const NODE_PREFIX: &str = "system:node:";

/// The user of an authenticated request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// The user name.
    pub name: String,
    /// The uid, or empty.
    pub uid: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// Further attributes, by key.
    pub extra: BTreeMap<String, Vec<String>>,
    /// Whether it is a component in the process of the server, see [`User::component`]. No credential
    /// makes it true.
    pub is_component: bool,
}

impl User {
    /// The anonymous user.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            uid: String::new(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// An authenticated user; the group `system:authenticated` is added.
    pub fn authenticated(name: &str, uid: &str, mut groups: Vec<String>) -> Self {
        groups.push(AUTHENTICATED.to_owned());
        Self { name: name.to_owned(), uid: uid.to_owned(), groups, ..Self::default() }
    }

    /// The user of a component in the process of the server, such as a controller: it has the
    /// [fixed role](crate::auth::authorization::fixed_roles) of its name. A client outside of the
    /// process that has the same name has only the rights that roles give it.
    pub fn component(name: &str, groups: Vec<String>) -> Self {
        Self { is_component: true, ..Self::authenticated(name, "", groups) }
    }

    /// Adds the group `system:authenticated` to a user whom another server has named, unless the user
    /// has it or is anonymous. Upstream: authentication/group `AuthenticatedGroupAdder`.
    pub(crate) fn with_authenticated_group(mut self) -> Self {
        let has_group = self.is_in(AUTHENTICATED) || self.is_in(UNAUTHENTICATED);
        if self.name != ANONYMOUS && !has_group {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// The user as the `UserInfo` of reviews.
    pub(crate) fn to_info(&self) -> Value {
        let mut info = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }

    /// Whether the user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|it| it == group)
    }

    /// The name of the node, which may be empty, if the user is one.
    ///
    /// Upstream: pkg/auth/nodeidentifier
    pub fn node_name(&self) -> Option<&str> {
        self.name.strip_prefix(NODE_PREFIX).filter(|_| self.is_in(NODES))
    }
}

/// Authenticates requests.
#[derive(Debug)]
pub struct Authenticator {
    /// The static tokens.
    pub tokens: TokenFile,
    /// What becomes of requests without credentials.
    pub anonymous: Anonymous,
    /// Verifies tokens of service accounts.
    pub signer: TokenSigner,
    /// Receives the secrets whose tokens are used for the first time on a day. If it is full, a later
    /// request sends the secret again.
    pub used_secrets: mpsc::Sender<UsedSecret>,
    /// The authenticators that may wait for other servers, if there are any.
    pub remote: Option<RemoteAuthenticators>,
    /// Counts the uses of tokens of service accounts.
    pub(crate) metrics: ServiceAccountMetrics,
}

/// A request that the server cannot authenticate itself.
pub enum Refusal<'a> {
    /// The request is refused.
    Unauthorized,
    /// The request has a token that the server does not accept. Another server may accept it, see
    /// [`Authenticator::authenticate_remotely`].
    Token {
        /// The token.
        token: Cow<'a, str>,
        /// Why the server does not accept it.
        why: TokenError,
    },
}

impl fmt::Debug for Refusal<'_> {
    /// Omits the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unauthorized => f.write_str("Unauthorized"),
            Self::Token { why, .. } => {
                f.debug_struct("Token").field("why", why).finish_non_exhaustive()
            }
        }
    }
}

impl Authenticator {
    /// The user of a request for `path`. `peer` is the user of the connection's client certificate.
    ///
    /// An unknown token is an error, although requests without a token are anonymous: its sender
    /// expects to be authenticated.
    pub fn authenticate<'a>(
        &self,
        peer: Option<&User>,
        headers: &'a HeaderMap,
        path: &str,
        now: i64,
        lookup: Lookup<'_>,
        notes: &mut Notes,
    ) -> Result<User, Refusal<'a>> {
        if let Some(user) = peer {
            return Ok(user.clone());
        }
        let bearer = match bearer::header(headers) {
            Ok(None) => bearer::websocket_protocol(headers),
            token => token.map(|it| it.map(Cow::Borrowed)),
        };
        let Some(token) = bearer.map_err(|_| Refusal::Unauthorized)? else {
            if bearer::has_extra_space(headers) {
                notes.warnings.push(EXTRA_SPACE);
            }
            if self.anonymous.accepts(path) {
                return Ok(User::anonymous());
            }
            notes.has_no_credentials = true;
            return Err(Refusal::Unauthorized);
        };
        match self.authenticate_token(&token, self.audiences(), now, lookup, notes) {
            Ok((user, _)) => Ok(user),
            Err(why) => Err(Refusal::Token { token, why }),
        }
    }

    /// The user of a token that the server does not accept itself, for the reason `why`, and those of
    /// the `requested` audiences that the token is for. Waits for other servers, if there are any;
    /// `sender` is the client.
    pub async fn authenticate_remotely(
        &self,
        sender: TokenSender<'_>,
        token: &str,
        requested: &[String],
        why: TokenError,
    ) -> Result<(User, Vec<String>), TokenError> {
        let Some(remote) = &self.remote else { return Err(why) };
        // Boxed, so that requests which do not wait for another server have a small future.
        let answer = Box::pin(remote.authenticate(sender, token, self.audiences(), requested));
        answer.await.map_err(|also| why.and(also))
    }

    /// The audiences of tokens for the server itself.
    pub fn audiences(&self) -> &[String] {
        self.signer.settings.audiences()
    }

    /// The user of a token that the server accepts itself, and those of the `requested` audiences that
    /// the token is for.
    pub fn authenticate_token(
        &self,
        token: &str,
        requested: &[String],
        now: i64,
        lookup: Lookup<'_>,
        notes: &mut Notes,
    ) -> Result<(User, Vec<String>), TokenError> {
        if let Some(user) = self.tokens.user(token) {
            // Upstream: a static token is unknown to other audiences than the server.
            let audiences = common_audiences(self.audiences(), requested);
            return match audiences {
                Ok(audiences) => Ok((user.clone(), audiences)),
                Err(_) => Err(TokenError::Unknown),
            };
        }
        match self.signer.verify(token) {
            Ok(claims) => {
                let of_token = match claims.audiences.as_slice() {
                    [] => {
                        self.note_legacy(notes, claims.subject());
                        self.audiences()
                    }
                    audiences => audiences,
                };
                let audiences = common_audiences(of_token, requested)?;
                claims.check_lifetime(now).map_err(TokenError::Invalid)?;
                claims.validate(now, lookup).map_err(TokenError::Invalid)?;
                self.note_staleness(notes, &claims, now);
                Ok((claims.user(), audiences))
            }
            Err(TokenError::Unknown) => {
                let claims = self.signer.verify_legacy(token)?;
                self.note_legacy(notes, claims.subject());
                let audiences = common_audiences(self.audiences(), requested)?;
                let used = |secret: &ReferencedObject, kind| {
                    self.note_secret(notes, &claims, kind);
                    self.report_use(&claims, secret, now);
                };
                claims.validate(token, lookup, used).map_err(TokenError::Invalid)?;
                Ok((claims.user(), audiences))
            }
            Err(invalid) => Err(invalid),
        }
    }

    /// Notes the use of a token without audiences, such as those in secrets.
    fn note_legacy(&self, notes: &mut Notes, subject: String) {
        self.metrics.legacy.inc();
        notes.annotate("authentication.k8s.io/legacy-token", subject);
    }

    /// Notes whether a token whose lifetime was extended should have been replaced by its client.
    fn note_staleness(&self, notes: &mut Notes, claims: &Claims, now: i64) {
        let Some(warn_after) = claims.warn_after.filter(|it| *it != 0) else { return };
        if now <= warn_after {
            return self.metrics.valid.inc();
        }
        self.metrics.stale.inc();
        let (subject, seconds) = (claims.subject(), now - warn_after);
        let text = format!("subject: {subject}, seconds after warning threshold: {seconds}");
        notes.annotate("authentication.k8s.io/stale-token", text);
    }

    /// Notes the use of the token in a secret.
    fn note_secret(&self, notes: &mut Notes, claims: &LegacyClaims, kind: SecretKind) {
        let secret = claims.secret.clone();
        match kind {
            SecretKind::Invalidated => {
                self.metrics.invalidated.inc();
                let text = format!("{secret}/{}", claims.namespace);
                notes.annotate("authentication.k8s.io/legacy-token-invalidated", text);
            }
            SecretKind::Generated => {
                self.metrics.generated.inc();
                notes.warnings.push(GENERATED_SECRET);
                notes.annotate("authentication.k8s.io/legacy-token-autogenerated-secret", secret);
            }
            SecretKind::Manual => {
                self.metrics.manual.inc();
                notes.annotate("authentication.k8s.io/legacy-token-manual-secret", secret);
            }
        }
    }

    /// Reports the use of the token in a secret, once on each day.
    fn report_use(&self, claims: &LegacyClaims, secret: &ReferencedObject, now: i64) {
        const DAY: i64 = 24 * 60 * 60;
        let is_date = |date: &str, seconds: i64| {
            !date.is_empty() && timestamp::format_seconds(seconds).starts_with(date)
        };
        // The clock of another server may be a day ahead.
        if is_date(&secret.last_used, now) || is_date(&secret.last_used, now + DAY) {
            return;
        }
        let _ = self.used_secrets.try_send(UsedSecret {
            namespace: claims.namespace.clone(),
            name: claims.secret.clone(),
            uid: secret.uid.clone(),
        });
    }
}

/// Those of the requested audiences that a token is for. It is an error if there are none.
fn common_audiences(of_token: &[String], requested: &[String]) -> Result<Vec<String>, TokenError> {
    let common: Vec<String> =
        requested.iter().filter(|it| of_token.contains(it)).cloned().collect();
    if !common.is_empty() {
        return Ok(common);
    }
    Err(TokenError::Invalid(format!(
        "token audiences {} is invalid for the target audiences {}",
        quote_list(of_token),
        quote_list(requested),
    )))
}

/// Decodes the key of a further attribute in the name of a header. A key with invalid percent escapes
/// is used as it is, as upstream. One that decodes to no UTF-8 is refused with None, since different
/// keys could become the same one.
pub(crate) fn decode_extra_key(key: &str) -> Option<Cow<'_, str>> {
    if !is_well_escaped(key) {
        return Some(Cow::Borrowed(key));
    }
    percent_decode_str(key).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_debug_output_of_a_refusal_has_no_token() {
        let refusal = Refusal::Token { token: "tell-nobody".into(), why: TokenError::Unknown };
        assert_eq!(format!("{refusal:?}"), "Token { why: Unknown, .. }");
    }

    #[test]
    fn the_key_of_an_attribute_is_decoded_if_all_of_its_escapes_are_valid() {
        assert_eq!(decode_extra_key("example.com%2fscope").as_deref(), Some("example.com/scope"));
        assert_eq!(decode_extra_key("a%2fb%zz").as_deref(), Some("a%2fb%zz"));
        assert_eq!(decode_extra_key("a%ff"), None);
    }
}
