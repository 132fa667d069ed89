//! [`Invocation`]: what one webhook is shown of a request that it is about.

use super::hook::Hook;
use crate::admission::matching::Matched;
use crate::admission::{Attempt, request};
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
        attempt: &Attempt<'_>,
        object: Option<&Object>,
    ) -> Result<Option<Self>, Status> {
        let Some(matched) = hook.criteria.matched(attempt, object)? else { return Ok(None) };
        let invocation = Self {
            request: Value::Object(request::of(attempt, &matched)),
            object: request::shown(attempt, &matched, object).await?,
            old: request::shown(attempt, &matched, attempt.old).await?,
            matched,
        };
        let wanted = hook.conditions.hold(attempt, &invocation);
        let wanted =
            wanted.map_err(|why| Status::forbidden(&attempt.cx.what(), &attempt.name, &why))?;
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
