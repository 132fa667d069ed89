//! Validation of the metrics of an autoscaler.

use super::validate::{ApiVersionRule, validate_reference};
use crate::validation::quantities::{amount, container_resource_name};
use crate::validation::rules::{add_invalid, dns_label, supported_only};
use machinery::fields::{at, integer, list, part, text};
use machinery::{ErrorList, Path, Value, names};

/// The types of metrics, as the message lists them, and the field of each.
const SOURCES: &[(&str, &str)] = &[
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

/// Validates all metrics; `rule` is that for the `apiVersion` of the described objects.
pub(super) fn validate_metrics(
    errors: &mut ErrorList,
    path: &Path<'_>,
    spec: &Value,
    rule: ApiVersionRule,
) {
    let metrics = list(spec, "metrics");
    for (index, metric) in metrics.iter().enumerate() {
        validate_metric(errors, &path.index(index), metric, rule);
    }
    let is_independent_of_pods =
        |metric: &Value| matches!(text(metric, "type"), "Object" | "External");
    if integer(spec, "minReplicas") == Some(0) && !metrics.iter().any(is_independent_of_pods) {
        // The other metrics cannot be measured without pods.
        let message = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(path, message);
    }
}

fn validate_metric(errors: &mut ErrorList, path: &Path<'_>, metric: &Value, rule: ApiVersionRule) {
    let kind = text(metric, "type");
    if kind.is_empty() {
        errors.required(&path.child("type"), "must specify a metric source type");
    }
    let kinds: Vec<&str> = SOURCES.iter().map(|(kind, _)| *kind).collect();
    supported_only(errors, &path.child("type"), kind, &kinds);
    let present: Vec<&str> = ["object", "external", "pods", "resource", "containerResource"]
        .into_iter()
        .filter(|source| part(metric, source).is_some())
        .collect();
    if let Some(first) = present.first() {
        validate_source(errors, &path.child(first), first, &metric[*first], rule);
    }
    let expected = SOURCES.iter().find(|(it, _)| *it == kind).map(|(_, source)| *source);
    if let Some(source) = expected.filter(|source| !present.contains(source)) {
        let message = "must populate information for the given metric source";
        errors.required(&path.child(source), message);
    }
    if present.len() != 1 {
        for source in present.into_iter().filter(|source| Some(*source) != expected) {
            let message = "must populate the given metric source only";
            errors.forbidden(&path.child(source), message);
        }
    }
}

fn validate_source(
    errors: &mut ErrorList,
    path: &Path<'_>,
    kind: &str,
    source: &Value,
    rule: ApiVersionRule,
) {
    match kind {
        "object" => {
            let described = at(source, &["describedObject"]);
            validate_reference(errors, &path.child("describedObject"), described, rule);
        }
        "containerResource" => {
            require_resource_name(errors, path, source);
            if !text(source, "name").is_empty() {
                container_resource_name(errors, &path.child("name"), text(source, "name"));
            }
            match text(source, "container") {
                "" => errors.required(&path.child("container"), "must specify a container"),
                container => dns_label(errors, &path.child("container"), container),
            }
        }
        "resource" => require_resource_name(errors, path, source),
        _ => {}
    }
    if matches!(kind, "object" | "external" | "pods") {
        let (path, name) = (path.child("metric"), text(at(source, &["metric"]), "name"));
        match name {
            "" => errors.required(&path.child("name"), "must specify a metric name"),
            name => add_invalid(errors, &path.child("name"), name, names::path_segment(name)),
        }
    }
    let target = at(source, &["target"]);
    let path = path.child("target");
    validate_target(errors, &path, target);
    validate_target_fields(errors, &path, kind, target);
}

fn require_resource_name(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    if text(source, "name").is_empty() {
        errors.required(&path.child("name"), "must specify a resource name");
    }
}

fn validate_target(errors: &mut ErrorList, path: &Path<'_>, target: &Value) {
    let kind = text(target, "type");
    if kind.is_empty() {
        errors.required(&path.child("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let message = "must be either Utilization, Value, or AverageValue";
        errors.invalid(&path.child("type"), kind, message);
    }
    for key in ["value", "averageValue"] {
        let is_not_positive = |it: &machinery::quantity::Quantity| it.is_negative() || it.is_zero();
        if let Some(amount) = part(target, key).map(amount).filter(is_not_positive) {
            errors.invalid(&path.child(key), amount.to_string(), "must be positive");
        }
    }
    if let Some(percent) = integer(target, "averageUtilization").filter(|it| *it < 1) {
        let message = "must be greater than 0";
        errors.invalid(&path.child("averageUtilization"), percent, message);
    }
}

/// Validates which fields of the target are set: each type of metric requires and forbids others.
fn validate_target_fields(errors: &mut ErrorList, path: &Path<'_>, kind: &str, target: &Value) {
    let is_set = |key| part(target, key).is_some();
    let average = path.child("averageValue");
    match kind {
        "object" if !is_set("value") && !is_set("averageValue") => {
            errors.required(&average, "must set either a target value or averageValue");
        }
        "external" => match (is_set("value"), is_set("averageValue")) {
            (false, false) => {
                let message = "must set either a target value for metric or a per-pod target";
                errors.required(&average, message);
            }
            (true, true) => {
                let message = "may not set both a target value for metric and a per-pod target";
                errors.forbidden(&path.child("value"), message);
            }
            _ => {}
        },
        "pods" if !is_set("averageValue") => {
            errors.required(&average, "must specify a positive target averageValue");
        }
        "resource" | "containerResource" => {
            match (is_set("averageUtilization"), is_set("averageValue")) {
                (false, false) => {
                    let message = "must set either a target raw value or a target utilization";
                    errors.required(&path.child("averageUtilization"), message);
                }
                (true, true) => {
                    let message = "may not set both a target raw value and a target utilization";
                    errors.forbidden(&average, message);
                }
                _ => {}
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    fn check(metric: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate_metrics(
            &mut errors,
            &Path::root("m"),
            &json!({"metrics": [metric]}),
            ApiVersionRule::GroupOptional,
        );
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn a_metric_has_the_source_of_its_type_and_no_other() {
        check(
            json!({"type": "Pods"}),
            &["m[0].pods: Required value: must populate information for the given metric source"],
        );
        check(
            json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 1}},
                "pods": {"metric": {"name": "x"}, "target": {"type": "AverageValue", "averageValue": "1"}}}),
            &["m[0].pods: Forbidden: must populate the given metric source only"],
        );
    }

    #[test]
    fn a_target_is_positive_and_of_one_type() {
        check(
            json!({"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Many", "averageUtilization": 0, "averageValue": "0"}}}),
            &[
                r#"m[0].resource.target.type: Invalid value: "Many": must be either Utilization, Value, or AverageValue"#,
                r#"m[0].resource.target.averageValue: Invalid value: "0": must be positive"#,
                "m[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
                "m[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization",
            ],
        );
    }

    #[test]
    fn scaling_to_zero_needs_object_or_external_metrics() {
        let mut errors = ErrorList::new();
        validate_metrics(
            &mut errors,
            &Path::root("m"),
            &json!({"minReplicas": 0}),
            ApiVersionRule::GroupOptional,
        );
        assert_eq!(
            lines(&errors),
            [
                "m: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas"
            ]
        );
    }
}
