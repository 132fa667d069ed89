//! Applies the patch in a webhook's response.

use super::call::{CallError, WebhookError};
use super::invocation::WebhookInvocation;
use super::parsed_webhook::ParsedWebhook;
use super::review::ReviewResponse;
use crate::admission::Attributes;
use crate::registry::conversion;
use crate::registry::shape;
use machinery::patch::json::{self, PatchError};
use machinery::{Object, Status, Value};

/// The patched object in the memory version; None if the webhook did not change the object.
pub(super) async fn apply(
    webhook: &ParsedWebhook,
    attributes: &Attributes<'_>,
    invocation: WebhookInvocation,
    response: ReviewResponse,
) -> Result<Option<Object>, WebhookError> {
    if response.patch.is_empty() || is_empty_list(&response.patch) {
        return Ok(None);
    }
    if let Some(other) = response.patch_type.filter(|it| it != "JSONPatch") {
        return Err(WebhookError::Calling(CallError::PatchType(other)));
    }
    if invocation.object.is_null() {
        return Err(internal(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            webhook.name
        )));
    }
    let mut value = invocation.object.clone();
    json::apply(&mut value, &response.patch).map_err(|error| match error {
        PatchError::Malformed(why) => WebhookError::Calling(CallError::Patch(why)),
        other => internal(other),
    })?;
    shape_patched(attributes, invocation, value).await
}

fn is_empty_list(patch: &[u8]) -> bool {
    serde_json::from_slice::<Vec<Value>>(patch).is_ok_and(|it| it.is_empty())
}

fn internal(why: impl std::fmt::Display) -> WebhookError {
    WebhookError::Internal(Box::new(Status::internal(why)))
}

/// Makes the patched object fit its type. Unknown fields are dropped, as they are everywhere
/// without strict field validation.
async fn shape_patched(
    attributes: &Attributes<'_>,
    invocation: WebhookInvocation,
    value: Value,
) -> Result<Option<Object>, WebhookError> {
    let before = Object::from_value(invocation.object).unwrap_or_default();
    let Some(mut object) = Object::from_value(value) else {
        return Err(internal("the patched object is not an object"));
    };
    if object.gvk() != before.gvk() {
        let (found, expected) = (object.gvk(), before.gvk());
        return Err(internal(format!(
            "the patched object is {}, Kind={}, not {}, Kind={}",
            found.group_version(),
            found.kind,
            expected.group_version(),
            expected.kind
        )));
    }
    let namespace = attributes.scope.namespace();
    if !object.namespace().is_empty() && object.namespace() != namespace {
        return Err(WebhookError::Internal(Box::new(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ))));
    }
    if attributes.kind.is_some() {
        normalize(&mut object).map_err(internal)?;
        return Ok((object != before).then_some(object));
    }
    let scope = attributes.scope;
    shape::shape(&scope.served, invocation.matched.version, &mut object).map_err(internal)?;
    if object == before {
        return Ok(None);
    }
    let memory_version = conversion::memory_version(scope);
    let object = conversion::object(scope, memory_version, object).await;
    let object = object.map_err(|status| WebhookError::Internal(Box::new(status)))?;
    Ok(Some(shape::to_memory_version(scope, object)))
}

/// Makes an object of a kind that only a subresource uses fit its type.
fn normalize(object: &mut Object) -> Result<(), String> {
    let Some(ty) = types::of_kind(object.api_version(), object.kind()) else { return Ok(()) };
    let mut value = Value::Object(std::mem::take(object.map_mut()));
    types::normalize(ty, &mut value, &mut |_| {}).map_err(|error| error.to_string())?;
    *object = Object::from_value(value).unwrap_or_default();
    Ok(())
}
