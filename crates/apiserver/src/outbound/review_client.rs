//! [`ReviewClient`]: sends reviews to the server of a webhook, and repeats a call that fails for a
//! passing reason, with growing delays.
//!
//! Upstream: `apiserver/pkg/util/webhook` `WithExponentialBackoff`.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{Request, Response};
use http_body_util::Full;
use tokio::time::{Instant, sleep, timeout_at};

use super::webhook_endpoint::WebhookEndpoint;
use super::{Error, Outbound, failure_message};
use keel::Entropy;
use machinery::field_path::quote;

/// The maximum number of attempts of a call. The value is upstream's.
const ATTEMPTS: u32 = 5;

/// The delay after the first attempt. Each further delay is half as long again.
const FIRST_DELAY: Duration = Duration::from_millis(500);

/// The maximum size of a response in bytes.
const MAX_RESPONSE: usize = 1 << 20;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct ReviewClient {
    endpoint: WebhookEndpoint,
    /// The time limit of an attempt.
    timeout: Duration,
    outbound: Outbound,
    entropy: Entropy,
}

/// The result of an attempt, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptResult {
    /// The server has answered with a review.
    Success,
    /// The server has not answered in time.
    Timeout,
    /// The server cannot be reached, or its answer is an error.
    Error,
}

/// The reason why a call failed.
#[derive(Debug)]
pub(crate) struct CallError {
    /// A message without credentials.
    pub message: String,
    /// The result of the last attempt.
    pub result: AttemptResult,
    /// Whether the next attempt may succeed.
    is_temporary: bool,
}

impl ReviewClient {
    /// A client of a server without connections.
    pub(crate) fn new(endpoint: WebhookEndpoint, timeout: Duration, entropy: &Entropy) -> Self {
        Self { endpoint, timeout, outbound: Outbound::default(), entropy: entropy.clone() }
    }

    /// Sends a review and returns the body of the response. No attempt begins after `deadline`, if
    /// there is one. `observe` is called with the result and the duration of each attempt.
    pub(crate) async fn post(
        &self,
        body: &str,
        deadline: Option<Instant>,
        observe: impl Fn(AttemptResult, Duration),
    ) -> Result<Bytes, CallError> {
        let mut delay = FIRST_DELAY;
        let mut attempt = 1;
        loop {
            let began = Instant::now();
            let until = began + self.timeout;
            let result = self.attempt(body, deadline.map_or(until, |it| it.min(until))).await;
            let outcome = result.as_ref().map_or_else(|it| it.result, |_| AttemptResult::Success);
            observe(outcome, began.elapsed());
            let error = match result {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let fifth = u64::try_from(delay.as_nanos() / 5).unwrap_or(u64::MAX);
            let jitter = Duration::from_nanos(self.entropy.below(fifth));
            let next = Instant::now() + delay + jitter;
            let is_late = deadline.is_some_and(|deadline| next >= deadline);
            if !error.is_temporary || attempt == ATTEMPTS || is_late {
                return Err(error);
            }
            sleep(delay + jitter).await;
            delay = delay.mul_f64(1.5);
            attempt += 1;
        }
    }

    async fn attempt(&self, body: &str, deadline: Instant) -> Result<Bytes, CallError> {
        let endpoint = &self.endpoint;
        let failed = |is_temporary: bool, why: &dyn std::fmt::Display| CallError {
            message: format!("Post {}: {why}", quote(endpoint.url())),
            result: AttemptResult::Error,
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
            Err(_) => {
                let error = failed(false, &"context deadline exceeded");
                return Err(CallError { result: AttemptResult::Timeout, ..error });
            }
            Ok(Err(error @ Error::Transport(_))) => return Err(failed(true, &error)),
            Ok(Err(error)) => return Err(failed(false, &error)),
            Ok(Ok(answer)) => answer,
        };
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        let is_timeout = answer.status().as_u16() == 504;
        let result = if is_timeout { AttemptResult::Timeout } else { AttemptResult::Error };
        let is_temporary = is_temporary(&answer);
        Err(CallError { message: failure_message(&answer), result, is_temporary })
    }
}

/// Upstream: `webhook.DefaultShouldRetry`.
fn is_temporary(answer: &Response<Bytes>) -> bool {
    matches!(answer.status().as_u16(), 429 | 500 | 504)
        || answer.headers().contains_key(RETRY_AFTER)
}
