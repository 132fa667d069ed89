//! [`Anonymous`]: what becomes of requests without credentials.

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anonymous {
    /// They are those of the user `system:anonymous`.
    Accepted,
    /// Those for exactly these paths are those of the user `system:anonymous`; others are not
    /// authorized.
    AcceptedAt(Vec<String>),
    /// They are not authorized.
    Refused,
}

impl Anonymous {
    /// Whether a request for `path` without credentials is accepted.
    pub(crate) fn accepts(&self, path: &str) -> bool {
        match self {
            Self::Accepted => true,
            Self::AcceptedAt(paths) => paths.iter().any(|it| it == path),
            Self::Refused => false,
        }
    }
}
