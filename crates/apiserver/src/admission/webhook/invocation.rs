//! [`WebhookInvocation`]: what one webhook is shown of a request that it is about.

use super::parsed_webhook::ParsedWebhook;
use crate::admission::matching::MatchedResource;
use crate::admission::{Attributes, admission_request};
use machinery::{Object, Status, Value};

/// See the [module documentation](self). Objects are in the version that the webhook knows.
pub(super) struct WebhookInvocation {
    /// How the webhook knows the resource.
    pub matched: MatchedResource,
    /// The request, without uid and objects.
    pub request: Value,
    /// The new object, or null.
    pub object: Value,
    /// The object before, or null.
    pub old: Value,
}

impl WebhookInvocation {
    /// None if the request is none of the webhook's business.
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
        let wanted = webhook.match_conditions.matches(attributes, &invocation);
        let wanted = wanted.map_err(|why| {
            Status::forbidden(&attributes.scope.group_resource(), &attributes.name, &why)
        })?;
        Ok(wanted.then_some(invocation))
    }

    /// The request as it is sent.
    pub(super) fn to_request(&self, uid: &str) -> Value {
        let mut request = self.request.clone();
        request["uid"] = uid.into();
        request["object"] = self.object.clone();
        request["oldObject"] = self.old.clone();
        request
    }
}
