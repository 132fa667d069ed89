//! [`Rule`]: verbs on resources or on other paths, as a role has them.

use serde::{Deserialize, Serialize};

use crate::auth::authorization::Attributes;
use machinery::Value;
use machinery::field_path::quote;
use machinery::policy_rule::names_resource;

/// See the [module documentation](self). `*` stands for every group, resource, verb or path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
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

    /// Whether the rule allows a request.
    ///
    /// Upstream: plugin/pkg/auth/authorizer/rbac `RuleAllows`
    pub(super) fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, attributes.verb) {
            return false;
        }
        let Some(target) = attributes.resource else {
            return self.urls.iter().any(|it| path_covers(it, attributes.path));
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
            && other.urls.iter().all(|url| self.urls.iter().any(|it| path_covers(it, url)))
    }

    /// Whether verbs of another rule can be added to this one.
    fn differs_in_verbs_only(&self, other: &Self) -> bool {
        (&self.groups, &self.resources, &self.names)
            == (&other.groups, &other.resources, &other.names)
            && self.urls.is_empty()
            && other.urls.is_empty()
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
            parts.map(|(name, values)| format!("{name}:{}", quoted_list(values))).collect();
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
    let mut compact = Vec::<Rule>::new();
    for rule in missing_rules(owned, wanted) {
        match compact.iter_mut().find(|it| it.differs_in_verbs_only(&rule)) {
            Some(same) => same.verbs.extend(rule.verbs),
            None => compact.push(rule),
        }
    }
    let mut lines: Vec<String> = compact.iter().map(Rule::describe).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// The texts in quotes, as Go prints a list of strings: `["a" "b"]`.
pub(super) fn quoted_list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|it| quote(it)).collect();
    format!("[{}]", quoted.join(" "))
}

/// Whether a path pattern (`/logs/*` stands for all paths under it) covers a path or another pattern.
fn path_covers(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
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
