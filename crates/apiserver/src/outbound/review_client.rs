//! [`ReviewClient`]: sends reviews to the server of a webhook, and repeats a call that fails for a
//! passing reason, with growing delays.
//!
//! A server limits the calls in progress on one HTTP/2 connection, and further ones wait. The calls are
//! therefore distributed over several connections, so that calls which hang do not delay others.
//!
//! Upstream: `apiserver/pkg/util/webhook` `WithExponentialBackoff`.

use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::header::RETRY_AFTER;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::webhook_endpoint::{PostError, WebhookEndpoint};
use super::{Error, Outbound, failure_message};
use keel::Entropy;
use machinery::field_path::quote;

/// The maximum number of attempts of a call. The value is upstream's.
const ATTEMPTS: u32 = 5;

/// The client that the server sees.
const USER_AGENT: &str = concat!("sampan/", env!("CARGO_PKG_VERSION"));

/// The delay after the first attempt. Each further delay is half as long again.
const FIRST_DELAY: Duration = Duration::from_millis(500);

/// The maximum number of calls in progress on a connection: the lowest limit of a server that RFC 9113
/// recommends.
const CALLS_PER_CONNECTION: usize = 100;

/// The maximum number of connections. Callers limit the number of their calls to about a thousand.
const CONNECTIONS: usize = 11;

/// The version of the API group of reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `v1`
    V1,
    /// `v1beta1`
    V1beta1,
}

impl ReviewVersion {
    /// `v1`
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }
}

impl FromStr for ReviewVersion {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "v1" => Ok(Self::V1),
            "v1beta1" => Ok(Self::V1beta1),
            _ => Err("use v1 or v1beta1"),
        }
    }
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct ReviewClient {
    endpoint: WebhookEndpoint,
    /// The time limit of an attempt.
    timeout: Duration,
    /// A call takes the first connection with room.
    connections: [Connection; CONNECTIONS],
    entropy: Entropy,
}

/// A connection to the server, which is opened when it is needed.
#[derive(Debug)]
struct Connection {
    outbound: Outbound,
    room: Semaphore,
}

impl Default for Connection {
    fn default() -> Self {
        Self { outbound: Outbound::default(), room: Semaphore::new(CALLS_PER_CONNECTION) }
    }
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
        let endpoint = endpoint.with_timeout(timeout);
        Self { endpoint, timeout, connections: Default::default(), entropy: entropy.clone() }
    }

    /// Sends a review and returns the body of the response. No attempt begins after `deadline`, if
    /// there is one. `observe` is called with the result and the duration of each attempt.
    pub(crate) async fn post(
        &self,
        body: Bytes,
        deadline: Option<Instant>,
        observe: impl Fn(AttemptResult, Duration),
    ) -> Result<Bytes, CallError> {
        let mut delay = FIRST_DELAY;
        let mut attempt = 1;
        loop {
            let began = Instant::now();
            let until = began + self.timeout;
            let until = deadline.map_or(until, |it| it.min(until));
            let result = self.attempt(body.clone(), until).await;
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

    async fn attempt(&self, body: Bytes, deadline: Instant) -> Result<Bytes, CallError> {
        let mut connections = self.connections.iter();
        let place = connections.find_map(|it| Some((&it.outbound, it.room.try_acquire().ok()?)));
        // Without a place, the call waits until the server accepts it on the first connection.
        let (outbound, _place) = match place {
            Some((outbound, place)) => (outbound, Some(place)),
            None => (&self.connections[0].outbound, None),
        };
        let posted = self.endpoint.post(outbound, Some(USER_AGENT), body, deadline).await;
        let answer = posted.map_err(|error| CallError {
            message: format!("Post {}: {error}", quote(self.endpoint.url())),
            result: match error {
                PostError::Timeout => AttemptResult::Timeout,
                PostError::Request(_) | PostError::Call(_) => AttemptResult::Error,
            },
            is_temporary: matches!(error, PostError::Call(Error::Transport(_))),
        })?;
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
