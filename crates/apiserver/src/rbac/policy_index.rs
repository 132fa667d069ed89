//! [`PolicyIndex`]: the roles by name, and the bindings by subject. A change of one object changes a
//! part of it, however many there are; a copy shares all other parts.

use std::sync::Arc;

use imbl::HashMap;
use serde::Deserialize;

use super::rule::Rule;
use crate::auth::authentication::{User, service_account};
use machinery::field_path::quote;

/// See the [module documentation](self).
#[derive(Clone, Default)]
pub(super) struct PolicyIndex {
    /// By namespace, which is empty for a `ClusterRole`, and name.
    roles: HashMap<Arc<str>, RulesByName>,
    cluster_bindings: BindingsBySubject,
    /// By namespace.
    bindings: HashMap<Arc<str>, BindingsBySubject>,
}

type RulesByName = HashMap<Arc<str>, Arc<[Rule]>>;

/// The bindings of each user and group, in the order of their names.
#[derive(Clone, Default)]
struct BindingsBySubject {
    users: HashMap<Arc<str>, Arc<[Arc<Binding>]>>,
    groups: HashMap<Arc<str>, Arc<[Arc<Binding>]>>,
}

/// A `RoleBinding` or a `ClusterRoleBinding`.
#[derive(Debug)]
pub(crate) struct Binding {
    /// Empty for a `ClusterRoleBinding`.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub role: RoleReference,
    pub subjects: Vec<Subject>,
}

/// The role of a binding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RoleReference {
    #[serde(rename = "apiGroup")]
    pub group: String,
    /// `Role` or `ClusterRole`.
    pub kind: String,
    pub name: String,
}

/// A subject of a binding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Subject {
    /// `User`, `Group` or `ServiceAccount`.
    pub kind: String,
    pub name: String,
    /// Of a service account; empty for that of the binding.
    pub namespace: String,
}

/// A user or a group.
enum SubjectKey {
    User(Arc<str>),
    Group(Arc<str>),
}

impl Subject {
    /// The user or the group, if the kind is known and a service account has a namespace.
    fn key(&self, binding_namespace: &str) -> Option<SubjectKey> {
        match self.kind.as_str() {
            "User" => Some(SubjectKey::User(self.name.as_str().into())),
            "Group" => Some(SubjectKey::Group(self.name.as_str().into())),
            "ServiceAccount" => {
                let namespace = self.namespace_in(binding_namespace);
                let user = || service_account::username(namespace, &self.name).into();
                (!namespace.is_empty()).then(|| SubjectKey::User(user()))
            }
            _ => None,
        }
    }

    fn namespace_in<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() { binding_namespace } else { &self.namespace }
    }

    fn is_about(&self, user: &User, binding_namespace: &str) -> bool {
        match self.key(binding_namespace) {
            Some(SubjectKey::User(name)) => user.name == *name,
            Some(SubjectKey::Group(name)) => user.is_in(&name),
            None => false,
        }
    }
}

impl Binding {
    /// The binding, its role, and the first subject that is the user or a group of it, for reasons.
    ///
    /// Upstream: registry/rbac/validation `clusterRoleBindingDescriber`, `roleBindingDescriber`
    pub(super) fn describe(&self, user: &User) -> String {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.name.to_string())
        } else {
            ("RoleBinding", format!("{}/{}", self.name, self.namespace))
        };
        let subject = self.subjects.iter().find(|it| it.is_about(user, &self.namespace));
        let subject = subject.map_or_else(String::new, |it| match it.kind.as_str() {
            "ServiceAccount" => {
                let namespace = it.namespace_in(&self.namespace);
                format!("ServiceAccount {}", quote(&format!("{}/{namespace}", it.name)))
            }
            kind => format!("{kind} {}", quote(&it.name)),
        });
        let RoleReference { kind: role_kind, name: role, .. } = &self.role;
        format!("{kind} {} of {role_kind} {} to {subject}", quote(&name), quote(role))
    }
}

impl BindingsBySubject {
    fn change(
        &mut self,
        binding: &Arc<Binding>,
        change: fn(&mut Vec<Arc<Binding>>, &Arc<Binding>),
    ) {
        for subject in &binding.subjects {
            let (map, key) = match subject.key(&binding.namespace) {
                Some(SubjectKey::User(name)) => (&mut self.users, name),
                Some(SubjectKey::Group(name)) => (&mut self.groups, name),
                None => continue,
            };
            let mut bindings: Vec<Arc<Binding>> =
                map.get(&key).map(|it| it.to_vec()).unwrap_or_default();
            change(&mut bindings, binding);
            if bindings.is_empty() {
                map.remove(&key);
            } else {
                map.insert(key, bindings.into());
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    /// The bindings of a user and its groups. A binding may occur more than once.
    fn of<'a>(&'a self, user: &'a User) -> impl Iterator<Item = &'a Arc<Binding>> {
        let groups = user.groups.iter().filter_map(|it| self.groups.get(it.as_str()));
        self.users.get(user.name.as_str()).into_iter().chain(groups).flat_map(|it| it.iter())
    }
}

impl PolicyIndex {
    /// Adds or replaces a role; a `ClusterRole` has no namespace.
    pub(super) fn set_role(&mut self, namespace: &str, name: &str, rules: Vec<Rule>) {
        self.roles.entry(namespace.into()).or_default().insert(name.into(), rules.into());
    }

    /// Removes a role.
    pub(super) fn remove_role(&mut self, namespace: &str, name: &str) {
        if let Some(roles) = self.roles.get_mut(namespace) {
            roles.remove(name);
            if roles.is_empty() {
                self.roles.remove(namespace);
            }
        }
    }

    /// Adds a binding.
    pub(super) fn add_binding(&mut self, binding: &Arc<Binding>) {
        let add = |bindings: &mut Vec<Arc<Binding>>, binding: &Arc<Binding>| {
            match bindings.binary_search_by(|it| it.name.cmp(&binding.name)) {
                // A second subject is the same user or group.
                Ok(at) => bindings[at] = Arc::clone(binding),
                Err(at) => bindings.insert(at, Arc::clone(binding)),
            }
        };
        if binding.namespace.is_empty() {
            self.cluster_bindings.change(binding, add);
        } else {
            self.bindings.entry(Arc::clone(&binding.namespace)).or_default().change(binding, add);
        }
    }

    /// Removes a binding.
    pub(super) fn remove_binding(&mut self, binding: &Arc<Binding>) {
        let remove = |bindings: &mut Vec<Arc<Binding>>, binding: &Arc<Binding>| {
            bindings.retain(|it| it.name != binding.name);
        };
        if binding.namespace.is_empty() {
            return self.cluster_bindings.change(binding, remove);
        }
        if let Some(bindings) = self.bindings.get_mut(&binding.namespace) {
            bindings.change(binding, remove);
            if bindings.is_empty() {
                self.bindings.remove(&binding.namespace);
            }
        }
    }

    /// The bindings of a user that apply in a namespace: those of the cluster, and those of the
    /// namespace, if it is not empty.
    pub(super) fn bindings_of<'a>(
        &'a self,
        user: &'a User,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Arc<Binding>> {
        let of_namespace = self.bindings.get(namespace).into_iter().flat_map(|it| it.of(user));
        self.cluster_bindings.of(user).chain(of_namespace)
    }

    /// The rules of the role of a binding in a namespace, or the reason why there are none.
    ///
    /// Upstream: registry/rbac/validation `GetRoleReferenceRules`
    pub(super) fn rules_of(
        &self,
        role: &RoleReference,
        namespace: &str,
    ) -> Result<&Arc<[Rule]>, MissingRole> {
        let namespace = match role.kind.as_str() {
            "ClusterRole" => "",
            "Role" => namespace,
            _ => return Err(MissingRole::UnknownKind(role.kind.clone())),
        };
        let found = self.roles.get(namespace).and_then(|roles| roles.get(role.name.as_str()));
        found.ok_or_else(|| MissingRole::NotFound(role.clone()))
    }
}

/// A binding names a role that has no rules.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MissingRole {
    /// Create the role.
    #[error("{kind}.{group} {name} not found", kind = .0.kind.to_lowercase(), group = super::GROUP, name = quote(&.0.name))]
    NotFound(RoleReference),
    /// Not expected: validation allows two kinds.
    #[error("unsupported role reference kind: {}", quote(.0))]
    UnknownKind(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(kind: &str, name: &str) -> Subject {
        Subject { kind: kind.to_owned(), name: name.to_owned(), namespace: String::new() }
    }

    fn binding(namespace: &str, name: &str, subjects: Vec<Subject>) -> Arc<Binding> {
        let role = RoleReference {
            group: super::super::GROUP.to_owned(),
            kind: "ClusterRole".to_owned(),
            name: "view".to_owned(),
        };
        Arc::new(Binding { namespace: namespace.into(), name: name.into(), role, subjects })
    }

    fn names(index: &PolicyIndex, user: &User, namespace: &str) -> Vec<String> {
        index.bindings_of(user, namespace).map(|it| it.name.to_string()).collect()
    }

    #[test]
    fn bindings_are_found_by_user_group_and_service_account() {
        let mut index = PolicyIndex::default();
        let cluster =
            binding("", "c", vec![subject("Group", "dev"), subject("ServiceAccount", "x")]);
        let local =
            binding("n", "l", vec![subject("User", "eve"), subject("ServiceAccount", "bot")]);
        index.add_binding(&cluster);
        index.add_binding(&local);
        let eve = User::authenticated("eve", "", vec!["dev".to_owned()]);
        assert_eq!(names(&index, &eve, ""), ["c"]);
        assert_eq!(names(&index, &eve, "n"), ["c", "l"]);
        assert_eq!(names(&index, &eve, "m"), ["c"]);
        let bot = service_account::user("n", "bot", "");
        assert_eq!(names(&index, &bot, "n"), ["l"]);
        let other = service_account::user("m", "bot", "");
        assert!(names(&index, &other, "n").is_empty());
        assert!(names(&index, &service_account::user("", "x", ""), "").is_empty());
        index.remove_binding(&local);
        index.remove_binding(&cluster);
        assert!(names(&index, &eve, "n").is_empty());
        assert!(index.bindings.is_empty() && index.cluster_bindings.is_empty());
    }

    #[test]
    fn a_reason_names_the_binding_the_role_and_the_subject() {
        let bot = service_account::user("n", "bot", "");
        let local = binding("n", "l", vec![subject("User", "a"), subject("ServiceAccount", "bot")]);
        let expected = r#"RoleBinding "l/n" of ClusterRole "view" to ServiceAccount "bot/n""#;
        assert_eq!(local.describe(&bot), expected);
        let eve = User::authenticated("eve", "", Vec::new());
        let cluster = binding("", "c", vec![subject("Group", "system:authenticated")]);
        let expected =
            r#"ClusterRoleBinding "c" of ClusterRole "view" to Group "system:authenticated""#;
        assert_eq!(cluster.describe(&eve), expected);
    }

    #[test]
    fn a_missing_role_is_named_as_kubernetes_names_it() {
        let index = PolicyIndex::default();
        let role = RoleReference {
            kind: "Role".to_owned(),
            name: "r".to_owned(),
            ..RoleReference::default()
        };
        let why = index.rules_of(&role, "n").unwrap_err().to_string();
        assert_eq!(why, r#"role.rbac.authorization.k8s.io "r" not found"#);
    }
}
