//! The roles and bindings that every plane has: those of Kubernetes 1.35 with its default feature
//! gates.
//!
//! The rules of `admin`, `edit` and `view` are not in the tables: the controller of aggregated roles
//! collects them from the roles with the labels that these three select.
//!
//! Upstream: `plugin/pkg/auth/authorizer/rbac/bootstrappolicy`

mod terms;
mod user_roles;
mod system_roles;
mod workload_controller_roles;
mod cluster_controller_roles;
mod namespace_roles;
mod bindings;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::GROUP;
use super::reconciliation::{self, Reconciliation};
use machinery::{Object, PolicyRule, Value, json};

/// A role that every plane has.
#[derive(Debug)]
pub(super) struct BootstrapRole {
    /// The namespace of a `Role`; empty for a `ClusterRole`.
    pub(super) namespace: &'static str,
    /// The name.
    pub(super) name: &'static str,
    /// The keys of its labels with the value `true`, by which other roles aggregate it.
    pub(super) labels: &'static [&'static str],
    /// The keys of the labels, with the value `true`, of the roles that it aggregates.
    pub(super) aggregates: &'static [&'static str],
    /// The rules, in upstream's order.
    pub(super) rules: &'static [PolicyRule],
}

/// A binding that every plane has.
#[derive(Debug, Clone)]
pub(super) struct BootstrapBinding {
    /// The namespace of a `RoleBinding`; empty for a `ClusterRoleBinding`.
    pub(super) namespace: &'static str,
    /// The name.
    pub(super) name: &'static str,
    /// The name of the role, which is a `Role` of the same namespace or a `ClusterRole`.
    pub(super) role: &'static str,
    /// The subjects; none if an administrator is to add them.
    pub(super) subjects: Cow<'static, [BootstrapSubject]>,
}

/// A subject of a [`BootstrapBinding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BootstrapSubject {
    /// The name of a user.
    User(&'static str),
    /// The name of a group.
    Group(&'static str),
    /// The name of a service account in the namespace `kube-system`.
    ServiceAccount(&'static str),
}

/// Labels a role whose rules `admin` has.
const TO_ADMIN: &str = "rbac.authorization.k8s.io/aggregate-to-admin";
/// Labels a role whose rules `edit` has.
const TO_EDIT: &str = "rbac.authorization.k8s.io/aggregate-to-edit";
/// Labels a role whose rules `view` has.
const TO_VIEW: &str = "rbac.authorization.k8s.io/aggregate-to-view";

/// The prefix of the role of a controller; its service account has the rest of the name.
const CONTROLLER_PREFIX: &str = "system:controller:";

/// A role or a binding that every plane has, as an object.
pub(crate) struct BootstrapObject {
    /// The plural of its kind.
    pub(crate) plural: &'static str,
    /// Empty for kinds of the cluster.
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) object: Object,
    reconcile: fn(&Object, &Object) -> Reconciliation,
}

impl BootstrapObject {
    /// What must change in the stored object of this name.
    pub(crate) fn reconcile(&self, stored: &Object) -> Reconciliation {
        (self.reconcile)(stored, &self.object)
    }
}

/// All roles and bindings.
pub(crate) fn objects() -> impl Iterator<Item = BootstrapObject> {
    let roles = roles().map(|it| BootstrapObject {
        plural: if it.namespace.is_empty() { "clusterroles" } else { "roles" },
        namespace: it.namespace,
        name: it.name,
        object: Object::from_value(it.to_value()).unwrap_or_default(),
        reconcile: reconciliation::of_role,
    });
    let bindings = bindings().map(|it| BootstrapObject {
        plural: if it.namespace.is_empty() { "clusterrolebindings" } else { "rolebindings" },
        namespace: it.namespace,
        name: it.name,
        object: Object::from_value(it.to_value()).unwrap_or_default(),
        reconcile: reconciliation::of_binding,
    });
    roles.chain(bindings)
}

/// All roles: first those of the cluster, then those of namespaces.
pub(super) fn roles() -> impl Iterator<Item = &'static BootstrapRole> {
    let system = user_roles::USER_ROLES.iter().chain(system_roles::SYSTEM_ROLES);
    system.chain(controller_roles()).chain(namespace_roles::NAMESPACE_ROLES)
}

/// The rules of a `ClusterRole`.
pub(crate) fn rules_of_cluster_role(name: &str) -> &'static [PolicyRule] {
    let found = roles().find(|it| it.namespace.is_empty() && it.name == name);
    found.map_or(&[], |it| it.rules)
}

/// All bindings.
pub(super) fn bindings() -> impl Iterator<Item = BootstrapBinding> {
    bindings::BINDINGS.iter().cloned().chain(controller_roles().map(controller_binding))
}

fn controller_roles() -> impl Iterator<Item = &'static BootstrapRole> {
    let workload = workload_controller_roles::WORKLOAD_CONTROLLER_ROLES.iter();
    workload.chain(cluster_controller_roles::CLUSTER_CONTROLLER_ROLES)
}

/// Binds the role of a controller to the service account of the controller.
fn controller_binding(role: &BootstrapRole) -> BootstrapBinding {
    let account = role.name.strip_prefix(CONTROLLER_PREFIX).expect("the role is of a controller");
    let subjects = vec![BootstrapSubject::ServiceAccount(account)];
    BootstrapBinding { namespace: "", name: role.name, role: role.name, subjects: subjects.into() }
}

impl BootstrapRole {
    /// A `ClusterRole` without rules.
    const EMPTY: Self = Self { namespace: "", name: "", labels: &[], aggregates: &[], rules: &[] };

    /// The `Role` or `ClusterRole`.
    pub(super) fn to_value(&self) -> Value {
        let rules: Vec<_> = self.rules.iter().map(PolicyRule::to_value).collect();
        let mut role = json!({
            "apiVersion": api_version(),
            "kind": role_kind(self.namespace),
            "metadata": metadata(self.namespace, self.name, self.labels),
            // Upstream writes null until the rules are aggregated.
            "rules": if rules.is_empty() { Value::Null } else { Value::Array(rules) },
        });
        if !self.aggregates.is_empty() {
            let selector = |key: &&str| json!({"matchLabels": {*key: "true"}});
            let selectors: Vec<_> = self.aggregates.iter().map(selector).collect();
            role["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
        }
        role
    }
}

impl BootstrapBinding {
    /// The `RoleBinding` or `ClusterRoleBinding`.
    pub(super) fn to_value(&self) -> Value {
        let role_kind = role_kind(self.namespace);
        let mut binding = json!({
            "apiVersion": api_version(),
            "kind": format!("{role_kind}Binding"),
            "metadata": metadata(self.namespace, self.name, &[]),
            "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": self.role},
        });
        if !self.subjects.is_empty() {
            binding["subjects"] = self.subjects.iter().map(|it| it.to_value()).collect();
        }
        binding
    }
}

impl BootstrapSubject {
    fn to_value(self) -> Value {
        match self {
            Self::User(name) => json!({"kind": "User", "apiGroup": GROUP, "name": name}),
            Self::Group(name) => json!({"kind": "Group", "apiGroup": GROUP, "name": name}),
            Self::ServiceAccount(name) => {
                json!({"kind": "ServiceAccount", "name": name, "namespace": "kube-system"})
            }
        }
    }
}

fn api_version() -> String {
    format!("{GROUP}/v1")
}

/// The kind of a role; the namespace of a `ClusterRole` is empty.
fn role_kind(namespace: &str) -> &'static str {
    if namespace.is_empty() { "ClusterRole" } else { "Role" }
}

/// The metadata of a role or a binding. Upstream restores the rules and subjects of an object for as
/// long as the annotation is `true`.
fn metadata(namespace: &str, name: &str, labels: &[&str]) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    });
    for key in labels {
        metadata["labels"][*key] = json!("true");
    }
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    metadata
}
