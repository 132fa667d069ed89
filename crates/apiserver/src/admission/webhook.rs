//! Admission webhooks: servers that mutate or validate objects over the network.
//!
//! Mutating webhooks are called one after the other, in the order of their configurations' names
//! and their position in the configuration; each gets the object with the changes of those before
//! it. Validating webhooks are called concurrently. The request holds no lock and no seat while it
//! waits for a webhook, so a webhook may send requests to this server.

mod call;
mod match_conditions;
mod parsed_webhook;
mod audit_annotations;
mod invocation;
mod metrics;
mod patch;
mod review;
mod reinvocation;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::Attributes;
use crate::cache::watch_cache::Snapshot;
use crate::registry::scope::RequestScope;
use crate::storage::snapshot_value::SnapshotValue;
use audit_annotations::AuditAnnotations;
use call::WebhookError;
use invocation::WebhookInvocation;
use machinery::{Object, Status};
use metrics::{Rejection, WebhookCall, WebhookType};
use parsed_webhook::ParsedWebhook;
use review::ReviewResponse;

pub(crate) use match_conditions::validate as validate_configuration;
pub(crate) use metrics::WebhookMetrics;
pub(super) use reinvocation::WebhookReinvokeContext;

const GROUP: &str = "admissionregistration.k8s.io";

/// The parsed webhooks of a plane, by type.
pub(crate) struct Webhooks {
    mutating: SnapshotValue<Vec<ParsedWebhook>>,
    validating: SnapshotValue<Vec<ParsedWebhook>>,
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            mutating: SnapshotValue::new(GROUP, "mutatingwebhookconfigurations", parse_webhooks),
            validating: SnapshotValue::new(
                GROUP,
                "validatingwebhookconfigurations",
                parse_webhooks,
            ),
        }
    }
}

/// All webhooks in the order in which they are called: the keys of the snapshot are in the order of
/// names.
fn parse_webhooks(snapshot: &Snapshot) -> Vec<ParsedWebhook> {
    snapshot.entries.values().flat_map(|it| ParsedWebhook::all_of(&it.object_as_stored())).collect()
}

/// Calls the mutating webhooks. For a deletion `object` is None, and webhooks can only reject the
/// request.
pub(super) async fn mutate(
    attributes: &Attributes<'_>,
    object: Option<&mut Object>,
    reinvocation: &mut WebhookReinvokeContext,
) -> Result<(), Status> {
    let scope = attributes.scope;
    let current = attributes.admission.webhooks.mutating.complete(&scope.storage)?;
    let webhooks = reinvocation.webhooks(|| current);
    if webhooks.is_empty() {
        return Ok(());
    }
    // The future is boxed to keep the future of requests without webhooks small.
    Box::pin(call_mutating_webhooks(&webhooks, attributes, object, reinvocation)).await
}

async fn call_mutating_webhooks(
    webhooks: &[ParsedWebhook],
    attributes: &Attributes<'_>,
    mut object: Option<&mut Object>,
    reinvocation: &mut WebhookReinvokeContext,
) -> Result<(), Status> {
    let scope = attributes.scope;
    let mut loan = None;
    for (index, webhook) in webhooks.iter().enumerate() {
        let Some(invocation) =
            WebhookInvocation::of(webhook, attributes, object.as_deref()).await?
        else {
            continue;
        };
        if !reinvocation.should_invoke(index) {
            continue;
        }
        loan.get_or_insert_with(|| scope.seat.lend());
        let started = Instant::now();
        let annotations = AuditAnnotations::new(scope, webhook, reinvocation.round(), index);
        let result =
            match call::call_webhook(webhook, attributes, &invocation, WebhookType::Mutating).await
            {
                Ok(response) => {
                    let annotations = annotations.as_ref();
                    apply_patch(webhook, attributes, invocation, response, annotations).await
                }
                Err(error) => Err(error),
            };
        if let Some(annotations) = &annotations {
            annotations.add_mutation(matches!(result, Ok(Some(_))));
        }
        let finished = finish_call(webhook, attributes, WebhookType::Mutating, started, result)?;
        if let (None, Some(annotations)) = (&finished, &annotations) {
            annotations.add_failed_open(WebhookType::Mutating);
        }
        let changed = finished.flatten();
        reinvocation.record_invocation(index, webhook.reinvoke_if_needed, changed.is_some());
        if let Some((object, changed)) = object.as_deref_mut().zip(changed) {
            *object = changed;
        }
    }
    Ok(())
}

/// Applies the patch of a response, and records it if the request is audited at a level with data.
async fn apply_patch(
    webhook: &ParsedWebhook,
    attributes: &Attributes<'_>,
    invocation: WebhookInvocation,
    response: ReviewResponse,
    annotations: Option<&AuditAnnotations<'_>>,
) -> Result<Option<Object>, WebhookError> {
    let annotations = annotations.filter(|it| it.records_patches() && !response.patch.is_empty());
    let recorded = annotations.map(|it| (it, response.patch.clone()));
    let patched = patch::apply(webhook, attributes, invocation, response).await?;
    if let Some((annotations, patch)) = recorded {
        annotations.add_patch(&patch);
    }
    Ok(patched)
}

/// Calls the validating webhooks for an object that is about to be stored or, if `object` is None,
/// deleted.
pub(super) async fn validate(
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<(), Status> {
    let scope = attributes.scope;
    let webhooks = attributes.admission.webhooks.validating.complete(&scope.storage)?;
    if webhooks.is_empty() {
        return Ok(());
    }
    Box::pin(call_validating_webhooks(&webhooks, attributes, object)).await
}

async fn call_validating_webhooks(
    webhooks: &[ParsedWebhook],
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<(), Status> {
    let scope = attributes.scope;
    let mut calls = Vec::new();
    for webhook in webhooks {
        let Some(invocation) = WebhookInvocation::of(webhook, attributes, object).await? else {
            continue;
        };
        let annotations = AuditAnnotations::new(scope, webhook, 0, calls.len());
        calls.push(async move {
            let started = Instant::now();
            let result =
                call::call_webhook(webhook, attributes, &invocation, WebhookType::Validating).await;
            let finished =
                finish_call(webhook, attributes, WebhookType::Validating, started, result)?;
            if let (None, Some(annotations)) = (&finished, &annotations) {
                annotations.add_failed_open(WebhookType::Validating);
            }
            Ok(())
        });
    }
    if calls.is_empty() {
        return Ok(());
    }
    let _loan = scope.seat.lend();
    // Upstream: all webhooks are awaited, even after one has rejected the request.
    join_all(calls).await.into_iter().collect()
}

/// Records the metrics of a call, and applies the failure policy: None if the call failed and the
/// failure is ignored. A call that the deadline of the request has ended is no failure of the webhook,
/// since the client chooses the deadline.
fn finish_call<T>(
    webhook: &ParsedWebhook,
    attributes: &Attributes<'_>,
    webhook_type: WebhookType,
    started: Instant,
    result: Result<T, WebhookError>,
) -> Result<Option<T>, Status> {
    let metrics = &attributes.admission.webhook_metrics;
    let (name, operation) = (webhook.name.as_str(), attributes.operation.as_str());
    let call = WebhookCall { name, webhook_type, operation, duration: started.elapsed() };
    let reject = |why: Rejection, code: u16| metrics.observe(&call, Some(why), code);
    match result {
        Ok(answer) => {
            metrics.observe(&call, None, 200);
            Ok(Some(answer))
        }
        Err(WebhookError::Calling(error)) if attributes.scope.is_overdue() => {
            reject(Rejection::CallingWebhook, error.code());
            Err(RequestScope::overdue())
        }
        Err(WebhookError::Calling(error)) if webhook.fails_open => {
            let configuration = &webhook.configuration;
            tracing::warn!(webhook = name, configuration, %error, "the call of a webhook failed and is ignored");
            metrics.fail_open(name, webhook_type);
            metrics.observe(&call, None, error.code());
            Ok(None)
        }
        Err(WebhookError::Calling(error)) => {
            let configuration = &webhook.configuration;
            tracing::warn!(webhook = name, configuration, %error, "the call of a webhook failed");
            reject(Rejection::CallingWebhook, error.code());
            Err(Status::internal(format!("failed calling webhook {name:?}: {error}")))
        }
        Err(WebhookError::Rejected(status)) => {
            reject(Rejection::Denied, status.code);
            Err(*status)
        }
        Err(WebhookError::Internal(status)) => {
            reject(Rejection::Internal, 0);
            Err(*status)
        }
    }
}
