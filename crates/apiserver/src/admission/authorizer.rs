//! What expressions ask as `authorizer`: the same judgment that the request itself went through.

use super::{Attempt, matching};
use crate::authentication::User;
use crate::authentication::service_account::account;
use crate::authorization::{Attributes, Authorizers};
use crate::request::{RequestInfo, Target, Verb};
use cel::library::authorizer::{Authorizer, Check, Decision};
use std::sync::Arc;

/// Whom to ask on behalf of a request, and about what if the expression does not say.
pub(super) fn of(attempt: &Attempt<'_>) -> (Arc<dyn Authorizer>, Check) {
    let (cx, resource) = (attempt.cx, attempt.cx.resource());
    let check = Check {
        group: resource.group_of(cx.version()).to_owned(),
        resource: resource.plural.clone(),
        subresource: cx.target.subresource.clone(),
        namespace: matching::namespace(attempt).to_owned(),
        name: attempt.name.clone(),
        ..Check::default()
    };
    let judge = Judge { user: cx.user.clone(), authorizers: cx.plane.authorizers.clone() };
    (Arc::new(judge), check)
}

/// Judges for one user.
#[derive(Debug)]
struct Judge {
    user: User,
    authorizers: Authorizers,
}

impl Authorizer for Judge {
    fn authorize(&self, check: &Check) -> Decision {
        let account =
            check.service_account.as_ref().map(|(namespace, name)| account(namespace, name, ""));
        let user = account.as_ref().unwrap_or(&self.user);
        let target = check.path.is_none().then(|| Target {
            group: check.group.clone(),
            version: "*".to_owned(),
            namespace: check.namespace.clone(),
            resource: check.resource.clone(),
            name: check.name.clone(),
            subresource: check.subresource.clone(),
            rest: String::new(),
        });
        let info = RequestInfo {
            verb: Verb::parse(&check.verb),
            path: check.path.clone().unwrap_or_default(),
            target,
        };
        let allowed = self.authorizers.allow(&Attributes::new(user, &info));
        Decision { allowed, ..Decision::default() }
    }
}
