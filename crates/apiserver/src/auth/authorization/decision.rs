//! The decision of an authorizer, and the form in which it is returned.

use std::borrow::Cow;

use futures_util::future::BoxFuture;

/// The decision of an [`Authorizer`](super::Authorizer), with a human-readable reason, which may be
/// empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed; no other authorizer is called.
    Allow(Cow<'static, str>),
    /// The request is refused; no other authorizer is called.
    Deny {
        /// The reason.
        reason: Cow<'static, str>,
        /// The error because of which the request is refused. It is not a refusal of the user, so that
        /// the request fails with it.
        evaluation_error: Option<String>,
    },
    /// The other authorizers decide.
    NoOpinion {
        /// The reason.
        reason: Cow<'static, str>,
        /// The error because of which the authorizer has no opinion. Access reviews show it, and a
        /// request that no other authorizer allows fails with it.
        evaluation_error: Option<String>,
    },
}

impl Decision {
    /// Allows the request without a reason.
    pub fn allow() -> Self {
        Self::Allow("".into())
    }

    /// Refuses the request, with a reason, which may be empty.
    pub fn deny(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Deny { reason: reason.into(), evaluation_error: None }
    }

    /// No opinion, with a reason, which may be empty.
    pub fn no_opinion(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::NoOpinion { reason: reason.into(), evaluation_error: None }
    }

    /// No opinion because of an error.
    pub fn failed(evaluation_error: String) -> Self {
        Self::NoOpinion { reason: "".into(), evaluation_error: Some(evaluation_error) }
    }

    /// Refuses the request because of an error.
    pub fn failed_and_denied(evaluation_error: String) -> Self {
        Self::Deny { reason: "".into(), evaluation_error: Some(evaluation_error) }
    }

    /// Whether the request is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    /// The human-readable reason.
    pub fn reason(&self) -> &str {
        let (Self::Allow(reason) | Self::Deny { reason, .. } | Self::NoOpinion { reason, .. }) =
            self;
        reason
    }

    /// The error because of which the request is not allowed.
    pub fn evaluation_error(&self) -> Option<&str> {
        match self {
            Self::NoOpinion { evaluation_error, .. } | Self::Deny { evaluation_error, .. } => {
                evaluation_error.as_deref()
            }
            Self::Allow(_) => None,
        }
    }
}

/// A [`Decision`] that is made, or is being made.
pub enum Authorization<'a> {
    /// The decision is made.
    Ready(Decision),
    /// The decision depends on another server.
    Pending(BoxFuture<'a, Decision>),
}

impl From<Decision> for Authorization<'_> {
    fn from(decision: Decision) -> Self {
        Self::Ready(decision)
    }
}
