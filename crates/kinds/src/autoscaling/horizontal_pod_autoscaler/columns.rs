//! What `kubectl get` shows of an autoscaler: each metric as `current/target`.

use crate::validation::quantities::amount;
use machinery::fields::{at, integer, list, number, part, text, top};
use machinery::{Object, Value};
use types::columns::{AGE, NAME, age, column, first_of};
use types::resource::{Column, Now};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Reference",
        "The kind and the name of the object that is scaled, as in Deployment/web.",
    ),
    column("Targets", "The current value and the target value of each metric of the autoscaler."),
    column(
        "MinPods",
        "The minimum number of pods that the autoscaler sets, which is 1 by default.",
    ),
    column(
        "MaxPods",
        "The maximum number of pods that the autoscaler sets, whatever the metrics are.",
    ),
    column(
        "Replicas",
        "The number of pods of the scaled object that the autoscaler last observed.",
    ),
    AGE,
];

/// The maximum number of metrics that are shown.
const MAX_SHOWN: usize = 2;

pub(super) fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let (spec, status) = (top(object, "spec"), top(object, "status"));
    let target = at(spec, &["scaleTargetRef"]);
    let min_replicas =
        integer(spec, "minReplicas").map_or("<unset>".to_owned(), |it| it.to_string());
    vec![
        object.name().into(),
        format!("{}/{}", text(target, "kind"), text(target, "name")).into(),
        metrics(spec, status).into(),
        min_replicas.into(),
        number(spec, "maxReplicas").into(),
        number(status, "currentReplicas").into(),
        age(object, now),
    ]
}

fn metrics(spec: &Value, status: &Value) -> String {
    let current = list(status, "currentMetrics");
    let shown: Vec<String> = list(spec, "metrics")
        .iter()
        .enumerate()
        .map(|(index, metric)| self::metric(metric, current.get(index).unwrap_or(&Value::Null)))
        .collect();
    if shown.is_empty() { "<none>".to_owned() } else { first_of(&shown, MAX_SHOWN, ", ") }
}

fn metric(metric: &Value, status: &Value) -> String {
    let (source, is_resource) = match text(metric, "type") {
        "Object" => ("object", false),
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let target = at(metric, &[source, "target"]);
    let current = part(status, source).map(|it| at(it, &["current"]));
    let quantity = |of: &Value, key: &str| amount(at(of, &[key])).to_string();
    let unknown = || "<unknown>".to_owned();
    if is_resource {
        let name = text(at(metric, &[source]), "name");
        if part(target, "averageValue").is_some() {
            let current = current.map_or_else(unknown, |it| quantity(it, "averageValue"));
            return format!("{name}: {current}/{}", quantity(target, "averageValue"));
        }
        let percent = |of: &Value| integer(of, "averageUtilization").map(|it| format!("{it}%"));
        let current = current.and_then(percent).unwrap_or_else(unknown);
        let target = percent(target).unwrap_or_else(|| "<auto>".to_owned());
        return format!("{name}: {current}/{target}");
    }
    if source == "pods" {
        let current = current.map_or_else(unknown, |it| quantity(it, "averageValue"));
        return format!("{current}/{}", quantity(target, "averageValue"));
    }
    if part(target, "averageValue").is_some() {
        let current = current.filter(|it| part(it, "averageValue").is_some());
        let current = current.map_or_else(unknown, |it| quantity(it, "averageValue"));
        return format!("{current}/{} (avg)", quantity(target, "averageValue"));
    }
    let current = current.map_or_else(unknown, |it| quantity(it, "value"));
    format!("{current}/{}", quantity(target, "value"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn check(specs: Value, statuses: Value, expected: &str) {
        assert_eq!(
            metrics(&json!({"metrics": specs}), &json!({"currentMetrics": statuses})),
            expected
        );
    }

    fn cpu(percent: i64) -> Value {
        json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": percent}}})
    }

    #[test]
    fn the_current_value_precedes_the_target() {
        check(json!([]), json!([]), "<none>");
        check(json!([cpu(80)]), json!([]), "cpu: <unknown>/80%");
        check(
            json!([cpu(80)]),
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40}}}]),
            "cpu: 40%/80%",
        );
        check(
            json!([{"type": "External", "external": {"target": {"averageValue": "10"}}},
                {"type": "Pods", "pods": {"target": {"averageValue": "1k"}}}]),
            json!([]),
            "<unknown>/10 (avg), <unknown>/1k",
        );
    }

    #[test]
    fn two_metrics_are_shown_and_the_others_counted() {
        check(
            json!([cpu(1), cpu(2), cpu(3)]),
            json!([]),
            "cpu: <unknown>/1%, cpu: <unknown>/2% + 1 more...",
        );
    }
}
