//! [`NodeMonitor`]: checks all nodes every five seconds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use serde::Deserialize;
use serde_json::{Value, json};

use super::node_view::NodeView;
use super::zone::{Zone, ZoneState};
use crate::pod_view::PodView;
use crate::taints::Taint;
use crate::{api_requests, pod_index};
use keel::{Clock, Timestamp};
use machinery::timestamp;
use runtime::informer::{Indexer, Item};
use runtime::recorder::{EventType, Recorder};
use runtime::{Client, Lister};

/// The time between two passes.
pub(super) const MONITOR_PERIOD: Duration = Duration::from_secs(5);
/// The time without a heartbeat after which a node is lost.
const GRACE_PERIOD: Duration = Duration::from_secs(50);
/// The same for a node that never had a status.
const STARTUP_GRACE_PERIOD: Duration = Duration::from_mins(1);
/// The number of statuses of pods that are written at the same time.
const POD_WRITES: usize = 16;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// See the [module documentation](self).
pub(super) struct NodeMonitor {
    pub client: Client,
    pub recorder: Recorder,
    pub clock: Clock,
    pub nodes: Lister<NodeView>,
    pub leases: Lister<LeaseView>,
    pub pods: Arc<Indexer>,
    pub healths: HashMap<String, Health>,
    /// By the labels of region and zone.
    pub zones: BTreeMap<String, Zone>,
    pub last_pass: Option<Timestamp>,
}

/// What is known of a node.
#[derive(Debug)]
pub(super) struct Health {
    uid: String,
    /// The time at which the last heartbeat was seen.
    probed: Timestamp,
    /// The last heartbeat in the Ready condition, which may be empty; `None` without a condition.
    heartbeat: Option<String>,
    renewal: Option<String>,
    /// Whether the pods are to be marked again, after an error.
    needs_retry: bool,
}

/// A part of a Lease.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LeaseView {
    spec: LeaseSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    renew_time: Option<String>,
}

/// The status of the Ready condition before and after a check.
struct Checked {
    observed: String,
    current: Option<String>,
}

impl NodeMonitor {
    /// Checks all nodes once.
    pub(super) async fn check_all(&mut self) {
        let now = self.clock.now();
        self.exclude_pause(now);
        let keys = self.nodes.indexer().list();
        let shared =
            keys.iter().filter_map(|item| self.nodes.shared_key(item.key()).ok().flatten());
        let nodes: Vec<Arc<NodeView>> = shared.collect();
        self.forget_deleted(&nodes);
        let mut counts = BTreeMap::<String, (usize, usize)>::new();
        for node in &nodes {
            let checked = self.check(node, now).await;
            let is_excluded =
                node.metadata.labels.contains_key("node.kubernetes.io/exclude-disruption");
            if !is_excluded {
                let (ready, not_ready) = counts.entry(zone_key(node)).or_default();
                let is_ready = checked.current.as_deref() == Some("True");
                *(if is_ready { ready } else { not_ready }) += 1;
            }
            self.act(node, &checked, now).await;
        }
        self.update_zones(&counts, &nodes, now).await;
        self.taint_waiting(now).await;
    }

    /// Shifts all probes by a pause in which this controller did not run: the process was suspended,
    /// and simulated nodes with it, or a test has advanced the clock.
    fn exclude_pause(&mut self, now: Timestamp) {
        let last = self.last_pass.replace(now);
        let pause = last.map_or(Duration::ZERO, |last| now.since(last));
        if pause > MONITOR_PERIOD * 2 {
            for health in self.healths.values_mut() {
                health.probed = health.probed + pause.saturating_sub(MONITOR_PERIOD);
            }
        }
    }

    fn forget_deleted(&mut self, nodes: &[Arc<NodeView>]) {
        let is_known = |node: &Arc<NodeView>| self.healths.contains_key(&node.metadata.name);
        if self.healths.len() == nodes.len() && nodes.iter().all(is_known) {
            return;
        }
        let names: HashSet<&str> = nodes.iter().map(|node| node.metadata.name.as_str()).collect();
        let recorder = &self.recorder;
        self.healths.retain(|name, health| {
            let exists = names.contains(name.as_str());
            if !exists {
                let message = format!("Node {name} event: Removing Node {name} from Controller");
                let node = node_reference(name, &health.uid);
                recorder.record_about(node, EventType::Normal, "RemovingNode", &message);
            }
            exists
        });
    }

    /// Looks for a heartbeat, and marks the node if there was none for too long.
    async fn check(&mut self, node: &NodeView, now: Timestamp) -> Checked {
        let name = &node.metadata.name;
        let ready = node.condition("Ready");
        let heartbeat = ready.map(|ready| ready.last_heartbeat_time.clone().unwrap_or_default());
        let lease = self.leases.shared("kube-node-lease", name).ok().flatten();
        let renewal = lease.and_then(|lease| lease.spec.renew_time.clone());
        let health = self.healths.entry(name.clone()).or_insert_with(|| {
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            let reference = node_reference(name, &node.metadata.uid);
            self.recorder.record_about(reference, EventType::Normal, "RegisteredNode", &message);
            Health {
                uid: node.metadata.uid.clone(),
                probed: now,
                heartbeat: heartbeat.clone(),
                renewal: None,
                needs_retry: false,
            }
        });
        if health.heartbeat != heartbeat {
            (health.heartbeat, health.probed) = (heartbeat, now);
        }
        if renewal.is_some() && health.renewal != renewal {
            (health.renewal, health.probed) = (renewal, now);
        }
        let grace = if ready.is_some() { GRACE_PERIOD } else { STARTUP_GRACE_PERIOD };
        let current = ready.map(|ready| ready.status.clone());
        let observed = current.clone().unwrap_or_else(|| "Unknown".to_owned());
        let is_marked = current.as_deref() == Some("Unknown");
        if now.since(health.probed) <= grace || is_marked {
            return Checked { observed, current };
        }
        match self.mark_unknown(node, now).await {
            Ok(()) => Checked { observed, current: Some("Unknown".to_owned()) },
            Err(error) => {
                let error = api_requests::message(&error);
                tracing::warn!(node = name, error, "cannot mark a lost node");
                Checked { observed, current }
            }
        }
    }

    async fn mark_unknown(&self, node: &NodeView, now: Timestamp) -> api_requests::Result<()> {
        let now = timestamp::format_seconds(now.seconds());
        let mut conditions = Vec::new();
        for type_ in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
            let condition = node.condition(type_);
            if condition.is_some_and(|condition| condition.status == "Unknown") {
                continue;
            }
            let (reason, message) = match condition {
                Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
                None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
            };
            let mut marked = json!({
                "type": type_, "status": "Unknown", "reason": reason, "message": message,
                "lastTransitionTime": now,
            });
            if condition.is_none() {
                marked["lastHeartbeatTime"] = json!(node.metadata.creation_timestamp);
            }
            conditions.push(marked);
        }
        let version = &node.metadata.resource_version;
        let patch = json!({
            "metadata": {"resourceVersion": version}, "status": {"conditions": conditions},
        });
        let path = format!("{}/status", node.path());
        api_requests::strategic_merge::<Value>(&self.client, &path, &patch).await.map(drop)
    }

    /// Queues or removes the taint of a node, and marks the pods of a node that was lost.
    async fn act(&mut self, node: &NodeView, checked: &Checked, now: Timestamp) {
        let Some(current) = &checked.current else { return };
        let name = &node.metadata.name;
        let zone = self.zones.entry(zone_key(node)).or_default();
        let (wanted, opposite) = match current.as_str() {
            "True" => {
                zone.remove(name);
                self.remove_taints(node).await;
                return self.set_retry(name, false);
            }
            "False" => (NOT_READY, UNREACHABLE),
            _ => (UNREACHABLE, NOT_READY),
        };
        if node.has_taint(opposite, "NoExecute") {
            self.swap_taints(name, wanted, opposite, now).await;
        } else if !node.has_taint(wanted, "NoExecute") {
            zone.add(name);
        }
        let was_lost = checked.observed == "True";
        if was_lost {
            let message = format!("Node {name} status is now: NodeNotReady");
            let reference = node_reference(name, &node.metadata.uid);
            self.recorder.record_about(reference, EventType::Normal, "NodeNotReady", &message);
        }
        let needs_retry = self.healths.get(name).is_some_and(|health| health.needs_retry);
        if was_lost || needs_retry {
            let has_failed = !self.mark_pods(name, now).await;
            self.set_retry(name, has_failed);
        }
    }

    fn set_retry(&mut self, name: &str, needs_retry: bool) {
        if let Some(health) = self.healths.get_mut(name) {
            health.needs_retry = needs_retry;
        }
    }

    /// Marks the pods of a node as not ready; false if some could not be marked.
    async fn mark_pods(&self, node: &str, now: Timestamp) -> bool {
        let now = timestamp::format_seconds(now.seconds());
        let pods = pod_index::of_node(&self.pods, node).into_iter();
        let pods = pods.filter_map(|item: Item| item.decode::<PodView>().ok());
        let marked =
            stream::iter(pods.filter(PodView::is_ready)).map(|pod| self.mark_pod(pod, &now));
        // All pods are marked, also after an error: `all` would end with the first one.
        let marked = marked.buffer_unordered(POD_WRITES);
        marked.fold(true, |all, is_marked| async move { all && is_marked }).await
    }

    async fn mark_pod(&self, pod: PodView, now: &str) -> bool {
        let metadata = &pod.metadata;
        let path = format!("/api/v1/namespaces/{}/pods/{}", metadata.namespace, metadata.name);
        let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": now});
        let patch = json!({"metadata": {"uid": metadata.uid}, "status": {"conditions": [ready]}});
        let path = format!("{path}/status");
        match api_requests::strategic_merge::<Value>(&self.client, &path, &patch).await {
            Err(error) if api_requests::has_code(&error, 404) => return true,
            Err(error) if api_requests::has_code(&error, 409) => return true,
            Err(_) => return false,
            Ok(_) => {}
        }
        let reference = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(metadata.name.clone()),
            namespace: Some(metadata.namespace.clone()),
            uid: Some(metadata.uid.clone()),
            ..ObjectReference::default()
        };
        self.recorder.record_about(
            reference,
            EventType::Warning,
            "NodeNotReady",
            "Node is not ready",
        );
        true
    }

    /// Sets the rates of all zones.
    async fn update_zones(
        &mut self,
        counts: &BTreeMap<String, (usize, usize)>,
        nodes: &[Arc<NodeView>],
        now: Timestamp,
    ) {
        self.zones.retain(|zone, _| counts.contains_key(zone));
        let was_disrupted = self.zones.values().all(|it| it.state == ZoneState::FullDisruption);
        let states = counts.iter().map(|(zone, (ready, not_ready))| {
            (zone.clone(), ZoneState::of(*ready, *not_ready), ready + not_ready)
        });
        let states: Vec<(String, ZoneState, usize)> = states.collect();
        let is_disrupted = states.iter().all(|(_, state, _)| *state == ZoneState::FullDisruption);
        if is_disrupted && !states.is_empty() {
            if !was_disrupted {
                tracing::warn!("no node is ready; no pod is evicted until one is");
                for node in nodes {
                    self.remove_taints(node).await;
                }
            }
            for (zone, ..) in states {
                self.zones.entry(zone).or_default().stop();
            }
            return;
        }
        if was_disrupted && !self.zones.is_empty() {
            for health in self.healths.values_mut() {
                health.probed = now;
            }
        }
        for (zone, state, size) in states {
            let zone = self.zones.entry(zone).or_default();
            if zone.state != state || was_disrupted {
                zone.set_state(state, size);
            }
        }
    }

    /// Adds the taints for which the rate of a zone allows it.
    async fn taint_waiting(&mut self, now: Timestamp) {
        let due: Vec<String> = self.zones.values_mut().filter_map(|zone| zone.next(now)).collect();
        for name in due {
            let node = self.nodes.shared("", &name).ok().flatten();
            let ready = node.as_ref().and_then(|node| node.condition("Ready"));
            let (wanted, opposite) = match ready.map(|ready| ready.status.as_str()) {
                Some("False") => (NOT_READY, UNREACHABLE),
                Some("Unknown") => (UNREACHABLE, NOT_READY),
                _ => continue,
            };
            self.swap_taints(&name, wanted, opposite, now).await;
        }
    }

    async fn swap_taints(&self, name: &str, wanted: &str, opposite: &str, now: Timestamp) {
        // The status may have been written by this pass.
        let Some(node) = self.nodes.shared("", name).ok().flatten() else { return };
        let is_kept = |taint: &&Taint| !taint.is(opposite, "NoExecute");
        let mut taints: Vec<Taint> = node.spec.taints.iter().filter(is_kept).cloned().collect();
        if !node.has_taint(wanted, "NoExecute") {
            let now = timestamp::format_seconds(now.seconds());
            taints.push(Taint::new(wanted, "NoExecute", Some(now)));
        }
        self.set_taints(&node, &taints).await;
    }

    async fn remove_taints(&self, node: &NodeView) {
        let is_kept =
            |taint: &&Taint| ![NOT_READY, UNREACHABLE].iter().any(|it| taint.is(it, "NoExecute"));
        let taints: Vec<Taint> = node.spec.taints.iter().filter(is_kept).cloned().collect();
        if taints.len() != node.spec.taints.len() {
            self.set_taints(node, &taints).await;
        }
    }

    /// Writes taints. After an error, the next pass tries again.
    async fn set_taints(&self, node: &NodeView, taints: &[Taint]) {
        if let Err(error) = node.set_taints(&self.client, taints).await {
            let error = api_requests::message(&error);
            tracing::debug!(node = node.metadata.name, error, "cannot change the taints of a node");
        }
    }
}

fn node_reference(name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

/// The region and zone of a node.
fn zone_key(node: &NodeView) -> String {
    let label = |key: &str| node.metadata.labels.get(key).map_or("", String::as_str);
    let (region, zone) =
        (label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"));
    if region.is_empty() && zone.is_empty() {
        return String::new();
    }
    format!("{region}:\0:{zone}")
}
