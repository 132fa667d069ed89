//! The kinds of `rbac.authorization.k8s.io`: roles and their bindings.

pub mod role;
pub mod cluster_role;
pub mod role_binding;
pub mod cluster_role_binding;

/// The group's name, which is also the `apiGroup` of role references and subjects.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
