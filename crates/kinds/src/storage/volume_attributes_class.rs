//! `VolumeAttributesClass`: attributes of volumes that can be changed after provisioning.

use super::GROUP;
use super::driver::{validate_parameters, validate_provisioner};
use crate::table;
use machinery::fields::{entries, same, text, top};
use machinery::{ErrorList, Object, Path, Value};
use types::columns::{AGE, NAME, age, column};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `VolumeAttributesClass`.
pub fn resource() -> Resource {
    let version = table::v1("storage/v1.VolumeAttributesClass", Columns::Fixed(COLUMNS, cells));
    Resource {
        short_names: vec!["vac".to_owned()],
        namespaced: false,
        ..table::resource(
            GROUP,
            "VolumeAttributesClass",
            "volumeattributesclasses",
            &STRATEGY,
            version,
        )
    }
}

static STRATEGY: Strategy =
    Strategy { validate, validate_update, returns_deleted: true, ..Strategy::DEFAULT };

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "DriverName",
        "The name of the CSI driver of the class, which cannot be changed after creation.",
    ),
    AGE,
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    vec![object.name().into(), object.str_at(&["driverName"]).into(), age(object, now)]
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let class = Value::Object(object.map().clone());
    validate_provisioner(errors, &Path::root("driverName"), text(&class, "driverName"));
    validate_parameters(errors, &class);
    if entries(&class, "parameters").next().is_none() {
        let message = "must contain at least one key/value pair";
        errors.required(&Path::root("parameters"), message);
    }
}

fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    for field in ["driverName", "parameters"] {
        if !same(top(new, field), top(old, field)) {
            errors.forbidden(&Path::root(field), &format!("updates to {field} are forbidden."));
        }
    }
    validate(new, errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{refusals, refusals_of_update};
    use machinery::json;

    #[test]
    fn driver_and_parameters_are_required_and_immutable() {
        assert_eq!(
            refusals(&STRATEGY, json!({})),
            [
                "driverName: Required value",
                "parameters: Required value: must contain at least one key/value pair"
            ]
        );
        let class = |speed: &str| json!({"driverName": "d", "parameters": {"speed": speed}});
        assert_eq!(
            refusals_of_update(&STRATEGY, class("2"), class("1")),
            ["parameters: Forbidden: updates to parameters are forbidden."]
        );
    }
}
