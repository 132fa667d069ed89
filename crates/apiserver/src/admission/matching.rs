//! [`MatchCriteria`]: decides which requests a webhook or a policy applies to.
//!
//! ```text
//! namespaceSelector ─▶ objectSelector ─▶ excluded rules ─▶ rules ─▶ rules in another version
//! ```
//!
//! A rule that names another version of the same kind also matches, unless the match policy is
//! `Exact`; the webhook or policy then gets the object in the version of the rule.
//!
//! The resources that configure admission are exempt, because a user could otherwise not delete a
//! configuration that rejects every request.

use super::{Attributes, Operation};
use machinery::selector::LabelSelector;
use machinery::{GroupResource, Object, Status, Value};
use types::Resource;
use types::resource::Version;

/// See the [module documentation](self).
pub(crate) struct MatchCriteria {
    rules: Vec<RuleWithOperations>,
    exclude_rules: Vec<RuleWithOperations>,
    /// Whether a rule that names another version of the kind also matches.
    equivalent: bool,
    /// Whether an empty list of rules matches every request.
    rules_optional: bool,
    /// Whether webhook configurations are exempt, in addition to policies and bindings.
    exempts_webhooks: bool,
    namespace_selector: Result<LabelSelector, String>,
    object_selector: Result<LabelSelector, String>,
}

/// The version and subresource in which a rule matches a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MatchedResource {
    /// The version of the object: an index into the versions of the resource.
    pub version: usize,
    /// The subresource of the request, or "".
    pub subresource: String,
}

/// Operations on resources. `*` in a list matches everything.
struct RuleWithOperations {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Pairs of a resource and its subresource.
    resources: Vec<(String, String)>,
    scope: RuleScope,
    /// The names of objects; an empty list matches all.
    names: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RuleScope {
    All,
    Namespaced,
    Cluster,
}

const GROUP: &str = "admissionregistration.k8s.io";

const POLICIES: &[&str] = &[
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

const WEBHOOKS: &[&str] = &["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];

impl MatchCriteria {
    /// The criteria of a webhook: its `rules`, `matchPolicy`, `namespaceSelector` and
    /// `objectSelector`.
    pub(crate) fn of_webhook(webhook: &Value) -> Self {
        Self { exempts_webhooks: true, ..Self::of(webhook, "rules") }
    }

    /// The criteria of a policy's `matchConstraints` or a binding's `matchResources`.
    pub(crate) fn of_policy(constraints: &Value) -> Self {
        Self {
            exclude_rules: rules(constraints, "excludeResourceRules"),
            rules_optional: true,
            ..Self::of(constraints, "resourceRules")
        }
    }

    fn of(value: &Value, key: &str) -> Self {
        Self {
            rules: rules(value, key),
            exclude_rules: Vec::new(),
            equivalent: value["matchPolicy"] == "Equivalent",
            rules_optional: false,
            exempts_webhooks: false,
            namespace_selector: selector(&value["namespaceSelector"]),
            object_selector: selector(&value["objectSelector"]),
        }
    }

    fn exempts(&self, resource: &Resource) -> bool {
        let kind = resource.kind.as_str();
        resource.group == GROUP
            && (POLICIES.contains(&kind) || self.exempts_webhooks && WEBHOOKS.contains(&kind))
    }

    /// The version in which the request matches; None if it does not match. `object` is the new
    /// object, and None for a deletion.
    pub(crate) fn find_match(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<Option<MatchedResource>, Status> {
        if self.exempts(attributes.scope.resource()) {
            return Ok(None);
        }
        // An invalid selector is an error only if everything else matches, so that other requests
        // are not rejected.
        let namespace = self.matches_namespace(attributes, object);
        if matches!(namespace, Ok(false)) {
            return Ok(None);
        }
        let selected = self.matches_object(attributes, object);
        if matches!(selected, Ok(false)) {
            return Ok(None);
        }
        if self.find_version(&self.exclude_rules, attributes).is_some() {
            return Ok(None);
        }
        let found = if self.rules.is_empty() && self.rules_optional {
            Some(attributes.scope.version)
        } else {
            self.find_version(&self.rules, attributes)
        };
        let Some(version) = found else { return Ok(None) };
        namespace?;
        selected?;
        let subresource = attributes.scope.path.subresource.clone();
        Ok(Some(MatchedResource { version, subresource }))
    }

    /// The version that a rule names. A rule with the version of the request takes precedence.
    fn find_version(
        &self,
        rules: &[RuleWithOperations],
        attributes: &Attributes<'_>,
    ) -> Option<usize> {
        let (resource, requested) = (attributes.scope.resource(), attributes.scope.version);
        let matches = |rule: &RuleWithOperations, version: &Version| {
            rule.matches(&RuleAttributes::of(attributes, version))
        };
        if rules.iter().any(|rule| matches(rule, &resource.versions[requested])) {
            return Some(requested);
        }
        if !self.equivalent {
            return None;
        }
        let others = || {
            let served = resource.versions.iter().enumerate();
            served.filter(|(index, version)| *index != requested && version.served)
        };
        // Rules are tried in their order; the order of versions comes second.
        rules.iter().find_map(|rule| {
            others().find(|(_, version)| matches(rule, version)).map(|(index, _)| index)
        })
    }

    fn matches_namespace(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<bool, Status> {
        let name = request_namespace(attributes);
        if name.is_empty() && attributes.scope.resource().plural != "namespaces" {
            return Ok(true);
        }
        let selector = self.namespace_selector.as_ref().map_err(Status::internal)?;
        if selector.is_empty() {
            return Ok(true);
        }
        let new_namespace = object.filter(|_| {
            is_namespace(attributes.scope.resource())
                && attributes.scope.path.subresource.is_empty()
        });
        if let Some(object) = new_namespace {
            return Ok(selector.matches(|key| object.label(key)));
        }
        let catalog = attributes.scope.storage.catalog.load();
        let found = catalog
            .resource("", "namespaces")
            .and_then(|served| served.cache.get(&served.key("", name)));
        match found {
            Some(entry) => Ok(selector.matches(|key| entry.label(key))),
            None => Err(Status::not_found(&GroupResource::new("", "namespaces"), name)),
        }
    }

    /// Whether the selector matches the new or the old object: an update that removes a label must
    /// not bypass a webhook.
    fn matches_object(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<bool, Status> {
        let selector = self.object_selector.as_ref().map_err(Status::internal)?;
        let is_selected = |it: Option<&Object>| {
            it.is_some_and(|object| selector.matches(|key| object.label(key)))
        };
        Ok(selector.is_empty() || is_selected(object) || is_selected(attributes.old))
    }
}

impl RuleWithOperations {
    fn of(rule: &Value) -> Self {
        let resources = texts(&rule["resources"]).into_iter().map(|it| match it.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (it, String::new()),
        });
        Self {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: resources.collect(),
            scope: match rule["scope"].as_str() {
                Some("Namespaced") => RuleScope::Namespaced,
                Some("Cluster") => RuleScope::Cluster,
                _ => RuleScope::All,
            },
            names: texts(&rule["resourceNames"]),
        }
    }

    fn matches(&self, attributes: &RuleAttributes<'_>) -> bool {
        let is = |item: &str, value: &str| item == "*" || item == value;
        let is_in = |items: &[String], value: &str| items.iter().any(|it| is(it, value));
        let in_scope = match self.scope {
            RuleScope::All => true,
            RuleScope::Namespaced => !attributes.cluster_scoped,
            RuleScope::Cluster => attributes.cluster_scoped,
        };
        in_scope
            && is_in(&self.operations, attributes.operation.as_str())
            && is_in(&self.groups, attributes.group)
            && is_in(&self.versions, attributes.version)
            && self.resources.iter().any(|(it, subresource)| {
                is(it, attributes.resource) && is(subresource, attributes.subresource)
            })
            && (self.names.is_empty() || self.names.iter().any(|it| it == attributes.name))
    }
}

/// The attributes of a request that rules match.
struct RuleAttributes<'a> {
    operation: Operation,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    subresource: &'a str,
    name: &'a str,
    /// Whether the object is in no namespace.
    cluster_scoped: bool,
}

impl<'a> RuleAttributes<'a> {
    /// The attributes of the request if it were made in this version.
    fn of(attributes: &'a Attributes<'_>, version: &'a Version) -> Self {
        let resource = attributes.scope.resource();
        Self {
            operation: attributes.operation,
            group: resource.group_of(version),
            version: &version.name,
            resource: &resource.plural,
            subresource: &attributes.scope.path.subresource,
            name: &attributes.name,
            // Namespaces are cluster-scoped, although their requests have a namespace.
            cluster_scoped: is_namespace(resource) || attributes.namespace.is_empty(),
        }
    }
}

/// The namespace of a request. A request for a namespace has that namespace.
pub(crate) fn request_namespace<'a>(attributes: &'a Attributes<'_>) -> &'a str {
    if is_namespace(attributes.scope.resource()) { &attributes.name } else { attributes.namespace }
}

fn is_namespace(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "namespaces"
}

fn rules(value: &Value, key: &str) -> Vec<RuleWithOperations> {
    value[key].as_array().into_iter().flatten().map(RuleWithOperations::of).collect()
}

/// A missing selector matches everything.
fn selector(value: &Value) -> Result<LabelSelector, String> {
    if value.is_null() { Ok(LabelSelector::everything()) } else { LabelSelector::from_value(value) }
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    const POD: RuleAttributes<'_> = RuleAttributes {
        operation: Operation::Create,
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        name: "a",
        cluster_scoped: false,
    };

    /// A rule for pods with one field replaced.
    fn pods(key: &str, value: Value) -> RuleWithOperations {
        let mut rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["pods"]});
        rule[key] = value;
        RuleWithOperations::of(&rule)
    }

    #[test]
    fn every_list_of_a_rule_must_match() {
        assert!(pods("operations", json!(["UPDATE", "CREATE"])).matches(&POD));
        assert!(!pods("operations", json!(["UPDATE", "DELETE"])).matches(&POD));
        assert!(!pods("apiGroups", json!(["apps"])).matches(&POD));
        assert!(!pods("apiVersions", json!(["v2"])).matches(&POD));
        assert!(!pods("resources", json!(["nodes", "pods/status"])).matches(&POD));
    }

    #[test]
    fn a_star_matches_everything() {
        for key in ["operations", "apiGroups", "apiVersions", "resources"] {
            assert!(pods(key, json!(["*"])).matches(&POD), "{key}");
        }
    }

    #[test]
    fn subresources_are_matched_separately() {
        let status = RuleAttributes { subresource: "status", ..POD };
        for (resource, pod, subresource) in [
            ("pods", true, false),
            ("*", true, false),
            ("pods/status", false, true),
            ("pods/*", true, true),
            ("*/status", false, true),
            ("*/*", true, true),
            ("nodes/*", false, false),
        ] {
            let rule = pods("resources", json!([resource]));
            assert_eq!(
                (rule.matches(&POD), rule.matches(&status)),
                (pod, subresource),
                "{resource}"
            );
        }
    }

    #[test]
    fn resource_names_restrict_a_rule_to_named_objects() {
        assert!(pods("resourceNames", json!(["b", "a"])).matches(&POD));
        assert!(!pods("resourceNames", json!(["b"])).matches(&POD));
        assert!(pods("resourceNames", json!([])).matches(&POD));
    }

    #[test]
    fn a_scope_restricts_a_rule_to_namespaced_or_cluster_resources() {
        let cluster = RuleAttributes { cluster_scoped: true, ..POD };
        for (scope, namespaced, clusterwide) in
            [("*", true, true), ("Namespaced", true, false), ("Cluster", false, true)]
        {
            let rule = pods("scope", scope.into());
            let found = (rule.matches(&POD), rule.matches(&cluster));
            assert_eq!(found, (namespaced, clusterwide), "{scope}");
        }
    }
}
