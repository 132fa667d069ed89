//! `PriorityClass`: the priority of pods, and whether they preempt others.

use crate::table;
use crate::validation::rules::{immutable, one_of};
use machinery::fields::{default_value, flag, number, part, text, top};
use machinery::{ErrorList, Object, Path, Value, json};
use types::columns::{AGE, NAME, age, boolean, column, integer};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `PriorityClass`.
pub fn resource() -> Resource {
    let version = table::v1("scheduling/v1.PriorityClass", Columns::Fixed(COLUMNS, cells));
    Resource {
        short_names: vec!["pc".to_owned()],
        namespaced: false,
        ..table::resource(
            "scheduling.k8s.io",
            "PriorityClass",
            "priorityclasses",
            &STRATEGY,
            version,
        )
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    // As upstream: the generation is set once and does not count changes.
    prepare_create: |object| object.set_meta("generation", 1),
    validate,
    validate_update,
    ..Strategy::DEFAULT
};

/// The maximum priority of a class that is not a system class.
const MAX_USER_PRIORITY: i64 = 1_000_000_000;

const RESERVED: &str = "system-";

/// The system classes: (name, value, description).
const SYSTEM: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// Whether a name is reserved for system classes.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED)
}

/// The system classes, which every plane has from the beginning.
pub fn system_classes() -> Vec<Value> {
    SYSTEM
        .iter()
        .map(|(name, value, description)| {
            json!({"metadata": {"name": name}, "value": value, "description": description})
        })
        .collect()
}

const COLUMNS: &[Column] = &[
    NAME,
    integer("Value", "The priority of the pods of the class; higher ones are scheduled first."),
    boolean("Global-Default", "Whether this is the class of pods that do not name one."),
    AGE,
    column("PreemptionPolicy", "Whether pods of the class may preempt pods of a lower priority."),
];

fn as_value(object: &Object) -> Value {
    Value::Object(object.map().clone())
}

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let class = as_value(object);
    vec![
        object.name().into(),
        number(&class, "value").into(),
        flag(&class, "globalDefault").into(),
        age(object, now),
        text(&class, "preemptionPolicy").into(),
    ]
}

fn defaults(object: &mut Object) {
    default_value(object.map_mut(), "preemptionPolicy", "PreemptLowerPriority".into());
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let class = as_value(object);
    let value = number(&class, "value");
    if is_reserved(object.name()) {
        if let Some(why) = system_name_error(object.name(), value, flag(&class, "globalDefault")) {
            let path = Path::root("metadata");
            let message = format!(
                "priority class names with '{RESERVED}' prefix are reserved for system use only. error: {why}"
            );
            errors.forbidden(&path.child("name"), &message);
        }
    } else if value > MAX_USER_PRIORITY {
        let message =
            format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}");
        errors.forbidden(&Path::root("value"), &message);
    }
    if part(&class, "preemptionPolicy").is_some() {
        let policies = &["PreemptLowerPriority", "Never"];
        let path = Path::root("preemptionPolicy");
        one_of(errors, &path, text(&class, "preemptionPolicy"), policies);
    }
}

fn system_name_error(name: &str, value: i64, is_default: bool) -> Option<String> {
    match SYSTEM.iter().find(|(known, ..)| *known == name) {
        None => Some(format!("{name} is not a known system priority class")),
        Some((_, known, _)) if *known != value => {
            Some(format!("value of {name} PriorityClass must be {known}"))
        }
        Some(_) if is_default => {
            Some(format!("globalDefault of {name} PriorityClass must be false"))
        }
        Some(_) => None,
    }
}

fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    if number(&as_value(new), "value") != number(&as_value(old), "value") {
        errors.forbidden(&Path::root("value"), "may not be changed in an update.");
    }
    let policy = |object| top(object, "preemptionPolicy");
    immutable(errors, &Path::root("preemptionPolicy"), policy(new), policy(old));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, refusals, refusals_of_update};

    #[test]
    fn the_default_policy_preempts_lower_priorities() {
        assert_eq!(
            created(&STRATEGY, json!({"value": 5})),
            json!({"metadata": {"generation": 1}, "value": 5, "preemptionPolicy": "PreemptLowerPriority"})
        );
    }

    #[test]
    fn high_values_and_system_names_are_reserved() {
        assert_eq!(
            refusals(&STRATEGY, json!({"metadata": {"name": "a"}, "value": 1_000_000_001})),
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]
        );
        assert_eq!(
            refusals(&STRATEGY, json!({"metadata": {"name": "system-x"}, "value": 1})),
            [
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class"
            ]
        );
        for class in system_classes() {
            assert_eq!(refusals(&STRATEGY, class), Vec::<String>::new());
        }
    }

    #[test]
    fn the_value_is_immutable() {
        assert_eq!(
            refusals_of_update(&STRATEGY, json!({"value": 2}), json!({"value": 1})),
            ["value: Forbidden: may not be changed in an update."]
        );
    }
}
