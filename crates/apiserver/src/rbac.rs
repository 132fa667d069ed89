//! Role-based access control: the rules of a role apply to the subjects of its bindings.
//!
//! ```text
//! a user and its groups ─▶ PolicyIndex: bindings by subject ─roleRef▶ Role, ClusterRole ─▶ Rule
//! ```

pub(crate) mod bootstrap_policy;
mod text_list;
mod rule;
mod rights;
mod stored_policy;
mod policy_index;
pub(crate) mod rule_resolver;
pub(crate) mod authorizer;
pub(crate) mod escalation;
pub(crate) mod reconciliation;

/// The group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
