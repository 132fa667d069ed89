//! `node-lifecycle-controller`: notices nodes that have stopped, and keeps pods away from them.
//!
//! It promises:
//! - the conditions of a node whose Lease and status were not renewed for 50 seconds become Unknown,
//!   and its pods are no longer ready;
//! - a node has the `NoSchedule` taints of its conditions and of a cordon, and no others of them;
//! - a node that is not ready has the `NoExecute` taint `not-ready` or `unreachable`. At most one node
//!   of a zone gets it in 10 seconds, fewer if most nodes of the zone are not ready, none if no node
//!   of the plane is ready.
//!
//! It reads Nodes, Leases in `kube-node-lease` and Pods, and writes the taints, labels and status of
//! Nodes, the status of Pods, and Events.
//!
//! Upstream: `pkg/controller/nodelifecycle/node_lifecycle_controller.go`.

pub(crate) mod node_view;
mod node_monitor;
mod node_taints;
mod zone;

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use tokio::sync::{Mutex, mpsc};

use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::pod_index;
use machinery::PolicyRule;
use node_monitor::{MONITOR_PERIOD, NodeMonitor};
use runtime::{Action, Controller, Failure, Predicate, Request};

/// The row of this controller in the table.
pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "node-lifecycle-controller",
    aliases: &["nodelifecycle"],
    user: ControllerUser::ServiceAccount("node-controller"),
    rules: &[
        PolicyRule::new(&[""], &["nodes", "nodes/status"], &["patch"]),
        PolicyRule::new(&[""], &["pods/status"], &["patch"]),
    ],
    start,
};

/// The monitor, which one reconcile at a time uses. A panic does not poison this mutex, so that the
/// next pass takes place.
struct MonitorContext(Mutex<NodeMonitor>);

fn start(cx: &ControllerContext) {
    pod_index::add(cx);
    let monitor = NodeMonitor {
        client: cx.client.clone(),
        recorder: cx.manager.recorder_with(cx.client.clone(), "node-controller"),
        clock: cx.clock().clone(),
        nodes: cx.manager.informer::<Node>().lister(),
        leases: cx.manager.informer::<Lease>().lister(),
        pods: Arc::clone(cx.manager.informer::<Pod>().indexer()),
        healths: std::collections::HashMap::default(),
        zones: std::collections::BTreeMap::default(),
        last_pass: None,
    };
    let (sender, first) = mpsc::channel(1);
    // The channel is empty.
    let _ = sender.try_send(Request::new("", "all nodes"));
    cx.manager.add(
        Controller::for_::<Node>()
            .named(cx.name)
            .when(Predicate::everything().not())
            .channel(first)
            .workers(1)
            .reconcile(monitor_nodes, MonitorContext(Mutex::new(monitor))),
    );
    let taints = node_taints::TaintContext {
        client: cx.client.clone(),
        nodes: cx.manager.informer::<Node>().lister(),
    };
    cx.manager.add(
        Controller::for_::<Node>()
            .named("node-lifecycle-controller-taints")
            .workers(4)
            .reconcile(node_taints::reconcile, taints),
    );
}

async fn monitor_nodes(_: Request, cx: Arc<MonitorContext>) -> Result<Action, Failure> {
    cx.0.lock().await.check_all().await;
    Ok(Action::RequeueAfter(MONITOR_PERIOD))
}
