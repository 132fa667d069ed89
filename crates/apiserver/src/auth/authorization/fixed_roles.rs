//! [`FixedRoles`]: the permissions of the components of a plane, such as its controllers, which are
//! known when the plane starts. They apply to components in the process of the server only: another
//! client with the name of a component, for example with a token of its service account, has the
//! rights that roles give it.

use std::collections::HashMap;

use super::{Attributes, Authorization, Authorizer, Decision, Rules};
use crate::auth::authentication::User;
use machinery::{PolicyRule, json};

/// The reason of the audit log for what a component may do.
const REASON: &str = "allowed by the fixed role of a component of this plane";

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub struct FixedRoles {
    /// The rules of each component, by its user name.
    rules: HashMap<String, Vec<PolicyRule>>,
}

impl FixedRoles {
    /// The permissions of components; a user name may occur more than once.
    pub fn new(roles: impl IntoIterator<Item = (String, Vec<PolicyRule>)>) -> Self {
        let mut rules = HashMap::<String, Vec<PolicyRule>>::new();
        for (user, added) in roles {
            rules.entry(user).or_default().extend(added);
        }
        Self { rules }
    }

    fn of(&self, user: &User) -> &[PolicyRule] {
        let rules = self.rules.get(&user.name).filter(|_| user.is_component);
        rules.map(Vec::as_slice).unwrap_or_default()
    }
}

impl Authorizer for FixedRoles {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
        let Some(target) = attributes.resource else { return Decision::no_opinion("").into() };
        let is_allowed = self.of(attributes.user).iter().any(|rule| {
            rule.allows(attributes.verb, target.group, target.resource, target.subresource)
                && rule.allows_name(target.name)
        });
        if is_allowed {
            Decision::Allow(REASON.into()).into()
        } else {
            Decision::no_opinion("").into()
        }
    }

    fn rules(&self, user: &User, _: &str, rules: &mut Rules) {
        rules.resources.extend(self.of(user).iter().map(|rule| {
            let mut listed = json!({
                "verbs": rule.verbs,
                "apiGroups": rule.groups,
                "resources": rule.resources,
            });
            if !rule.names.is_empty() {
                listed["resourceNames"] = json!(rule.names);
            }
            listed
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::authorization::ResourceAttributes;

    #[test]
    fn a_component_may_do_what_the_rules_of_its_name_allow() {
        let rule = PolicyRule::new(&[""], &["pods"], &["create"]);
        let named = PolicyRule::new(&[""], &["pods"], &["get"]).for_names(&["a"]);
        let roles = [("scheduler".to_owned(), vec![rule]), ("reader".to_owned(), vec![named])];
        let roles = FixedRoles::new(roles);
        let is_allowed = |user: &User, verb: &str| {
            let pods = ResourceAttributes { resource: "pods", ..ResourceAttributes::default() };
            let attributes = Attributes::of_resource(user, verb, pods);
            let Authorization::Ready(decision) = roles.authorize(&attributes) else {
                panic!("the decision needs no wait");
            };
            decision.is_allowed()
        };
        let allows = |name: &str, verb: &str| is_allowed(&User::component(name, Vec::new()), verb);
        assert!(allows("scheduler", "create"));
        assert!(!is_allowed(&User::authenticated("scheduler", "", Vec::new()), "create"));
        assert!(!allows("reader", "get"));
        assert!(!allows("scheduler", "delete"));
        assert!(!allows("somebody", "create"));
    }
}
