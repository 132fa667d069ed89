//! [`Anonymous`]: what becomes of requests without credentials.

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anonymous {
    /// All of them have the user `system:anonymous`.
    Accepted,
    /// Requests for exactly these paths have the user `system:anonymous`; others are refused.
    AcceptedAt(Vec<String>),
    /// All of them are refused.
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
