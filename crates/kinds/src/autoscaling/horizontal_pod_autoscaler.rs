//! `HorizontalPodAutoscaler`: scales the number of pods of a workload by metrics.
//!
//! `v2` is stored. `v1` has one metric only; the other fields are in annotations, so that nothing
//! is lost by reading in `v1` and writing back; see [`conversion`].

mod columns;
mod conversion;
mod metrics;
mod validate;

use crate::table;
use machinery::fields::{default_value, map_mut};
use machinery::{Map, Object, Value, json};
use types::resource::{Columns, Resource, Strategy, Version, drop_status, keep_status};

/// The resource of the kind `HorizontalPodAutoscaler`.
pub fn resource() -> Resource {
    let columns = || Columns::Fixed(columns::COLUMNS, columns::cells);
    let version = |name: &str, shape: &str| Version {
        name: name.to_owned(),
        status: true,
        ..table::v1(shape, columns())
    };
    let v2 = version("v2", "autoscaling/v2.HorizontalPodAutoscaler");
    let v1 = version("v1", "autoscaling/v1.HorizontalPodAutoscaler");
    Resource {
        short_names: vec!["hpa".to_owned()],
        categories: vec!["all".to_owned()],
        versions: vec![v2.clone(), v1],
        ..table::resource(
            "autoscaling",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            &STRATEGY,
            v2,
        )
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create: drop_status,
    prepare_update: keep_status,
    validate: |object, errors| validate::validate(object, None, errors),
    validate_update: |new, old, errors| validate::validate(new, Some(old), errors),
    validate_status: validate::validate_status,
    generation: true,
    convert: Some(conversion::convert),
    ..Strategy::DEFAULT
};

/// The default target: the CPU utilization in percent.
fn default_metrics(percent: i64) -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}}])
}

const DEFAULT_UTILIZATION: i64 = 80;

fn defaults(object: &mut Object) {
    let spec = object.map_at(&["spec"]);
    default_value(spec, "minReplicas", 1.into());
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        spec.insert("metrics".to_owned(), default_metrics(DEFAULT_UTILIZATION));
    }
    let Some(behavior) = map_mut(spec, "behavior") else { return };
    let scale_up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15}]});
    let scale_down = json!({"selectPolicy": "Max",
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]});
    default_rules(behavior, "scaleUp", scale_up);
    default_rules(behavior, "scaleDown", scale_down);
}

/// Sets the rules of one direction that are not given.
fn default_rules(behavior: &mut Map<String, Value>, direction: &str, rules: Value) {
    default_value(behavior, direction, json!({}));
    let (Some(given), Value::Object(rules)) = (map_mut(behavior, direction), rules) else { return };
    for (rule, value) in rules {
        default_value(given, &rule, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::defaulted;

    #[test]
    fn the_default_metric_is_cpu_utilization() {
        assert_eq!(
            defaulted(&STRATEGY, json!({"spec": {"maxReplicas": 3}})),
            json!({"spec": {"maxReplicas": 3, "minReplicas": 1, "metrics": default_metrics(80)}})
        );
    }

    #[test]
    fn a_behavior_gets_the_default_rules_of_both_directions() {
        let spec = json!({"maxReplicas": 3, "metrics": default_metrics(50),
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}});
        assert_eq!(
            defaulted(&STRATEGY, json!({"spec": spec}))["spec"]["behavior"],
            json!({
                "scaleDown": {"selectPolicy": "Max", "stabilizationWindowSeconds": 60,
                    "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]},
                "scaleUp": {"selectPolicy": "Max", "stabilizationWindowSeconds": 0,
                    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]},
            })
        );
    }
}
