//! Who is asking: a client certificate, a bearer token, or nobody.

pub mod token;
pub mod x509;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use machinery::Status;
use token::TokenFile;

/// Whoever is in this group may do everything.
pub const MASTERS: &str = "system:masters";

/// The user of an authenticated request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// For messages and rules.
    pub name: String,
    /// Or empty.
    pub uid: String,
    /// For rules.
    pub groups: Vec<String>,
}

impl User {
    /// Who has shown nothing.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            uid: String::new(),
            groups: vec!["system:unauthenticated".to_owned()],
        }
    }

    /// A user who has shown who they are.
    pub fn authenticated(name: &str, uid: &str, mut groups: Vec<String>) -> Self {
        groups.push("system:authenticated".to_owned());
        Self { name: name.to_owned(), uid: uid.to_owned(), groups }
    }

    /// Whether the user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|it| it == group)
    }
}

/// The ways in which users are known.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// Static tokens.
    pub tokens: TokenFile,
}

impl Authenticator {
    /// Finds out who sent a request over a connection whose certificate named `peer`.
    ///
    /// A token that nobody knows is an error even where anonymous requests are allowed: its sender
    /// believes to be somebody.
    pub fn authenticate(&self, peer: Option<&User>, headers: &HeaderMap) -> Result<User, Status> {
        if let Some(user) = peer {
            return Ok(user.clone());
        }
        let bearer = headers
            .get(AUTHORIZATION)
            .and_then(|it| it.to_str().ok())
            .and_then(|it| it.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"))
            .map(|(_, token)| token.trim())
            .filter(|it| !it.is_empty());
        match bearer {
            None => Ok(User::anonymous()),
            Some(token) => self.tokens.user(token).cloned().ok_or_else(Status::unauthorized),
        }
    }
}
