//! [`RuleResolver`]: the rules that apply to a user.

use std::sync::Arc;

use super::policy_index::{Binding, MissingRole, PolicyIndex, RoleReference};
use super::rule::{Rule, missing_rights};
use super::stored_policy::StoredPolicy;
use crate::auth::authentication::User;
use crate::storage::Storage;
use machinery::field_path::{quote, quote_list};
use machinery::status::aggregate_messages;

/// The largest number of combinations of verbs, resources and names that are compared with the rights
/// of a user. Upstream has no limit.
const MAX_PARTS: usize = 20_000;

/// See the [module documentation](self).
pub(crate) struct RuleResolver {
    policy: StoredPolicy,
}

impl RuleResolver {
    /// The rules of the roles and bindings of a plane.
    pub(crate) fn new(storage: &Storage) -> Self {
        Self { policy: StoredPolicy::new(storage) }
    }

    /// Calls `visit` with each binding of the user that applies in the namespace, and the rules of its
    /// role, until it returns a result.
    pub(super) fn visit<R>(
        &self,
        user: &User,
        namespace: &str,
        mut visit: impl FnMut(&Binding, Result<&[Rule], MissingRole>) -> Option<R>,
    ) -> Option<R> {
        let index: Arc<PolicyIndex> = self.policy.index();
        index.bindings_of(user, namespace).find_map(|binding| {
            visit(binding, index.rules_of(&binding.role, namespace).map(|it| &**it))
        })
    }

    /// The rules of a role that a binding in this namespace may name.
    pub(super) fn rules_of_role(
        &self,
        role: &RoleReference,
        namespace: &str,
    ) -> Result<Arc<[Rule]>, MissingRole> {
        self.policy.index().rules_of(role, namespace).map(Arc::clone)
    }

    /// An error if the rules allow what the user may not do in the namespace.
    ///
    /// Upstream: registry/rbac/validation `ConfirmNoEscalation`
    pub(super) fn confirm_no_escalation(
        &self,
        user: &User,
        namespace: &str,
        rules: &[Rule],
    ) -> Result<(), String> {
        let parts = rules.iter().map(Rule::number_of_parts).fold(0, usize::saturating_add);
        if parts > MAX_PARTS {
            return Err(format!(
                "the rules have {parts} combinations of verbs, resources and names, more than the {MAX_PARTS} that can be compared with the rights of a user"
            ));
        }
        let (mut owned, mut errors) = (Vec::new(), Vec::new());
        self.visit(user, namespace, |_, found| {
            match found {
                Ok(rules) => owned.extend_from_slice(rules),
                Err(error) => errors.push(error.to_string()),
            }
            None::<()>
        });
        let missing = missing_rights(&owned, rules);
        if missing.is_empty() {
            return Ok(());
        }
        let (name, groups) = (quote(&user.name), quote_list(&user.groups));
        let mut message = format!(
            "user {name} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{}",
            missing.join("\n")
        );
        if !errors.is_empty() {
            message = format!("{message}; resolution errors: [{}]", aggregate_messages(errors));
        }
        Err(message)
    }
}
