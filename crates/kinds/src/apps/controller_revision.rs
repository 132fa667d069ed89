//! `ControllerRevision`: a former state of a stateful set or a daemon set, for rollbacks.

use crate::table;
use crate::validation::rules::{at_least_zero, immutable};
use machinery::fields::{flag, list, text, top};
use machinery::{ErrorList, GroupKind, GroupVersion, Object, Path, Value};
use types::columns::{AGE, NAME, age, column};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `ControllerRevision`.
pub fn resource() -> Resource {
    table::resource(
        "apps",
        "ControllerRevision",
        "controllerrevisions",
        &STRATEGY,
        table::v1("apps/v1.ControllerRevision", Columns::Fixed(COLUMNS, cells)),
    )
}

static STRATEGY: Strategy = Strategy { validate, validate_update, ..Strategy::DEFAULT };

const COLUMNS: &[Column] = &[
    NAME,
    column("Controller", "Controller of the object"),
    column("Revision", "The number of the revision; a later revision has a greater number."),
    AGE,
];

fn cells(revision: &Object, now: &Now) -> Vec<Value> {
    vec![
        revision.name().into(),
        controller(revision).into(),
        number(revision).into(),
        age(revision, now),
    ]
}

/// The owner that manages the object, `statefulset.apps/a`.
fn controller(revision: &Object) -> String {
    let owners = list(top(revision, "metadata"), "ownerReferences");
    let Some(owner) = owners.iter().find(|owner| flag(owner, "controller")) else {
        return "<none>".to_owned();
    };
    let group = text(owner, "apiVersion").parse::<GroupVersion>().unwrap_or_default().group;
    let kind = GroupKind::new(&group, text(owner, "kind")).to_string().to_lowercase();
    format!("{kind}/{}", text(owner, "name"))
}

fn number(revision: &Object) -> i64 {
    top(revision, "revision").as_i64().unwrap_or(0)
}

fn validate(revision: &Object, errors: &mut ErrorList) {
    at_least_zero(errors, &Path::root("revision"), number(revision));
    match top(revision, "data") {
        Value::Object(_) => {}
        Value::Null => errors.required(&Path::root("data"), "data is mandatory"),
        _ => errors.required(&Path::root("data"), "data must be a valid JSON object"),
    }
}

fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    at_least_zero(errors, &Path::root("revision"), number(new));
    immutable(errors, &Path::root("data"), top(new, "data"), top(old, "data"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{object, refusals, refusals_of_update};
    use machinery::json;

    #[test]
    fn revision_data_is_a_json_object() {
        assert_eq!(refusals(&STRATEGY, json!({"data": {}})), Vec::<String>::new());
        assert_eq!(
            refusals(&STRATEGY, json!({"revision": -1})),
            [
                "revision: Invalid value: -1: must be greater than or equal to 0",
                "data: Required value: data is mandatory",
            ]
        );
        assert_eq!(
            refusals(&STRATEGY, json!({"data": [1]})),
            ["data: Required value: data must be a valid JSON object"]
        );
    }

    #[test]
    fn revision_data_is_immutable() {
        assert_eq!(
            refusals_of_update(&STRATEGY, json!({"data": {"a": 2}}), json!({"data": {"a": 1}})),
            [r#"data: Invalid value: {"a":2}: field is immutable"#]
        );
        let renumbered = json!({"data": {"a": 1}, "revision": 2});
        assert_eq!(
            refusals_of_update(&STRATEGY, renumbered, json!({"data": {"a": 1}})),
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_table_names_the_controller() {
        let revision = object(json!({"metadata": {"name": "r", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p"},
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": true}]},
            "revision": 3}));
        let expected = [json!("r"), json!("statefulset.apps/s"), json!(3)];
        assert_eq!(cells(&revision, &Now { unix_seconds: 0 })[..3], expected);
    }
}
