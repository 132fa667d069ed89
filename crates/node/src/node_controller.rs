//! Registers the simulated nodes and keeps them alive.
//!
//! It promises that the first N nodes exist, that all simulated nodes have a complete status, and that
//! their Leases are renewed every 10 seconds. Unlike kubelets, it does not write a status in which
//! only the time of the heartbeat would change: the Lease is the heartbeat. A node that a user deletes
//! is not registered again before the next start, as with a kubelet. It reads Nodes and Pods, and
//! writes Nodes, their status, and Leases in `kube-node-lease`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::node_object;
use crate::node_states::NodeStates;
use crate::node_view::{NodeView, index_of};
use crate::requests;
use crate::simulated_nodes::{NODE_INDEX, SimulatedNodesOptions};
use crate::stages::{StageOutcome, StagedKind, Stages};
use crate::time;
use runtime::informer::Indexer;
use runtime::recorder::{EventType, Recorder};
use runtime::{Action, Client, Failure, Lister, Request};

const LEASE_PERIOD: Duration = Duration::from_secs(10);
/// 4 % of the period, as for kubelets, so that the renewals of many nodes do not coincide.
const LEASE_JITTER_MILLIS: u64 = 400;
/// The time until a renewal that met another write is repeated.
const LEASE_RETRY: Duration = Duration::from_secs(1);
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// The number of new nodes about which events are recorded, so that those about 1,000 nodes do not
/// delay the start.
const MAX_REPORTED: usize = 10;

/// The context of [`reconcile`].
pub(crate) struct NodeContext {
    pub client: Client,
    pub nodes: Lister<NodeView>,
    pub pods: Arc<Indexer>,
    /// The pods to reconcile, since their node has appeared.
    pub pod_requests: mpsc::Sender<Request>,
    pub options: SimulatedNodesOptions,
    /// The nodes that were seen since the start.
    pub states: NodeStates,
    pub stages: Arc<Stages>,
    pub recorder: Recorder,
    /// The number of new nodes about which events were recorded.
    pub reported: AtomicUsize,
}

/// Registers or updates one node.
pub(crate) async fn reconcile(request: Request, cx: Arc<NodeContext>) -> Result<Action, Failure> {
    let name = request.name();
    let count = cx.options.count;
    let Some(node) = cx.nodes.shared_key(&request)? else {
        cx.stages.forget(&request);
        return cx.register(name).await;
    };
    if node.is_surplus(count) {
        let path = format!("/api/v1/nodes/{name}");
        let deleted = requests::delete_now(&cx.client, &path, &node.metadata.uid).await;
        requests::unless_outdated(deleted)?;
        return Ok(Action::Done);
    }
    if !node.is_managed(count) {
        return Ok(Action::Done);
    }
    if cx.states.add(name, &node.metadata.uid, cx.options.clock.now()) {
        for pod in cx.pods.by_index(NODE_INDEX, name)? {
            if cx.pod_requests.send(pod.key().clone()).await.is_err() {
                break;
            }
        }
    }
    let renewal = cx.renew_lease(&node).await?;
    let Some(item) = cx.nodes.indexer().get(&request) else { return Ok(Action::Requeue) };
    let next = match cx.stages.apply(StagedKind::Node, &item, &cx.functions(name)).await? {
        StageOutcome::Staged(wait) => wait.unwrap_or(renewal),
        StageOutcome::Failed(wait) => wait,
        StageOutcome::NotStaged => {
            cx.add_labels(&node).await?;
            cx.update_status(&node).await?;
            renewal
        }
    };
    Ok(Action::RequeueAfter(renewal.min(next)))
}

impl NodeContext {
    /// The functions of templates that depend on the node.
    fn functions(
        &self,
        name: &str,
    ) -> impl Fn(&str, &[Value]) -> Option<Result<Value, String>> + Send + Sync {
        let (node, now) = (name.to_owned(), self.options.clock.now());
        move |name: &str, _: &[Value]| {
            Some(Ok(match name {
                "Now" | "StartTime" => json!(time::seconds(now)),
                "NodeIP" => json!(node_object::node_ip(&node)),
                "NodeIPs" => json!([node_object::node_ip(&node)]),
                "NodeName" => json!(node),
                // No kubelet listens.
                "NodePort" => json!(0),
                _ => return None,
            }))
        }
    }

    /// Registers a node of this plane, once.
    async fn register(&self, name: &str) -> Result<Action, Failure> {
        let is_own = index_of(name).is_some_and(|index| index < self.options.count);
        if !self.states.record_missing(name, is_own) {
            return Ok(Action::Done);
        }
        let SimulatedNodesOptions { capacity, clock, .. } = &self.options;
        let node = node_object::registration(name, capacity, clock.now());
        match requests::create(&self.client, "/api/v1/nodes", &node).await {
            Ok(()) => self.report_new(name),
            Err(error) if requests::has_code(&error, 409) => {}
            Err(error) => return Err(error.into()),
        }
        // The event of the new node leads to its lease.
        Ok(Action::Done)
    }

    /// Records the events of a kubelet whose node is new.
    fn report_new(&self, name: &str) {
        if self.reported.fetch_add(1, Ordering::Relaxed) >= MAX_REPORTED {
            return;
        }
        let record = |reason: &str, message: &str| {
            let regarding = ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(name.to_owned()),
                // As kubelets do, which record events before they know the uid.
                uid: Some(name.to_owned()),
                ..ObjectReference::default()
            };
            self.recorder.record_from(name, regarding, EventType::Normal, reason, message);
        };
        record("Starting", "Starting kubelet.");
        for reason in [
            "NodeHasSufficientMemory",
            "NodeHasNoDiskPressure",
            "NodeHasSufficientPID",
            "NodeReady",
        ] {
            record(reason, &format!("Node {name} status is now: {reason}"));
        }
    }

    /// Renews the lease if that is due, and returns the time until the next renewal.
    async fn renew_lease(&self, node: &NodeView) -> Result<Duration, Failure> {
        let now = self.options.clock.now();
        let name = &node.metadata.name;
        let left = self.states.next_renewal(name).since(now);
        if !left.is_zero() {
            return Ok(left);
        }
        let path = format!("{LEASES}/{name}");
        let patch = json!({"spec": {"renewTime": time::micros(now)}});
        match requests::patch(&self.client, &path, requests::MERGE, &patch).await {
            Err(error) if requests::has_code(&error, 404) => {
                let lease = node_object::lease(name, &node.metadata.uid, now);
                requests::unless_outdated(requests::create(&self.client, LEASES, &lease).await)?;
            }
            Err(error) if requests::has_code(&error, 409) => {
                tracing::debug!(%error, "the lease of a node was changed by others meanwhile");
                return Ok(LEASE_RETRY);
            }
            renewed => renewed?,
        }
        let jitter = Duration::from_millis(self.options.entropy.below(LEASE_JITTER_MILLIS));
        let period = LEASE_PERIOD + jitter;
        self.states.set_next_renewal(name, now + period);
        Ok(period)
    }

    /// Adds the labels of kubelets that are missing.
    async fn add_labels(&self, node: &NodeView) -> Result<(), Failure> {
        let labels = node_object::missing_labels(node);
        if labels.is_empty() {
            return Ok(());
        }
        let path = format!("/api/v1/nodes/{}", node.metadata.name);
        let patch = json!({"metadata": {"uid": node.metadata.uid, "labels": labels}});
        let patched = requests::patch(&self.client, &path, requests::MERGE, &patch).await;
        Ok(requests::unless_outdated(patched)?)
    }

    /// Writes the status if a part is missing or wrong.
    async fn update_status(&self, node: &NodeView) -> Result<(), Failure> {
        let SimulatedNodesOptions { capacity, clock, .. } = &self.options;
        let name = &node.metadata.name;
        let status = node_object::status_patch(node, name, capacity, clock.now());
        if status.as_object().is_some_and(serde_json::Map::is_empty) {
            return Ok(());
        }
        let path = format!("/api/v1/nodes/{name}/status");
        let patch = json!({"metadata": {"uid": node.metadata.uid}, "status": status});
        let patched = requests::patch(&self.client, &path, requests::STRATEGIC_MERGE, &patch).await;
        Ok(requests::unless_outdated(patched)?)
    }
}
