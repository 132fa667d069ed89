//! `RuntimeClass`: the runtime handler that runs the containers of a pod.

use std::collections::{BTreeSet, HashSet};

use crate::core::pod::validate_tolerations;
use crate::table;
use crate::validation::rules::{add_invalid, declared_immutable, labels};
use crate::validation::{go_struct, quantities};
use machinery::field_path::ErrorType;
use machinery::fields::{at, part, top};
use machinery::{ErrorList, Object, Path, Value, json, names};
use types::columns::{AGE, NAME, age, column};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `RuntimeClass`.
pub fn resource() -> Resource {
    let version = table::v1("node/v1.RuntimeClass", Columns::Fixed(COLUMNS, cells));
    Resource {
        namespaced: false,
        ..table::resource("node.k8s.io", "RuntimeClass", "runtimeclasses", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    validate,
    validate_update: |new, old, errors| {
        let handler = |object| top(object, "handler");
        validate(new, errors);
        declared_immutable(errors, &Path::root("handler"), handler(new), handler(old));
    },
    unconditional_update: false,
    create_on_update: true,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[NAME, column("Handler", ""), AGE];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    vec![object.name().into(), object.str_at(&["handler"]).into(), age(object, now)]
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let path = Path::root("handler");
    errors.declarative(|errors| match object.str_at(&["handler"]) {
        "" => errors.required(&path, ""),
        handler => add_invalid(errors, &path, handler, names::short_name(handler)),
    });
    if let Some(fixed) = part(top(object, "overhead"), "podFixed") {
        let requirements = json!({"limits": fixed});
        quantities::validate_container(
            errors,
            &Path::root("overhead"),
            &requirements,
            &BTreeSet::new(),
        );
    }
    let scheduling = top(object, "scheduling");
    let path = Path::root("scheduling");
    labels(errors, &path.child("nodeSelector"), at(scheduling, &["nodeSelector"]));
    let tolerations = machinery::fields::list(scheduling, "tolerations");
    let path = path.child("tolerations");
    validate_tolerations(errors, &path, tolerations);
    let mut seen = HashSet::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        if !seen.insert(toleration) {
            let shown = go_struct::line("Toleration", toleration);
            errors.add(ErrorType::Duplicate, &path.index(index), None, &shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{refusals, refusals_of_update};

    #[test]
    fn the_handler_is_required_and_immutable() {
        assert_eq!(refusals(&STRATEGY, json!({})), ["handler: Required value"]);
        assert_eq!(
            refusals_of_update(&STRATEGY, json!({"handler": "b"}), json!({"handler": "a"})),
            ["handler: Invalid value: null: field is immutable"]
        );
    }
}
