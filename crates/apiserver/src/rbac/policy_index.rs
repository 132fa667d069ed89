//! [`PolicyIndex`]: the roles by name, and the bindings by subject. A change of one object changes a
//! part of it, however many there are; a copy shares all other parts.
//!
//! A user may have thousands of bindings of the same role. They stand beside each other, so that its
//! rules are read once.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use imbl::{HashMap, Vector};
use serde::Deserialize;

use super::rule::Rule;
use crate::auth::authentication::{User, service_account};
use machinery::field_path::quote;

/// See the [module documentation](self).
#[derive(Clone, Default)]
pub(super) struct PolicyIndex {
    /// By namespace, which is empty for a `ClusterRole`, and name.
    roles: HashMap<Arc<str>, RolesByName>,
    cluster_bindings: BindingsBySubject,
    /// By namespace.
    bindings: HashMap<Arc<str>, BindingsBySubject>,
}

type RolesByName = HashMap<Arc<str>, Arc<Role>>;

/// The rules of a `Role` or a `ClusterRole`.
#[derive(Debug)]
pub(super) struct Role {
    pub rules: Vec<Rule>,
    /// The number of texts that are compared with a request at most.
    pub comparisons: usize,
}

/// The bindings of each user and group.
#[derive(Clone, Default)]
struct BindingsBySubject {
    users: HashMap<Arc<str>, SortedBindings>,
    groups: HashMap<Arc<str>, SortedBindings>,
}

/// In the order of their roles, then of their names.
type SortedBindings = Vector<Arc<Binding>>;

/// A `RoleBinding` or a `ClusterRoleBinding`.
#[derive(Debug, PartialEq)]
pub(crate) struct Binding {
    /// Empty for a `ClusterRoleBinding`.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub role: RoleReference,
    pub subjects: Vec<Subject>,
}

/// The role of a binding.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
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
#[derive(PartialEq, Eq, Hash)]
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
    fn order(&self, other: &Self) -> Ordering {
        self.role.cmp(&other.role).then_with(|| self.name.cmp(&other.name))
    }

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
    /// Applies a change to the bindings of each subject of the binding.
    fn change(&mut self, binding: &Binding, mut change: impl FnMut(&mut SortedBindings)) {
        let subjects = binding.subjects.iter().filter_map(|it| it.key(&binding.namespace));
        let subjects: HashSet<SubjectKey> = subjects.collect();
        for subject in subjects {
            let (map, key) = match subject {
                SubjectKey::User(name) => (&mut self.users, name),
                SubjectKey::Group(name) => (&mut self.groups, name),
            };
            let bindings = map.entry(Arc::clone(&key)).or_default();
            change(bindings);
            if bindings.is_empty() {
                map.remove(&key);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    /// The bindings of a user, and those of each of its groups.
    fn of<'a>(&'a self, user: &'a User) -> impl Iterator<Item = &'a SortedBindings> {
        let groups = user.groups.iter().filter_map(|it| self.groups.get(it.as_str()));
        self.users.get(user.name.as_str()).into_iter().chain(groups)
    }
}

/// The first binding of each role.
fn one_of_each_role(bindings: &SortedBindings) -> impl Iterator<Item = &Arc<Binding>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let binding = bindings.get(at)?;
        at += 1;
        if bindings.get(at).is_some_and(|it| it.role == binding.role) {
            at = partition_point(bindings, at, |it| it.role <= binding.role);
        }
        Some(binding)
    })
}

/// The first position from `start` on whose binding is not `before`.
fn partition_point(
    bindings: &SortedBindings,
    start: usize,
    before: impl Fn(&Binding) -> bool,
) -> usize {
    let (mut low, mut high) = (start, bindings.len());
    while low < high {
        let middle = low.midpoint(high);
        if before(&bindings[middle]) { low = middle + 1 } else { high = middle }
    }
    low
}

impl PolicyIndex {
    /// Adds or replaces a role; a `ClusterRole` has no namespace.
    pub(super) fn set_role(&mut self, namespace: &str, name: &str, rules: Vec<Rule>) {
        let comparisons = rules.iter().map(Rule::comparisons).sum();
        let role = Arc::new(Role { rules, comparisons });
        self.roles.entry(namespace.into()).or_default().insert(name.into(), role);
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
        let bindings = match &*binding.namespace {
            "" => &mut self.cluster_bindings,
            _ => self.bindings.entry(Arc::clone(&binding.namespace)).or_default(),
        };
        bindings.change(binding, |bindings| {
            match bindings.binary_search_by(|it| it.order(binding)) {
                Ok(at) => drop(bindings.set(at, Arc::clone(binding))),
                Err(at) => bindings.insert(at, Arc::clone(binding)),
            }
        });
    }

    /// Removes a binding.
    pub(super) fn remove_binding(&mut self, binding: &Binding) {
        let remove = |bindings: &mut SortedBindings| {
            if let Ok(at) = bindings.binary_search_by(|it| it.order(binding)) {
                bindings.remove(at);
            }
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
    /// namespace, if it is not empty. Of bindings of the same subject and role, the first.
    pub(super) fn bindings_of<'a>(
        &'a self,
        user: &'a User,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Arc<Binding>> {
        let of_namespace = self.bindings.get(namespace).into_iter().flat_map(|it| it.of(user));
        self.cluster_bindings.of(user).chain(of_namespace).flat_map(one_of_each_role)
    }

    /// The rules of the role of a binding in a namespace, or the reason why there are none.
    ///
    /// Upstream: registry/rbac/validation `GetRoleReferenceRules`
    pub(super) fn rules_of(
        &self,
        role: &RoleReference,
        namespace: &str,
    ) -> Result<&Arc<Role>, ResolutionError> {
        let namespace = match role.kind.as_str() {
            "ClusterRole" => "",
            "Role" => namespace,
            _ => return Err(ResolutionError::UnknownKind(role.kind.clone())),
        };
        let found = self.roles.get(namespace).and_then(|roles| roles.get(role.name.as_str()));
        found.ok_or_else(|| ResolutionError::NotFound(role.clone()))
    }
}

/// The rules of a binding's role are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolutionError {
    /// Create the role.
    #[error("{kind}.{group} {name} not found", kind = .0.kind.to_lowercase(), group = super::GROUP, name = quote(&.0.name))]
    NotFound(RoleReference),
    /// Not expected: validation allows two kinds.
    #[error("unsupported role reference kind: {}", quote(.0))]
    UnknownKind(String),
    /// Bind fewer or smaller roles to the user.
    #[error("the user has more rules than can be checked in namespace {}", quote(.0))]
    TooManyRules(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(kind: &str, name: &str) -> Subject {
        Subject { kind: kind.to_owned(), name: name.to_owned(), namespace: String::new() }
    }

    fn binding(namespace: &str, name: &str, subjects: Vec<Subject>) -> Arc<Binding> {
        Arc::new(Binding {
            namespace: namespace.into(),
            name: name.into(),
            role: cluster_role("view"),
            subjects,
        })
    }

    fn cluster_role(name: &str) -> RoleReference {
        RoleReference {
            group: super::super::GROUP.to_owned(),
            kind: "ClusterRole".to_owned(),
            name: name.to_owned(),
        }
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
    fn of_many_bindings_of_a_role_one_is_found_until_the_last_is_removed() {
        let mut index = PolicyIndex::default();
        let bound = |number: usize| {
            let subjects = vec![subject("User", "eve"), subject("User", "eve")];
            let role = cluster_role(["edit", "view", "zoo"][number % 3]);
            let binding = Binding {
                namespace: "n".into(),
                name: format!("b{number:03}").into(),
                role,
                subjects,
            };
            Arc::new(binding)
        };
        let all: Vec<Arc<Binding>> = (0..300).map(bound).collect();
        all.iter().rev().for_each(|it| index.add_binding(it));
        let eve = User::authenticated("eve", "", Vec::new());
        assert_eq!(names(&index, &eve, "n"), ["b000", "b001", "b002"]);
        all[..298].iter().for_each(|it| index.remove_binding(it));
        assert_eq!(names(&index, &eve, "n"), ["b298", "b299"]);
        all[298..].iter().for_each(|it| index.remove_binding(it));
        assert!(index.bindings.is_empty());
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
