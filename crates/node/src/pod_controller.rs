//! Writes the status of the pods that are bound to simulated nodes, and ends pods that are deleted.
//!
//! It promises that each pod has the status of [`pod_lifecycle`](crate::pod_lifecycle) at the time of
//! the plane's clock, by one write for each change, and that a deleted pod ends and is removed. It
//! reads Pods and Nodes, the [`ConfigMap`s and Secrets](crate::pod_config) of pods that start, and writes the status of Pods, deletes Pods, and records
//! [Events](crate::pod_events) about their containers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use crate::commands::NodeFiles;
use crate::node_ledger::NodeLedger;
use crate::node_object;
use crate::node_view::NodeView;
use crate::pod_addresses::PodAddresses;
use crate::pod_admission::{self, Admission, Rejection};
use crate::pod_config::{Checked, PodConfig};
use crate::pod_events::PodEvents;
use crate::pod_files;
use crate::pod_lifecycle::{PodLifecycle, Progress};
use crate::pod_plan::PodPlan;
use crate::pod_resize;
use crate::pod_status_size as status_size;
use crate::pod_view::{PodCondition, PodStatus, PodView};
use crate::requests;
use crate::stages::{StageOutcome, StagedKind, Stages};
use crate::time;
use keel::Clock;
use runtime::{Action, Client, Failure, Lister, Request};

/// The context of [`reconcile`].
pub(crate) struct PodContext {
    pub client: Client,
    pub pods: Lister<PodView>,
    pub nodes: Lister<NodeView>,
    /// The number of nodes of the plane.
    pub count: usize,
    pub clock: Clock,
    pub addresses: Arc<PodAddresses>,
    pub ledger: NodeLedger,
    pub events: PodEvents,
    pub node_files: NodeFiles,
    pub config: PodConfig,
    /// Whether the addresses and the resources of the pods that exist at the start are recorded.
    pub existing: OnceCell<()>,
    pub stages: Arc<Stages>,
    /// The time for which a pod that is being deleted runs on, if its name may be used again.
    pub termination: Duration,
}

/// Advances one pod.
pub(crate) async fn reconcile(request: Request, cx: Arc<PodContext>) -> Result<Action, Failure> {
    // The other workers wait without a thread.
    cx.existing.get_or_init(async || keel::blocking(|| cx.record_existing())).await;
    let Some(item) = cx.pods.indexer().get(&request) else {
        cx.addresses.release(&request);
        cx.ledger.release(&request);
        cx.stages.forget(&request);
        cx.config.forget(&request);
        return Ok(Action::Done);
    };
    let pod: PodView = item.decode()?;
    if pod.spec.node_name.is_empty() {
        return Ok(Action::Done);
    }
    let node = cx.nodes.shared("", &pod.spec.node_name)?;
    let Some(node) = node.filter(|node| node.is_managed(cx.count)) else {
        return Ok(Action::Done);
    };
    cx.record(&request, &pod);
    let outcome = cx.stages.apply(StagedKind::Pod, &item, &cx.functions(&request, &node)).await?;
    let later = match outcome {
        StageOutcome::Staged(Some(wait)) => return Ok(Action::RequeueAfter(wait)),
        StageOutcome::Failed(wait) => Action::RequeueAfter(wait),
        StageOutcome::Staged(None) | StageOutcome::NotStaged => Action::Done,
    };
    if pod.metadata.deletion_timestamp.is_some() {
        if cx.stages.replaces(StagedKind::Pod, "pod-delete") {
            return Ok(later);
        }
        return cx.end(&pod).await;
    }
    let is_staged =
        outcome != StageOutcome::NotStaged || cx.stages.replaces(StagedKind::Pod, "pod-ready");
    if pod.is_finished() || is_staged {
        return Ok(later);
    }
    cx.advance(&request, &pod, &node).await
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// The server has the status, or another event is under way.
    Done,
    /// The server refuses an object of this size.
    TooLarge,
}

impl PodContext {
    fn record_existing(&self) {
        for item in self.pods.indexer().list() {
            if let Ok(pod) = item.decode::<PodView>() {
                self.addresses.record(item.key(), &pod.status.pod_ip);
                self.record(item.key(), &pod);
            }
        }
    }

    /// Records what a pod takes from its node.
    fn record(&self, key: &Request, pod: &PodView) {
        if pod.is_finished() {
            self.ledger.release(key);
        } else if pod.status.start_time.is_some() {
            self.ledger.record(key, pod);
        }
    }

    /// The functions of templates that depend on the pod and its node.
    fn functions(
        &self,
        request: &Request,
        node: &NodeView,
    ) -> impl Fn(&str, &[Value]) -> Option<Result<Value, String>> + Send + Sync {
        let (host_ip, request) = (host_ip(node), request.clone());
        let (addresses, now) = (Arc::clone(&self.addresses), self.clock.now());
        move |name: &str, arguments: &[Value]| {
            let is_on_host = arguments.get(1) == Some(&Value::Bool(true));
            let pod_ip = || if is_on_host { host_ip.clone() } else { addresses.assign(&request) };
            Some(Ok(match name {
                "Now" | "StartTime" => json!(time::seconds(now)),
                "NodeIP" | "NodeIPWith" => json!(host_ip),
                "NodeIPs" | "NodeIPsWith" => json!([host_ip]),
                "PodIP" | "PodIPWith" => json!(pod_ip()),
                "PodIPs" | "PodIPsWith" => json!([pod_ip()]),
                _ => return None,
            }))
        }
    }

    /// Writes the next status of a pod.
    async fn advance(
        &self,
        request: &Request,
        pod: &PodView,
        node: &NodeView,
    ) -> Result<Action, Failure> {
        if pod.status.start_time.is_none() {
            let pods = self.pods.indexer();
            let now = self.clock.now();
            match pod_admission::decide(request, pod, node, pods, &self.ledger, now)? {
                Admission::Accepted => {}
                Admission::Rejected(rejection) => return self.reject(pod, rejection).await,
                Admission::RejectedAfter(wait) => return Ok(Action::RequeueAfter(wait)),
            }
        }
        let Checked { missing, is_new, retry_after } = self.config.check(request, pod).await?;
        let mut plan = if self.stages.replaces(StagedKind::Pod, "pod-complete") {
            PodPlan::of_annotations(pod)
        } else {
            PodPlan::of(pod, &self.node_files)
        };
        plan.missing = missing;
        plan.resize = pod_resize::decide(request, pod, node, self.pods.indexer(), &self.ledger);
        let lifecycle = PodLifecycle::new(pod, &plan, self.clock.now());
        let Progress { mut status, wake_after } = lifecycle.advance();
        if status.host_ip.is_empty() {
            status.host_ip = host_ip(node);
        }
        let has_sandbox = status
            .condition("PodReadyToStartContainers")
            .is_some_and(|condition| condition.status == "True");
        if status.pod_ip.is_empty() && has_sandbox {
            status.pod_ip = if pod.spec.host_network {
                status.host_ip.clone()
            } else {
                self.addresses.assign(request)
            };
        }
        status_size::shorten_messages(&mut status);
        if self.write(pod, &status).await? == Written::TooLarge {
            return self.reject(pod, status_size::too_large(pod)).await;
        }
        if pod.status.start_time.is_none() {
            // Once for each pod.
            self.events.report_wrong_annotations(pod);
        }
        self.events.report(pod, &status);
        self.events.report_resize(pod, &plan.resize);
        if is_new {
            self.events.report_missing(pod, &plan.missing);
        }
        let next_file = pod_files::add(pod, &plan, &status, &self.node_files, self.clock.now());
        let retries = retry_after.into_iter().chain(plan.resize.retry_after());
        let wake_after = wake_after.into_iter().chain(next_file).chain(retries).min();
        Ok(wake_after.map_or(Action::Done, Action::RequeueAfter))
    }

    /// Fails a pod that cannot run on its node.
    async fn reject(
        &self,
        pod: &PodView,
        Rejection { reason, message }: Rejection,
    ) -> Result<Action, Failure> {
        let status = PodStatus {
            phase: "Failed".to_owned(),
            reason: reason.clone().into_owned(),
            message: format!("Pod was rejected: {message}"),
            start_time: Some(time::seconds(self.clock.now())),
            observed_generation: pod.metadata.generation,
            ..pod.status.clone()
        };
        if self.write(pod, &status).await? == Written::TooLarge {
            // Nothing fits until the pod changes.
            return Err(Failure::permanent(
                "the pod is so large that its status cannot be written",
            ));
        }
        self.events.report_rejection(pod, &reason, &message);
        Ok(Action::Done)
    }

    /// Ends a pod that is being deleted, and removes it.
    async fn end(&self, pod: &PodView) -> Result<Action, Failure> {
        let mut plan = PodPlan::of(pod, &self.node_files);
        if pod.name_may_return() {
            plan.termination.get_or_insert(self.termination);
        }
        if !pod.is_finished() {
            match PodLifecycle::new(pod, &plan, self.clock.now()).terminate() {
                Ok(status) => {
                    pod_files::add(pod, &plan, &status, &self.node_files, self.clock.now());
                    // A pod whose last status is too large is removed without it.
                    self.write(pod, &status).await?;
                    self.events.report_stop(pod);
                }
                Err(wait) => return Ok(Action::RequeueAfter(wait)),
            }
        }
        // A pod with finalizers has the grace period 0 after the first request.
        if pod.metadata.deletion_grace_period_seconds != Some(0) {
            let deleted = requests::delete_now(&self.client, &pod.path(), &pod.metadata.uid).await;
            requests::unless_outdated(deleted)?;
        }
        Ok(Action::Done)
    }

    async fn write(&self, pod: &PodView, status: &PodStatus) -> Result<Written, Failure> {
        let changes = changes(&pod.status, status);
        if changes.is_empty() {
            return Ok(Written::Done);
        }
        let path = format!("{}/status", pod.path());
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": changes});
        let patched = requests::patch(&self.client, &path, requests::STRATEGIC_MERGE, &patch).await;
        if patched.as_ref().is_err_and(|error| requests::has_code(error, 413)) {
            return Ok(Written::TooLarge);
        }
        requests::unless_outdated(patched)?;
        Ok(Written::Done)
    }
}

/// The address that pods have as the address of their host.
fn host_ip(node: &NodeView) -> String {
    let own = || node_object::node_ip(&node.metadata.name);
    node.internal_ip().map_or_else(own, str::to_owned)
}

/// The fields of the status that have changed, as a strategic merge patch.
fn changes(old: &PodStatus, new: &PodStatus) -> Map<String, Value> {
    let mut patch = Map::new();
    let mut set = |field: &str, is_changed: bool, value: Value| {
        if is_changed {
            patch.insert(field.to_owned(), value);
        }
    };
    set("phase", old.phase != new.phase, json!(new.phase));
    set("reason", old.reason != new.reason, json!(new.reason));
    set("message", old.message != new.message, json!(new.message));
    if new.observed_generation > 0 {
        let is_changed = old.observed_generation != new.observed_generation;
        set("observedGeneration", is_changed, json!(new.observed_generation));
    }
    set("hostIP", old.host_ip != new.host_ip, json!(new.host_ip));
    set("hostIPs", old.host_ip != new.host_ip, json!([{"ip": new.host_ip}]));
    set("podIP", old.pod_ip != new.pod_ip, json!(new.pod_ip));
    set("podIPs", old.pod_ip != new.pod_ip, json!([{"ip": new.pod_ip}]));
    set("startTime", old.start_time != new.start_time, json!(new.start_time));
    let changed = new.conditions.iter().filter_map(|it| changed(old, it));
    let removed = old.conditions.iter().filter(|it| new.condition(&it.type_).is_none());
    let removed = removed.map(|it| json!({"$patch": "delete", "type": it.type_}));
    let conditions: Vec<Value> = changed.chain(removed).collect();
    set("conditions", !conditions.is_empty(), Value::Array(conditions));
    for (field, old, new) in [
        ("containerStatuses", &old.container_statuses, &new.container_statuses),
        ("initContainerStatuses", &old.init_container_statuses, &new.init_container_statuses),
        (
            "ephemeralContainerStatuses",
            &old.ephemeral_container_statuses,
            &new.ephemeral_container_statuses,
        ),
    ] {
        set(field, old != new, json!(new));
    }
    patch
}

/// The patch of a condition that has changed.
fn changed(old: &PodStatus, new: &PodCondition) -> Option<Value> {
    let known = old.condition(&new.type_);
    if known == Some(new) {
        return None;
    }
    let mut condition = json!(new);
    // The patch of a list of conditions merges each condition.
    for (field, was_set, is_set) in [
        ("reason", known.is_some_and(|it| !it.reason.is_empty()), !new.reason.is_empty()),
        ("message", known.is_some_and(|it| !it.message.is_empty()), !new.message.is_empty()),
    ] {
        if was_set && !is_set {
            condition[field] = Value::Null;
        }
    }
    Some(condition)
}
