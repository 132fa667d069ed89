//! `ServiceCIDR`: the IP ranges from which services get their addresses.

use super::GROUP;
use crate::table;
use crate::validation::address;
use crate::validation::rules::IMMUTABLE;
use machinery::fields::{texts, top};
use machinery::{ErrorList, Object, Path, Value, json};
use types::columns::{AGE, NAME, age, column};
use types::resource::{
    Column, Columns, Now, Resource, Strategy, Version, drop_status, keep_status,
};

/// The resource of the kind `ServiceCIDR`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        ..table::v1("networking/v1.ServiceCIDR", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        namespaced: false,
        ..table::resource(GROUP, "ServiceCIDR", "servicecidrs", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    prepare_create: drop_status,
    prepare_update: keep_status,
    validate,
    validate_update,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "CIDRs",
        "The IP ranges of services, at most one for each IP family, with commas between.",
    ),
    AGE,
];

static SPEC: Path<'static> = Path::root("spec");

fn ranges(object: &Object) -> Vec<&str> {
    texts(top(object, "spec"), "cidrs").collect()
}

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    vec![object.name().into(), ranges(object).join(",").into(), age(object, now)]
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let path = SPEC.child("cidrs");
    let ranges = ranges(object);
    if ranges.is_empty() {
        return errors.required(&path, "at least one CIDR required");
    }
    if ranges.len() > 2 {
        return errors.invalid(&path, json!({"CIDRs": ranges}), "may only hold up to 2 values");
    }
    let before = errors.len();
    for (index, range) in ranges.iter().enumerate() {
        address::canonical_cidr(errors, &path.index(index), range);
    }
    let are_valid = errors.len() == before;
    if ranges.len() == 2 && are_valid && !address::are_dual_stack_ranges(&ranges) {
        let message = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid(&path, json!(ranges), message);
    }
}

/// A range is immutable; a second one, of the other family, may be added.
fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    let path = SPEC.child("cidrs");
    let (ranges, before) = (ranges(new), ranges(old));
    let grows = before.len() == 1 && ranges.len() == 2;
    if !grows && before.len() != ranges.len() {
        return errors.invalid(&path, json!(ranges), IMMUTABLE);
    }
    for (index, (range, before)) in ranges.iter().zip(before).enumerate() {
        if *range != before {
            errors.invalid(&path.index(index), *range, IMMUTABLE);
        }
    }
    if grows {
        validate(new, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{refusals, refusals_of_update};

    fn service_cidr(ranges: &[&str]) -> Value {
        json!({"spec": {"cidrs": ranges}})
    }

    #[test]
    fn there_is_at_most_one_range_for_each_ip_family() {
        assert_eq!(
            refusals(&STRATEGY, service_cidr(&["10.0.0.0/24", "2001:db8::/64"])),
            Vec::<String>::new()
        );
        assert_eq!(refusals(&STRATEGY, service_cidr(&["10.0.0.0/24", "10.1.0.0/24"])).len(), 1);
        assert_eq!(
            refusals(&STRATEGY, json!({})),
            ["spec.cidrs: Required value: at least one CIDR required"]
        );
    }

    #[test]
    fn a_range_is_immutable_but_a_second_may_be_added() {
        let one = || service_cidr(&["10.0.0.0/24"]);
        assert_eq!(
            refusals_of_update(&STRATEGY, service_cidr(&["10.0.0.0/24", "2001:db8::/64"]), one()),
            Vec::<String>::new()
        );
        assert_eq!(
            refusals_of_update(&STRATEGY, service_cidr(&["10.1.0.0/24"]), one()),
            [r#"spec.cidrs[0]: Invalid value: "10.1.0.0/24": field is immutable"#]
        );
    }
}
