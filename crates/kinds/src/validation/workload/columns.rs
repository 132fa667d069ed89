//! The columns that `kubectl get -o wide` shows for every kind that makes pods.

use machinery::Value;
use machinery::fields::{at, entries, list, text};
use types::columns::{or_none, wide};
use types::resource::Column;

/// The names of the containers in the template.
pub(crate) const CONTAINERS: Column =
    wide("Containers", "Names of each container in the template.");

/// Their images.
pub(crate) const IMAGES: Column =
    wide("Images", "Images referenced by each container in the template.");

/// What selects the pods.
pub(crate) const SELECTOR: Column = wide(
    "Selector",
    "The labels that a pod must have in order to be counted as one of those that are wanted.",
);

/// The cells of [`CONTAINERS`] and [`IMAGES`].
pub(crate) fn containers(template: &Value) -> [Value; 2] {
    let containers = list(at(template, &["spec"]), "containers");
    ["name", "image"].map(|field| {
        let cells: Vec<&str> = containers.iter().map(|it| text(it, field)).collect();
        cells.join(",").into()
    })
}

/// A map of labels at `key`, `a=b,c=d`.
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
    fn labels_are_shown_as_they_are_written_in_queries() {
        let spec = json!({"selector": {"a": "b", "c": "d"}});
        assert_eq!(labels(&spec, "selector"), "a=b,c=d");
        assert_eq!(labels(&spec, "nodeSelector"), "<none>");
    }
}
