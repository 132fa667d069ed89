//! [`Rule`]: verbs on resources or on other paths, as a role has them.

use serde::{Deserialize, Serialize};

use super::resource_names::ResourceNames;
use crate::auth::authorization::{Attributes, matches_path};
use machinery::field_path::quote_list;
use machinery::policy_rule::names_resource;
use machinery::{Object, Value};

/// See the [module documentation](self). `*` stands for every group, resource, verb or path.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    pub verbs: Vec<String>,
    #[serde(rename = "apiGroups", skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// All names if it is empty.
    #[serde(rename = "resourceNames", skip_serializing_if = "ResourceNames::is_empty")]
    pub names: ResourceNames,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
}

/// A verb on one resource or path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right<'a> {
    pub verb: &'a str,
    pub target: Target<'a>,
}

/// The object of a [`Right`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target<'a> {
    Resource {
        group: &'a str,
        /// With its subresource after a slash.
        resource: &'a str,
        /// `None` is every object.
        name: Option<&'a str>,
    },
    Url(&'a str),
}

impl Target<'_> {
    /// The rule with these verbs on the target.
    pub(super) fn rule(&self, verbs: Vec<String>) -> Rule {
        let one = |text: &str| vec![text.to_owned()];
        match *self {
            Self::Url(url) => Rule { verbs, urls: one(url), ..Rule::default() },
            Self::Resource { group, resource, name } => Rule {
                verbs,
                groups: one(group),
                resources: one(resource),
                names: name.map(one).unwrap_or_default().into(),
                ..Rule::default()
            },
        }
    }
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
            && (self.names.is_empty() || self.names.contains(target.name))
    }

    /// The JSON of the rule.
    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The number of texts that are compared with a request at most. Names are found by binary search.
    pub(super) fn size(&self) -> usize {
        1 + self.verbs.len() + self.groups.len() + self.resources.len() + self.urls.len()
    }

    /// The number of [rights](Self::rights).
    pub(super) fn number_of_rights(&self) -> usize {
        let targets = [&self.groups, &self.resources].map(Vec::len).into_iter();
        let names = self.names.as_slice().len().max(1);
        let on_resources = targets.fold(names, usize::saturating_mul);
        on_resources.saturating_add(self.urls.len()).saturating_mul(self.verbs.len())
    }

    /// The rights that the rule grants, one by one.
    pub(super) fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        let names = self.names.as_slice();
        let on_resources = self.groups.iter().flat_map(move |group| {
            self.resources.iter().flat_map(move |resource| {
                self.verbs.iter().flat_map(move |verb| {
                    let all = names.is_empty().then_some(None);
                    let names = all.into_iter().chain(names.iter().map(|name| Some(name.as_str())));
                    names.map(move |name| Right {
                        verb,
                        target: Target::Resource { group, resource, name },
                    })
                })
            })
        });
        let on_urls = self.urls.iter().flat_map(move |url| {
            self.verbs.iter().map(move |verb| Right { verb, target: Target::Url(url) })
        });
        on_resources.chain(on_urls)
    }

    /// Whether this rule grants a right.
    pub(super) fn covers(&self, right: &Right<'_>) -> bool {
        if !has_or_all(&self.verbs, right.verb) {
            return false;
        }
        match right.target {
            Target::Url(url) => self.urls.iter().any(|it| matches_path(it, url)),
            Target::Resource { group, resource, name } => {
                let part = resource.split_once('/').map(|(_, part)| part);
                let is_resource = |it: &String| {
                    it == "*" || it == resource || part.is_some() && it.strip_prefix("*/") == part
                };
                has_or_all(&self.groups, group)
                    && self.resources.iter().any(is_resource)
                    && (self.names.is_empty() || name.is_some_and(|it| self.names.contains(it)))
            }
        }
    }

    /// The rule in messages. Upstream: apis/rbac/v1 `CompactString`.
    pub(super) fn describe(&self) -> String {
        let parts: [(&str, &[String]); 5] = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", self.names.as_slice()),
            ("Verbs", &self.verbs),
        ];
        let parts = parts.iter().filter(|(_, values)| !values.is_empty());
        let parts: Vec<String> =
            parts.map(|(name, values)| format!("{name}:{}", quote_list(values))).collect();
        format!("{{{}}}", parts.join(", "))
    }
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
}
