//! Asks a webhook: one POST, in the time that is left.

use super::hook::Hook;
use super::invocation::Invocation;
use super::metrics::Kind;
use super::review::Verdict;
use crate::admission::Attributes;
use crate::outbound;
use crate::registry::scope::RequestScope;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Request, Response};
use http_body_util::Full;
use machinery::{Status, Value, codec};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The largest answer that is read: room for a patch that replaces the largest object there can be,
/// in base64.
const MAX_ANSWER: usize = 4 << 20;

/// Why a webhook has no say.
pub(super) enum Fault {
    /// It was not understood. Its configuration says what that means.
    Calling(CallError),
    /// It said no.
    Refused(Box<Status>),
    /// It cannot be asked, or did what it may not do. The request fails.
    Ours(Box<Status>),
}

/// Why it was not understood, in the words that users know.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// It was not reached, or gave no answer that could be read.
    #[error("failed to call webhook: {0}")]
    Failed(String),
    /// Its answer makes no sense.
    #[error("received invalid webhook response: {0}")]
    Invalid(String),
    /// Its patch is none.
    #[error("received undecodable patch in webhook response: {0}")]
    Patch(String),
    /// Its patch is of a kind that nobody knows.
    #[error("unsupported patch type {0:?}")]
    PatchType(String),
    /// It was configured when other versions were spoken.
    #[error(
        "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
    )]
    Version,
    /// Its certificates cannot be read.
    #[error("could not get REST client: {0}")]
    Client(String),
}

impl CallError {
    /// Under what it is counted.
    pub(super) fn code(&self) -> u16 {
        match self {
            Self::Version => 400,
            Self::Client(_) => 500,
            _ => 503,
        }
    }
}

/// What the webhook says, unless it says no.
pub(super) async fn ask(
    hook: &Hook,
    attributes: &Attributes<'_>,
    invocation: &Invocation,
    kind: Kind,
) -> Result<Verdict, Fault> {
    let scope = attributes.scope;
    let refused = |status| Fault::Ours(Box::new(status));
    hook.check_dry_run(attributes.dry_run).map_err(refused)?;
    let version = hook.review.ok_or(Fault::Calling(CallError::Version))?;
    let uid = scope.storage.entropy.uuid();
    let question = version.write(invocation.to_request(&uid));
    let answer = post(hook, scope, question).await.map_err(Fault::Calling)?;
    let verdict = version.read(kind, &uid, &answer).map_err(Fault::Calling)?;
    for (key, value) in &verdict.annotations {
        tracing::info!(target: "audit", webhook = hook.name, key, value, "annotation");
    }
    for warning in &verdict.warnings {
        scope.warn(warning.clone());
    }
    if verdict.allowed {
        return Ok(verdict);
    }
    Err(Fault::Refused(Box::new(verdict.result.into_status(&hook.name))))
}

async fn post(hook: &Hook, scope: &RequestScope, question: Vec<u8>) -> Result<Bytes, CallError> {
    let now = Instant::now();
    let deadline = scope.deadline.min(now + hook.timeout);
    let timeout = deadline.saturating_duration_since(now);
    let url = format!("{}?timeout={}s", hook.client.url(), whole_seconds(timeout));
    let failed = |why: &dyn std::fmt::Display| CallError::Failed(format!("Post {url:?}: {why}"));
    let request = Request::post(&url)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .header(USER_AGENT, "kube-apiserver-admission")
        .body(Full::from(question))
        .map_err(|error| failed(&error))?;
    let destination = hook.client.destination(&*scope.storage).map_err(|why| failed(&why))?;
    let asked = scope.storage.outbound.call(&destination, request, MAX_ANSWER, deadline);
    let answer = match timeout_at(deadline, asked).await {
        Err(_) => return Err(failed(&"context deadline exceeded")),
        Ok(Err(outbound::Error::Config(error))) => {
            return Err(CallError::Client(error.to_string()));
        }
        Ok(Err(error @ outbound::Error::TooLarge(_))) => {
            return Err(CallError::Failed(error.to_string()));
        }
        Ok(Err(error)) => return Err(failed(&error)),
        Ok(Ok(answer)) => answer,
    };
    if matches!(answer.status().as_u16(), 200..=206) {
        return Ok(answer.into_body());
    }
    Err(CallError::Failed(complaint(&answer)))
}

/// Upstream: the webhook is told how long it has, in seconds, rounded up.
fn whole_seconds(timeout: Duration) -> u64 {
    timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0)
}

/// What client-go makes of an answer that is a failure.
fn complaint(answer: &Response<Bytes>) -> String {
    let decoded = codec::json::decode(answer.body()).map(|it| it.value).unwrap_or_default();
    if decoded["kind"] == "Status"
        && let Some(message) = decoded["message"].as_str().filter(|it| !it.is_empty())
    {
        return message.to_owned();
    }
    let media = answer.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let is_text = media.is_none_or(|it| it.starts_with("text/"));
    let text = String::from_utf8_lossy(answer.body());
    let said = if is_text { text.trim() } else { "unknown" };
    let words = match answer.status().as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => said,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        code if code >= 500 => {
            let said = Value::from(said);
            return format!(
                "an error on the server ({said}) has prevented the request from succeeding"
            );
        }
        code => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: u16, media: &str, body: &str, expect: &str) {
        let answer = Response::builder().status(code).header(CONTENT_TYPE, media);
        let answer = answer.body(Bytes::from(body.to_owned())).unwrap();
        assert_eq!(complaint(&answer), expect);
    }

    #[test]
    fn failures_are_told_as_client_go_tells_them() {
        check(
            500,
            "text/plain",
            "oh no\n",
            "an error on the server (\"oh no\") has prevented the request from succeeding",
        );
        check(
            500,
            "image/png",
            "…",
            "an error on the server (\"unknown\") has prevented the request from succeeding",
        );
        check(404, "text/plain", "404", "the server could not find the requested resource");
        check(
            302,
            "text/plain",
            "",
            "the server responded with the status code 302 but did not return more information",
        );
        let status = r#"{"kind":"Status","message":"no"}"#;
        check(500, "application/json", status, "no");
    }

    #[test]
    fn a_webhook_is_told_whole_seconds() {
        assert_eq!(whole_seconds(Duration::from_secs(10)), 10);
        assert_eq!(whole_seconds(Duration::from_millis(9_001)), 10);
    }
}
