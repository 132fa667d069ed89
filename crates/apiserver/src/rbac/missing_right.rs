//! [`missing_right`]: what an administrator can do to give a user a right that no role gives him.
//!
//! ```text
//! no RoleBinding in namespace "a" gives user "jane" the right to list pods; ClusterRole "view" has it
//! ```
//!
//! A refusal does not contain this text, since its message and its headers are those of Kubernetes. A
//! client command computes it from the roles and bindings that the asking user may list, so that it
//! cannot reveal others.

use std::sync::Arc;

use serde::Deserialize;

use super::policy_index::{Binding, MissingRole, PolicyIndex, RoleReference, Subject};
use super::rule::Rule;
use crate::auth::authorization::Attributes;
use machinery::Object;
use machinery::field_path::quote;

/// The maximum number of roles in a text.
const MAX_ROLES: usize = 3;

/// Roles and bindings, as a client has listed them.
#[derive(Default)]
pub struct ListedPolicy {
    index: PolicyIndex,
    roles: Vec<ListedRole>,
}

/// A role and its rules. A `ClusterRole` has no namespace.
struct ListedRole {
    namespace: String,
    name: String,
    rules: Vec<Rule>,
}

impl ListedPolicy {
    /// Adds a `Role`, `ClusterRole`, `RoleBinding` or `ClusterRoleBinding`, of which the fields
    /// `kind` and `metadata` are set. Other objects are ignored.
    pub fn add(&mut self, object: &Object) {
        let (namespace, name) = (object.namespace(), object.name());
        match object.kind() {
            "Role" | "ClusterRole" => {
                let rules = Rule::of_role(object);
                self.index.set_role(namespace, name, rules.clone());
                let (namespace, name) = (namespace.to_owned(), name.to_owned());
                self.roles.push(ListedRole { namespace, name, rules });
            }
            "RoleBinding" | "ClusterRoleBinding" => {
                let role = object.get(&["roleRef"]).map(RoleReference::deserialize);
                let subjects = object.get(&["subjects"]).map(Vec::<Subject>::deserialize);
                self.index.add_binding(&Arc::new(Binding {
                    namespace: namespace.into(),
                    name: name.into(),
                    role: role.and_then(Result::ok).unwrap_or_default(),
                    subjects: subjects.and_then(Result::ok).unwrap_or_default(),
                }));
            }
            _ => {}
        }
    }

    /// The roles that could be bound to give the right, the narrowest ones first.
    fn suitable_roles(&self, attributes: &Attributes<'_>, namespace: &str) -> Vec<&ListedRole> {
        let mut found: Vec<&ListedRole> = self.roles.iter().collect();
        found.retain(|role| {
            (role.namespace.is_empty() || role.namespace == namespace)
                && role.rules.iter().any(|it| it.allows(attributes))
        });
        let has_own = found.iter().any(|it| !it.is_for_components());
        found.retain(|it| !has_own || !it.is_for_components());
        found.sort_by_key(|it| (it.breadth(), it.namespace.is_empty(), it.name.clone()));
        found
    }
}

impl ListedRole {
    /// Whether the role is one of the cluster's own components.
    fn is_for_components(&self) -> bool {
        self.name.starts_with("system:")
    }

    /// A measure of what the role allows: whether anything is unrestricted, and the number of
    /// combinations of verbs and resources.
    fn breadth(&self) -> (bool, usize) {
        let is_all = |texts: &[String]| texts.iter().any(|it| it == "*");
        let is_unrestricted = |rule: &Rule| {
            [&rule.verbs, &rule.resources, &rule.urls].iter().any(|texts| is_all(texts))
        };
        let parts = self.rules.iter().map(Rule::number_of_parts);
        (self.rules.iter().any(is_unrestricted), parts.fold(0, usize::saturating_add))
    }

    fn describe(&self) -> String {
        let kind = if self.namespace.is_empty() { "ClusterRole" } else { "Role" };
        format!("{kind} {}", quote(&self.name))
    }
}

/// What is missing for a user to perform a request, in one line; None if the roles allow it.
pub fn missing_right(policy: &ListedPolicy, attributes: &Attributes<'_>) -> Option<String> {
    let (index, user) = (&policy.index, attributes.user);
    let namespace = attributes.resource.map_or("", |it| it.namespace);
    let mut dangling = None;
    for binding in index.bindings_of(user, namespace) {
        match index.rules_of(&binding.role, namespace) {
            Ok(rules) if rules.iter().any(|it| it.allows(attributes)) => return None,
            Err(MissingRole::NotFound(role)) => {
                dangling.get_or_insert((binding, role));
            }
            Ok(_) | Err(MissingRole::UnknownKind(_)) => {}
        }
    }
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    let place = if namespace.is_empty() {
        String::new()
    } else {
        format!(" in namespace {}", quote(namespace))
    };
    let mut text = format!(
        "no {kind}{place} gives user {} the right to {}",
        quote(&user.name),
        describe_right(attributes)
    );
    if let Some((binding, role)) = dangling {
        let of_cluster = binding.namespace.is_empty();
        let kind = if of_cluster { "ClusterRoleBinding" } else { "RoleBinding" };
        let (name, role_name) = (quote(&binding.name), quote(&role.name));
        text += &format!("; {kind} {name} names {} {role_name}, which does not exist", role.kind);
        return Some(text);
    }
    let roles = policy.suitable_roles(attributes, namespace);
    let names: Vec<String> = roles.iter().take(MAX_ROLES).map(|it| it.describe()).collect();
    text += &match names.as_slice() {
        [] => "; no role has it".to_owned(),
        [one] => format!("; {one} has it"),
        [first @ .., last] => format!("; {} and {last} have it", first.join(", ")),
    };
    Some(text)
}

/// `list pods`, `get deployments.apps/status "web"`, or `get /metrics`.
fn describe_right(attributes: &Attributes<'_>) -> String {
    let verb = attributes.verb;
    let Some(target) = attributes.resource else { return format!("{verb} {}", attributes.path) };
    let mut text = format!("{verb} {}", target.resource);
    if !target.group.is_empty() {
        text += &format!(".{}", target.group);
    }
    if !target.subresource.is_empty() {
        text += &format!("/{}", target.subresource);
    }
    if !target.name.is_empty() {
        text += &format!(" {}", quote(target.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::authentication::User;
    use crate::auth::authorization::ResourceAttributes;
    use machinery::{Value, json};

    fn role(namespace: &str, name: &str, verbs: &[&str], resources: &[&str]) -> Value {
        let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
        json!({"kind": kind, "metadata": {"namespace": namespace, "name": name},
            "rules": [{"verbs": verbs, "apiGroups": [""], "resources": resources}]})
    }

    fn binding(namespace: &str, name: &str, role_kind: &str, role: &str) -> Value {
        let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
        json!({"kind": kind, "metadata": {"namespace": namespace, "name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
            "subjects": [{"kind": "User", "name": "jane"}]})
    }

    /// What jane misses to list pods in a namespace.
    fn missing(objects: &[Value], namespace: &str) -> Option<String> {
        let mut policy = ListedPolicy::default();
        for object in objects {
            policy.add(&Object::from_value(object.clone()).unwrap());
        }
        let jane = User::authenticated("jane", "", Vec::new());
        let pods = ResourceAttributes { resource: "pods", namespace, ..Default::default() };
        missing_right(&policy, &Attributes::of_resource(&jane, "list", pods))
    }

    #[test]
    fn the_text_names_the_narrowest_roles_that_have_the_right() {
        let all = [
            role("", "cluster-admin", &["*"], &["*"]),
            role("", "edit", &["get", "list", "create"], &["pods", "secrets"]),
            role("", "view", &["get", "list"], &["pods"]),
            role("", "system:scheduler", &["list"], &["pods"]),
            role("b", "of-another-namespace", &["list"], &["pods"]),
            role("", "unrelated", &["list"], &["secrets"]),
        ];
        let head = r#"no RoleBinding in namespace "a" gives user "jane" the right to list pods"#;
        assert_eq!(
            missing(&all, "a").unwrap(),
            format!(
                r#"{head}; ClusterRole "view", ClusterRole "edit" and ClusterRole "cluster-admin" have it"#
            )
        );
        assert_eq!(
            missing(&all[2..3], "a").unwrap(),
            format!(r#"{head}; ClusterRole "view" has it"#)
        );
        assert_eq!(missing(&all[5..], "a").unwrap(), format!("{head}; no role has it"));
        let own = missing(&all, "b").unwrap();
        assert!(own.contains(r#"; Role "of-another-namespace", ClusterRole "view""#), "{own}");
        let system = missing(&all[3..4], "a").unwrap();
        assert_eq!(system, format!(r#"{head}; ClusterRole "system:scheduler" has it"#));
        let cluster = missing(&all[2..3], "").unwrap();
        assert_eq!(
            cluster,
            r#"no ClusterRoleBinding gives user "jane" the right to list pods; ClusterRole "view" has it"#
        );
    }

    #[test]
    fn nothing_is_missing_if_a_role_is_bound() {
        let view = role("", "view", &["list"], &["pods"]);
        let bound = binding("a", "b", "ClusterRole", "view");
        assert_eq!(missing(&[view.clone(), bound.clone()], "a"), None);
        assert!(missing(&[view, bound], "c").is_some());
    }

    #[test]
    fn a_binding_of_a_role_that_does_not_exist_is_named() {
        let text = missing(&[binding("a", "b", "Role", "gone")], "a").unwrap();
        let end = r#"; RoleBinding "b" names Role "gone", which does not exist"#;
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn a_right_is_described_with_its_group_subresource_and_name() {
        let jane = User::authenticated("jane", "", Vec::new());
        let status = ResourceAttributes {
            group: "apps",
            resource: "deployments",
            subresource: "status",
            name: "web",
            ..Default::default()
        };
        let attributes = Attributes::of_resource(&jane, "patch", status);
        assert_eq!(describe_right(&attributes), r#"patch deployments.apps/status "web""#);
        let attributes = Attributes { user: &jane, verb: "get", resource: None, path: "/metrics" };
        assert_eq!(describe_right(&attributes), "get /metrics");
    }
}
