//! Conversion of autoscalers between `v1` and `v2`.
//!
//! `v1` has a field for one metric, the CPU utilization. All other metrics, and all current values,
//! are in annotations there, in the form in which Kubernetes writes them:
//!
//! ```text
//! v2  spec.metrics: [{cpu 60%}, {pods: requests 10}]
//! v1  spec.targetCPUUtilizationPercentage: 60
//!     metadata.annotations: {autoscaling.alpha.kubernetes.io/metrics: '[{"type":"Pods",…}]'}
//! ```

use super::{DEFAULT_UTILIZATION, default_metrics};
use machinery::fields::{at, integer, list, part, text};
use machinery::{Map, Object, Value, json};

const V1: &str = "autoscaling/v1";
const V2: &str = "autoscaling/v2";

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Every annotation that replaces a field, those of former versions included.
const ANNOTATIONS: &[&str] = &[
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// A field of a metric: (its path in `v2`, its name in `v1`, the value in `v1` if it is unset; None
/// if an unset field is omitted).
type Renamed = (&'static [&'static str], &'static str, Option<&'static str>);

/// The fields of each kind of metric, in the order in which Go writes them.
const SOURCES: &[(&str, &[Renamed])] = &[
    (
        "object",
        &[
            (&["describedObject"], "target", None),
            (&["metric", "name"], "metricName", None),
            (&["target", "value"], "targetValue", Some("0")),
            (&["metric", "selector"], "selector", None),
            (&["target", "averageValue"], "averageValue", None),
        ],
    ),
    (
        "pods",
        &[
            (&["metric", "name"], "metricName", None),
            (&["target", "averageValue"], "targetAverageValue", Some("0")),
            (&["metric", "selector"], "selector", None),
        ],
    ),
    (
        "resource",
        &[
            (&["name"], "name", None),
            (&["target", "averageUtilization"], "targetAverageUtilization", None),
            (&["target", "averageValue"], "targetAverageValue", None),
        ],
    ),
    (
        "containerResource",
        &[
            (&["name"], "name", None),
            (&["target", "averageUtilization"], "targetAverageUtilization", None),
            (&["target", "averageValue"], "targetAverageValue", None),
            (&["container"], "container", None),
        ],
    ),
    (
        "external",
        &[
            (&["metric", "name"], "metricName", None),
            (&["metric", "selector"], "metricSelector", None),
            (&["target", "value"], "targetValue", None),
            (&["target", "averageValue"], "targetAverageValue", None),
        ],
    ),
];

/// The same for the items of `status.currentMetrics`.
const CURRENT_SOURCES: &[(&str, &[Renamed])] = &[
    (
        "object",
        &[
            (&["describedObject"], "target", None),
            (&["metric", "name"], "metricName", None),
            (&["current", "value"], "currentValue", Some("0")),
            (&["metric", "selector"], "selector", None),
            (&["current", "averageValue"], "averageValue", None),
        ],
    ),
    (
        "pods",
        &[
            (&["metric", "name"], "metricName", None),
            (&["current", "averageValue"], "currentAverageValue", Some("0")),
            (&["metric", "selector"], "selector", None),
        ],
    ),
    (
        "resource",
        &[
            (&["name"], "name", None),
            (&["current", "averageUtilization"], "currentAverageUtilization", None),
            (&["current", "averageValue"], "currentAverageValue", Some("0")),
        ],
    ),
    (
        "containerResource",
        &[
            (&["name"], "name", None),
            (&["current", "averageUtilization"], "currentAverageUtilization", None),
            (&["current", "averageValue"], "currentAverageValue", Some("0")),
            (&["container"], "container", None),
        ],
    ),
    (
        "external",
        &[
            (&["metric", "name"], "metricName", None),
            (&["metric", "selector"], "metricSelector", None),
            (&["current", "value"], "currentValue", Some("0")),
            (&["current", "averageValue"], "currentAverageValue", None),
        ],
    ),
];

/// The order in which Go writes the fields of the parts of a metric.
const NESTED: &[&str] = &["kind", "name", "apiVersion", "matchLabels", "matchExpressions"];

const CONDITION: &[&str] = &["type", "status", "lastTransitionTime", "reason", "message"];

/// Rewrites an autoscaler from one version to the other.
pub(super) fn convert(object: &mut Object, from: &str, to: &str) {
    match (from, to) {
        (V2, V1) => to_v1(object),
        (V1, V2) => to_v2(object),
        _ => {}
    }
}

fn to_v1(object: &mut Object) {
    drop_annotations(object);
    let spec = object.map_at(&["spec"]);
    let metrics = spec.remove("metrics").unwrap_or_default();
    let behavior = spec.remove("behavior").unwrap_or_default();
    let metrics = metrics.as_array().map_or(&[][..], Vec::as_slice);
    let others: Vec<String> = metrics
        .iter()
        .filter(|metric| utilization(metric, "target").is_none())
        .map(|metric| metric_to_v1(metric, SOURCES))
        .collect();
    if let Some(percent) = metrics.iter().find_map(|metric| utilization(metric, "target")) {
        spec.insert("targetCPUUtilizationPercentage".to_owned(), percent.into());
    }
    let status = object.map_at(&["status"]);
    let current = status.remove("currentMetrics").unwrap_or_default();
    let conditions = status.remove("conditions").unwrap_or_default();
    let current = current.as_array().map_or(&[][..], Vec::as_slice);
    // The last one counts, as it does in Kubernetes.
    let percent = current.iter().rev().find_map(|metric| utilization(metric, "current"));
    if let Some(percent) = percent {
        status.insert("currentCPUUtilizationPercentage".to_owned(), percent.into());
    }
    for count in ["currentReplicas", "desiredReplicas"] {
        status.entry(count).or_insert_with(|| 0.into());
    }
    let current: Vec<String> =
        current.iter().map(|metric| metric_to_v1(metric, CURRENT_SOURCES)).collect();
    let conditions: Vec<String> = conditions
        .as_array()
        .into_iter()
        .flatten()
        .map(|condition| ordered(condition, CONDITION))
        .collect();
    for (annotation, items) in
        [(METRICS, others), (CURRENT_METRICS, current), (CONDITIONS, conditions)]
    {
        if !items.is_empty() {
            annotate(object, annotation, &format!("[{}]", items.join(",")));
        }
    }
    if !behavior.is_null() {
        annotate(object, BEHAVIOR, &behavior_to_v1(&behavior));
    }
}

fn to_v2(object: &mut Object) {
    let stored = |annotation: &str| -> Option<Value> {
        serde_json::from_str(object.annotation(annotation)?).ok()
    };
    let metrics = stored(METRICS).and_then(|it| metrics_to_v2(&it, SOURCES));
    let current = stored(CURRENT_METRICS).and_then(|it| metrics_to_v2(&it, CURRENT_SOURCES));
    let conditions = stored(CONDITIONS).filter(Value::is_array);
    let behavior = stored(BEHAVIOR).map(uncapitalized).filter(|it| {
        ["scaleUp", "scaleDown"].iter().any(|direction| part(it, direction).is_some())
    });
    drop_annotations(object);
    let spec = object.map_at(&["spec"]);
    let mut metrics = metrics.unwrap_or_default();
    metrics.iter_mut().for_each(set_target_type);
    let percent = spec.remove("targetCPUUtilizationPercentage").and_then(|it| it.as_i64());
    let percent = percent.or_else(|| metrics.is_empty().then_some(DEFAULT_UTILIZATION));
    if let Some(Value::Array(cpu)) = percent.map(default_metrics) {
        metrics.extend(cpu);
    }
    spec.insert("metrics".to_owned(), metrics.into());
    if let Some(behavior) = behavior {
        spec.insert("behavior".to_owned(), behavior);
    }
    let status = object.map_at(&["status"]);
    let percent = status.remove("currentCPUUtilizationPercentage").and_then(|it| it.as_i64());
    let current = current.map(Value::Array).or_else(|| {
        percent.map(|percent| {
            json!([{"type": "Resource", "resource": {"name": "cpu",
                "current": {"averageUtilization": percent}}}])
        })
    });
    status.insert("currentMetrics".to_owned(), current.unwrap_or_default());
    if let Some(conditions) = conditions {
        status.insert("conditions".to_owned(), conditions);
    }
    if status.get("currentReplicas").is_some_and(|count| count == 0) {
        status.remove("currentReplicas");
    }
}

fn drop_annotations(object: &mut Object) {
    let Some(Value::Object(annotations)) = object.get_mut(&["metadata", "annotations"]) else {
        return;
    };
    annotations.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
    if annotations.is_empty() {
        object.remove_meta("annotations");
    }
}

/// Sets an annotation to JSON as Go writes it, with `<`, `>` and `&` escaped.
fn annotate(object: &mut Object, annotation: &str, json: &str) {
    let json = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    object.map_at(&["metadata", "annotations"]).insert(annotation.to_owned(), json.into());
}

/// The CPU utilization in percent; `side` is `target` or `current`. None for other metrics.
fn utilization(metric: &Value, side: &str) -> Option<i64> {
    let resource = part(metric, "resource").filter(|it| text(it, "name") == "cpu")?;
    integer(at(resource, &[side]), "averageUtilization")
}

/// A metric of `v2` as JSON of `v1`.
fn metric_to_v1(metric: &Value, table: &[(&str, &[Renamed])]) -> String {
    let kind = Value::from(text(metric, "type"));
    let Some((source, fields)) = table.iter().find(|(source, _)| part(metric, source).is_some())
    else {
        return format!("{{\"type\":{kind}}}");
    };
    let fields: Vec<String> = fields
        .iter()
        .filter_map(|(path, name, zero)| {
            let value = match at(&metric[*source], path) {
                Value::Null => Value::from((*zero)?).to_string(),
                nested @ Value::Object(_) => ordered(nested, NESTED),
                value => value.to_string(),
            };
            Some(format!("\"{name}\":{value}"))
        })
        .collect();
    format!("{{\"type\":{kind},\"{source}\":{{{}}}}}", fields.join(","))
}

/// JSON with the fields in a given order; others are omitted.
fn ordered(value: &Value, order: &[&str]) -> String {
    let fields: Vec<String> = order
        .iter()
        .filter_map(|name| Some(format!("\"{name}\":{}", part(value, name)?)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// The scaling behavior as JSON of upstream's internal Go type, whose fields have no JSON names.
fn behavior_to_v1(behavior: &Value) -> String {
    let rules = |direction: &str| {
        let Some(rules) = part(behavior, direction) else { return "null".to_owned() };
        let field = |key: &str| at(rules, &[key]).to_string();
        let policies: Vec<String> = list(rules, "policies")
            .iter()
            .map(|policy| {
                let field = |key: &str| at(policy, &[key]).to_string();
                let (kind, value, period) = (field("type"), field("value"), field("periodSeconds"));
                format!("{{\"Type\":{kind},\"Value\":{value},\"PeriodSeconds\":{period}}}")
            })
            .collect();
        format!(
            "{{\"StabilizationWindowSeconds\":{},\"SelectPolicy\":{},\"Policies\":[{}],\"Tolerance\":{}}}",
            field("stabilizationWindowSeconds"),
            field("selectPolicy"),
            policies.join(","),
            field("tolerance"),
        )
    };
    format!("{{\"ScaleUp\":{},\"ScaleDown\":{}}}", rules("scaleUp"), rules("scaleDown"))
}

/// Renames Go's fields to those of the API, at every depth, and omits null.
fn uncapitalized(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| {
                let (first, rest) = name.split_at(name.len().min(1));
                (first.to_lowercase() + rest, uncapitalized(value))
            })
            .collect::<Map<String, Value>>()
            .into(),
        Value::Array(items) => items.into_iter().map(uncapitalized).collect(),
        other => other,
    }
}

/// Metrics in JSON of `v1`, as `v2` has them; None if they are not a list of metrics.
fn metrics_to_v2(metrics: &Value, table: &[(&str, &[Renamed])]) -> Option<Vec<Value>> {
    metrics.as_array()?.iter().map(|metric| metric_to_v2(metric, table)).collect()
}

fn metric_to_v2(metric: &Value, table: &[(&str, &[Renamed])]) -> Option<Value> {
    let mut result = Object::default();
    result
        .map_mut()
        .insert("type".to_owned(), text(metric.as_object().map(|_| metric)?, "type").into());
    let Some((source, fields)) = table.iter().find(|(source, _)| part(metric, source).is_some())
    else {
        return Some(result.into_value());
    };
    for (path, name, _) in *fields {
        let Some(value) = part(&metric[*source], name) else { continue };
        let (last, parents) = path.split_last()?;
        let parents: Vec<&str> = std::iter::once(*source).chain(parents.iter().copied()).collect();
        result.map_at(&parents).insert((*last).to_owned(), value.clone());
    }
    Some(result.into_value())
}

/// Sets the type of a target, which in `v1` follows from the fields that are set.
fn set_target_type(metric: &mut Value) {
    let found = SOURCES.iter().find(|(source, _)| part(metric, source).is_some());
    let Some((source, _)) = found else { return };
    let Some(target) = metric[*source].get_mut("target").and_then(Value::as_object_mut) else {
        return;
    };
    let is_set = |key: &str| target.contains_key(key);
    let kind = match *source {
        "external" if is_set("value") => "Value",
        "object" if !is_set("averageValue") => "Value",
        "resource" | "containerResource" if is_set("averageUtilization") => "Utilization",
        _ => "AverageValue",
    };
    // `v1` always has a `targetValue`, which is "0" if it is unset.
    if *source == "object" && is_set("averageValue") && is_set("value") && target["value"] == "0" {
        target.remove("value");
    }
    target.insert("type".to_owned(), kind.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;

    fn v2() -> Value {
        json!({"metadata": {"name": "a", "annotations": {"mine": "x"}},
            "spec": {"maxReplicas": 3, "minReplicas": 1,
                "behavior": {"scaleUp": {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}},
                "metrics": [
                    {"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s", "apiVersion": "v1"},
                        "metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
                    {"type": "Pods", "pods": {"metric": {"name": "a<b"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}]},
            "status": {"desiredReplicas": 2, "currentMetrics": null,
                "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2024-05-06T07:08:09Z"}]}})
    }

    #[test]
    fn fields_that_v1_lacks_are_in_annotations() {
        let mut scaler = object(v2());
        convert(&mut scaler, V2, V1);
        assert_eq!(
            scaler.into_value(),
            json!({"metadata": {"name": "a", "annotations": {"mine": "x",
                    METRICS: "[{\"type\":\"Object\",\"object\":{\"target\":{\"kind\":\"Service\",\"name\":\"s\",\"apiVersion\":\"v1\"},\"metricName\":\"hits\",\"targetValue\":\"0\",\"averageValue\":\"5\"}},{\"type\":\"Pods\",\"pods\":{\"metricName\":\"a\\u003cb\",\"targetAverageValue\":\"10\"}}]",
                    CONDITIONS: "[{\"type\":\"AbleToScale\",\"status\":\"True\",\"lastTransitionTime\":\"2024-05-06T07:08:09Z\"}]",
                    BEHAVIOR: "{\"ScaleUp\":{\"StabilizationWindowSeconds\":null,\"SelectPolicy\":\"Max\",\"Policies\":[{\"Type\":\"Pods\",\"Value\":4,\"PeriodSeconds\":15}],\"Tolerance\":null},\"ScaleDown\":null}",
                }},
                "spec": {"maxReplicas": 3, "minReplicas": 1, "targetCPUUtilizationPercentage": 60},
                "status": {"currentReplicas": 0, "desiredReplicas": 2}})
        );
    }

    #[test]
    fn a_round_trip_through_v1_loses_nothing() {
        let mut scaler = object(v2());
        convert(&mut scaler, V2, V1);
        convert(&mut scaler, V1, V2);
        assert_eq!(scaler.into_value(), v2());
    }

    #[test]
    fn a_v1_autoscaler_without_metrics_gets_the_default_metric() {
        let mut scaler = object(json!({"spec": {"maxReplicas": 1}, "status": {}}));
        convert(&mut scaler, V1, V2);
        assert_eq!(scaler.get(&["spec", "metrics"]), Some(&default_metrics(80)));
    }
}
