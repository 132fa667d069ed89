//! `PodDisruptionBudget`: limits the number of pods that evictions disrupt at a time.

use crate::table;
use crate::validation::rules::{
    at_least_zero, at_most_100_percent, count_or_percent, invalid_struct, label_selector,
    supported_only,
};
use machinery::fields::{at, number, part, text, top};
use machinery::selector::LabelSelector;
use machinery::{ErrorList, Object, Path, Value, names};
use types::columns::{AGE, NAME, age, column, integer};
use types::resource::{
    Column, Columns, Now, Resource, Strategy, Version, drop_status, keep_status,
};

/// The resource of the kind `PodDisruptionBudget`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        ..table::v1("policy/v1.PodDisruptionBudget", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["pdb".to_owned()],
        ..table::resource(
            "policy",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            &STRATEGY,
            version,
        )
    }
}

static STRATEGY: Strategy = Strategy {
    prepare_create: drop_status,
    prepare_update: keep_status,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    validate_status,
    validate_name: names::path_segment,
    generation: true,
    unconditional_update: false,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    column("Min Available", "The minimum number of pods that must be available."),
    column("Max Unavailable", "The maximum number of pods that may be unavailable."),
    integer("Allowed Disruptions", "The number of pods that may be disrupted now."),
    AGE,
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let spec = top(object, "spec");
    let bound = |key| match at(spec, &[key]) {
        Value::Null => "N/A".to_owned(),
        Value::String(text) => text.clone(),
        number => number.to_string(),
    };
    vec![
        object.name().into(),
        bound("minAvailable").into(),
        bound("maxUnavailable").into(),
        number(top(object, "status"), "disruptionsAllowed").into(),
        age(object, now),
    ]
}

/// Whether the budget selects this pod. A budget without a selector selects none.
pub(super) fn selects(budget: &Object, pod: &Object) -> bool {
    LabelSelector::from_value(at(top(budget, "spec"), &["selector"]))
        .is_ok_and(|selector| selector.matches(|key| pod.label(key)))
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    let path = Path::root("spec");
    if part(spec, "minAvailable").is_some() && part(spec, "maxUnavailable").is_some() {
        let message = "minAvailable and maxUnavailable cannot be both set";
        invalid_struct(errors, &path, "PodDisruptionBudgetSpec", spec, message);
    }
    for bound in ["minAvailable", "maxUnavailable"] {
        if let Some(value) = part(spec, bound) {
            count_or_percent(errors, &path.child(bound), value);
            at_most_100_percent(errors, &path.child(bound), value);
        }
    }
    label_selector(errors, &path.child("selector"), at(spec, &["selector"]));
    if part(spec, "unhealthyPodEvictionPolicy").is_some() {
        let policy = text(spec, "unhealthyPodEvictionPolicy");
        let path = path.child("unhealthyPodEvictionPolicy");
        supported_only(errors, &path, policy, &["AlwaysAllow", "IfHealthyBudget"]);
    }
}

fn validate_status(new: &Object, _: &Object, errors: &mut ErrorList) {
    let path = Path::root("status");
    for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        at_least_zero(errors, &path.child(count), number(top(new, "status"), count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{object, refusals};
    use machinery::json;

    fn check(spec: Value, expected: &[&str]) {
        assert_eq!(refusals(&STRATEGY, json!({"spec": spec})), expected);
    }

    #[test]
    fn a_bound_is_a_number_or_a_percentage() {
        check(json!({"minAvailable": "50%"}), &[]);
        check(
            json!({"maxUnavailable": "101%"}),
            &[r#"spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%"#],
        );
        check(
            json!({"minAvailable": -1}),
            &["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
        );
    }

    #[test]
    fn min_available_and_max_unavailable_are_exclusive() {
        check(
            json!({"minAvailable": 1, "maxUnavailable": "1%"}),
            &[
                r#"spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":"1%","UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set"#,
            ],
        );
    }

    #[test]
    fn an_unknown_eviction_policy_is_refused() {
        check(
            json!({"unhealthyPodEvictionPolicy": "Never"}),
            &[
                r#"spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget""#,
            ],
        );
    }

    #[test]
    fn the_table_shows_the_bound_that_is_set() {
        let budget = object(json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 2}}));
        let cells = cells(&budget, &Now { unix_seconds: 0 });
        assert_eq!(cells[..4], [json!("b"), json!("2"), json!("N/A"), json!(0)]);
    }
}
