//! [`RuleResolver`]: the rules that apply to a user.

use std::sync::Arc;

use super::policy_index::{Binding, PolicyIndex, ResolutionError, Role, RoleReference};
use super::rights::{self, GrantedRights};
use super::rule::Rule;
use super::stored_policy::StoredPolicy;
use crate::auth::authentication::User;
use crate::storage::Storage;
use machinery::field_path::{quote, quote_list};
use machinery::status::aggregate_messages;

/// The largest number of texts of rules that are compared with one request, about half a millisecond.
/// Authorization precedes flow control, so that whoever writes roles must not make it slow for
/// others. Upstream has no limit.
const MAX_COMPARISONS: usize = 50_000;

/// What it takes to find the role of a binding, in comparisons.
const BINDING: usize = 10;

/// See the [module documentation](self).
pub(crate) struct RuleResolver {
    policy: StoredPolicy,
}

impl RuleResolver {
    /// The rules of the roles and bindings of a plane.
    pub(crate) fn new(storage: &Storage) -> Self {
        Self { policy: StoredPolicy::new(storage) }
    }

    /// Calls `visit` with each role of the user that applies in the namespace, and a binding of it,
    /// until it returns a result.
    pub(super) fn visit<R>(
        &self,
        user: &User,
        namespace: &str,
        mut visit: impl FnMut(&Binding, Result<&Arc<Role>, ResolutionError>) -> Option<R>,
    ) -> Option<R> {
        let index: Arc<PolicyIndex> = self.policy.index();
        let mut comparisons = 0;
        for binding in index.bindings_of(user, namespace) {
            let role = index.rules_of(&binding.role, namespace);
            comparisons += BINDING + role.as_ref().map_or(0, |role| role.comparisons);
            if comparisons > MAX_COMPARISONS {
                return visit(binding, Err(ResolutionError::TooManyRules(namespace.to_owned())));
            }
            if let Some(found) = visit(binding, role) {
                return Some(found);
            }
        }
        None
    }

    /// A role that a binding in this namespace may name.
    pub(super) fn role(
        &self,
        role: &RoleReference,
        namespace: &str,
    ) -> Result<Arc<Role>, ResolutionError> {
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
        let (mut roles, mut errors) = (Vec::new(), Vec::new());
        self.visit(user, namespace, |_, found| {
            match found {
                Ok(role) => roles.push(Arc::clone(role)),
                Err(error) => errors.push(error.to_string()),
            }
            None::<()>
        });
        let granted = GrantedRights::of(roles.iter().flat_map(|role| &role.rules));
        let missing = granted.missing(rules).map_err(|error| error.to_string())?;
        if missing.is_empty() {
            return Ok(());
        }
        let (name, groups) = (quote(&user.name), quote_list(&user.groups));
        let mut message = format!(
            "user {name} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{}",
            rights::describe(&missing).join("\n")
        );
        if !errors.is_empty() {
            message = format!("{message}; resolution errors: [{}]", aggregate_messages(errors));
        }
        Err(message)
    }
}
