//! [`WebhookAuthorizer`]: asks another server whether a request is allowed, with a
//! `SubjectAccessReview`.
//!
//! Answers are cached for a while, but failures are not. Requests with the same review share one call.
//! A call that hangs holds only the requests that wait for its answer, until its time-out; then the
//! failure policy decides. The questions in progress are limited, and users share the limit fairly.
//!
//! Upstream: `apiserver/plugin/pkg/authorizer/webhook`.

mod match_conditions;
mod review;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::{Attributes, Authorization, Authorizer, Decision, Rules};
use crate::auth::answer_cache::{AnswerCache, Begin, Pending};
use crate::auth::authentication::User;
use crate::auth::metrics::AuthorizationMetrics;
use crate::outbound::review_client::{AttemptResult, ReviewClient, ReviewVersion};
use crate::outbound::webhook_endpoint::WebhookEndpoint;
use keel::{Clock, Entropy, LogLimit, Tasks};
use match_conditions::Match;
use review::{ReviewSpec, ReviewStatus};

pub use match_conditions::MatchConditions;

/// The size in bytes of the attributes that a client chooses from which on an answer is not cached. The
/// value is upstream's.
const MAX_CACHED_ATTRIBUTES: usize = 10_000;

/// The decision if the other server cannot be asked, or a match condition fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The other authorizers decide.
    NoOpinion,
    /// The request fails.
    Deny,
}

/// Where and how to ask about requests.
#[derive(Debug, Clone)]
pub struct WebhookAuthorizerSettings {
    /// The name of the authorizer in refusals and metrics.
    pub name: String,
    /// The server.
    pub endpoint: WebhookEndpoint,
    /// The version of the reviews.
    pub version: ReviewVersion,
    /// The time limit of an attempt.
    pub timeout: Duration,
    /// The time for which answers that allow a request are cached; zero for none.
    pub authorized_ttl: Duration,
    /// The time for which other answers are cached; zero for none.
    pub unauthorized_ttl: Duration,
    /// The decision if there is no answer.
    pub failure_policy: FailurePolicy,
    /// The requests about which the server is asked; the others are skipped.
    pub match_conditions: MatchConditions,
}

/// The status of a review, or why there is none.
type Answer = Result<ReviewStatus, String>;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct WebhookAuthorizer {
    caller: Arc<Caller>,
    match_conditions: MatchConditions,
    cache: Arc<AnswerCache<Answer>>,
    tasks: Tasks,
}

/// Calls the server.
#[derive(Debug)]
struct Caller {
    name: String,
    client: ReviewClient,
    version: ReviewVersion,
    authorized_ttl: Duration,
    unauthorized_ttl: Duration,
    failure_policy: FailurePolicy,
    metrics: Arc<AuthorizationMetrics>,
    /// Clients cause failures, as many as they send requests.
    log: LogLimit,
}

impl WebhookAuthorizer {
    /// An authorizer whose cache is empty.
    pub(crate) fn new(
        settings: WebhookAuthorizerSettings,
        clock: &Clock,
        entropy: &Entropy,
        tasks: &Tasks,
        metrics: Arc<AuthorizationMetrics>,
    ) -> Self {
        let caller = Caller {
            name: settings.name,
            client: ReviewClient::new(settings.endpoint, settings.timeout, entropy),
            version: settings.version,
            authorized_ttl: settings.authorized_ttl,
            unauthorized_ttl: settings.unauthorized_ttl,
            failure_policy: settings.failure_policy,
            metrics,
            log: LogLimit::new(clock),
        };
        Self {
            caller: Arc::new(caller),
            match_conditions: settings.match_conditions,
            cache: Arc::new(AnswerCache::new(clock, entropy, answer_size)),
            tasks: tasks.clone(),
        }
    }

    /// Whether the server is asked about a request.
    fn matches(&self, attributes: &Attributes<'_>) -> Result<bool, String> {
        if self.match_conditions.is_empty() {
            return Ok(true);
        }
        let Caller { name, metrics, .. } = &*self.caller;
        match self.match_conditions.evaluate(&review::condition_variable(attributes)) {
            Match::Matches => Ok(true),
            Match::Excluded => {
                metrics.count_exclusion(name);
                Ok(false)
            }
            Match::Failed(error) => {
                metrics.count_condition_error(name);
                Err(error)
            }
        }
    }

    async fn wait(&self, mut pending: Pending<Answer>) -> Decision {
        let answer = pending.wait_for(Option::is_some).await.ok().and_then(|it| it.clone());
        let unfinished = || Err("the access review did not end".to_owned());
        self.caller.decision(answer.unwrap_or_else(unfinished))
    }
}

impl Authorizer for WebhookAuthorizer {
    fn name(&self) -> &str {
        &self.caller.name
    }

    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
        match self.matches(attributes) {
            Ok(true) => {}
            Ok(false) => return Decision::no_opinion("").into(),
            Err(error) => {
                self.caller.log_failure(&error);
                return self.caller.decision(Err(error)).into();
            }
        }
        let spec = ReviewSpec::new(attributes);
        let key = self.cache.key([spec.to_text().as_str()]);
        let pending = match self.cache.begin(&attributes.user.name, key) {
            Begin::Known(answer) => return self.caller.decision(answer).into(),
            // Whatever the failure policy is: a client that makes many requests must not be able to
            // switch off the authorizer.
            Begin::Full => {
                let error = "too many access reviews are in progress".to_owned();
                self.caller.log_failure(&error);
                return Decision::failed_and_denied(error).into();
            }
            Begin::Pending(pending) => pending,
            Begin::Ask(question, pending) => {
                let caller = Arc::clone(&self.caller);
                let body = spec.to_review(caller.version);
                let is_cached = controlled_size(attributes) < MAX_CACHED_ATTRIBUTES;
                // The call is shared, so it does not end with the request that began it.
                self.tasks.spawn("subject-access-review", async move {
                    let answer = caller.ask(body).await;
                    let ttl = if is_cached { caller.ttl(&answer) } else { Duration::ZERO };
                    question.answer(answer, ttl);
                });
                pending
            }
        };
        Authorization::Pending(self.wait(pending).boxed())
    }

    fn rules(&self, _: &User, _: &str, rules: &mut Rules) {
        rules.incomplete = true;
        let why = "webhook authorizer does not support user rule resolution";
        rules.evaluation_errors.push(why.to_owned());
    }
}

impl Caller {
    async fn ask(&self, body: String) -> Answer {
        let observe = |result: AttemptResult, duration: Duration| {
            self.metrics.observe_webhook(&self.name, label(result), duration);
        };
        match self.client.post(body.into(), None, observe).await {
            Ok(answer) => ReviewStatus::read(&answer),
            Err(error) => {
                if self.failure_policy == FailurePolicy::NoOpinion {
                    self.metrics.count_fail_open(&self.name, label(error.result));
                }
                self.log_failure(&error.message);
                Err(error.message)
            }
        }
    }

    fn log_failure(&self, error: &str) {
        if let Some(failures) = self.log.pass(1) {
            let name = &self.name;
            tracing::error!(name, error, failures, "cannot ask the webhook authorizer");
        }
    }

    /// The time for which an answer is cached. A failure is not.
    fn ttl(&self, answer: &Answer) -> Duration {
        match answer {
            Ok(status) if status.allowed => self.authorized_ttl,
            Ok(_) => self.unauthorized_ttl,
            Err(_) => Duration::ZERO,
        }
    }

    fn decision(&self, answer: Answer) -> Decision {
        match (answer, self.failure_policy) {
            (Ok(status), _) => status.into_decision(),
            (Err(error), FailurePolicy::NoOpinion) => Decision::failed(error),
            (Err(error), FailurePolicy::Deny) => Decision::failed_and_denied(error),
        }
    }
}

/// The size in bytes of what an answer has allocated.
fn answer_size(answer: &Answer) -> usize {
    match answer {
        Ok(status) => status.size(),
        Err(error) => error.len(),
    }
}

/// The result of an attempt in metrics.
fn label(result: AttemptResult) -> &'static str {
    match result {
        AttemptResult::Success => "success",
        AttemptResult::Timeout => "timeout",
        AttemptResult::Error => "error",
    }
}

/// The size of the attributes that a client chooses. Upstream: `shouldCache`.
fn controlled_size(attributes: &Attributes<'_>) -> usize {
    let resource = attributes.resource.unwrap_or_default();
    let texts = [
        resource.namespace,
        attributes.verb,
        resource.group,
        resource.version,
        resource.resource,
        resource.subresource,
        resource.name,
        attributes.path,
    ];
    texts.map(str::len).iter().sum()
}
