//! CEL expressions of a [`Sidecar`](crate::Sidecar), for a `MutatingAdmissionPolicy`.
//!
//! CEL decodes neither YAML nor JSON, so that a policy cannot read the containers from the text of the
//! `ConfigMap`. They are written as literals of maps and lists. An apply configuration is not enough
//! either: it may not set atomic lists, such as `args`. The mutations are therefore JSON patches.

use serde_json::Value;

use crate::ANNOTATION;

/// The CEL literal of a JSON value. Elements are `dyn`, since Kubernetes refuses literals with elements
/// of several types.
///
/// ```
/// let value = serde_json::json!({"name": "it's", "ports": [80]});
/// assert_eq!(sidecar_operator::cel(&value), r#"{"name": dyn("it's"), "ports": dyn([dyn(80)])}"#);
/// ```
pub fn cel(value: &Value) -> String {
    match value {
        Value::Array(elements) => {
            let elements: Vec<_> =
                elements.iter().map(|element| format!("dyn({})", cel(element))).collect();
            format!("[{}]", elements.join(", "))
        }
        Value::Object(fields) => {
            let field =
                |(key, value): (&String, &Value)| format!("{}: dyn({})", text(key), cel(value));
            let fields: Vec<_> = fields.iter().map(field).collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::String(value) => text(value),
        // null, true, 1 and 1.5 are the same in both languages.
        scalar => scalar.to_string(),
    }
}

/// The literal of a string. JSON and CEL have the same escapes, but for `\/`, which is not written.
fn text(value: &str) -> String {
    Value::from(value).to_string()
}

/// Whether the pod requests a sidecar, as [`is_requested`](crate::is_requested) decides.
pub(crate) fn is_requested() -> String {
    let annotation = text(ANNOTATION);
    format!(
        "has(object.metadata.annotations) && {annotation} in object.metadata.annotations && \
         object.metadata.annotations[{annotation}] == \"true\" && \
         !(has(object.spec.hostNetwork) && object.spec.hostNetwork)"
    )
}

/// Whether a container of the sidecar is missing.
pub(crate) fn is_missing(containers: &[Value]) -> String {
    let is_missing = |container: &Value| format!("!({})", has_container(container));
    containers.iter().map(is_missing).collect::<Vec<_>>().join(" || ")
}

/// The JSON patch that adds a container, unless the pod has it.
pub(crate) fn add_container(container: &Value) -> String {
    let (has, value) = (has_container(container), cel(container));
    format!("{has} ? [] : [JSONPatch{{op: \"add\", path: \"/spec/containers/-\", value: {value}}}]")
}

/// The JSON patch that adds a volume, unless the pod has it.
pub(crate) fn add_volume(volume: &Value) -> String {
    let (has, value) = (has("volumes", volume), cel(volume));
    format!(
        "{has} ? [] : has(object.spec.volumes) ? \
         [JSONPatch{{op: \"add\", path: \"/spec/volumes/-\", value: {value}}}] : \
         [JSONPatch{{op: \"add\", path: \"/spec/volumes\", value: [{value}]}}]"
    )
}

fn has_container(container: &Value) -> String {
    format!("({} || {})", has("containers", container), has("initContainers", container))
}

/// Whether the list `field` of the spec has an element with the name of `element`.
fn has(field: &str, element: &Value) -> String {
    let name = text(element["name"].as_str().unwrap_or_default());
    format!(
        "(has(object.spec.{field}) && object.spec.{field}.exists(element, element.name == {name}))"
    )
}
