//! The variable `authorizer` of CEL expressions: it asks the authorizers of the server on behalf of
//! the user of the request.

use std::sync::Arc;

use super::Attributes;
use super::matching;
use crate::auth::authentication::User;
use crate::auth::authentication::service_account;
use crate::auth::authorization;
use crate::auth::authorization::{Authorizers, ResourceAttributes};
use crate::request::Selectors;
use cel::library::authorizer::{Authorizer, Check, Decision};

/// The authorizer for the user of a request, and the check that `authorizer.requestResource` starts
/// from.
pub(super) fn user_authorizer(attributes: &Attributes<'_>) -> (Arc<dyn Authorizer>, Check) {
    let (scope, resource) = (attributes.scope, attributes.scope.resource());
    let check = Check {
        group: resource.group_of(scope.version()).to_owned(),
        resource: resource.plural.clone(),
        subresource: scope.path.subresource.clone(),
        namespace: matching::request_namespace(attributes).to_owned(),
        name: attributes.name.clone(),
        ..Check::default()
    };
    let authorizer = UserAuthorizer {
        user: scope.user.clone(),
        authorizers: attributes.admission.authorizers.clone(),
    };
    (Arc::new(authorizer), check)
}

/// Authorizes one user.
#[derive(Debug)]
struct UserAuthorizer {
    user: User,
    authorizers: Authorizers,
}

impl Authorizer for UserAuthorizer {
    fn authorize(&self, check: &Check) -> Decision {
        let account = check
            .service_account
            .as_ref()
            .map(|(namespace, name)| service_account::user(namespace, name, ""));
        let user = account.as_ref().unwrap_or(&self.user);
        let selectors = Selectors::parse(&check.field_selector, &check.label_selector);
        let resource = check.path.is_none().then(|| ResourceAttributes {
            group: &check.group,
            version: "*",
            resource: &check.resource,
            subresource: &check.subresource,
            namespace: &check.namespace,
            name: &check.name,
            selectors: selectors.as_ref(),
        });
        let path = check.path.as_deref().unwrap_or_default();
        let attributes = authorization::Attributes { user, verb: &check.verb, resource, path };
        match self.authorizers.decide_immediately(&attributes) {
            Ok(decision) => Decision {
                allowed: decision.is_allowed(),
                reason: decision.reason().to_owned(),
                error: decision.evaluation_error().map(ToOwned::to_owned),
            },
            Err(not_ready) => {
                Decision { error: Some(not_ready.to_string()), ..Decision::default() }
            }
        }
    }
}
