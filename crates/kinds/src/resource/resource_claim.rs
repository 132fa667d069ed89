//! `ResourceClaim`: a request for devices, and their allocation.

use super::{GROUP, device_claim};
use crate::table;
use crate::validation::rules::declared_immutable;
use machinery::fields::{at, list, part, same, top};
use machinery::{ErrorList, Object, Path, Value};
use types::columns::{AGE, NAME, age, column};
use types::resource::{
    Column, Columns, Now, Resource, Strategy, Version, drop_status, keep_status,
};

/// The resource of the kind `ResourceClaim`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        ..table::v1("resource/v1.ResourceClaim", Columns::Fixed(COLUMNS, cells))
    };
    table::resource(GROUP, "ResourceClaim", "resourceclaims", &STRATEGY, version)
}

static STRATEGY: Strategy = Strategy {
    defaults: |object| device_claim::defaults(object.map_at(&["spec"])),
    prepare_create: drop_status,
    prepare_update: keep_status,
    validate,
    validate_update: |new, old, errors| {
        declared_immutable(errors, &Path::root("spec"), top(new, "spec"), top(old, "spec"));
    },
    validate_status: |new, old, errors| {
        let allocation = |claim| at(top(claim, "status"), &["allocation"]);
        let (new, old) = (allocation(new), allocation(old));
        if !new.is_null() && !old.is_null() && !same(new, old) {
            let path = Path::root("status");
            let message = "field cannot be modified once set";
            errors.invalid(&path.child("allocation"), Value::Null, message);
        }
    },
    returns_deleted: true,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    column("State", "The states of the claim: pending, allocated, reserved, deleted."),
    AGE,
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    vec![object.name().into(), state(object).into(), age(object, now)]
}

fn state(object: &Object) -> String {
    let status = top(object, "status");
    let is_deleted = object.deletion_timestamp().is_some();
    let is_allocated = part(status, "allocation").is_some();
    let is_reserved = is_allocated && !list(status, "reservedFor").is_empty();
    let states: Vec<&str> = [
        (is_deleted, "deleted"),
        (!is_allocated && !is_deleted, "pending"),
        (is_allocated, "allocated"),
        (is_reserved, "reserved"),
    ]
    .into_iter()
    .filter(|(holds, _)| *holds)
    .map(|(_, state)| state)
    .collect();
    states.join(",")
}

fn validate(object: &Object, errors: &mut ErrorList) {
    device_claim::validate(errors, &Path::root("spec"), top(object, "spec"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, object, refusals, refusals_of_update};
    use machinery::json;

    fn claim(request: Value) -> Value {
        json!({"spec": {"devices": {"requests": [request]}}})
    }

    #[test]
    fn the_default_number_of_devices_is_one() {
        let created =
            created(&STRATEGY, claim(json!({"name": "r", "exactly": {"deviceClassName": "c"}})));
        assert_eq!(
            created["spec"]["devices"]["requests"][0]["exactly"],
            json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1})
        );
    }

    #[test]
    fn a_request_needs_a_name_a_class_and_a_known_mode() {
        assert_eq!(
            refusals(&STRATEGY, claim(json!({"exactly": {"allocationMode": "Some"}}))),
            [
                r#"spec.devices.requests[0].name: Invalid value: "": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"#,
                "spec.devices.requests[0].exactly.deviceClassName: Required value",
                r#"spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount""#,
            ]
        );
    }

    #[test]
    fn the_spec_is_immutable() {
        let of = |class: &str| claim(json!({"name": "r", "exactly": {"deviceClassName": class}}));
        assert_eq!(refusals_of_update(&STRATEGY, of("b"), of("a")).len(), 1);
    }

    #[test]
    fn the_table_shows_the_state() {
        assert_eq!(state(&object(json!({}))), "pending");
        assert_eq!(
            state(&object(json!({"status": {"allocation": {}, "reservedFor": [{}]}}))),
            "allocated,reserved"
        );
    }
}
