//! [`AccessReviewer`]: whether a request to the endpoint may read its path. The API server decides: a
//! `TokenReview` says whose token it is, and a `SubjectAccessReview` whether the user may `get` the
//! path as a non-resource URL, as for the metrics of controller-runtime.
//!
//! Decisions are cached for a short time, by a digest of the token. If the server cannot be asked, the
//! request is refused, and the next one asks again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube_client::{Api, Client};
use kube_core::params::PostParams;
use ring::digest;

use keel::{Clock, ClockInstant, message_with_causes};

/// The time for which a user who may read a path is not reviewed again.
const ALLOWED_TTL: Duration = Duration::from_mins(1);
/// The same for one who may not.
const DENIED_TTL: Duration = Duration::from_secs(10);
/// The longest time of both reviews.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest number of cached decisions.
const MAX_DECISIONS: usize = 512;

/// See the [module documentation](self).
pub(crate) struct AccessReviewer {
    client: Client,
    clock: Clock,
    decisions: Mutex<HashMap<DecisionKey, Decision>>,
}

/// The digest of a token and a path, so that no token stays in memory.
type DecisionKey = [u8; digest::SHA256_OUTPUT_LEN];

struct Decision {
    result: Result<(), Denial>,
    at: ClockInstant,
}

/// The reason why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denial {
    #[error("a bearer token that the API server accepts is required")]
    Unauthenticated,
    #[error("user {user:?} may not get {path}")]
    Forbidden { user: String, path: String },
    #[error("cannot ask the API server about this request")]
    Unknown,
}

impl Denial {
    pub(crate) fn code(&self) -> StatusCode {
        match self {
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden { .. } => StatusCode::FORBIDDEN,
            Self::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl AccessReviewer {
    /// `client` needs the permission to create both kinds of reviews.
    pub(crate) fn new(client: Client, clock: &Clock) -> Self {
        Self { client, clock: clock.clone(), decisions: Mutex::default() }
    }

    /// Whether a request with these headers may read `path`.
    pub(crate) async fn review(&self, headers: &HeaderMap, path: &str) -> Result<(), Denial> {
        let Some(token) = bearer_token(headers) else { return Err(Denial::Unauthenticated) };
        let key = decision_key(token, path);
        if let Some(result) = self.cached(&key) {
            return result;
        }
        let asked = tokio::time::timeout(REVIEW_TIMEOUT, self.ask(token, path)).await;
        let result = match asked {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => {
                let error = message_with_causes(&error);
                tracing::warn!(error, path, "cannot review a request to the endpoint");
                return Err(Denial::Unknown);
            }
            Err(_) => return Err(Denial::Unknown),
        };
        let decision = Decision { result: result.clone(), at: self.clock.instant() };
        let mut decisions = self.lock();
        if decisions.len() >= MAX_DECISIONS {
            decisions.retain(|_, decision| self.is_fresh(decision));
        }
        if decisions.len() < MAX_DECISIONS {
            decisions.insert(key, decision);
        }
        result
    }

    fn cached(&self, key: &DecisionKey) -> Option<Result<(), Denial>> {
        let decisions = self.lock();
        let decision = decisions.get(key).filter(|decision| self.is_fresh(decision))?;
        Some(decision.result.clone())
    }

    fn is_fresh(&self, decision: &Decision) -> bool {
        let ttl = if decision.result.is_ok() { ALLOWED_TTL } else { DENIED_TTL };
        self.clock.elapsed_since(&decision.at) < ttl
    }

    /// Asks the API server; an error if it does not decide.
    async fn ask(&self, token: &str, path: &str) -> kube_client::Result<Result<(), Denial>> {
        let params = PostParams::default();
        let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews = Api::<TokenReview>::all(self.client.clone());
        let status = reviews.create(&params, &review).await?.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        let Some(UserInfo { username, uid, groups, extra }) = user else {
            return Ok(Err(Denial::Unauthenticated));
        };
        let user = username.clone().unwrap_or_default();
        let (path, verb) = (path.to_owned(), "get".to_owned());
        let attributes = NonResourceAttributes { path: Some(path.clone()), verb: Some(verb) };
        let spec = SubjectAccessReviewSpec {
            user: username,
            uid,
            groups,
            extra,
            non_resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviews = Api::<SubjectAccessReview>::all(self.client.clone());
        let status = reviews.create(&params, &review).await?.status.unwrap_or_default();
        Ok(if status.allowed { Ok(()) } else { Err(Denial::Forbidden { user, path }) })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<DecisionKey, Decision>> {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The token of `Authorization: Bearer`, whose scheme has any case.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn decision_key(token: &str, path: &str) -> DecisionKey {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(path.as_bytes());
    context.update(b"\n");
    context.update(token.as_bytes());
    let mut key = DecisionKey::default();
    key.copy_from_slice(context.finish().as_ref());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_bearer_and_the_token_is_not_empty() {
        let token = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            bearer_token(&headers).map(str::to_owned)
        };
        assert_eq!(token("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token("bearer  abc ").as_deref(), Some("abc"));
        assert_eq!(token("Basic abc"), None);
        assert_eq!(token("Bearer "), None);
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }

    #[test]
    fn decisions_are_cached_for_one_path() {
        assert_ne!(decision_key("a", "/metrics"), decision_key("a", "/reconciles"));
        assert_ne!(decision_key("a", "/metrics"), decision_key("b", "/metrics"));
    }
}
