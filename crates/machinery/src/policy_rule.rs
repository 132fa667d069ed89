//! [`PolicyRule`]: a rule of a role: verbs on resources, as in RBAC.

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
}

impl PolicyRule {
    /// A rule.
    pub const fn new(
        groups: &'static [&'static str],
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
    ) -> Self {
        Self { groups, resources, verbs }
    }

    /// Whether the rule allows `verb` on a resource; the subresource may be empty.
    ///
    /// Upstream: apis/rbac/v1/evaluation_helpers.go
    pub fn allows(&self, verb: &str, group: &str, resource: &str, subresource: &str) -> bool {
        let has = |values: &[&str], value: &str| values.iter().any(|it| *it == "*" || *it == value);
        has(self.verbs, verb)
            && has(self.groups, group)
            && self.resources.iter().any(|it| names_resource(it, resource, subresource))
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
