//! `LimitRange`: the limits of pods, containers and claims of a namespace.

pub mod enforcement;

use std::collections::{BTreeSet, HashSet};

use crate::table;
use crate::validation::quantities::{
    amount, container_resource_name, may_be_overcommitted, resource_name,
};
use crate::validation::rules::qualified_name;
use machinery::fields::{at, entries, list, maps_mut, text, top};
use machinery::quantity::Quantity;
use machinery::{ErrorList, Map, Object, Path, Value};
use types::columns::{PLAIN, plain_cells};
use types::resource::{Columns, Resource, Strategy};

/// The resource of the kind `LimitRange`.
pub fn resource() -> Resource {
    let version = table::v1("core/v1.LimitRange", Columns::Fixed(PLAIN, plain_cells));
    Resource {
        short_names: vec!["limits".to_owned()],
        ..table::resource("", "LimitRange", "limitranges", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    create_on_update: true,
    ..Strategy::DEFAULT
};

/// Sets the defaults of containers: the default limit is the maximum, the default request is the
/// default limit or else the minimum.
fn defaults(object: &mut Object) {
    for limit in maps_mut(object.map_at(&["spec"]), "limits") {
        if limit.get("type").is_some_and(|kind| kind == "Container") {
            default_from(limit, "default", "max");
            default_from(limit, "defaultRequest", "default");
            default_from(limit, "defaultRequest", "min");
        }
    }
}

/// A limit range without a name is named after its uid.
fn prepare_create(range: &mut Object) {
    if range.name().is_empty() {
        range.set_meta("name", range.uid().to_owned());
    }
}

/// Copies the quantities of the field `from` that the field `to` does not have.
fn default_from(limit: &mut Map<String, Value>, to: &str, from: &str) {
    let source = limit.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
    if source.is_empty() {
        return;
    }
    let target = limit.entry(to).or_insert_with(|| Value::Object(Map::new()));
    if let Some(target) = target.as_object_mut() {
        for (name, value) in source {
            target.entry(name).or_insert(value);
        }
    }
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let path = Path::root("spec");
    let path = path.child("limits");
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, limit) in list(top(object, "spec"), "limits").iter().enumerate() {
        let path = path.index(index);
        let kind = text(limit, "type");
        validate_type(errors, &path.child("type"), kind);
        if seen.contains(&kind) {
            errors.duplicate(&path.child("type"), kind);
        }
        seen.insert(kind);
        validate_names(errors, &path, limit, kind);
        let is_bounded = |key| at(limit, &[key, "storage"]) != &Value::Null;
        if kind == "PersistentVolumeClaim" && !is_bounded("min") && !is_bounded("max") {
            let message =
                "either minimum or maximum storage value is required, but neither was provided";
            errors.required(&path.child("limits"), message);
        }
        let names: BTreeSet<&str> = FIELDS
            .iter()
            .filter(|part| kind != "Pod" || !part.starts_with("default"))
            .flat_map(|part| entries(limit, part))
            .map(|(name, _)| name)
            .collect();
        for name in names {
            validate_order(errors, &path, limit, name, kind);
            validate_ratio(errors, &path, limit, name);
        }
    }
}

/// The fields of a limit that map resources to quantities.
const FIELDS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

fn validate_type(errors: &mut ErrorList, path: &Path<'_>, kind: &str) {
    let before = errors.len();
    qualified_name(errors, path, kind);
    let is_known =
        kind.contains('/') || matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim");
    if errors.len() == before && !is_known {
        errors.invalid(path, kind, "must be a standard limit type or fully qualified");
    }
}

fn validate_names(errors: &mut ErrorList, path: &Path<'_>, limit: &Value, kind: &str) {
    for part in FIELDS {
        let path = path.child(part);
        if kind == "Pod" && part.starts_with("default") {
            if entries(limit, part).next().is_some() {
                errors.forbidden(&path, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, _) in entries(limit, part) {
            let path = path.key(name);
            if matches!(kind, "Pod" | "Container") {
                container_resource_name(errors, &path, name);
            } else {
                resource_name(errors, &path, name);
            }
        }
    }
}

/// The amount of one resource, if it is set.
fn amount_in(limit: &Value, part: &str, name: &str) -> Option<Quantity> {
    Some(at(limit, &[part, name])).filter(|value| !value.is_null()).map(amount)
}

/// Two fields of a limit; the quantity of `less` must not be greater than that of `more`.
struct Order {
    /// A field, and its name in the message.
    less: (&'static str, &'static str),
    /// A field, and its name in the message.
    more: (&'static str, &'static str),
    /// The field in the path of the error.
    path_field: &'static str,
    /// The field whose value the error shows.
    value_field: &'static str,
}

const ORDERS: &[Order] = &[
    Order { less: ("min", "min"), more: ("max", "max"), path_field: "min", value_field: "min" },
    Order {
        less: ("min", "min"),
        more: ("defaultRequest", "default request"),
        path_field: "defaultRequest",
        value_field: "defaultRequest",
    },
    Order {
        less: ("defaultRequest", "default request"),
        more: ("max", "max"),
        path_field: "defaultRequest",
        value_field: "defaultRequest",
    },
    Order {
        less: ("defaultRequest", "default request"),
        more: ("default", "default limit"),
        path_field: "defaultRequest",
        value_field: "defaultRequest",
    },
    Order {
        less: ("min", "min"),
        more: ("default", "default"),
        path_field: "default",
        value_field: "min",
    },
    Order {
        less: ("default", "default"),
        more: ("max", "max"),
        path_field: "default",
        value_field: "max",
    },
];

fn validate_order(errors: &mut ErrorList, path: &Path<'_>, limit: &Value, name: &str, kind: &str) {
    let find = |part: &str| {
        if kind == "Pod" && part.starts_with("default") {
            None
        } else {
            amount_in(limit, part, name)
        }
    };
    for Order { less: (less, less_name), more: (more, more_name), path_field, value_field } in
        ORDERS
    {
        let (Some(low), Some(high)) = (find(less), find(more)) else { continue };
        if low > high {
            let message =
                format!("{less_name} value {low} is greater than {more_name} value {high}");
            let value = if value_field == less { low } else { high };
            errors.invalid(&path.child(path_field).key(name), value.to_string(), &message);
        }
    }
    if let (Some(limit), Some(request)) = (find("default"), find("defaultRequest"))
        && !may_be_overcommitted(name)
        && limit != request
    {
        let message =
            format!("default value {limit} must equal to defaultRequest value {request} in {name}");
        errors.invalid(&path.child("defaultRequest").key(name), request.to_string(), &message);
    }
}

fn validate_ratio(errors: &mut ErrorList, path: &Path<'_>, limit: &Value, name: &str) {
    let Some(ratio) = amount_in(limit, "maxLimitRequestRatio", name) else { return };
    let path = path.child("maxLimitRequestRatio");
    let path = path.key(name);
    if ratio.milli_value() < 1000 {
        errors.invalid(&path, ratio.to_string(), &format!("ratio {ratio} is less than 1"));
    }
    let (Some(least), Some(most)) = (amount_in(limit, "min", name), amount_in(limit, "max", name))
    else {
        return;
    };
    #[allow(clippy::cast_precision_loss, reason = "Kubernetes compares them as floats, too")]
    let (ratio_value, bound) = (
        ratio.milli_value() as f64 / 1000.0,
        most.milli_value() as f64 / least.milli_value() as f64,
    );
    if ratio_value > bound {
        let message = format!("ratio {ratio} is greater than max/min = {bound:.6}");
        errors.invalid(&path, ratio.to_string(), &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{defaulted, object, refusals};
    use machinery::json;

    fn check(limit: Value, expected: &[&str]) {
        assert_eq!(refusals(&STRATEGY, json!({"spec": {"limits": [limit]}})), expected);
    }

    #[test]
    fn container_defaults_follow_from_limits() {
        let limit = json!({"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}});
        assert_eq!(
            defaulted(&STRATEGY, json!({"spec": {"limits": [limit]}}))["spec"]["limits"][0],
            json!({"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"},
                "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Mi"}})
        );
    }

    #[test]
    fn min_and_default_must_not_exceed_max() {
        check(
            json!({"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}),
            &[
                r#"spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1"#,
            ],
        );
        check(
            json!({"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}),
            &[
                r#"spec.limits[0].default[cpu]: Invalid value: "1": default value 2 is greater than max value 1"#,
            ],
        );
    }

    #[test]
    fn unknown_types_and_defaults_of_pods_are_refused() {
        check(
            json!({"type": "Node"}),
            &[
                r#"spec.limits[0].type: Invalid value: "Node": must be a standard limit type or fully qualified"#,
            ],
        );
        check(
            json!({"type": "Pod", "default": {"cpu": "1"}}),
            &["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
        );
    }

    #[test]
    fn the_ratio_must_not_exceed_max_divided_by_min() {
        check(
            json!({"type": "Pod", "max": {"cpu": "2"}, "min": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "3"}}),
            &[
                r#"spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000"#,
            ],
        );
    }

    #[test]
    fn a_limit_range_without_a_name_is_named_after_its_uid() {
        let mut range = object(json!({"metadata": {"uid": "u"}}));
        prepare_create(&mut range);
        assert_eq!(range.name(), "u");
    }
}
