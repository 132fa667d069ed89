//! [`Rule`]: verbs on resources or on other paths, as a role has them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::text_list::TextList;
use crate::auth::authorization::{Attributes, matches_path};
use machinery::field_path::quote_list;
use machinery::{Object, Value};

/// See the [module documentation](self). `*` stands for every group, resource, verb or path.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    pub verbs: TextList,
    #[serde(rename = "apiGroups", skip_serializing_if = "TextList::is_empty")]
    pub groups: TextList,
    #[serde(skip_serializing_if = "TextList::is_empty")]
    pub resources: TextList,
    /// All names if it is empty.
    #[serde(rename = "resourceNames", skip_serializing_if = "TextList::is_empty")]
    pub names: TextList,
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
        let verbs = verbs.into();
        let one = |text: &str| TextList::from(vec![text.to_owned()]);
        match *self {
            Self::Url(url) => Rule { verbs, urls: vec![url.to_owned()], ..Rule::default() },
            Self::Resource { group, resource, name } => Rule {
                verbs,
                groups: one(group),
                resources: one(resource),
                names: name.map(one).unwrap_or_default(),
                ..Rule::default()
            },
        }
    }
}

/// The texts that stand for a resource in rules, besides `*`: `pods`, or `pods/status` and `*/status`.
pub(super) struct ResourceTexts<'a> {
    resource: Cow<'a, str>,
    all_of_part: Option<String>,
}

impl<'a> ResourceTexts<'a> {
    /// Those of a resource with its subresource after a slash.
    fn of(resource: impl Into<Cow<'a, str>>) -> Self {
        let resource = resource.into();
        let all_of_part = resource.split_once('/').map(|(_, part)| format!("*/{part}"));
        Self { resource, all_of_part }
    }

    /// Those of the resource of a request; empty if it has none.
    pub(super) fn requested(attributes: &Attributes<'a>) -> Self {
        match attributes.resource {
            None => Self::of(""),
            Some(target) if target.subresource.is_empty() => Self::of(target.resource),
            Some(target) => Self::of(format!("{}/{}", target.resource, target.subresource)),
        }
    }

    fn are_in(&self, resources: &TextList) -> bool {
        resources.contains_or_all(&self.resource)
            || self.all_of_part.as_ref().is_some_and(|all| resources.contains(all))
    }
}

impl Rule {
    /// A rule that allows everything on all resources, and one that allows everything on all paths.
    pub(super) fn full_authority() -> [Self; 2] {
        let all = || TextList::from(vec!["*".to_owned()]);
        let resources = Self { verbs: all(), groups: all(), resources: all(), ..Self::default() };
        [resources, Self { verbs: all(), urls: vec!["*".to_owned()], ..Self::default() }]
    }

    /// The rules of a role.
    pub(super) fn of_role(role: &Object) -> Vec<Self> {
        let rules = role.get(&["rules"]).map(Vec::<Self>::deserialize);
        rules.and_then(Result::ok).unwrap_or_default()
    }

    /// Whether the rule allows a request, whose resource is `requested`.
    ///
    /// Upstream: plugin/pkg/auth/authorizer/rbac `RuleAllows`
    pub(super) fn allows(
        &self,
        attributes: &Attributes<'_>,
        requested: &ResourceTexts<'_>,
    ) -> bool {
        if !self.verbs.contains_or_all(attributes.verb) {
            return false;
        }
        let Some(target) = attributes.resource else {
            return self.urls.iter().any(|it| matches_path(it, attributes.path));
        };
        self.groups.contains_or_all(target.group)
            && requested.are_in(&self.resources)
            && (self.names.is_empty() || self.names.contains(target.name))
    }

    /// The JSON of the rule.
    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The number of texts that are compared with a request at most, up to a factor of three.
    pub(super) fn comparisons(&self) -> usize {
        let lists = [&self.verbs, &self.groups, &self.resources, &self.names];
        1 + lists.iter().map(|list| list.comparisons()).sum::<usize>() + self.urls.len()
    }

    /// The number of [rights](Self::rights).
    pub(super) fn number_of_rights(&self) -> usize {
        let counts = [self.groups.len(), self.resources.len(), self.names.len().max(1)];
        let on_resources = counts.into_iter().fold(1, usize::saturating_mul);
        on_resources.saturating_add(self.urls.len()).saturating_mul(self.verbs.len())
    }

    /// The rights that the rule grants, one by one.
    pub(super) fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        let names = &self.names;
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
        if !self.verbs.contains_or_all(right.verb) {
            return false;
        }
        match right.target {
            Target::Url(url) => self.urls.iter().any(|it| matches_path(it, url)),
            Target::Resource { group, resource, name } => {
                self.groups.contains_or_all(group)
                    && ResourceTexts::of(resource).are_in(&self.resources)
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
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let parts = parts.iter().filter(|(_, values)| !values.is_empty());
        let parts: Vec<String> =
            parts.map(|(name, values)| format!("{name}:{}", quote_list(values))).collect();
        format!("{{{}}}", parts.join(", "))
    }
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
        let attributes = Attributes::of_resource(&user, verb, target);
        rule.allows(&attributes, &ResourceTexts::requested(&attributes))
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
            let attributes = Attributes { user: &user, verb: "get", resource: None, path };
            logs.allows(&attributes, &ResourceTexts::requested(&attributes))
        };
        assert!(on("/metrics") && on("/logs/a/b") && on("/logs/"));
        assert!(!on("/logs") && !on("/metrics/a"));
        assert!(!allows(&logs, "get", "", "logs", ""));
    }
}
