//! [`RbacAuthorizer`]: allows what a role of the user allows.

use std::fmt;
use std::sync::Arc;

use super::rule::ResourceTexts;
use super::rule_resolver::RuleResolver;
use crate::auth::authentication::User;
use crate::auth::authorization::{Attributes, Authorization, Authorizer, Decision, Rules};
use machinery::json;
use machinery::status::aggregate_messages;

/// See the [module documentation](self).
pub(crate) struct RbacAuthorizer(pub Arc<RuleResolver>);

impl fmt::Debug for RbacAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RbacAuthorizer")
    }
}

impl Authorizer for RbacAuthorizer {
    fn name(&self) -> &'static str {
        "rbac"
    }

    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
        let user = attributes.user;
        let namespace = attributes.resource.map_or("", |it| it.namespace);
        let requested = ResourceTexts::requested(attributes);
        let mut errors = Vec::new();
        let allowed = self.0.visit(user, namespace, |binding, role| match role {
            Ok(role) => role
                .rules
                .iter()
                .any(|rule| rule.allows(attributes, &requested))
                .then(|| format!("RBAC: allowed by {}", binding.describe(user))),
            Err(error) => {
                errors.push(error.to_string());
                None
            }
        });
        match allowed {
            Some(reason) => Decision::Allow(reason.into()).into(),
            None if errors.is_empty() => Decision::no_opinion("").into(),
            None => Decision::no_opinion(format!("RBAC: {}", aggregate_messages(errors))).into(),
        }
    }

    fn rules(&self, user: &User, namespace: &str, rules: &mut Rules) {
        self.0.visit(user, namespace, |_, found| {
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    rules.evaluation_errors.push(error.to_string());
                    return None::<()>;
                }
            };
            for rule in &found.rules {
                if !rule.resources.is_empty() {
                    let mut listed = json!({
                        "verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources,
                    });
                    if !rule.names.is_empty() {
                        listed["resourceNames"] = json!(rule.names);
                    }
                    rules.resources.push(listed);
                }
                if !rule.urls.is_empty() {
                    rules.paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.urls}));
                }
            }
            None
        });
    }
}
