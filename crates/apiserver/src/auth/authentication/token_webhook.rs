//! [`TokenWebhook`]: asks another server about a token, with a `TokenReview`.
//!
//! Answers are cached for a while, also refusals, but not failures. Requests with the same token share
//! one call. A call that fails for a passing reason is repeated with growing delays.
//!
//! Upstream: `authenticator/token/webhook` and `authentication/token/cache`.

mod answer_cache;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{Request, Response};
use http_body_util::Full;
use tokio::time::{Instant, sleep, timeout_at};

use super::User;
use crate::outbound;
use crate::outbound::webhook_endpoint::WebhookEndpoint;
use crate::outbound::{Outbound, failure_message};
use answer_cache::{AnswerCache, Begin};
use keel::{Clock, Entropy, Tasks};
use machinery::field_path::quote;
use machinery::{Value, json};

/// The time limit of a call with its repetitions. The value is upstream's.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of attempts of a call. The value is upstream's.
const ATTEMPTS: u32 = 5;

/// The delay after the first attempt. Each further delay is half as long again.
const FIRST_DELAY: Duration = Duration::from_millis(500);

/// The maximum size of a response in bytes.
const MAX_RESPONSE: usize = 1 << 20;

/// The version of the reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewVersion {
    /// authentication.k8s.io/v1
    V1,
    /// authentication.k8s.io/v1beta1
    V1beta1,
}

/// Where and how to ask about tokens.
#[derive(Debug, Clone)]
pub struct TokenWebhookSettings {
    /// The server.
    pub endpoint: WebhookEndpoint,
    /// The version of the reviews.
    pub version: ReviewVersion,
    /// The time for which answers are cached; zero for none.
    pub cache_ttl: Duration,
}

/// The user of a token and its audiences, None if it is not accepted, or why the server could not be
/// asked.
pub(super) type Answer = Result<Option<(User, Vec<String>)>, String>;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct TokenWebhook {
    caller: Arc<Caller>,
    cache: Arc<AnswerCache>,
    tasks: Tasks,
}

/// Calls the server.
#[derive(Debug)]
struct Caller {
    settings: TokenWebhookSettings,
    outbound: Outbound,
    entropy: Entropy,
}

/// The reason why a call failed.
struct CallError {
    message: String,
    /// Whether the next attempt may succeed.
    is_temporary: bool,
}

impl TokenWebhook {
    /// A webhook whose cache is empty.
    pub(crate) fn new(
        settings: TokenWebhookSettings,
        clock: &Clock,
        entropy: &Entropy,
        tasks: &Tasks,
    ) -> Self {
        let cache = AnswerCache::new(settings.cache_ttl, clock, entropy);
        let (outbound, entropy) = (Outbound::default(), entropy.clone());
        let caller = Caller { settings, outbound, entropy };
        Self { caller: Arc::new(caller), cache: Arc::new(cache), tasks: tasks.clone() }
    }

    /// The user of a token, and those of the `requested` audiences that it is for; None if the other
    /// server does not accept it. `own` are the audiences of this server.
    pub(super) async fn authenticate(
        &self,
        token: &str,
        own: &[String],
        requested: &[String],
    ) -> Answer {
        let mut pending = match self.cache.begin(token, requested) {
            Begin::Known(answer) => return answer,
            Begin::Full => return Err("too many token reviews are in progress".to_owned()),
            Begin::Pending(pending) => pending,
            Begin::Ask(question, pending) => {
                let caller = Arc::clone(&self.caller);
                let (token, own) = (token.to_owned(), own.to_vec());
                let requested = requested.to_vec();
                // The call is shared, so it does not end with the request that began it.
                self.tasks.spawn("token-review", async move {
                    let answer = caller.ask(&token, &own, &requested).await;
                    question.answer(answer);
                });
                pending
            }
        };
        let answer = pending.wait_for(Option::is_some).await.ok().and_then(|it| it.clone());
        answer.unwrap_or_else(|| Err("the review of the token did not end".to_owned()))
    }
}

impl Caller {
    async fn ask(&self, token: &str, own: &[String], requested: &[String]) -> Answer {
        let deadline = Instant::now() + TIMEOUT;
        let body = self.review(token, requested).to_string();
        let mut delay = FIRST_DELAY;
        let mut attempt = 1;
        let answer = loop {
            let error = match self.post(&body, deadline).await {
                Ok(answer) => break answer,
                Err(error) => error,
            };
            let fifth = u64::try_from(delay.as_nanos() / 5).unwrap_or(u64::MAX);
            let jitter = Duration::from_nanos(self.entropy.below(fifth));
            let next = Instant::now() + delay + jitter;
            if !error.is_temporary || attempt == ATTEMPTS || next >= deadline {
                let error = error.message;
                tracing::error!(error, "Failed to make webhook authenticator request");
                return Err(error);
            }
            sleep(delay + jitter).await;
            delay = delay.mul_f64(1.5);
            attempt += 1;
        };
        read(&answer, own, requested)
    }

    fn review(&self, token: &str, audiences: &[String]) -> Value {
        let api_version = match self.settings.version {
            ReviewVersion::V1 => "authentication.k8s.io/v1",
            ReviewVersion::V1beta1 => "authentication.k8s.io/v1beta1",
        };
        json!({"kind": "TokenReview", "apiVersion": api_version, "metadata": {},
            "spec": {"token": token, "audiences": audiences}, "status": {"user": {}}})
    }

    async fn post(&self, body: &str, deadline: Instant) -> Result<Bytes, CallError> {
        let endpoint = &self.settings.endpoint;
        let failed = |is_temporary: bool, why: &dyn std::fmt::Display| CallError {
            message: format!("Post {}: {why}", quote(endpoint.url())),
            is_temporary,
        };
        let mut request = Request::post(endpoint.url())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*");
        if let Some((name, value)) = endpoint.headers().map_err(|error| failed(false, &error))? {
            request = request.header(name, value);
        }
        let request =
            request.body(Full::from(body.to_owned())).map_err(|error| failed(false, &error))?;
        let call = self.outbound.call(endpoint.destination(), request, MAX_RESPONSE, deadline);
        let answer = match timeout_at(deadline, call).await {
            Err(_) => return Err(failed(false, &"context deadline exceeded")),
            Ok(Err(error @ outbound::Error::Transport(_))) => return Err(failed(true, &error)),
            Ok(Err(error)) => return Err(failed(false, &error)),
            Ok(Ok(answer)) => answer,
        };
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        Err(CallError { message: failure_message(&answer), is_temporary: is_temporary(&answer) })
    }
}

/// Upstream: `webhook.DefaultShouldRetry`.
fn is_temporary(answer: &Response<Bytes>) -> bool {
    matches!(answer.status().as_u16(), 429 | 500 | 504)
        || answer.headers().contains_key(RETRY_AFTER)
}

/// Reads the status of a review.
fn read(body: &[u8], own: &[String], requested: &[String]) -> Answer {
    let review: Value = serde_json::from_slice(body)
        .map_err(|error| format!("the answer of the webhook cannot be read: {error}"))?;
    let api_version = review["apiVersion"].as_str().unwrap_or_default();
    if review["kind"] != "TokenReview" || !api_version.starts_with("authentication.k8s.io/v1") {
        return Err("the answer of the webhook is not a TokenReview".to_owned());
    }
    let status = &review["status"];
    let stated = texts(&status["audiences"]);
    let of_token = if stated.is_empty() { own } else { &stated };
    let audiences: Vec<String> =
        requested.iter().filter(|it| of_token.contains(it)).cloned().collect();
    if audiences.is_empty() {
        return Ok(None);
    }
    if status["authenticated"] != true {
        return match status["error"].as_str() {
            Some(error) if !error.is_empty() => Err(error.to_owned()),
            _ => Ok(None),
        };
    }
    let text = |field: &str| status["user"][field].as_str().unwrap_or_default().to_owned();
    // Stricter than upstream, where this is a user without a name.
    if text("username").is_empty() {
        return Err("the answer of the webhook has no user name".to_owned());
    }
    let extra = status["user"]["extra"].as_object().into_iter().flatten();
    let user = User {
        name: text("username"),
        uid: text("uid"),
        groups: texts(&status["user"]["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    };
    Ok(Some((user.with_authenticated_group(), audiences)))
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}
