//! [`Rule`]: verbs on resources or on other paths, as a role has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::auth::authorization::{Attributes, matches_path};
use machinery::field_path::quote_list;
use machinery::policy_rule::names_resource;
use machinery::{Object, Value};

/// See the [module documentation](self). `*` stands for every group, resource, verb or path.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    pub verbs: Vec<String>,
    #[serde(rename = "apiGroups", skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// All names if it is empty.
    #[serde(rename = "resourceNames", skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
}

impl Rule {
    /// A rule that allows everything on all resources, and one that allows everything on all paths.
    pub(super) fn full_authority() -> [Self; 2] {
        let all = || vec!["*".to_owned()];
        let resources = Self { verbs: all(), groups: all(), resources: all(), ..Self::default() };
        [resources, Self { verbs: all(), urls: all(), ..Self::default() }]
    }

    /// The rules of a role.
    pub(super) fn of_role(role: &Object) -> Vec<Self> {
        let rules = role.get(&["rules"]).map(Vec::<Self>::deserialize);
        rules.and_then(Result::ok).unwrap_or_default()
    }

    /// Whether the rule allows a request.
    ///
    /// Upstream: plugin/pkg/auth/authorizer/rbac `RuleAllows`
    pub(super) fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, attributes.verb) {
            return false;
        }
        let Some(target) = attributes.resource else {
            return self.urls.iter().any(|it| matches_path(it, attributes.path));
        };
        has_or_all(&self.groups, target.group)
            && self
                .resources
                .iter()
                .any(|it| names_resource(it, target.resource, target.subresource))
            && (self.names.is_empty() || has(&self.names, target.name))
    }

    /// The JSON of the rule.
    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The number of rules into which this one is [broken down](Self::broken_down).
    pub(super) fn number_of_parts(&self) -> usize {
        let targets = [&self.groups, &self.resources].map(Vec::len).into_iter();
        let on_resources = targets.fold(self.names.len().max(1), usize::saturating_mul);
        on_resources.saturating_add(self.urls.len()).saturating_mul(self.verbs.len())
    }

    /// Rules with one verb, one resource or path, and at most one name each, which together allow what
    /// this one allows.
    fn broken_down(&self) -> Vec<Self> {
        let one = |it: &String| vec![it.clone()];
        let mut found = Vec::new();
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let rule = Self {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        ..Self::default()
                    };
                    if self.names.is_empty() {
                        found.push(rule);
                        continue;
                    }
                    let named = |name| Self { names: one(name), ..rule.clone() };
                    found.extend(self.names.iter().map(named));
                }
            }
        }
        for url in &self.urls {
            let on_url = |verb| Self { verbs: one(verb), urls: one(url), ..Self::default() };
            found.extend(self.verbs.iter().map(on_url));
        }
        found
    }

    /// Whether this rule allows what the other one allows, which is [broken down](Self::broken_down).
    fn covers(&self, other: &Self) -> bool {
        let all_covered = |ours: &[String], theirs: &[String]| {
            has(ours, "*") || theirs.iter().all(|it| has(ours, it))
        };
        let covers_resource = |resource: &String| match resource.split_once('/') {
            _ if has(&self.resources, resource) => true,
            Some((_, part)) => self.resources.iter().any(|it| it.strip_prefix("*/") == Some(part)),
            None => false,
        };
        let covers_names = self.names.is_empty()
            || (!other.names.is_empty() && other.names.iter().all(|it| has(&self.names, it)));
        all_covered(&self.verbs, &other.verbs)
            && all_covered(&self.groups, &other.groups)
            && (has(&self.resources, "*") || other.resources.iter().all(covers_resource))
            && covers_names
            && other.urls.iter().all(|url| self.urls.iter().any(|it| matches_path(it, url)))
    }

    /// The rule in messages. Upstream: apis/rbac/v1 `CompactString`.
    fn describe(&self) -> String {
        let parts = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let parts = parts.iter().filter(|(_, values)| !values.is_empty());
        let parts: Vec<String> =
            parts.map(|(name, values)| format!("{name}:{}", quote_list(values))).collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// What `wanted` allows and `owned` does not: rules with one verb on one resource or path each.
///
/// Upstream: component-helpers/auth/rbac/validation `Covers`
pub(super) fn missing_rules(owned: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let parts = wanted.iter().flat_map(Rule::broken_down);
    parts.filter(|part| !owned.iter().any(|it| it.covers(part))).collect()
}

/// What `wanted` allows and `owned` does not, one line for each resource; empty if there is nothing.
///
/// Upstream: registry/rbac/validation `CompactRules`
pub(super) fn missing_rights(owned: &[Rule], wanted: &[Rule]) -> Vec<String> {
    // Rules on paths are not joined.
    let mut verbs = BTreeMap::<Rule, Vec<String>>::new();
    let mut lines = Vec::new();
    for rule in missing_rules(owned, wanted) {
        if rule.urls.is_empty() {
            let target = Rule { verbs: Vec::new(), ..rule.clone() };
            verbs.entry(target).or_default().extend(rule.verbs);
        } else {
            lines.push(rule.describe());
        }
    }
    lines.extend(verbs.into_iter().map(|(target, verbs)| Rule { verbs, ..target }.describe()));
    lines.sort_unstable();
    lines.dedup();
    lines
}

fn has(values: &[String], value: &str) -> bool {
    values.iter().any(|it| it == value)
}

fn has_or_all(values: &[String], value: &str) -> bool {
    values.iter().any(|it| it == "*" || it == value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::authentication::User;
    use crate::auth::authorization::ResourceAttributes;
    use machinery::json;

    fn rule(rule: Value) -> Rule {
        serde_json::from_value(rule).unwrap()
    }

    fn allows(rule: &Rule, verb: &str, group: &str, resource: &str, name: &str) -> bool {
        let user = User::anonymous();
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let target = ResourceAttributes {
            group,
            resource,
            subresource,
            name,
            ..ResourceAttributes::default()
        };
        rule.allows(&Attributes::of_resource(&user, verb, target))
    }

    #[test]
    fn a_rule_allows_its_verbs_on_its_resources_and_names() {
        let pods =
            rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "*/scale"],
            "resourceNames": ["a"]}));
        assert!(allows(&pods, "get", "", "pods", "a"));
        assert!(allows(&pods, "get", "", "deployments/scale", "a"));
        for (verb, group, resource, name) in [
            ("list", "", "pods", "a"),
            ("get", "apps", "pods", "a"),
            ("get", "", "pods/status", "a"),
            ("get", "", "pods", "b"),
            ("get", "", "pods", ""),
        ] {
            assert!(!allows(&pods, verb, group, resource, name), "{verb} {resource} {name}");
        }
        let all = &Rule::full_authority()[0];
        assert!(allows(all, "bind", "x", "y/z", "a"));
    }

    #[test]
    fn a_rule_about_paths_allows_no_resources() {
        let logs = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/logs/*", "/metrics"]}));
        let user = User::anonymous();
        let on = |path: &str| {
            logs.allows(&Attributes { user: &user, verb: "get", resource: None, path })
        };
        assert!(on("/metrics") && on("/logs/a/b") && on("/logs/"));
        assert!(!on("/logs") && !on("/metrics/a"));
        assert!(!allows(&logs, "get", "", "logs", ""));
    }

    #[test]
    fn missing_rights_are_listed_by_resource() {
        let owned = rule(
            json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]}),
        );
        let wanted = [
            rule(
                json!({"verbs": ["get", "create", "delete"], "apiGroups": [""], "resources": ["pods", "x/scale"]}),
            ),
            rule(json!({"verbs": ["get"], "nonResourceURLs": ["/a"]})),
            rule(
                json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]}),
            ),
        ];
        assert_eq!(
            missing_rights(&[owned], &wanted),
            [
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["create" "delete"]}"#,
                r#"{APIGroups:[""], Resources:["x/scale"], Verbs:["create" "delete"]}"#,
                r#"{NonResourceURLs:["/a"], Verbs:["get"]}"#,
            ]
        );
        let named = rule(
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]}),
        );
        assert_eq!(
            missing_rights(
                &[named],
                &[rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}))]
            ),
            [r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#]
        );
        assert!(missing_rights(&Rule::full_authority(), &wanted).is_empty());
    }
}
