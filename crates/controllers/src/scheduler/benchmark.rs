//! Measures decisions without an API server, for `examples/scheduler_benchmark.rs`.

use std::time::Duration;

use serde_json::json;

use super::decision::Decision;
use super::listers::Listers;
use super::pod_info::ObservedPod;
use super::state::{SchedulerState, Step};
use keel::{Entropy, Timestamp};
use runtime::informer::Item;

/// A kind of pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodKind {
    /// Requests cpu and memory.
    Plain,
    /// Is spread over hosts and zones as a pod of a service.
    OfService,
    /// Has a hard topology spread constraint over zones.
    Spread,
    /// Has required anti-affinity against the pods of its group of 100, on a host.
    AntiAffinity,
}

/// The time that was spent.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// For reading pods and adding them to the queue.
    pub observing: Duration,
    /// For decisions, including the assumption of their results.
    pub deciding: Duration,
    /// The number of pods that fit on a node.
    pub bound: usize,
}

/// The size of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// The number of nodes.
    pub nodes: usize,
    /// The number of pods that are bound already.
    pub running: usize,
    /// The number of pods to decide about.
    pub pods: usize,
}

/// Decides about pods of one kind, and measures with `cpu_time`.
pub fn measure(size: Size, kind: PodKind, cpu_time: impl Fn() -> Duration) -> Measured {
    let Size { nodes, running, pods } = size;
    let now = Timestamp::from_seconds(1);
    let mut state = SchedulerState::new(Listers::empty(), Entropy::seeded(1));
    for index in 0..nodes {
        let node = json!({
            "metadata": {"name": format!("node-{index}"), "labels": {
                "kubernetes.io/hostname": format!("node-{index}"),
                "topology.kubernetes.io/zone": format!("zone-{}", index % 3)}},
            "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "1000"}},
        });
        state.set_node(serde_json::from_value(node).unwrap_or_default());
    }
    if kind == PodKind::OfService {
        let selector = [("app".to_owned(), "web".to_owned())].into();
        state.cache.services.insert("default".into(), [("web".to_owned(), selector)].into());
    }
    for index in 0..running {
        let node = format!("node-{}", index % nodes);
        let pod = pod(&format!("old-{index}"), index, PodKind::Plain, &node);
        observe(&mut state, pod.as_ref(), now);
    }
    let new: Vec<Item> =
        (0..pods).filter_map(|index| pod(&format!("new-{index}"), index, kind, "")).collect();
    let start = cpu_time();
    for item in &new {
        observe(&mut state, Some(item), now);
    }
    let observing = cpu_time().saturating_sub(start);
    let start = cpu_time();
    let mut bound = 0;
    while let Step::Execute { decision, .. } = state.step(now) {
        bound += usize::from(matches!(decision, Decision::Bind { .. }));
    }
    Measured { observing, deciding: cpu_time().saturating_sub(start), bound }
}

fn observe(state: &mut SchedulerState, item: Option<&Item>, now: Timestamp) {
    let Some(item) = item else { return };
    if let Ok(wire) = item.decode() {
        state.set_pod(ObservedPod::of(item, wire), now);
    }
}

fn pod(name: &str, index: usize, kind: PodKind, node: &str) -> Option<Item> {
    let group = format!("group-{}", index / 100);
    let mut pod = json!({
        "metadata": {"namespace": "default", "name": name, "uid": name,
            "labels": {"app": "web", "pod-template-hash": "5d4f8"}},
        "spec": {"nodeName": node, "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "nginx",
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": 300}]},
        "status": {"phase": "Pending"},
    });
    match kind {
        PodKind::Plain => pod["metadata"]["labels"]["app"] = json!("plain"),
        PodKind::OfService => {}
        PodKind::Spread => {
            pod["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}}}]);
        }
        PodKind::AntiAffinity => {
            pod["metadata"]["labels"]["app"] = json!(group);
            pod["spec"]["affinity"] = json!({"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": group}}}]}});
        }
    }
    Item::parse(pod.to_string().into_bytes()).ok()
}
