//! [`Invocation`]: what one webhook is shown of a request that it is about.

use super::hook::Hook;
use crate::admission::matching::Matched;
use crate::admission::{Attributes, request};
use machinery::{Object, Status, Value};

/// See the [module documentation](self). Objects are in the version that the webhook knows.
pub(super) struct Invocation {
    /// How the webhook knows the resource.
    pub matched: Matched,
    /// The request, without uid and objects.
    pub request: Value,
    /// The new object, or null.
    pub object: Value,
    /// The object before, or null.
    pub old: Value,
}

impl Invocation {
    /// None if the request is none of the webhook's business.
    pub(super) async fn of(
        hook: &Hook,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<Option<Self>, Status> {
        let Some(matched) = hook.criteria.matched(attributes, object)? else { return Ok(None) };
        let invocation = Self {
            request: Value::Object(request::of(attributes, &matched)),
            object: request::shown(attributes, &matched, object).await?,
            old: request::shown(attributes, &matched, attributes.old).await?,
            matched,
        };
        let wanted = hook.conditions.hold(attributes, &invocation);
        let wanted = wanted
            .map_err(|why| Status::forbidden(&attributes.scope.what(), &attributes.name, &why))?;
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
