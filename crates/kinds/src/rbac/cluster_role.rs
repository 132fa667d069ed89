//! `ClusterRole`: permissions in every namespace and on what is not namespaced.

use super::GROUP;
use super::role::{RuleScope, validate_rules};
use crate::table;
use crate::validation::rules::label_selector;
use machinery::fields::{list, top};
use machinery::selector::LabelSelector;
use machinery::{ErrorList, Object, Path, Value, names};
use types::columns::{PLAIN, plain_cells};
use types::resource::{Columns, Resource, Strategy};

/// The resource of the kind `ClusterRole`.
pub fn resource() -> Resource {
    let version = table::v1("rbac/v1.ClusterRole", Columns::Fixed(PLAIN, plain_cells));
    Resource {
        namespaced: false,
        ..table::resource(GROUP, "ClusterRole", "clusterroles", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    validate_name: names::path_segment,
    create_on_update: true,
    ..Strategy::DEFAULT
};

fn validate(object: &Object, errors: &mut ErrorList) {
    validate_rules(object, errors, RuleScope::Cluster);
    let rule = top(object, "aggregationRule");
    if rule.is_null() {
        return;
    }
    let path = Path::root("aggregationRule");
    let path = path.child("clusterRoleSelectors");
    let selectors = list(rule, "clusterRoleSelectors");
    if selectors.is_empty() {
        let message = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.required(&path, message);
    }
    for (index, selector) in selectors.iter().enumerate() {
        label_selector(errors, &path.index(index), selector);
        if LabelSelector::from_value(selector).is_err() {
            errors.invalid(&path.index(index), Value::Null, "invalid label selector.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::refusals;
    use machinery::json;

    #[test]
    fn a_rule_cannot_have_both_resources_and_urls() {
        let rule = json!({"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]});
        assert_eq!(
            refusals(
                &STRATEGY,
                json!({"rules": [rule, {"verbs": ["get"], "nonResourceURLs": ["/y"]}]})
            ),
            [
                r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs"#
            ]
        );
    }

    #[test]
    fn an_aggregation_rule_needs_selectors() {
        assert_eq!(
            refusals(&STRATEGY, json!({"aggregationRule": {}})),
            [
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"
            ]
        );
    }
}
