//! `InitializerConfiguration`: rules that say which initializers a new object gets.
//!
//! Kubernetes 1.7 to 1.13 had this kind; it is validated as it was there.

use std::collections::HashSet;

use super::matching::validate_rule;
use crate::table;
use crate::validation::rules::add_invalid;
use machinery::fields::{list, text, texts, top};
use machinery::{ErrorList, Object, Path, Value, names};
use types::columns::{PLAIN, plain_cells};
use types::resource::{Columns, Resource, Strategy, Version};

/// The resource of the kind `InitializerConfiguration`.
pub fn resource() -> Resource {
    let shape = "admissionregistration/v1alpha1.InitializerConfiguration";
    let v1 = table::v1(shape, Columns::Fixed(PLAIN, plain_cells));
    let version = Version { name: "v1alpha1".to_owned(), ..v1 };
    super::resource("InitializerConfiguration", "initializerconfigurations", &STRATEGY, version)
}

static STRATEGY: Strategy = Strategy {
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    generation: true,
    unconditional_update: false,
    ..Strategy::DEFAULT
};

fn validate(object: &Object, errors: &mut ErrorList) {
    let path = Path::root("initializers");
    let mut seen: HashSet<&str> = HashSet::new();
    let initializers = top(object, "initializers").as_array().into_iter().flatten();
    for (index, initializer) in initializers.enumerate() {
        let path = path.index(index);
        let name = text(initializer, "name");
        match name {
            "" => errors.required(&path.child("name"), ""),
            name if seen.contains(&name) => errors.duplicate(&path.child("name"), name),
            _ => add_invalid(errors, &path.child("name"), name, names::fully_qualified_name(name)),
        }
        seen.insert(name);
        let rules = path.child("rules");
        for (index, rule) in list(initializer, "rules").iter().enumerate() {
            let path = rules.index(index);
            validate_rule(errors, &path, rule);
            refuse_subresources(errors, &path.child("resources"), rule);
        }
    }
}

/// Initializers act on new objects, and a subresource is not an object of its own.
fn refuse_subresources(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    for (index, resource) in texts(rule, "resources").enumerate().filter(|(_, it)| it.contains('/'))
    {
        errors.invalid(&path.index(index), resource, "must not specify subresources");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::refusals;
    use machinery::json;

    fn check(initializers: Value, expected: &[&str]) {
        assert_eq!(refusals(&STRATEGY, json!({"initializers": initializers})), expected);
    }

    fn rules_for(resources: &[&str]) -> Value {
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": resources}])
    }

    #[test]
    fn valid_initializers_are_accepted() {
        check(
            json!([{"name": "envoy.initializer.kubernetes.io", "rules": rules_for(&["pods"])}]),
            &[],
        );
        check(json!([{"name": "a.b.c", "rules": rules_for(&["*"])}, {"name": "a.b.d"}]), &[]);
    }

    #[test]
    fn initializer_names_are_unique_domains_with_three_segments() {
        check(
            json!([{"name": "envoy"}, {"name": "a.b.c"}, {"name": "a.b.c"}, {}]),
            &[
                r#"initializers[0].name: Invalid value: "envoy": should be a domain with at least three segments separated by dots"#,
                r#"initializers[2].name: Duplicate value: "a.b.c""#,
                "initializers[3].name: Required value",
            ],
        );
    }

    #[test]
    fn a_rule_needs_groups_versions_and_resources_without_subresources() {
        check(
            json!([{"name": "a.b.c", "rules": rules_for(&["pods/status"])}]),
            &[
                r#"initializers[0].rules[0].resources[0]: Invalid value: "pods/status": must not specify subresources"#,
            ],
        );
        check(
            json!([{"name": "a.b.c", "rules": rules_for(&["*", "pods"])}]),
            &[
                r#"initializers[0].rules[0].resources: Invalid value: ["*","pods"]: if '*' is present, must not specify other resources without subresources"#,
            ],
        );
        check(
            json!([{"name": "a.b.c", "rules": [{}]}]),
            &[
                "initializers[0].rules[0].apiGroups: Required value",
                "initializers[0].rules[0].apiVersions: Required value",
                "initializers[0].rules[0].resources: Required value",
            ],
        );
    }
}
