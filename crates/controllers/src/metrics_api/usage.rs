//! The usage of simulated pods.
//!
//! A running container uses what the annotations of its pod say, which are those of KWOK:
//! `kwok.x-k8s.io/usage-cpu` and `kwok.x-k8s.io/usage-memory`. They can be changed at any time, so a
//! test or a script can feed the metrics. Without them, a container uses a tenth of its CPU request
//! and half of its memory request; without requests 1m and 1Mi. A node uses what its pods use, and at most
//! what it has. As with metrics-server, a node that is not ready has no metrics.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::metadata::Metadata;
use crate::time;
use keel::{Clock, Offload};
use machinery::quantity::Quantity;
use machinery::selector::LabelSelector;
use runtime::Lister;

const CPU_ANNOTATION: &str = "kwok.x-k8s.io/usage-cpu";
const MEMORY_ANNOTATION: &str = "kwok.x-k8s.io/usage-memory";

/// The time over which usage is measured, as metrics-server's default resolution.
const WINDOW: &str = "15s";

/// The number of pods whose decoding would delay other tasks.
const MANY_PODS: usize = 1000;

/// The usage of the pods and nodes in the caches.
pub(crate) struct UsageSource {
    pub(super) clock: Clock,
    pub(super) pods: Lister<MeasuredPod>,
    pub(super) nodes: Lister<MeasuredNode>,
    pub(super) offload: Offload,
}

/// The parts of a pod that determine its usage.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct MeasuredPod {
    metadata: Metadata,
    spec: MeasuredSpec,
    status: MeasuredStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MeasuredSpec {
    node_name: String,
    containers: Vec<MeasuredContainer>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MeasuredContainer {
    name: String,
    resources: MeasuredResources,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MeasuredResources {
    requests: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MeasuredStatus {
    phase: String,
}

/// The parts of a node that determine its usage.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct MeasuredNode {
    metadata: Metadata,
    status: MeasuredNodeStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MeasuredNodeStatus {
    capacity: BTreeMap<String, String>,
    conditions: Vec<NodeCondition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl MeasuredNode {
    /// Whether there is somebody who measures the node.
    fn is_measured(&self) -> bool {
        self.status.conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True")
    }

    fn metrics(&self, pods: &Usage, timestamp: &Value) -> Value {
        let capacity = |name| Quantity::parse(self.status.capacity.get(name)?).ok();
        let usage = Usage {
            cpu: capacity("cpu").map_or(pods.cpu, |it| pods.cpu.min(it.milli_value())),
            memory: capacity("memory").map_or(pods.memory, |it| pods.memory.min(it.value())),
        };
        json!({
            "kind": "NodeMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": metadata(&self.metadata, timestamp),
            "timestamp": timestamp, "window": WINDOW, "usage": usage.json(),
        })
    }
}

/// CPU and memory that are used.
#[derive(Clone, Default)]
struct Usage {
    /// In thousandths.
    cpu: i64,
    /// In bytes.
    memory: i64,
}

impl Usage {
    fn add(&mut self, other: &Self) {
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.memory = self.memory.saturating_add(other.memory);
    }

    fn json(&self) -> Value {
        let cpu = Quantity::parse(&format!("{}m", self.cpu)).map(|it| it.to_string());
        let memory = format!("{}Ki", self.memory.div_euclid(1024));
        json!({"cpu": cpu.unwrap_or_default(), "memory": memory})
    }
}

impl MeasuredPod {
    fn is_measured(&self) -> bool {
        self.status.phase == "Running" && !self.spec.node_name.is_empty()
    }

    /// The usage of a container.
    fn usage(&self, container: &MeasuredContainer) -> Usage {
        let annotated = |name| {
            let text = self.metadata.annotations.get(name)?;
            Quantity::parse(text).ok()
        };
        let requested = |name| {
            let text = container.resources.requests.get(name)?;
            Quantity::parse(text).ok()
        };
        let cpu = annotated(CPU_ANNOTATION).map(|it| it.milli_value());
        let cpu = cpu.unwrap_or_else(|| {
            requested("cpu").map_or(1, |request| (request.milli_value() / 10).max(1))
        });
        let memory = annotated(MEMORY_ANNOTATION).map(|it| it.value());
        let memory = memory
            .unwrap_or_else(|| requested("memory").map_or(1 << 20, |request| request.value() / 2));
        Usage { cpu, memory }
    }

    fn total(&self) -> Usage {
        let mut total = Usage::default();
        self.spec.containers.iter().for_each(|container| total.add(&self.usage(container)));
        total
    }

    fn metrics(&self, timestamp: &Value) -> Value {
        let containers = self.spec.containers.iter();
        let containers: Vec<Value> =
            containers.map(|it| json!({"name": it.name, "usage": self.usage(it).json()})).collect();
        json!({
            "kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": metadata(&self.metadata, timestamp),
            "timestamp": timestamp, "window": WINDOW, "containers": containers,
        })
    }
}

impl UsageSource {
    /// Runs a computation over all pods, apart from other tasks if there are many pods.
    pub(super) async fn offloaded<F: Future>(&self, computation: F) -> F::Output {
        if self.pods.indexer().len() < MANY_PODS {
            return computation.await;
        }
        self.offload.run(None, computation).await
    }

    /// All pods that have a usage, decoded one by one.
    fn running_pods(&self) -> impl Iterator<Item = MeasuredPod> {
        let pods = self.pods.indexer().list().into_iter();
        let decoded = pods.filter_map(|item| item.decode::<MeasuredPod>().ok());
        decoded.filter(MeasuredPod::is_measured)
    }

    fn timestamp(&self) -> Value {
        json!(time::now(&self.clock))
    }

    /// The metrics of the selected pods.
    pub(super) fn pods(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<Value> {
        let timestamp = self.timestamp();
        let pods = self.pods.select(namespace, selector).objects;
        let running = pods.iter().filter(|pod| pod.is_measured());
        running.map(|pod| pod.metrics(&timestamp)).collect()
    }

    /// The metrics of a pod.
    pub(super) fn pod(&self, namespace: &str, name: &str) -> Option<Value> {
        let pod = self.pods.get(namespace, name).ok().flatten();
        let pod = pod.filter(MeasuredPod::is_measured)?;
        Some(pod.metrics(&self.timestamp()))
    }

    /// The metrics of the selected nodes.
    pub(super) fn nodes(&self, selector: &LabelSelector) -> Vec<Value> {
        let mut usage: HashMap<String, Usage> = HashMap::new();
        for pod in self.running_pods() {
            let total = pod.total();
            usage.entry(pod.spec.node_name).or_default().add(&total);
        }
        let timestamp = self.timestamp();
        let nodes = self.nodes.select(None, selector).objects;
        let measured = nodes.iter().filter(|node| node.is_measured());
        let metrics = measured.map(|node| {
            let usage = usage.get(&node.metadata.name).cloned().unwrap_or_default();
            node.metrics(&usage, &timestamp)
        });
        metrics.collect()
    }

    /// The metrics of a node.
    pub(super) fn node(&self, name: &str) -> Option<Value> {
        let node = self.nodes.get("", name).ok().flatten();
        let node = node.filter(MeasuredNode::is_measured)?;
        let mut usage = Usage::default();
        for pod in self.running_pods().filter(|pod| pod.spec.node_name == name) {
            usage.add(&pod.total());
        }
        Some(node.metrics(&usage, &self.timestamp()))
    }
}

fn metadata(metadata: &Metadata, timestamp: &Value) -> Value {
    let mut value = json!({"name": metadata.name, "creationTimestamp": timestamp});
    if !metadata.namespace.is_empty() {
        value["namespace"] = json!(metadata.namespace);
    }
    if !metadata.labels.is_empty() {
        value["labels"] = json!(metadata.labels);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(annotations: &Value, requests: &Value, cpu: &str, memory: &str) {
        let pod: MeasuredPod = serde_json::from_value(json!({
            "metadata": {"name": "p", "annotations": annotations},
            "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        }))
        .unwrap();
        assert_eq!(pod.total().json(), json!({"cpu": cpu, "memory": memory}));
    }

    #[test]
    fn usage_is_that_of_the_annotations_or_a_part_of_the_requests() {
        let both = json!({CPU_ANNOTATION: "1500m", MEMORY_ANNOTATION: "64Mi"});
        check(&both, &json!({"cpu": "1"}), "1500m", "65536Ki");
        check(&json!({}), &json!({"cpu": "1", "memory": "64Mi"}), "100m", "32768Ki");
        check(&json!({}), &json!({}), "1m", "1024Ki");
        check(&json!({CPU_ANNOTATION: "much"}), &json!({}), "1m", "1024Ki");
    }

    #[test]
    fn a_node_uses_at_most_what_it_has() {
        let capacity = json!({"cpu": "4", "memory": "8Gi"});
        let node = json!({"metadata": {"name": "n"}, "status": {"capacity": capacity}});
        let node: MeasuredNode = serde_json::from_value(node).unwrap();
        let usage =
            |cpu, memory| node.metrics(&Usage { cpu, memory }, &Value::Null)["usage"].clone();
        assert_eq!(usage(1500, 1 << 20), json!({"cpu": "1500m", "memory": "1024Ki"}));
        assert_eq!(usage(i64::MAX, i64::MAX), json!({"cpu": "4", "memory": "8388608Ki"}));
    }
}
