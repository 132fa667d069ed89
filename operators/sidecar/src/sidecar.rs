//! [`Sidecar`]: the containers and volumes of a configuration, and the patch that adds them to a pod.
//!
//! ```
//! use serde_json::json;
//! use sidecar_operator::Sidecar;
//!
//! let sidecar = Sidecar::parse("containers: [{name: envoy, image: envoyproxy/envoy}]")?;
//! let mut pod = json!({
//!     "metadata": {"annotations": {"initializer.kubernetes.io/envoy": "true"}},
//!     "spec": {"containers": [{"name": "web", "image": "nginx"}]},
//! });
//! let patch = sidecar.patch(&pod).expect("the pod requests a sidecar and has none");
//! let ty = types::find("core/v1.Pod").expect("pods are built in");
//! types::strategic::apply(ty, &mut pod, &patch)?;
//! assert_eq!(pod["spec"]["containers"][1]["name"], "envoy");
//! assert_eq!(sidecar.patch(&pod), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The patch is a two-way strategic merge patch: the difference between the pod and the pod with the
//! sidecar. It only adds elements, at the end of their lists:
//!
//! - a pod that has all containers of the configuration, by their names, is left unchanged;
//! - a container or a volume that the pod has is kept as it is, so a pod can bring its own volume
//!   `envoy-conf`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::{ANNOTATION, privileges};
use machinery::codec::yaml;
use machinery::names;

/// The largest number of containers, and of volumes. A policy has an expression for each of them.
const MAX_ELEMENTS: usize = 32;

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq)]
pub struct Sidecar {
    /// At least one; names are unique.
    containers: Vec<Value>,
    /// Names are unique.
    volumes: Vec<Value>,
}

/// The reason why a configuration is not valid. The text names the line or the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidConfig(String);

impl Sidecar {
    /// Decodes a configuration: YAML with `containers` and `volumes`, as in the spec of a pod.
    pub fn parse(config: &str) -> Result<Self, InvalidConfig> {
        let decoded = yaml::decode(config.as_bytes())
            .map_err(|error| InvalidConfig(format!("it is not YAML: {error}")))?;
        if let Some(duplicate) = decoded.duplicates.first() {
            return Err(InvalidConfig(duplicate.clone()));
        }
        let Value::Object(mut fields) = decoded.value else {
            return Err(InvalidConfig(format!("it must be a map with containers, not {config:?}")));
        };
        if let Some(other) = fields.keys().find(|key| !["containers", "volumes"].contains(&&***key))
        {
            let why = format!("unknown field {other:?}; known are containers and volumes");
            return Err(InvalidConfig(why));
        }
        decode_pod_spec(&mut fields)?;
        let mut take = |field: &str| match fields.remove(field) {
            Some(Value::Array(elements)) => elements,
            _ => Vec::new(),
        };
        let sidecar = Self { containers: take("containers"), volumes: take("volumes") };
        sidecar.validate()?;
        Ok(sidecar)
    }

    fn validate(&self) -> Result<(), InvalidConfig> {
        if self.containers.is_empty() {
            return Err(InvalidConfig("containers: at least one is required".to_owned()));
        }
        for (field, elements) in [("containers", &self.containers), ("volumes", &self.volumes)] {
            if elements.len() > MAX_ELEMENTS {
                let why = format!("{field}: {} are more than {MAX_ELEMENTS}", elements.len());
                return Err(InvalidConfig(why));
            }
            let mut known = BTreeSet::new();
            for (index, element) in elements.iter().enumerate() {
                let name = name_of(element);
                if let Some(why) = names::dns1123_label(name).first() {
                    return Err(InvalidConfig(format!("{field}[{index}].name {name:?}: {why}")));
                }
                if !known.insert(name) {
                    let why = format!("{field}[{index}].name: {name:?} occurs twice");
                    return Err(InvalidConfig(why));
                }
            }
        }
        let without_image =
            |container: &Value| container["image"].as_str().is_none_or(str::is_empty);
        match self.containers.iter().position(without_image) {
            Some(index) => Err(InvalidConfig(format!("containers[{index}].image: it is required"))),
            None => Ok(()),
        }
    }

    /// The strategic merge patch that adds the sidecar to `pod`; `None` if the pod does not
    /// [request](is_requested) a sidecar, or has it.
    pub fn patch(&self, pod: &Value) -> Option<Value> {
        if !is_requested(pod) {
            return None;
        }
        let spec = &pod["spec"];
        let present = names(&spec["containers"]).chain(names(&spec["initContainers"]));
        let containers = missing(&self.containers, &present.collect());
        if containers.is_empty() {
            return None;
        }
        let volumes = missing(&self.volumes, &names(&spec["volumes"]).collect());
        let mut patch = Map::new();
        append(&mut patch, "containers", spec, containers);
        append(&mut patch, "volumes", spec, volumes);
        Some(json!({"spec": patch}))
    }

    /// A right that the sidecar has and the author of the configuration need not have, with its field:
    /// such as a privileged container, a path of the node or a Secret of the pod's namespace.
    pub fn privilege(&self) -> Option<String> {
        privileges::find(&self.containers, &self.volumes)
    }

    /// The containers.
    pub fn containers(&self) -> &[Value] {
        &self.containers
    }

    /// The volumes.
    pub fn volumes(&self) -> &[Value] {
        &self.volumes
    }

    /// The names of the containers, separated by commas.
    pub fn container_names(&self) -> String {
        self.containers.iter().map(name_of).collect::<Vec<_>>().join(", ")
    }
}

/// Whether a pod has the annotation `initializer.kubernetes.io/envoy: "true"` and a network of its own.
/// On the network of the node, the ports of the sidecars of two pods would be the same.
///
/// ```
/// let pod = serde_json::json!({"metadata": {"annotations": {"initializer.kubernetes.io/envoy": "true"}}});
/// assert!(sidecar_operator::is_requested(&pod));
/// ```
pub fn is_requested(pod: &Value) -> bool {
    pod["metadata"]["annotations"][ANNOTATION] == "true" && pod["spec"]["hostNetwork"] != true
}

/// Checks the fields against the spec of a pod, as the API server does, and gives quantities the form
/// that it has in the API.
fn decode_pod_spec(fields: &mut Map<String, Value>) -> Result<(), InvalidConfig> {
    let ty = types::find("core/v1.PodSpec").expect("pods are built in");
    let mut unknown = Vec::new();
    let mut spec = Value::Object(std::mem::take(fields));
    types::normalize(ty, &mut spec, &mut |path| unknown.push(path))
        .map_err(|error| InvalidConfig(error.to_string()))?;
    if !unknown.is_empty() {
        return Err(InvalidConfig(format!("unknown field {:?}", unknown.join(", "))));
    }
    if let Value::Object(spec) = spec {
        *fields = spec;
    }
    Ok(())
}

/// Adds `elements` at the end of the list `field` of the pod's spec.
fn append(patch: &mut Map<String, Value>, field: &str, spec: &Value, elements: Vec<Value>) {
    if elements.is_empty() {
        return;
    }
    // Without an order, a strategic merge puts new elements first, and the first container is the
    // default one of `kubectl exec`.
    let order: Vec<Value> = names(&spec[field])
        .chain(elements.iter().map(name_of))
        .map(|name| json!({"name": name}))
        .collect();
    patch.insert(format!("$setElementOrder/{field}"), order.into());
    patch.insert(field.to_owned(), elements.into());
}

fn missing(elements: &[Value], present: &BTreeSet<&str>) -> Vec<Value> {
    elements.iter().filter(|element| !present.contains(name_of(element))).cloned().collect()
}

fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().map(name_of)
}

fn name_of(element: &Value) -> &str {
    element["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
