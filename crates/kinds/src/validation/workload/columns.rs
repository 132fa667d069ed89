//! The columns of `kubectl get -o wide` that all workloads have.

use machinery::Value;
use machinery::fields::{at, entries, list, text};
use types::columns::{or_none, wide};
use types::resource::Column;

/// The names of the containers in the template.
pub(crate) const CONTAINERS: Column =
    wide("Containers", "Names of each container in the template.");

/// The images of the containers in the template.
pub(crate) const IMAGES: Column =
    wide("Images", "Images referenced by each container in the template.");

/// The selector of the pods.
pub(crate) const SELECTOR: Column =
    wide("Selector", "The label selector of the pods that belong to the workload and are counted.");

/// The cells of [`CONTAINERS`] and [`IMAGES`].
pub(crate) fn containers(template: &Value) -> [Value; 2] {
    let containers = list(at(template, &["spec"]), "containers");
    ["name", "image"].map(|field| {
        let cells: Vec<&str> = containers.iter().map(|it| text(it, field)).collect();
        cells.join(",").into()
    })
}

/// Formats the map of labels at `key` as `a=b,c=d`.
pub(crate) fn labels(value: &Value, key: &str) -> Value {
    let labels: Vec<String> = entries(value, key)
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    or_none(&labels.join(",")).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn containers_and_their_images_are_listed_in_order() {
        let template = json!({"spec": {"containers": [{"name": "b", "image": "x:1"},
            {"name": "a", "image": "y"}]}});
        assert_eq!(containers(&template), [json!("b,a"), json!("x:1,y")]);
    }

    #[test]
    fn labels_are_shown_as_keys_and_values() {
        let spec = json!({"selector": {"a": "b", "c": "d"}});
        assert_eq!(labels(&spec, "selector"), "a=b,c=d");
        assert_eq!(labels(&spec, "nodeSelector"), "<none>");
    }
}
