//! `ResourceClaim`: a wish for devices, and what came of it.

use super::GROUP;
use crate::columns::{AGE, NAME, age, column};
use crate::fields::{at, default_number, default_text, list, maps_mut, number, part, text, top};
use crate::resource::{
    Behavior, Column, Columns, Now, Resource, Version, drop_status, keep_status,
};
use crate::rules::{dns_label, immutable, one_of, positive, required_subdomain};
use crate::table;
use machinery::{Faults, Map, Object, Path, Value};

/// The row of `ResourceClaim`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        ..table::v1("resource/v1.ResourceClaim", Columns::Fixed(COLUMNS, cells))
    };
    table::row(GROUP, "ResourceClaim", "resourceclaims", &BEHAVIOR, version)
}

static BEHAVIOR: Behavior = Behavior {
    defaults: |object| default_requests(object.map_at(&["spec"])),
    prepare_create: drop_status,
    prepare_update: keep_status,
    validate,
    validate_update: |new, old, faults| {
        immutable(faults, &Path::root("spec"), top(new, "spec"), top(old, "spec"));
        validate(new, faults);
    },
    returns_deleted: true,
    ..Behavior::PLAIN
};

const MAX_REQUESTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MAX_SELECTORS: usize = 32;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "State",
        "What has become of the claim: pending, allocated, reserved, deleted, or several.",
    ),
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

/// Who does not say how many devices wants one. `spec` is that of a claim or of a template.
pub(super) fn default_requests(spec: &mut Map<String, Value>) {
    let Some(devices) = spec.get_mut("devices").and_then(Value::as_object_mut) else { return };
    for request in maps_mut(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly").and_then(Value::as_object_mut) {
            default_count(exactly);
        }
        for alternative in maps_mut(request, "firstAvailable") {
            default_count(alternative);
        }
    }
}

fn default_count(request: &mut Map<String, Value>) {
    default_text(request, "allocationMode", "ExactCount");
    if request.get("allocationMode").is_some_and(|mode| mode == "ExactCount") {
        default_number(request, "count", 1);
    }
}

fn validate(object: &Object, faults: &mut Faults) {
    validate_spec(faults, &Path::root("spec"), top(object, "spec"));
}

/// Judges the spec of a claim or of a template for claims.
pub(super) fn validate_spec(faults: &mut Faults, path: &Path<'_>, spec: &Value) {
    let path = path.child("devices");
    let path = path.child("requests");
    let requests = list(at(spec, &["devices"]), "requests");
    if requests.len() > MAX_REQUESTS {
        faults.too_many(&path, requests.len(), MAX_REQUESTS);
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let path = path.index(index);
        let name = text(request, "name");
        validate_name(faults, &path.child("name"), name);
        if seen.contains(&name) {
            faults.duplicate(&path.child("name"), name);
        }
        seen.push(name);
        match (part(request, "exactly"), list(request, "firstAvailable")) {
            (None, []) => {
                let message = "exactly one of `exactly` or `firstAvailable` is required";
                faults.required(&path, message);
            }
            (Some(exactly), []) => validate_request(faults, &path.child("exactly"), exactly),
            (None, alternatives) => {
                validate_alternatives(faults, &path.child("firstAvailable"), alternatives);
            }
            (Some(_), _) => {
                let message = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
                faults.invalid(&path, Value::Null, message);
            }
        }
    }
}

fn validate_name(faults: &mut Faults, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        faults.required(path, "");
    } else {
        dns_label(faults, path, name);
    }
}

fn validate_alternatives(faults: &mut Faults, path: &Path<'_>, alternatives: &[Value]) {
    if alternatives.len() > MAX_ALTERNATIVES {
        faults.too_many(path, alternatives.len(), MAX_ALTERNATIVES);
    }
    for (index, alternative) in alternatives.iter().enumerate() {
        let path = path.index(index);
        validate_name(faults, &path.child("name"), text(alternative, "name"));
        validate_request(faults, &path, alternative);
    }
}

fn validate_request(faults: &mut Faults, path: &Path<'_>, request: &Value) {
    required_subdomain(faults, &path.child("deviceClassName"), text(request, "deviceClassName"));
    validate_selectors(faults, &path.child("selectors"), list(request, "selectors"));
    let (mode, count) = (text(request, "allocationMode"), number(request, "count"));
    match mode {
        "ExactCount" => positive(faults, &path.child("count"), count),
        "All" if count != 0 => {
            let message = "must not be specified when allocationMode is 'All'";
            faults.invalid(&path.child("count"), count, message);
        }
        mode => one_of(faults, &path.child("allocationMode"), mode, &["All", "ExactCount"]),
    }
}

/// Judges the expressions that choose devices, for being there.
pub(super) fn validate_selectors(faults: &mut Faults, path: &Path<'_>, selectors: &[Value]) {
    if selectors.len() > MAX_SELECTORS {
        faults.too_many(path, selectors.len(), MAX_SELECTORS);
    }
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        let path = path.child("cel");
        match part(selector, "cel") {
            None => faults.required(&path, ""),
            Some(cel) if text(cel, "expression").is_empty() => {
                faults.required(&path.child("expression"), "");
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, object, refusals, refusals_of_update};
    use machinery::json;

    fn claim(request: Value) -> Value {
        json!({"spec": {"devices": {"requests": [request]}}})
    }

    #[test]
    fn one_device_is_wanted_unless_more_are() {
        let created =
            created(&BEHAVIOR, claim(json!({"name": "r", "exactly": {"deviceClassName": "c"}})));
        assert_eq!(
            created["spec"]["devices"]["requests"][0]["exactly"],
            json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1})
        );
    }

    #[test]
    fn a_request_is_for_devices_of_a_class() {
        assert_eq!(
            refusals(&BEHAVIOR, claim(json!({"exactly": {"allocationMode": "Some"}}))),
            [
                "spec.devices.requests[0].name: Required value",
                "spec.devices.requests[0].exactly.deviceClassName: Required value",
                r#"spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount""#,
            ]
        );
    }

    #[test]
    fn a_claim_stays_as_it_is() {
        let of = |class: &str| claim(json!({"name": "r", "exactly": {"deviceClassName": class}}));
        assert_eq!(refusals_of_update(&BEHAVIOR, of("b"), of("a")).len(), 1);
    }

    #[test]
    fn the_table_shows_what_became_of_it() {
        assert_eq!(state(&object(json!({}))), "pending");
        assert_eq!(
            state(&object(json!({"status": {"allocation": {}, "reservedFor": [{}]}}))),
            "allocated,reserved"
        );
    }
}
