//! `DeviceClass`: selectors and driver configuration for a class of devices.

use super::GROUP;
use super::device_claim::{validate_configuration, validate_selectors};
use crate::table;
use crate::validation::rules::qualified_name;
use machinery::fields::{list, part, top};
use machinery::{ErrorList, Object, Path, Value, names};
use types::columns::{AGE, NAME, age};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `DeviceClass`.
pub fn resource() -> Resource {
    let version = table::v1("resource/v1.DeviceClass", Columns::Fixed(COLUMNS, cells));
    Resource {
        namespaced: false,
        ..table::resource(GROUP, "DeviceClass", "deviceclasses", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    validate_name: names::long_name,
    generation: true,
    returns_deleted: true,
    ..Strategy::DEFAULT
};

pub(super) const COLUMNS: &[Column] = &[NAME, AGE];

pub(super) fn cells(object: &Object, now: &Now) -> Vec<Value> {
    vec![object.name().into(), age(object, now)]
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let (path, spec) = (Path::root("spec"), top(object, "spec"));
    validate_selectors(errors, &path.child("selectors"), list(spec, "selectors"));
    let configurations = path.child("config");
    for (index, configuration) in list(spec, "config").iter().enumerate() {
        validate_configuration(errors, &configurations.index(index), configuration);
    }
    if let Some(name) = part(spec, "extendedResourceName").and_then(Value::as_str) {
        let path = path.child("extendedResourceName");
        if !name.contains('/') {
            let message = "a name must be a domain-prefixed path, such as 'example.com/my-prop'";
            errors.invalid(&path, name, message);
        }
        qualified_name(errors, &path, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::refusals;
    use machinery::json;

    #[test]
    fn a_selector_needs_an_expression() {
        assert_eq!(
            refusals(&STRATEGY, json!({"spec": {"selectors": [{}, {"cel": {}}]}})),
            [
                "spec.selectors[0].cel: Required value",
                "spec.selectors[1].cel.expression: Required value"
            ]
        );
    }
}
