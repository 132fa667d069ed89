//! Calls a webhook with one POST request, within the remaining time of the client's request.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http_body_util::Full;
use tokio::time::{Instant, timeout_at};

use super::invocation::WebhookInvocation;
use super::metrics::WebhookType;
use super::parsed_webhook::ParsedWebhook;
use super::review::ReviewResponse;
use crate::admission::Attributes;
use crate::outbound;
use crate::outbound::failure_message;
use crate::registry::scope::RequestScope;
use machinery::Status;

/// The maximum size of a response. It has room for a patch in base64 that replaces the largest
/// possible object.
const MAX_RESPONSE: usize = 4 << 20;

/// The reasons for which a webhook does not admit a request.
pub(super) enum WebhookError {
    /// The call failed. The failure policy of the webhook applies.
    Calling(CallError),
    /// The webhook rejected the request.
    Rejected(Box<Status>),
    /// The webhook does not support dry runs, or returned a patch that cannot be applied. The
    /// request fails.
    Internal(Box<Status>),
}

/// The reasons for which a call fails, with kube-apiserver's messages.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The webhook is unreachable, or its response is unreadable.
    #[error("failed to call webhook: {0}")]
    Failed(String),
    /// The response is not a valid review.
    #[error("received invalid webhook response: {0}")]
    Invalid(String),
    /// The patch is malformed.
    #[error("received undecodable patch in webhook response: {0}")]
    Patch(String),
    /// The patch type is unknown.
    #[error("unsupported patch type {0:?}")]
    PatchType(String),
    /// The webhook supports no known version of `AdmissionReview`.
    #[error(
        "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
    )]
    Version,
    /// The client configuration is invalid, for example its CA bundle.
    #[error("could not get REST client: {0}")]
    Client(String),
}

impl CallError {
    /// The status code for the metrics.
    pub(super) fn code(&self) -> u16 {
        match self {
            Self::Version => 400,
            Self::Client(_) => 500,
            _ => 503,
        }
    }
}

/// Calls the webhook and returns its response. A rejection is an error.
pub(super) async fn call_webhook(
    webhook: &ParsedWebhook,
    attributes: &Attributes<'_>,
    invocation: &WebhookInvocation,
    webhook_type: WebhookType,
) -> Result<ReviewResponse, WebhookError> {
    let scope = attributes.scope;
    let internal = |status| WebhookError::Internal(Box::new(status));
    webhook.check_dry_run(attributes.options.is_dry_run()).map_err(internal)?;
    let version = webhook.review_version.ok_or(WebhookError::Calling(CallError::Version))?;
    let uid = scope.storage.entropy.uuid();
    let body = version.encode_request(invocation.to_request(&uid));
    let answer = post(webhook, scope, body).await.map_err(WebhookError::Calling)?;
    let response =
        version.decode_response(webhook_type, &uid, &answer).map_err(WebhookError::Calling)?;
    for (key, value) in &response.annotations {
        if let Some(audit) = &scope.audit {
            audit.annotate(&format!("{}/{key}", webhook.name), value);
        }
    }
    for warning in &response.warnings {
        scope.warn(warning.clone());
    }
    if response.allowed {
        return Ok(response);
    }
    Err(WebhookError::Rejected(Box::new(response.result.into_status(&webhook.name))))
}

async fn post(
    webhook: &ParsedWebhook,
    scope: &RequestScope,
    body: Vec<u8>,
) -> Result<Bytes, CallError> {
    let now = Instant::now();
    let deadline = scope.deadline.min(now + webhook.timeout);
    let timeout = deadline.saturating_duration_since(now);
    let url = webhook.client.request_url(whole_seconds(timeout));
    let failed = |why: &dyn std::fmt::Display| CallError::Failed(format!("Post {url:?}: {why}"));
    let request = Request::post(&url)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .header(USER_AGENT, "kube-apiserver-admission")
        .body(Full::from(body))
        .map_err(|error| failed(&error))?;
    let destination = webhook.client.destination(&*scope.storage).map_err(|why| failed(&why))?;
    let call = scope.storage.outbound.call(&destination, request, MAX_RESPONSE, deadline);
    let answer = match timeout_at(deadline, call).await {
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
    Err(CallError::Failed(failure_message(&answer)))
}

/// Upstream: the query parameter `timeout` has whole seconds, rounded up.
fn whole_seconds(timeout: Duration) -> u64 {
    timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_rounded_up_to_whole_seconds() {
        assert_eq!(whole_seconds(Duration::from_secs(10)), 10);
        assert_eq!(whole_seconds(Duration::from_millis(9_001)), 10);
    }
}
