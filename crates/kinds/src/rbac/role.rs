//! `Role`: permissions in one namespace.

use super::GROUP;
use crate::table;
use machinery::fields::{list, top};
use machinery::{ErrorList, Object, Path, Value, names};
use types::columns::{PLAIN, plain_cells};
use types::resource::{Columns, Resource, Strategy};

/// The resource of the kind `Role`.
pub fn resource() -> Resource {
    let version = table::v1("rbac/v1.Role", Columns::Fixed(PLAIN, plain_cells));
    table::resource(GROUP, "Role", "roles", &STRATEGY, version)
}

static STRATEGY: Strategy = Strategy {
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    validate_name: names::path_segment,
    create_on_update: true,
    ..Strategy::DEFAULT
};

fn validate(object: &Object, errors: &mut ErrorList) {
    validate_rules(object, errors, RuleScope::Namespace);
}

/// Whether a role or a binding is namespaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleScope {
    Namespace,
    Cluster,
}

/// Validates the rules of a role.
pub(super) fn validate_rules(role: &Object, errors: &mut ErrorList, scope: RuleScope) {
    let path = Path::root("rules");
    for (index, rule) in top(role, "rules").as_array().into_iter().flatten().enumerate() {
        validate_rule(errors, &path.index(index), rule, scope);
    }
}

fn validate_rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value, scope: RuleScope) {
    validate_rule_resources(errors, path, rule, scope);
    if list(rule, "verbs").is_empty() {
        errors.declarative(|errors| errors.required(&path.child("verbs"), ""));
    }
}

fn validate_rule_resources(
    errors: &mut ErrorList,
    path: &Path<'_>,
    rule: &Value,
    scope: RuleScope,
) {
    let is_empty = |key| list(rule, key).is_empty();
    if !is_empty("nonResourceURLs") {
        let path = path.child("nonResourceURLs");
        let shown = || rule["nonResourceURLs"].clone();
        if scope == RuleScope::Namespace {
            errors.invalid(&path, shown(), "namespaced rules cannot apply to non-resource URLs");
        }
        if !["apiGroups", "resources", "resourceNames"].into_iter().all(is_empty) {
            let message = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(&path, shown(), message);
        }
        return;
    }
    if is_empty("apiGroups") {
        let message = "resource rules must supply at least one api group";
        errors.required(&path.child("apiGroups"), message);
    }
    if is_empty("resources") {
        let message = "resource rules must supply at least one resource";
        errors.required(&path.child("resources"), message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::refusals;
    use machinery::json;

    #[test]
    fn a_rule_needs_verbs_and_resources() {
        assert_eq!(
            refusals(&STRATEGY, json!({"rules": [{"verbs": []}]})),
            [
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
                "rules[0].verbs: Required value",
            ]
        );
    }

    #[test]
    fn a_role_cannot_have_non_resource_urls() {
        assert_eq!(
            refusals(&STRATEGY, json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]})),
            [
                r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs"#
            ]
        );
    }
}
