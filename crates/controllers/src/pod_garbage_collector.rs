//! `pod-garbage-collector-controller`: deletes pods that no node will ever end.
//!
//! It promises, every 20 seconds:
//! - of the pods that have ended, at most 12,500 remain, the latest ones;
//! - pods of a node that was absent for 40 seconds fail and are deleted;
//! - pods that are being deleted and were never bound are deleted;
//! - pods that are being deleted on a node that is not ready and has the taint `out-of-service` are
//!   deleted.
//!
//! It reads Pods and Nodes, and writes the status of Pods, and deletes Pods.
//!
//! Upstream: `pkg/controller/podgc/gc_controller.go`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::node_lifecycle::node_view::NodeView;
use crate::pod_view::PodView;
use crate::{api_requests, pod_index, time};
use keel::{Clock, Timestamp};
use machinery::PolicyRule;
use runtime::informer::{Indexer, Item};
use runtime::{Action, Client, Controller, Failure, Lister, ObjectKey, Predicate, Request};

/// The row of this controller in the table.
pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "pod-garbage-collector-controller",
    aliases: &["podgc"],
    user: ControllerUser::ServiceAccount("pod-garbage-collector"),
    rules: &[
        PolicyRule::new(&[""], &["pods"], &["delete"]),
        PolicyRule::new(&[""], &["pods/status"], &["patch"]),
        PolicyRule::new(&[""], &["nodes"], &["get"]),
    ],
    start,
};

const PERIOD: Duration = Duration::from_secs(20);
/// The time for which a node must be absent.
const QUARANTINE: Duration = Duration::from_secs(40);
/// The number of pods that have ended and remain.
const TERMINATED_THRESHOLD: usize = 12_500;
/// The number of pods that are deleted at the same time.
const CONCURRENT_DELETIONS: usize = 16;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

struct Collector {
    client: Client,
    clock: Clock,
    pods: Arc<Indexer>,
    nodes: Lister<NodeView>,
    /// The absent nodes with pods, since when. Not locked while a request is sent.
    absent: Mutex<HashMap<String, Timestamp>>,
}

/// The reason of a deletion, in the pod's condition.
type Reason = Option<(&'static str, &'static str)>;

fn start(cx: &ControllerContext) {
    pod_index::add(cx);
    let collector = Collector {
        client: cx.client.clone(),
        clock: cx.clock().clone(),
        pods: Arc::clone(cx.manager.informer::<Pod>().indexer()),
        nodes: cx.manager.informer::<Node>().lister(),
        absent: Mutex::default(),
    };
    let (sender, first) = mpsc::channel(1);
    // The channel is empty.
    let _ = sender.try_send(Request::new("", "all pods"));
    cx.manager.add(
        Controller::for_::<Pod>()
            .named(cx.name)
            .when(Predicate::everything().not())
            .channel(first)
            .workers(1)
            .reconcile(collect, collector),
    );
}

async fn collect(_: Request, cx: Arc<Collector>) -> Result<Action, Failure> {
    cx.delete_all(cx.terminated(), None).await;
    cx.delete_all(cx.terminating_out_of_service(), None).await;
    let orphaned = cx.orphaned().await;
    let reason = Some(("DeletionByPodGC", "PodGC: node no longer exists"));
    cx.delete_all(orphaned, reason).await;
    let unscheduled = pod_index::of_state(&cx.pods, pod_index::UNSCHEDULED_TERMINATING);
    cx.delete_all(decode(&unscheduled), None).await;
    Ok(Action::RequeueAfter(PERIOD))
}

fn decode(items: &[Item]) -> Vec<PodView> {
    items.iter().filter_map(|item| item.decode().ok()).collect()
}

impl Collector {
    /// The pods that have ended beyond the threshold: evicted ones first, then the oldest.
    fn terminated(&self) -> Vec<PodView> {
        let items = pod_index::of_state(&self.pods, pod_index::TERMINATED);
        let Some(excess) = items.len().checked_sub(TERMINATED_THRESHOLD).filter(|it| *it > 0)
        else {
            return Vec::new();
        };
        let mut pods = decode(&items);
        pods.sort_by_cached_key(|pod| {
            let is_evicted = pod.status.phase == "Failed" && pod.status.reason == "Evicted";
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (!is_evicted, created, pod.metadata.name.clone())
        });
        pods.truncate(excess);
        pods
    }

    fn terminating_out_of_service(&self) -> Vec<PodView> {
        let mut pods = Vec::new();
        for item in self.nodes.indexer().list() {
            let Ok(Some(node)) = self.nodes.shared_key(item.key()) else { continue };
            let is_marked = node.spec.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE);
            if is_marked && !node.is_ready() {
                let found = decode(&pod_index::of_node(&self.pods, item.name()));
                pods.extend(found.into_iter().filter(|pod| pod.metadata.is_deleting()));
            }
        }
        pods
    }

    /// The pods of nodes that were absent for the quarantine and do not exist.
    async fn orphaned(&self) -> Vec<PodView> {
        let now = self.clock.now();
        let mut names = pod_index::node_names(&self.pods);
        names.retain(|name| self.nodes.indexer().get(&ObjectKey::new("", name)).is_none());
        let due: Vec<String> = {
            let mut absent = self.absent.lock().unwrap_or_else(PoisonError::into_inner);
            absent.retain(|name, _| names.contains(name));
            let mut is_due = |name: &String| {
                let since = absent.entry(name.clone()).or_insert(now);
                now.since(*since) >= QUARANTINE
            };
            names.into_iter().filter(|name| is_due(name)).collect()
        };
        let mut pods = Vec::new();
        for name in due {
            let path = format!("/api/v1/nodes/{name}");
            match api_requests::get::<Value>(&self.client, &path).await {
                Ok(None) => pods.extend(decode(&pod_index::of_node(&self.pods, &name))),
                Ok(Some(_)) => {}
                Err(error) => {
                    let error = api_requests::message(&error);
                    tracing::warn!(node = name, error, "cannot check whether a node exists");
                }
            }
        }
        pods
    }

    async fn delete_all(&self, pods: Vec<PodView>, reason: Reason) {
        let deletions = stream::iter(pods).map(|pod| async move {
            if let Err(error) = self.fail_and_delete(&pod, reason).await {
                let error = api_requests::message(&error);
                tracing::warn!(pod = pod.metadata.name, error, "cannot delete a pod");
            }
        });
        deletions.buffer_unordered(CONCURRENT_DELETIONS).collect::<()>().await;
    }

    /// Deletes a pod at once. A pod that has not ended fails before, since no node will end it.
    async fn fail_and_delete(&self, pod: &PodView, reason: Reason) -> api_requests::Result<()> {
        let metadata = &pod.metadata;
        let path = format!("/api/v1/namespaces/{}/pods/{}", metadata.namespace, metadata.name);
        if !pod.is_finished() {
            let mut status = json!({"phase": "Failed"});
            if let Some((reason, message)) = reason {
                status["conditions"] = json!([{
                    "type": "DisruptionTarget", "status": "True", "reason": reason,
                    "message": message, "lastTransitionTime": time::now(&self.clock),
                }]);
            }
            let patch = json!({"metadata": {"uid": metadata.uid}, "status": status});
            let path = format!("{path}/status");
            let patched = api_requests::strategic_merge::<Value>(&self.client, &path, &patch).await;
            api_requests::none_if_missing(patched)?;
        }
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": metadata.uid}});
        let deleted = api_requests::delete_with::<Value>(&self.client, &path, &options);
        api_requests::none_if_missing(deleted.await).map(drop)
    }
}
