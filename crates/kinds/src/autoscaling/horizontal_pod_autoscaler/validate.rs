//! Validation of an autoscaler: its bounds, its target, its scaling behavior.

use super::metrics::validate_metrics;
use crate::validation::quantities::amount;
use crate::validation::rules::{at_least_zero, positive, required_segment, supported_only};
use machinery::fields::{at, integer, list, number, part, text, top};
use machinery::quantity::Quantity;
use machinery::{ErrorList, Object, Path, Value};

const MAX_PERIOD_SECONDS: i64 = 1800;
const MAX_WINDOW_SECONDS: i64 = 3600;

static SPEC: Path<'static> = Path::root("spec");

/// Validates an autoscaler that replaces `old`.
pub(super) fn validate(new: &Object, old: Option<&Object>, errors: &mut ErrorList) {
    let spec = top(new, "spec");
    let old_spec = old.map(|old| top(old, "spec"));
    validate_bounds(errors, spec);
    let target = at(spec, &["scaleTargetRef"]);
    let is_same = old_spec.is_some_and(|old| {
        let old = at(old, &["scaleTargetRef"]);
        ["apiVersion", "kind"].iter().all(|key| text(old, key) == text(target, key))
    });
    let rule = match text(target, "kind") {
        _ if is_same => ApiVersionRule::Unchecked,
        // The only kind of the core group that can be scaled.
        "ReplicationController" => ApiVersionRule::GroupOptional,
        _ => ApiVersionRule::GroupRequired,
    };
    validate_reference(errors, &SPEC.child("scaleTargetRef"), target, rule);
    let was_invalid = old_spec.is_some_and(|old| {
        list(old, "metrics").iter().any(|metric| {
            let described = at(metric, &["object", "describedObject"]);
            bad_api_version(text(described, "apiVersion"), ApiVersionRule::GroupOptional).is_some()
        })
    });
    let rule = if was_invalid { ApiVersionRule::Unchecked } else { ApiVersionRule::GroupOptional };
    validate_metrics(errors, &SPEC.child("metrics"), spec, rule);
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = part(at(spec, &["behavior"]), direction) {
            validate_rules(errors, &SPEC.child("behavior").child(direction), rules);
        }
    }
}

fn validate_bounds(errors: &mut ErrorList, spec: &Value) {
    let (least, most) = (integer(spec, "minReplicas"), number(spec, "maxReplicas"));
    if let Some(least) = least {
        at_least_zero(errors, &SPEC.child("minReplicas"), least);
    }
    let path = SPEC.child("maxReplicas");
    errors.declarative(|errors| match most {
        0 => errors.required(&path, ""),
        most if most < 0 => errors.invalid(&path, most, "must be greater than or equal to 1"),
        _ => {}
    });
    if least.is_some_and(|least| most < least) {
        errors.invalid(&path, most, "must be greater than or equal to `minReplicas`");
    }
}

/// The requirement for the `apiVersion` of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApiVersionRule {
    /// Not validated, because the stored object has the same or another invalid one.
    Unchecked,
    /// A version, with or without a group.
    GroupOptional,
    /// A version with a group.
    GroupRequired,
}

/// Validates a reference to an object of any kind.
pub(super) fn validate_reference(
    errors: &mut ErrorList,
    path: &Path<'_>,
    reference: &Value,
    rule: ApiVersionRule,
) {
    required_segment(errors, &path.child("kind"), text(reference, "kind"));
    required_segment(errors, &path.child("name"), text(reference, "name"));
    let version = text(reference, "apiVersion");
    if let Some(message) = bad_api_version(version, rule) {
        errors.invalid(&path.child("apiVersion"), version, &message);
    }
}

fn bad_api_version(version: &str, rule: ApiVersionRule) -> Option<String> {
    match (version.matches('/').count(), rule) {
        (_, ApiVersionRule::Unchecked) | (1, _) | (0, ApiVersionRule::GroupOptional) => None,
        (0, ApiVersionRule::GroupRequired) => Some("apiVersion must specify API group".to_owned()),
        _ => Some(format!("unexpected GroupVersion string: {version}")),
    }
}

fn validate_rules(errors: &mut ErrorList, path: &Path<'_>, rules: &Value) {
    if let Some(window) = integer(rules, "stabilizationWindowSeconds") {
        let path = path.child("stabilizationWindowSeconds");
        if window < 0 {
            errors.invalid(&path, window, "must be greater than or equal to zero");
        }
        if window > MAX_WINDOW_SECONDS {
            let message = format!("must be less than or equal to {MAX_WINDOW_SECONDS}");
            errors.invalid(&path, window, &message);
        }
    }
    if part(rules, "selectPolicy").is_some() {
        let policies = &["Disabled", "Max", "Min"];
        supported_only(errors, &path.child("selectPolicy"), text(rules, "selectPolicy"), policies);
    }
    let policies_path = path.child("policies");
    if list(rules, "policies").is_empty() {
        errors.required(&policies_path, "must specify at least one Policy");
    }
    for (index, policy) in list(rules, "policies").iter().enumerate() {
        let path = policies_path.index(index);
        supported_only(errors, &path.child("type"), text(policy, "type"), &["Percent", "Pods"]);
        positive(errors, &path.child("value"), number(policy, "value"));
        let (path, period) = (path.child("periodSeconds"), number(policy, "periodSeconds"));
        positive(errors, &path, period);
        if period > MAX_PERIOD_SECONDS {
            let message = format!("must be less than or equal to {MAX_PERIOD_SECONDS}");
            errors.invalid(&path, period, &message);
        }
    }
    if let Some(tolerance) = part(rules, "tolerance").map(amount).filter(Quantity::is_negative) {
        let message = "must be greater than or equal to 0";
        errors.invalid(&path.child("tolerance"), tolerance.to_string(), message);
    }
}

/// Validates a change of `/status`.
pub(super) fn validate_status(new: &Object, _: &Object, errors: &mut ErrorList) {
    let path = Path::root("status");
    for count in ["currentReplicas", "desiredReplicas"] {
        at_least_zero(errors, &path.child(count), number(top(new, "status"), count));
    }
}

#[cfg(test)]
mod tests {
    use super::super::STRATEGY;
    use crate::validation::testing::{refusals, refusals_of_update};
    use machinery::{Value, json};

    fn scaler(changes: Value) -> Value {
        let mut spec = json!({"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}});
        for (key, value) in changes.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        json!({"spec": spec})
    }

    fn check(changes: Value, expected: &[&str]) {
        assert_eq!(refusals(&STRATEGY, scaler(changes)), expected);
    }

    #[test]
    fn replica_bounds_are_validated() {
        check(json!({}), &[]);
        check(
            json!({"minReplicas": 5}),
            &["spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"],
        );
        check(
            json!({"maxReplicas": -1, "minReplicas": -2}),
            &[
                "spec.minReplicas: Invalid value: -2: must be greater than or equal to 0",
                "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
            ],
        );
    }

    #[test]
    fn a_changed_target_needs_a_group_unless_it_is_a_replication_controller() {
        let target =
            json!({"scaleTargetRef": {"apiVersion": "v1", "kind": "Deployment", "name": "d"}});
        check(
            target.clone(),
            &[
                r#"spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group"#,
            ],
        );
        assert_eq!(
            refusals_of_update(&STRATEGY, scaler(target.clone()), scaler(target)),
            Vec::<String>::new()
        );
        check(
            json!({"scaleTargetRef": {"apiVersion": "v1", "kind": "ReplicationController", "name": "d"}}),
            &[],
        );
    }

    #[test]
    fn scaling_windows_policies_and_periods_are_limited() {
        check(
            json!({"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601, "selectPolicy": "Best",
                "policies": [{"type": "Pods", "value": 0, "periodSeconds": 1801}]}}}),
            &[
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
                r#"spec.behavior.scaleUp.selectPolicy: Unsupported value: "Best": supported values: "Disabled", "Max", "Min""#,
                "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
            ],
        );
    }
}
