//! `CSINode`: the volume drivers of a node.

use std::collections::{HashMap, HashSet};

use super::GROUP;
use super::driver::validate_driver_name;
use crate::table;
use crate::validation::rules::{at_least_zero, immutable_struct, qualified_name, required};
use machinery::fields::{at, integer as integer_at, list, text, texts, top};
use machinery::{ErrorList, Object, Path, Value};
use types::columns::{AGE, NAME, age, integer};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `CSINode`.
pub fn resource() -> Resource {
    let version = table::v1("storage/v1.CSINode", Columns::Fixed(COLUMNS, cells));
    Resource {
        namespaced: false,
        ..table::resource(GROUP, "CSINode", "csinodes", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    validate,
    validate_update,
    unconditional_update: false,
    returns_deleted: true,
    ..Strategy::DEFAULT
};

const MAX_NODE_ID: usize = 256;

const COLUMNS: &[Column] =
    &[NAME, integer("Drivers", "The number of volume drivers of the node."), AGE];

fn drivers(object: &Object) -> &[Value] {
    list(top(object, "spec"), "drivers")
}

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    vec![object.name().into(), drivers(object).len().into(), age(object, now)]
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let path = Path::root("spec");
    let path = path.child("drivers");
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, driver) in drivers(object).iter().enumerate() {
        let path = path.index(index);
        let name = text(driver, "name");
        validate_driver(errors, &path, driver);
        if seen.contains(&name) {
            errors.duplicate(&path.child("name"), name);
        }
        seen.insert(name);
    }
}

fn validate_driver(errors: &mut ErrorList, path: &Path<'_>, driver: &Value) {
    validate_driver_name(errors, &path.child("name"), text(driver, "name"));
    let (id_path, id) = (path.child("nodeID"), text(driver, "nodeID"));
    required(errors, &id_path, id);
    if id.len() > MAX_NODE_ID {
        errors.invalid(&id_path, id, &format!("must be {MAX_NODE_ID} characters or less"));
    }
    if let Some(count) = integer_at(at(driver, &["allocatable"]), "count") {
        at_least_zero(errors, &path.child("allocatable").child("count"), count);
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for key in texts(driver, "topologyKeys") {
        required(errors, path, key);
        if seen.contains(&key) {
            errors.duplicate(path, key);
        }
        seen.insert(key);
        qualified_name(errors, path, key);
    }
}

/// The drivers of a node are immutable, except for `allocatable`, the number of volumes.
fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate(new, errors);
    let path = Path::root("spec");
    let without_allocatable = |driver: &Value| {
        let mut driver = driver.clone();
        driver.as_object_mut().map(|driver| driver.remove("allocatable"));
        driver
    };
    let mut by_name: HashMap<&str, Vec<&Value>> = HashMap::new();
    for driver in drivers(new) {
        by_name.entry(text(driver, "name")).or_default().push(driver);
    }
    for driver in drivers(old) {
        for now in by_name.get(text(driver, "name")).into_iter().flatten() {
            let (now, before) = (without_allocatable(now), without_allocatable(driver));
            immutable_struct(errors, &path.child("drivers"), "CSINodeDriver", &now, &before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{refusals, refusals_of_update};
    use machinery::json;

    #[test]
    fn drivers_are_unique_and_have_a_node_id() {
        assert_eq!(
            refusals(
                &STRATEGY,
                json!({"spec": {"drivers": [{"name": "d", "nodeID": "n"}, {"name": "d"}]}})
            ),
            [
                "spec.drivers[1].nodeID: Required value",
                r#"spec.drivers[1].name: Duplicate value: "d""#
            ]
        );
    }

    #[test]
    fn only_the_allocatable_count_of_a_driver_is_mutable() {
        let node = |id: &str, count: i64| json!({"spec": {"drivers": [{"name": "d", "nodeID": id, "allocatable": {"count": count}}]}});
        assert_eq!(refusals_of_update(&STRATEGY, node("n", 2), node("n", 1)), Vec::<String>::new());
        assert_eq!(refusals_of_update(&STRATEGY, node("m", 1), node("n", 1)).len(), 1);
    }
}
