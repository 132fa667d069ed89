//! `ResourceSlice`: devices that a driver offers.

use std::collections::HashSet;

use super::GROUP;
use crate::core::pod::validate_node_selector;
use crate::storage::validate_driver_name;
use crate::table::{self, selectable};
use crate::validation::rules::{dns_label, dns_subdomain, immutable, positive};
use machinery::fields::{at, entries, flag, list, number, part, text, top};
use machinery::{ErrorList, Object, Path, Value, names};
use types::columns::{AGE, NAME, age, column};
use types::resource::{Column, Columns, Now, Resource, Strategy, Version};

/// The resource of the kind `ResourceSlice`.
pub fn resource() -> Resource {
    let version = Version {
        selectable: [selectable("spec.nodeName", ""), selectable("spec.driver", "")].into(),
        ..table::v1("resource/v1.ResourceSlice", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        namespaced: false,
        ..table::resource(GROUP, "ResourceSlice", "resourceslices", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    validate,
    validate_update: |new, old, errors| {
        validate_pool(new, errors);
        let field = |object, path: &[&str]| at(top(object, "spec"), path).clone();
        for path in [&["pool", "name"][..], &["driver"], &["nodeName"]] {
            let shown = path.iter().fold(String::from("spec"), |shown, it| shown + "." + it);
            immutable(errors, &Path::root(&shown), &field(new, path), &field(old, path));
        }
        validate_devices(new, errors);
    },
    unknown_label: |label| {
        format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}")
    },
    generation: true,
    returns_deleted: true,
    ..Strategy::DEFAULT
};

static SPEC: Path<'static> = Path::root("spec");

const MAX_DEVICES: usize = 128;

const COLUMNS: &[Column] =
    &[NAME, column("Node", ""), column("Driver", ""), column("Pool", ""), AGE];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let spec = top(object, "spec");
    vec![
        object.name().into(),
        text(spec, "nodeName").into(),
        text(spec, "driver").into(),
        text(at(spec, &["pool"]), "name").into(),
        age(object, now),
    ]
}

fn validate(object: &Object, errors: &mut ErrorList) {
    validate_pool(object, errors);
    validate_devices(object, errors);
}

fn validate_pool(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    validate_driver_name(errors, &SPEC.child("driver"), text(spec, "driver"));
    let (path, pool) = (SPEC.child("pool"), at(spec, &["pool"]));
    match text(pool, "name") {
        "" => errors.required(&path.child("name"), ""),
        name => {
            if name.len() > names::SUBDOMAIN_MAX {
                errors.too_long(&path.child("name"), names::SUBDOMAIN_MAX);
            }
            for part in name.split('/') {
                dns_subdomain(errors, &path.child("name"), part);
            }
        }
    }
    positive(errors, &path.child("resourceSliceCount"), number(pool, "resourceSliceCount"));
    if number(pool, "generation") < 0 {
        let message = "must be greater than or equal to zero";
        errors.invalid(&path.child("generation"), number(pool, "generation"), message);
    }
}

fn validate_devices(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    validate_nodes(errors, spec);
    let path = SPEC.child("devices");
    let devices = list(spec, "devices");
    if devices.len() > MAX_DEVICES {
        errors.too_many(&path, devices.len(), MAX_DEVICES);
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, device) in devices.iter().enumerate() {
        let path = path.index(index);
        let name = text(device, "name");
        dns_label(errors, &path.child("name"), name);
        validate_attributes(errors, &path.child("attributes"), device);
        if seen.contains(&name) {
            errors.duplicate(&path, name);
        }
        seen.insert(name);
    }
}

/// An attribute has an integer, a boolean, a string or a version.
fn validate_attributes(errors: &mut ErrorList, path: &Path<'_>, device: &Value) {
    const MAX_VALUE: usize = 64;
    for (name, attribute) in entries(device, "attributes") {
        let path = path.key(name);
        if ["int", "bool", "string", "version"].iter().all(|it| part(attribute, it).is_none()) {
            let message = "must specify one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`";
            errors.invalid(&path, "", message);
        }
        for kind in ["string", "version"] {
            let Some(value) = part(attribute, kind).and_then(Value::as_str) else { continue };
            if kind == "version" && !is_version(value) {
                let message = "must be a string compatible with semver.org spec 2.0.0";
                errors.invalid(&path.child(kind), value, message);
            }
            if value.len() > MAX_VALUE {
                errors.too_long(&path.child(kind), MAX_VALUE);
            }
        }
    }
}

/// Whether a text is a version by semver.org: three numbers, optionally followed by identifiers
/// after `-` or `+`.
fn is_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(it, rest)| (it, Some(rest)));
    let (numbers, prerelease) =
        text.split_once('-').map_or((text, None), |(it, rest)| (it, Some(rest)));
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let is_number = |word: &str| {
        word.bytes().all(|c| c.is_ascii_digit())
            && !word.is_empty()
            && (word == "0" || !word.starts_with('0'))
    };
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && [prerelease, build].into_iter().flatten().all(|it| it.split('.').all(is_word))
}

/// Exactly one field says which nodes can use the devices.
fn validate_nodes(errors: &mut ErrorList, spec: &Value) {
    const EXACTLY_ONE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match part(spec, "nodeName").and_then(Value::as_str) {
        Some("") => {
            let message = "must be either unset or set to a non-empty string";
            errors.invalid(&SPEC.child("nodeName"), "", message);
        }
        Some(node) => dns_subdomain(errors, &SPEC.child("nodeName"), node),
        None => {}
    }
    if let Some(selector) = part(spec, "nodeSelector") {
        validate_node_selector(errors, &SPEC.child("nodeSelector"), selector);
    }
    let selections = [
        !text(spec, "nodeName").is_empty(),
        part(spec, "nodeSelector").is_some(),
        flag(spec, "allNodes"),
        flag(spec, "perDeviceNodeSelection"),
    ];
    match selections.iter().filter(|it| **it).count() {
        0 => errors.required(&SPEC, EXACTLY_ONE),
        1 => {}
        _ => errors.invalid(
            &SPEC,
            Value::Null,
            &format!("{EXACTLY_ONE}, but multiple fields are set"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{refusals, refusals_of_update};
    use machinery::json;

    fn slice(driver: &str) -> Value {
        json!({"spec": {"driver": driver, "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}}})
    }

    #[test]
    fn driver_pool_and_node_selection_are_required() {
        assert_eq!(refusals(&STRATEGY, slice("d")), Vec::<String>::new());
        assert_eq!(
            refusals(&STRATEGY, json!({})),
            [
                "spec.driver: Required value",
                "spec.pool.name: Required value",
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
            ]
        );
    }

    #[test]
    fn versions_follow_semver() {
        for (text, expected) in
            [("1.2.3", true), ("1.0.0-rc.1+x", true), ("1.2", false), ("01.0.0", false)]
        {
            assert_eq!(is_version(text), expected, "{text}");
        }
    }

    #[test]
    fn the_driver_is_immutable() {
        assert_eq!(
            refusals_of_update(&STRATEGY, slice("e"), slice("d")),
            [r#"spec.driver: Invalid value: "e": field is immutable"#]
        );
    }
}
