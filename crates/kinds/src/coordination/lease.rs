//! `Lease`: the holder of a lock, and its duration.

use crate::table;
use crate::validation::rules::{at_least_zero, qualified_name, supported_only};
use machinery::fields::{integer, text, top};
use machinery::{ErrorList, Object, Path, Value};
use types::columns::{AGE, NAME, age, column};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `Lease`.
pub fn resource() -> Resource {
    table::resource(
        "coordination.k8s.io",
        "Lease",
        "leases",
        &STRATEGY,
        table::v1("coordination/v1.Lease", Columns::Fixed(COLUMNS, cells)),
    )
}

static STRATEGY: Strategy = Strategy {
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    // Otherwise two candidates could overwrite each other's lease, and both would lead.
    unconditional_update: false,
    create_on_update: true,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    column("Holder", "The identity of the current holder of the lease, as the holder wrote it."),
    AGE,
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let holder = object.str_at(&["spec", "holderIdentity"]);
    vec![object.name().into(), holder.into(), age(object, now)]
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    let path = Path::root("spec");
    if let Some(duration) = integer(spec, "leaseDurationSeconds").filter(|it| *it <= 0) {
        errors.invalid(&path.child("leaseDurationSeconds"), duration, "must be greater than 0");
    }
    if let Some(transitions) = integer(spec, "leaseTransitions") {
        at_least_zero(errors, &path.child("leaseTransitions"), transitions);
    }
    let strategy = text(spec, "strategy");
    if spec.get("strategy").is_some() {
        // As upstream: the path of these errors is `spec.strategy.strategy`.
        let path = path.child("strategy");
        if strategy.contains('/') {
            qualified_name(errors, &path.child("strategy"), strategy);
        } else {
            supported_only(errors, &path.child("strategy"), strategy, &["OldestEmulationVersion"]);
        }
    }
    if !text(spec, "preferredHolder").is_empty() && strategy.is_empty() {
        let message = "may only be specified if `strategy` is defined";
        errors.forbidden(&path.child("preferredHolder"), message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::refusals;
    use machinery::json;

    fn check(spec: Value, expected: &[&str]) {
        assert_eq!(refusals(&STRATEGY, json!({"spec": spec})), expected);
    }

    #[test]
    fn duration_is_positive_and_transitions_are_not_negative() {
        check(json!({"leaseDurationSeconds": 15, "leaseTransitions": 0}), &[]);
        check(
            json!({"leaseDurationSeconds": 0, "leaseTransitions": -1}),
            &[
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
    }

    #[test]
    fn a_preferred_holder_needs_a_strategy() {
        check(
            json!({"preferredHolder": "x"}),
            &["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"],
        );
        check(json!({"preferredHolder": "x", "strategy": "OldestEmulationVersion"}), &[]);
    }
}
