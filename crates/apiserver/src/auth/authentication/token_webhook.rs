//! [`TokenWebhook`]: asks another server about a token, with a `TokenReview`.
//!
//! Answers are cached for a while, also refusals, but not failures. Requests with the same token share
//! one call. A call that fails for a passing reason is repeated with growing delays. The questions in
//! progress are limited, and their senders share the limit fairly.
//!
//! Upstream: `authenticator/token/webhook` and `authentication/token/cache`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::remote::TokenSender;
use super::{User, common_audiences};
use crate::auth::answer_cache::{AnswerCache, Begin, texts_size};
use crate::outbound::review_client::{ReviewClient, ReviewVersion};
use crate::outbound::webhook_endpoint::WebhookEndpoint;
use keel::{Clock, Entropy, LogLimit, Tasks};
use machinery::{Value, json};

/// The time limit of a call with its repetitions. The value is upstream's.
const TIMEOUT: Duration = Duration::from_secs(30);

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
    cache: Arc<AnswerCache<Answer>>,
    cache_ttl: Duration,
    tasks: Tasks,
}

/// Calls the server.
#[derive(Debug)]
struct Caller {
    client: ReviewClient,
    version: ReviewVersion,
    /// Clients cause failures, as many as they send tokens.
    log: LogLimit,
}

impl TokenWebhook {
    /// A webhook whose cache is empty.
    pub(crate) fn new(
        settings: TokenWebhookSettings,
        clock: &Clock,
        entropy: &Entropy,
        tasks: &Tasks,
    ) -> Self {
        let TokenWebhookSettings { endpoint, version, cache_ttl } = settings;
        let cache = Arc::new(AnswerCache::new(clock, entropy, answer_size));
        let client = ReviewClient::new(endpoint, TIMEOUT, entropy);
        let caller = Arc::new(Caller { client, version, log: LogLimit::new(clock) });
        Self { caller, cache, cache_ttl, tasks: tasks.clone() }
    }

    /// The user of a token, and those of the `requested` audiences that it is for; None if the other
    /// server does not accept it. `own` are the audiences of this server, `sender` is the client.
    pub(super) async fn authenticate(
        &self,
        sender: TokenSender<'_>,
        token: &str,
        own: &[String],
        requested: &[String],
    ) -> Answer {
        let texts = std::iter::once(token).chain(requested.iter().map(String::as_str));
        let mut pending = match self.cache.begin(&sender.client(), self.cache.key(texts)) {
            Begin::Known(answer) => return answer,
            Begin::Full => return Err("too many token reviews are in progress".to_owned()),
            Begin::Pending(pending) => pending,
            Begin::Ask(question, pending) => {
                let caller = Arc::clone(&self.caller);
                let (token, own) = (token.to_owned(), own.to_vec());
                let (requested, cache_ttl) = (requested.to_vec(), self.cache_ttl);
                // The call is shared, so it does not end with the request that began it.
                self.tasks.spawn("token-review", async move {
                    let answer = caller.ask(&token, &own, &requested).await;
                    // Failures are not cached.
                    let ttl = if answer.is_ok() { cache_ttl } else { Duration::ZERO };
                    question.answer(answer, ttl);
                });
                pending
            }
        };
        let answer = pending.wait_for(Option::is_some).await.ok().and_then(|it| it.clone());
        answer.unwrap_or_else(|| Err("the review of the token did not end".to_owned()))
    }
}

/// The size in bytes of what an answer has allocated.
fn answer_size(answer: &Answer) -> usize {
    match answer {
        Ok(Some((user, audiences))) => {
            let extra = user.extra.iter().map(|(key, values)| {
                size_of::<(String, Vec<String>)>() + key.len() + texts_size(values)
            });
            let names = user.name.len() + user.uid.len();
            names + texts_size(&user.groups) + texts_size(audiences) + extra.sum::<usize>()
        }
        Ok(None) => 0,
        Err(error) => error.len(),
    }
}

impl Caller {
    async fn ask(&self, token: &str, own: &[String], requested: &[String]) -> Answer {
        let body = self.review(token, requested).to_string();
        let deadline = Some(Instant::now() + TIMEOUT);
        let answer = self.client.post(body.into(), deadline, |_, _| {}).await.map_err(|error| {
            let error = error.message;
            if let Some(failures) = self.log.pass(1) {
                tracing::error!(error, failures, "cannot ask the webhook authenticator");
            }
            error
        })?;
        read(&answer, own, requested)
    }

    fn review(&self, token: &str, audiences: &[String]) -> Value {
        let api_version = format!("authentication.k8s.io/{}", self.version.as_str());
        json!({"kind": "TokenReview", "apiVersion": api_version, "metadata": {},
            "spec": {"token": token, "audiences": audiences}, "status": {"user": {}}})
    }
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
    let Ok(audiences) = common_audiences(of_token, requested) else { return Ok(None) };
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
        ..User::default()
    };
    Ok(Some((user.with_authenticated_group(), audiences)))
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_an_answer_includes_texts_without_characters() {
        let many = vec![String::new(); 1000];
        let size = |user: User| answer_size(&Ok(Some((user, Vec::new()))));
        let groups = User { groups: many.clone(), ..User::default() };
        let extra = [("k".to_owned(), many.clone())].into();
        let extra = User { extra, ..User::default() };
        assert!(size(groups) >= 24_000 && size(extra) >= 24_000);
        assert!(answer_size(&Ok(Some((User::default(), many)))) >= 24_000);
        let name = User { name: "x".repeat(1000), uid: "y".repeat(1000), ..User::default() };
        assert_eq!(size(name), 2000);
    }
}
