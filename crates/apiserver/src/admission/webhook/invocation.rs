//! [`WebhookInvocation`]: the request that one webhook gets.

use super::parsed_webhook::ParsedWebhook;
use crate::admission::matching::MatchedResource;
use crate::admission::{Attributes, admission_request};
use machinery::{Object, Status, Value};

/// See the [module documentation](self). Objects are in the version that the webhook's rules match.
pub(super) struct WebhookInvocation {
    /// The version and subresource in which the webhook's rules match the request.
    pub matched: MatchedResource,
    /// The `AdmissionRequest` without uid and objects.
    pub request: Value,
    /// The new object, or null.
    pub object: Value,
    /// The stored object, or null.
    pub old: Value,
}

impl WebhookInvocation {
    /// The invocation of a webhook; None if the webhook does not match the request.
    pub(super) async fn of(
        webhook: &ParsedWebhook,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<Option<Self>, Status> {
        let Some(matched) = webhook.criteria.find_match(attributes, object)? else {
            return Ok(None);
        };
        let invocation = Self {
            request: Value::Object(admission_request::build(attributes, &matched)),
            object: admission_request::versioned_object(attributes, &matched, object).await?,
            old: admission_request::versioned_object(attributes, &matched, attributes.old).await?,
            matched,
        };
        let is_matched = webhook.match_conditions.matches(attributes, &invocation);
        let is_matched = is_matched.map_err(|why| {
            Status::forbidden(&attributes.scope.group_resource(), &attributes.name, &why)
        })?;
        Ok(is_matched.then_some(invocation))
    }

    /// The complete `AdmissionRequest`.
    pub(super) fn to_request(&self, uid: &str) -> Value {
        let mut request = self.request.clone();
        request["uid"] = uid.into();
        request["object"] = self.object.clone();
        request["oldObject"] = self.old.clone();
        request
    }
}
