//! The users of this crate and their permissions.
//!
//! All simulated nodes of a plane share one user. A user for each node, as kubelets have, needs a
//! client for each node, and a client has a task and a buffer: too much for 1,000 nodes. It is not a
//! member of `system:nodes`, since the members of that group may change only one node.

use machinery::PolicyRule;
use runtime::Identity;

/// A user and its permissions.
#[derive(Debug, Clone)]
pub struct Role {
    /// The user.
    pub identity: Identity,
    /// What the user may do.
    pub rules: &'static [PolicyRule],
}

/// The name of the service account in `kube-system`, and of the source of the events about Stages.
pub(crate) const NAME: &str = "simulated-nodes";

const RULES: &[PolicyRule] = &[
    PolicyRule::new(
        &[""],
        &["nodes", "pods"],
        &["get", "list", "watch", "create", "patch", "delete"],
    ),
    PolicyRule::new(&[""], &["nodes/status", "pods/status"], &["patch"]),
    PolicyRule::new(&[""], &["configmaps", "secrets"], &["get"]),
    PolicyRule::new(&["coordination.k8s.io"], &["leases"], &["create", "patch"]),
    PolicyRule::new(&["", "events.k8s.io"], &["events"], &["create", "patch", "update"]),
    PolicyRule::new(
        &["apiextensions.k8s.io"],
        &["customresourcedefinitions"],
        &["get", "list", "watch"],
    ),
    PolicyRule::new(&["kwok.x-k8s.io"], &["stages"], &["get", "list", "watch"]),
];

/// The user of the simulated nodes.
pub(crate) fn identity() -> Identity {
    Identity::service_account(NAME, "kubelet")
}

/// The permissions of the simulated nodes.
pub fn roles() -> Vec<Role> {
    vec![Role { identity: identity(), rules: RULES }]
}
