//! The rules, selectors and conditions by which webhooks and policies match requests.

use std::collections::HashSet;

use crate::validation::rules::{add_invalid, label_selector, qualified_name, supported_only};
use machinery::fields::{at, default_value, list, map_mut, maps_mut, part, text, texts};
use machinery::{ErrorList, Map, Path, Value, json, names};

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

const MAX_CONDITIONS: usize = 64;

/// Sets the defaults that webhooks and policies have in common: policy, selectors, scope of rules.
pub(super) fn defaults(matching: &mut Map<String, Value>, rule_lists: &[&str]) {
    default_value(matching, "matchPolicy", "Equivalent".into());
    default_value(matching, "namespaceSelector", json!({}));
    default_value(matching, "objectSelector", json!({}));
    for key in rule_lists {
        for rule in maps_mut(matching, key) {
            default_value(rule, "scope", "*".into());
        }
    }
}

/// Sets the defaults of the `MatchResources` at `key` in the spec of a policy or a binding.
pub(super) fn default_match_resources(spec: &mut Map<String, Value>, key: &str) {
    if let Some(resources) = map_mut(spec, key) {
        defaults(resources, &["resourceRules", "excludeResourceRules"]);
    }
}

/// Validates `matchPolicy`.
pub(super) fn validate_match_policy(errors: &mut ErrorList, path: &Path<'_>, matching: &Value) {
    if part(matching, "matchPolicy").is_some() {
        let policies = &["Equivalent", "Exact"];
        supported_only(errors, &path.child("matchPolicy"), text(matching, "matchPolicy"), policies);
    }
}

/// Validates `namespaceSelector` and `objectSelector`.
pub(super) fn validate_selectors(errors: &mut ErrorList, path: &Path<'_>, matching: &Value) {
    for selector in ["namespaceSelector", "objectSelector"] {
        label_selector(errors, &path.child(selector), at(matching, &[selector]));
    }
}

/// Validates the `MatchResources` of a policy or a binding.
pub(super) fn validate_match_resources(errors: &mut ErrorList, path: &Path<'_>, resources: &Value) {
    validate_match_policy(errors, path, resources);
    validate_selectors(errors, path, resources);
    for part in ["resourceRules", "excludeResourceRules"] {
        let path = path.child(part);
        for (index, rule) in list(resources, part).iter().enumerate() {
            let path = path.index(index);
            let names_path = path.child("resourceNames");
            let mut seen: HashSet<&str> = HashSet::new();
            for (index, name) in texts(rule, "resourceNames").enumerate() {
                let path = names_path.index(index);
                add_invalid(errors, &path, name, names::path_segment(name));
                if seen.contains(&name) {
                    errors.duplicate(&path, name);
                }
                seen.insert(name);
            }
            validate_rule_with_operations(errors, &path, rule);
        }
    }
}

/// Validates a `RuleWithOperations`.
pub(super) fn validate_rule_with_operations(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    validate_wildcard(errors, path, rule, "operations", "operations");
    let operations = path.child("operations");
    for (index, operation) in texts(rule, "operations").enumerate() {
        supported_only(errors, &operations.index(index), operation, OPERATIONS);
    }
    validate_rule(errors, path, rule);
    if part(rule, "scope").is_some() {
        let scopes = &["*", "Cluster", "Namespaced"];
        supported_only(errors, &path.child("scope"), text(rule, "scope"), scopes);
    }
}

/// Validates a `Rule`: groups, versions and resources.
pub(super) fn validate_rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    validate_wildcard(errors, path, rule, "apiGroups", "API groups");
    validate_wildcard(errors, path, rule, "apiVersions", "API versions");
    let versions = path.child("apiVersions");
    for (index, _) in texts(rule, "apiVersions").enumerate().filter(|(_, it)| it.is_empty()) {
        errors.required(&versions.index(index), "");
    }
    validate_resource_names(errors, &path.child("resources"), rule);
}

/// Requires at least one item at `key`; a `*` must be the only one. `plural` is the items' name in
/// the message.
fn validate_wildcard(
    errors: &mut ErrorList,
    path: &Path<'_>,
    rule: &Value,
    key: &str,
    plural: &str,
) {
    let path = path.child(key);
    let items: Vec<&str> = texts(rule, key).collect();
    if items.is_empty() {
        errors.required(&path, "");
    }
    if items.len() > 1 && items.contains(&"*") {
        let message = format!("if '*' is present, must not specify other {plural}");
        errors.invalid(&path, json!(items), &message);
    }
}

fn validate_resource_names(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    let resources: Vec<&str> = texts(rule, "resources").collect();
    if resources.is_empty() {
        errors.required(path, "");
    }
    let mut resources_with_any_subresource = HashSet::new();
    let mut subresources_of_any_resource = HashSet::new();
    // As upstream: only the last item without a subresource counts.
    let mut last_is_plain = false;
    for (index, name) in resources.iter().enumerate() {
        let path = path.index(index);
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let Some((resource, subresource)) = name.split_once('/') else {
            last_is_plain = *name != "*";
            continue;
        };
        if resources_with_any_subresource.contains(&resource) {
            let message = format!("if '{resource}/*' is present, must not specify {name}");
            errors.invalid(&path, *name, &message);
        }
        if subresources_of_any_resource.contains(&subresource) {
            let message = format!("if '*/{subresource}' is present, must not specify {name}");
            errors.invalid(&path, *name, &message);
        }
        if subresource == "*" {
            resources_with_any_subresource.insert(resource);
        }
        if resource == "*" {
            subresources_of_any_resource.insert(subresource);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        let message = "if '*/*' is present, must not specify other resources";
        errors.invalid(path, json!(resources), message);
    }
    if resources.contains(&"*") && last_is_plain {
        let message = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, json!(resources), message);
    }
}

/// Validates the match conditions of a webhook or a policy. Their expressions are validated where
/// they are compiled.
pub(super) fn validate_conditions(errors: &mut ErrorList, path: &Path<'_>, conditions: &[Value]) {
    if conditions.len() > MAX_CONDITIONS {
        errors.too_many(path, conditions.len(), MAX_CONDITIONS);
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        if text(condition, "expression").trim().is_empty() {
            errors.required(&path.child("expression"), "");
        }
        let (path, name) = (path.child("name"), text(condition, "name"));
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        qualified_name(errors, &path, name);
        if seen.contains(&name) {
            errors.duplicate(&path, name);
        }
        seen.insert(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;

    fn check(rule: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate_rule_with_operations(&mut errors, &Path::root("r"), &rule);
        assert_eq!(lines(&errors), expected);
    }

    fn rule_for(resources: &[&str]) -> Value {
        json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["v1"], "resources": resources})
    }

    #[test]
    fn a_rule_requires_groups_versions_and_resources() {
        check(
            json!({"operations": ["CREATE", "*"]}),
            &[
                r#"r.operations: Invalid value: ["CREATE","*"]: if '*' is present, must not specify other operations"#,
                "r.apiGroups: Required value",
                "r.apiVersions: Required value",
                "r.resources: Required value",
            ],
        );
    }

    #[test]
    fn a_wildcard_excludes_other_items() {
        check(rule_for(&["pods", "pods/*"]), &[]);
        check(
            rule_for(&["pods/*", "pods/log"]),
            &[
                r#"r.resources[1]: Invalid value: "pods/log": if 'pods/*' is present, must not specify pods/log"#,
            ],
        );
        check(
            rule_for(&["*", "pods"]),
            &[
                r#"r.resources: Invalid value: ["*","pods"]: if '*' is present, must not specify other resources without subresources"#,
            ],
        );
    }
}
