//! [`PolicyRule`]: a rule of a role: verbs on resources or on other URLs, as in RBAC.

use serde_json::{Map, Value};

/// A rule that is known at compile time. `*` stands for every group, resource or verb.
///
/// ```
/// use machinery::PolicyRule;
///
/// const RULE: PolicyRule = PolicyRule::new(&["apps"], &["replicasets", "replicasets/status"], &["get", "update"]);
/// assert!(RULE.allows("update", "apps", "replicasets", "status"));
/// assert!(!RULE.allows("delete", "apps", "replicasets", ""));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyRule {
    /// The API groups; the core group is empty.
    pub groups: &'static [&'static str],
    /// The plurals, with their subresource after a slash: `pods/status`.
    pub resources: &'static [&'static str],
    /// The verbs.
    pub verbs: &'static [&'static str],
    /// The names of the objects; all objects if it is empty.
    pub names: &'static [&'static str],
    /// The paths of a rule that is not about resources; `*` at the end stands for any suffix.
    pub urls: &'static [&'static str],
}

impl PolicyRule {
    /// A rule.
    pub const fn new(
        groups: &'static [&'static str],
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
    ) -> Self {
        Self { groups, resources, verbs, names: &[], urls: &[] }
    }

    /// A rule about paths that are not of resources.
    ///
    /// ```
    /// # use machinery::PolicyRule;
    /// let rule = PolicyRule::on_urls(&["/healthz", "/healthz/*"], &["get"]);
    /// assert_eq!(rule.urls, ["/healthz", "/healthz/*"]);
    /// assert!(!rule.allows("get", "", "pods", ""));
    /// ```
    pub const fn on_urls(urls: &'static [&'static str], verbs: &'static [&'static str]) -> Self {
        Self { groups: &[], resources: &[], verbs, names: &[], urls }
    }

    /// The same rule for the objects with these names only.
    ///
    /// ```
    /// # use machinery::PolicyRule;
    /// let rule = PolicyRule::new(&[""], &["configmaps"], &["get"]).for_names(&["settings"]);
    /// assert!(rule.allows_name("settings") && !rule.allows_name("other"));
    /// ```
    #[must_use]
    pub const fn for_names(mut self, names: &'static [&'static str]) -> Self {
        self.names = names;
        self
    }

    /// Whether the rule is about objects with this name.
    pub fn allows_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.contains(&name)
    }

    /// Whether the rule allows `verb` on a resource; the subresource may be empty.
    ///
    /// Upstream: `apis/rbac/v1/evaluation_helpers.go`
    pub fn allows(&self, verb: &str, group: &str, resource: &str, subresource: &str) -> bool {
        let has = |values: &[&str], value: &str| values.iter().any(|it| *it == "*" || *it == value);
        has(self.verbs, verb)
            && has(self.groups, group)
            && self.resources.iter().any(|it| names_resource(it, resource, subresource))
    }

    /// The rule as it is written in a role; empty lists other than the verbs are left out.
    ///
    /// ```
    /// # use machinery::{PolicyRule, json};
    /// let rule = PolicyRule::new(&[""], &["pods"], &["get"]).for_names(&["a"]);
    /// assert_eq!(
    ///     rule.to_value(),
    ///     json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]})
    /// );
    /// ```
    pub fn to_value(&self) -> Value {
        let optional = [
            ("apiGroups", self.groups),
            ("resources", self.resources),
            ("resourceNames", self.names),
            ("nonResourceURLs", self.urls),
        ];
        let mut rule = Map::new();
        rule.insert("verbs".to_owned(), Value::from(self.verbs));
        for (key, values) in optional.into_iter().filter(|(_, values)| !values.is_empty()) {
            rule.insert(key.to_owned(), Value::from(values));
        }
        Value::Object(rule)
    }
}

/// Whether `*`, `pods`, `pods/status` or `*/status` names the resource and its subresource.
fn names_resource(pattern: &str, resource: &str, subresource: &str) -> bool {
    let (plural, part) = pattern.split_once('/').unwrap_or((pattern, ""));
    pattern == "*"
        || (part == subresource && (plural == resource || plural == "*" && !part.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_does_not_include_its_subresources() {
        let allows = |pattern: &'static [&'static str], resource, subresource| {
            PolicyRule::new(&[""], pattern, &["get"]).allows("get", "", resource, subresource)
        };
        assert!(allows(&["pods"], "pods", ""));
        assert!(!allows(&["pods"], "pods", "status"));
        assert!(allows(&["*/scale"], "pods", "scale"));
        assert!(!allows(&["*/scale"], "pods", ""));
        assert!(allows(&["*"], "pods", "status"));
    }
}
