//! Metrics as a table, for `kubectl get podmetrics`.

use serde_json::{Value, json};

/// Whether a table is the first accepted form.
pub(super) fn is_accepted(accept: &str) -> bool {
    let first = accept.split(',').next().unwrap_or_default();
    first.contains("as=Table")
}

/// The table of a list or of one object.
pub(super) fn table(found: &Value) -> Value {
    let one = [found.clone()];
    let items = found["items"].as_array().map_or(&one[..], Vec::as_slice);
    let column = |name: &str, format: &str, description: &str| {
        json!({"name": name, "type": "string", "format": format, "description": description,
            "priority": 0})
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
        "columnDefinitions": [
            column("Name", "name", "Name of the resource"),
            column("cpu", "quantity", ""),
            column("memory", "quantity", ""),
            column("Window", "duration", ""),
        ],
        "rows": items.iter().map(row).collect::<Vec<Value>>(),
    })
}

fn row(item: &Value) -> Value {
    let usages: Vec<&Value> = match item["containers"].as_array() {
        Some(containers) => containers.iter().map(|container| &container["usage"]).collect(),
        None => vec![&item["usage"]],
    };
    let total = |resource: &str| {
        let quantities = usages.iter().filter_map(|usage| {
            machinery::quantity::Quantity::parse(usage[resource].as_str()?).ok()
        });
        let sum = quantities.reduce(|one, other| one.add(&other));
        sum.map_or_else(|| "0".to_owned(), |sum| sum.to_string())
    };
    json!({
        "cells": [item["metadata"]["name"], total("cpu"), total("memory"), item["window"]],
        "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": item["metadata"]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_uses_what_its_containers_use() {
        let pod = json!({"metadata": {"name": "p"}, "window": "15s", "containers": [
            {"name": "a", "usage": {"cpu": "250m", "memory": "1024Ki"}},
            {"name": "b", "usage": {"cpu": "1", "memory": "1024Ki"}},
        ]});
        let cells = &table(&pod)["rows"][0]["cells"];
        assert_eq!(*cells, json!(["p", "1250m", "2Mi", "15s"]));
        assert!(is_accepted("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"));
        assert!(!is_accepted("application/json"));
    }
}
