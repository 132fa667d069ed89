//! Who is asking: a client certificate, a bearer token, or nobody.

mod bearer;
pub mod service_account;
pub mod token;
pub mod x509;

pub(crate) use bearer::protocols_without_token;

use http::HeaderMap;
use machinery::{Status, Value, json};
use service_account::{ISSUER, Lookup, TokenError, TokenSigner};
use std::borrow::Cow;
use std::collections::BTreeMap;
use token::TokenFile;

/// The name of a user who has shown nothing.
pub const ANONYMOUS: &str = "system:anonymous";

/// The group of everybody who has shown who they are.
pub const AUTHENTICATED: &str = "system:authenticated";

/// The group of everybody else.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The user of an authenticated request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// For messages and rules.
    pub name: String,
    /// Or empty.
    pub uid: String,
    /// For rules.
    pub groups: Vec<String>,
    /// What else is known of them, by name.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Who has shown nothing.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            uid: String::new(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            extra: BTreeMap::new(),
        }
    }

    /// A user who has shown who they are.
    pub fn authenticated(name: &str, uid: &str, mut groups: Vec<String>) -> Self {
        groups.push(AUTHENTICATED.to_owned());
        Self { name: name.to_owned(), uid: uid.to_owned(), groups, extra: BTreeMap::new() }
    }

    /// As reviews show it.
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
}

/// The ways in which users are known.
#[derive(Debug)]
pub struct Authenticator {
    /// Static tokens.
    pub tokens: TokenFile,
    /// Tokens of service accounts.
    pub signer: TokenSigner,
}

impl Authenticator {
    /// Finds out who sent a request over a connection whose certificate named `peer`.
    ///
    /// A token that nobody knows is an error even where anonymous requests are allowed: its sender
    /// believes to be somebody.
    pub fn authenticate(
        &self,
        peer: Option<&User>,
        headers: &HeaderMap,
        now: i64,
        lookup: Lookup<'_>,
    ) -> Result<User, Status> {
        if let Some(user) = peer {
            return Ok(user.clone());
        }
        let bearer = match bearer::header(headers)? {
            None => bearer::websocket_protocol(headers)?,
            token => token.map(Cow::Borrowed),
        };
        let Some(token) = bearer else { return Ok(User::anonymous()) };
        match self.authenticate_token(&token, now, lookup) {
            Ok((user, audiences)) if audiences.iter().any(|it| it == ISSUER) => Ok(user),
            _ => Err(Status::unauthorized()),
        }
    }

    /// Whose token it is, and for whom it is meant.
    pub fn authenticate_token(
        &self,
        token: &str,
        now: i64,
        lookup: Lookup<'_>,
    ) -> Result<(User, Vec<String>), TokenError> {
        if let Some(user) = self.tokens.user(token) {
            return Ok((user.clone(), vec![ISSUER.to_owned()]));
        }
        let claims = self.signer.verify(token, now)?;
        claims.validate(now, lookup).map_err(TokenError::Invalid)?;
        Ok((claims.user(), claims.audiences))
    }
}
