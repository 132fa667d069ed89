//! `CSIStorageCapacity`: the capacity of a driver for volumes of a class.

use super::GROUP;
use crate::table;
use crate::validation::quantities::amount;
use crate::validation::rules::{dns_subdomain, immutable, label_selector};
use machinery::fields::{part, top};
use machinery::quantity::Quantity;
use machinery::{ErrorList, Object, Path, Value};
use types::columns::{PLAIN, plain_cells};
use types::resource::{Columns, Resource, Strategy};

/// The resource of the kind `CSIStorageCapacity`.
pub fn resource() -> Resource {
    let version = table::v1("storage/v1.CSIStorageCapacity", Columns::Fixed(PLAIN, plain_cells));
    table::resource(GROUP, "CSIStorageCapacity", "csistoragecapacities", &STRATEGY, version)
}

static STRATEGY: Strategy = Strategy {
    validate,
    validate_update: |new, old, errors| {
        validate(new, errors);
        for field in ["nodeTopology", "storageClassName"] {
            immutable(errors, &Path::root(field), top(new, field), top(old, field));
        }
    },
    unconditional_update: false,
    ..Strategy::DEFAULT
};

fn validate(object: &Object, errors: &mut ErrorList) {
    label_selector(errors, &Path::root("nodeTopology"), top(object, "nodeTopology"));
    let class = object.str_at(&["storageClassName"]);
    dns_subdomain(errors, &Path::root("storageClassName"), class);
    let whole = Value::Object(object.map().clone());
    if let Some(capacity) = part(&whole, "capacity").map(amount).filter(Quantity::is_negative) {
        let message = "must be greater than or equal to 0";
        errors.invalid(&Path::root("capacity"), capacity.to_string(), message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::refusals;
    use machinery::json;

    #[test]
    fn a_negative_capacity_is_refused() {
        assert_eq!(
            refusals(&STRATEGY, json!({"storageClassName": "c", "capacity": "-1"})),
            [r#"capacity: Invalid value: "-1": must be greater than or equal to 0"#]
        );
    }
}
