//! [`Binder`]: executes decisions with requests to the API server: binds a pod and its volumes,
//! deletes the victims of a preemption, and reports why a pod fits on no node.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::ObjectReference;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::decision::Nomination;
use super::filter::volumes::{SELECTED_NODE, VolumePlan, is_bound, key_of};
use super::handlers::SharedState;
use super::listers::ClaimView;
use super::metrics::AttemptResult;
use super::pod_info::{ObservedPod, PodInfo, SCHEDULER_NAME};
use super::pod_wire::PodWire;
use super::queue::QueuedPod;
use crate::{api_requests, time};
use runtime::informer::Indexer;
use runtime::kube_client;
use runtime::recorder::{EventType, Recorder};
use runtime::{Client, Lister, ObjectKey};

/// The time limit for the volumes of a pod to be bound.
const VOLUME_TIMEOUT: Duration = Duration::from_mins(10);
/// The number of victims that are deleted concurrently.
const CONCURRENT_VICTIMS: usize = 8;
/// The longest message of an Event.
const MAX_EVENT_MESSAGE: usize = 1024;

/// See the [module documentation](self).
pub(crate) struct Binder {
    /// Does not wait for the shared caches: the scheduler assumes its bindings itself.
    pub client: Client,
    pub recorder: Recorder,
    pub shared: Arc<SharedState>,
    pub pods: Arc<Indexer>,
    pub claims: Lister<ClaimView>,
    /// Whether the last status could not be written.
    pub is_write_failing: AtomicBool,
}

/// The status of a pod, as far as the scheduler writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusView {
    metadata: GenerationView,
    status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GenerationView {
    generation: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    nominated_node_name: String,
    conditions: Vec<Value>,
}

impl Binder {
    /// Counts an attempt, which has begun when the pod left the queue.
    pub(crate) fn observe(&self, pod: &QueuedPod, result: AttemptResult) {
        let duration = self.shared.clock.now().since(pod.since);
        self.shared.metrics.observe(result, duration, pod.attempts);
    }

    /// Binds a pod to a node.
    pub(crate) async fn bind(&self, pod: QueuedPod, node: &str) {
        let info = Arc::clone(&pod.info);
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": info.key.name(), "namespace": info.key.namespace(), "uid": &*info.uid},
            "target": {"kind": "Node", "name": node},
        });
        let path = format!("{}/binding", path_of(&info.key));
        match api_requests::create::<IgnoredAny>(&self.client, &path, &binding).await {
            Ok(IgnoredAny) => {
                self.observe(&pod, AttemptResult::Scheduled);
                let message = format!("Successfully assigned {} to {node}", info.key);
                self.record(&info, EventType::Normal, "Scheduled", &message);
            }
            Err(error) => {
                let message = format!(
                    "binding rejected: running Bind plugin \"DefaultBinder\": {}",
                    api_requests::message(&error)
                );
                self.failed(&pod, &message).await;
            }
        }
    }

    /// Binds the volumes of a pod. Returns false if that has failed and the pod is to be decided about
    /// again.
    pub(crate) async fn bind_volumes(
        &self,
        pod: &QueuedPod,
        node: &str,
        plan: &VolumePlan,
    ) -> bool {
        let result = self.write_volumes(node, plan).await;
        let result = match result {
            Ok(()) => self.wait_for_volumes(pod, plan).await,
            Err(error) => Err(api_requests::message(&error)),
        };
        self.shared.lock().forget_volumes(plan);
        let Err(error) = result else { return true };
        let message = format!("running PreBind plugin \"VolumeBinding\": {error}");
        self.failed(pod, &message).await;
        false
    }

    async fn write_volumes(&self, node: &str, plan: &VolumePlan) -> kube_client::Result<()> {
        for (volume, claim) in &plan.bind {
            if volume.spec.claim_ref.as_ref().is_some_and(|by| by.uid == claim.metadata.uid) {
                continue;
            }
            let path = format!("/api/v1/persistentvolumes/{}", volume.metadata.name);
            let mut patch = json!({
                "metadata": {"resourceVersion": volume.metadata.resource_version},
                "spec": {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": claim.metadata.namespace, "name": claim.metadata.name,
                    "uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}},
            });
            // A user who has reserved the volume is not this scheduler.
            if volume.spec.claim_ref.is_none() {
                patch["metadata"]["annotations"] =
                    json!({"pv.kubernetes.io/bound-by-controller": "yes"});
            }
            api_requests::merge::<IgnoredAny>(&self.client, &path, &patch).await?;
        }
        for claim in &plan.provision {
            if claim.metadata.annotations.get(SELECTED_NODE).is_some_and(|known| known == node) {
                continue;
            }
            let key = key_of(claim);
            let path = format!(
                "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
                key.namespace(),
                key.name()
            );
            let patch = json!({"metadata": {
                "resourceVersion": claim.metadata.resource_version,
                "annotations": {SELECTED_NODE: node},
            }});
            api_requests::merge::<IgnoredAny>(&self.client, &path, &patch).await?;
        }
        Ok(())
    }

    async fn wait_for_volumes(&self, pod: &QueuedPod, plan: &VolumePlan) -> Result<(), String> {
        let mut changes = self.shared.volume_changes.subscribe();
        let timeout = self.shared.clock.sleep(VOLUME_TIMEOUT);
        tokio::pin!(timeout);
        let claims = plan.bind.iter().map(|(_, claim)| claim).chain(&plan.provision);
        // A claim that is bound stays bound, so it is read no more.
        let mut waiting: Vec<ObjectKey> = claims.map(|claim| key_of(claim)).collect();
        loop {
            changes.mark_unchanged();
            if !self.shared.lock().cache.is_assumed(&pod.info.uid) {
                return Err("pod does not exist any more".to_owned());
            }
            while let Some(key) = waiting.last() {
                match self.claims.get_key(key) {
                    Ok(Some(claim)) if is_bound(&claim) => waiting.pop(),
                    Ok(Some(_)) => break,
                    _ => return Err(format!("persistentvolumeclaim {:?} not found", key.name())),
                };
            }
            if waiting.is_empty() {
                return Ok(());
            }
            tokio::select! {
                biased;
                changed = changes.changed() => changed.map_err(|error| error.to_string())?,
                () = &mut timeout => {
                    return Err("binding volumes: context deadline exceeded".to_owned());
                }
            }
        }
    }

    /// Forgets the binding of a pod, which is tried again later.
    async fn failed(&self, pod: &QueuedPod, message: &str) {
        self.observe(pod, AttemptResult::Error);
        let info = Arc::clone(&pod.info);
        let exists = {
            let now = self.shared.clock.now();
            let item = self.pods.get(&info.key).filter(|item| item.uid() == &*info.uid);
            let wire = item.as_ref().and_then(|item| item.decode::<PodWire>().ok());
            let present = item.as_ref().zip(wire);
            let present = present.map(|(item, wire)| ObservedPod::of(item, wire));
            let is_unbound = present.as_ref().is_some_and(|it| it.node.is_empty());
            self.shared.lock().forget_pod(pod, present, now);
            is_unbound
        };
        self.shared.wake.notify_one();
        if exists {
            self.report(&info, "SchedulerError", message, &Nomination::Keep).await;
        }
    }

    /// Reports that a pod is not scheduled: an Event, and the condition `PodScheduled`.
    pub(crate) async fn report(
        &self,
        pod: &PodInfo,
        reason: &str,
        message: &str,
        nomination: &Nomination,
    ) {
        self.record(pod, EventType::Warning, "FailedScheduling", &truncated(message));
        let Some(item) = self.pods.get(&pod.key).filter(|item| item.uid() == &*pod.uid) else {
            return;
        };
        let view = item.decode::<StatusView>().unwrap_or_default();
        let mut status = json!({});
        if let Some(condition) = self.condition(&view, "PodScheduled", "False", reason, message) {
            status["conditions"] = json!([condition]);
        }
        let node = match nomination {
            Nomination::Keep => &view.status.nominated_node_name,
            Nomination::Clear => "",
            Nomination::Preempt { node, .. } => node,
        };
        if *node != *view.status.nominated_node_name {
            let is_cleared = node.is_empty();
            status["nominatedNodeName"] = if is_cleared { Value::Null } else { node.into() };
        }
        if status.as_object().is_some_and(|status| !status.is_empty()) {
            self.patch_status(&pod.key, &pod.uid, status).await;
        }
    }

    /// The pod may be tried again.
    pub(crate) fn end_report(&self, pod: &PodInfo) {
        let now = self.shared.clock.now();
        self.shared.lock().queue.end_report(&pod.uid, now);
        self.shared.wake.notify_one();
    }

    /// A condition, if the pod does not have it yet.
    fn condition(
        &self,
        pod: &StatusView,
        type_: &str,
        status: &str,
        reason: &str,
        message: &str,
    ) -> Option<Value> {
        let known = pod.status.conditions.iter().find(|known| known["type"] == type_);
        let is_same = |known: &&Value| {
            known["status"] == status && known["reason"] == reason && known["message"] == message
        };
        if known.as_ref().is_some_and(is_same) {
            return None;
        }
        let now = json!(time::now(&self.shared.clock));
        let since = known.filter(|known| known["status"] == status);
        let since = since.map_or(now, |known| known["lastTransitionTime"].clone());
        let mut condition = json!({
            "type": type_, "status": status, "reason": reason, "message": message,
            "lastProbeTime": null, "lastTransitionTime": since,
        });
        if pod.metadata.generation > 0 {
            condition["observedGeneration"] = pod.metadata.generation.into();
        }
        Some(condition)
    }

    async fn patch_status(&self, key: &ObjectKey, uid: &str, status: Value) -> bool {
        let path = format!("{}/status", path_of(key));
        let patch = json!({"metadata": {"uid": uid}, "status": status});
        let patched =
            api_requests::strategic_merge::<IgnoredAny>(&self.client, &path, &patch).await;
        match patched {
            Ok(IgnoredAny) => {
                self.is_write_failing.store(false, Relaxed);
                true
            }
            Err(error) if api_requests::has_code(&error, 404) => false,
            Err(error) => {
                // All pods that wait are written again and again while the disk is full, for example.
                if self.is_write_failing.swap(true, Relaxed) {
                    tracing::debug!(pod = %key, %error, "the status of a pod was not written");
                } else {
                    tracing::warn!(pod = %key, %error, "the status of a pod was not written");
                }
                false
            }
        }
    }

    /// Deletes the victims of a preemption. If that fails, the pod is decided about again.
    pub(crate) async fn preempt(&self, pod: &PodInfo, node: &str, victims: &[Arc<PodInfo>]) {
        self.shared.metrics.observe_preemption(victims.len());
        let outranked: Vec<Arc<PodInfo>> = {
            let mut state = self.shared.lock();
            let nominated = state.nominator.pods_of(node).iter();
            let outranked: Vec<_> =
                nominated.filter(|other| other.priority < pod.priority).cloned().collect();
            for other in &outranked {
                state.nominator.remove(&other.uid);
            }
            outranked
        };
        for other in outranked {
            let status = json!({"nominatedNodeName": null});
            self.patch_status(&other.key, &other.uid, status).await;
        }
        let mut deletions = FuturesUnordered::new();
        let mut are_deleted = true;
        for victim in victims.iter().filter(|victim| !victim.is_deleting) {
            if deletions.len() == CONCURRENT_VICTIMS {
                are_deleted &= deletions.next().await.unwrap_or(true);
            }
            deletions.push(self.delete_victim(pod, node, victim));
        }
        while let Some(is_deleted) = deletions.next().await {
            are_deleted &= is_deleted;
        }
        if !are_deleted {
            let now = self.shared.clock.now();
            self.shared.lock().queue.requeue(&pod.uid, now);
            self.shared.wake.notify_one();
        }
    }

    async fn delete_victim(&self, pod: &PodInfo, node: &str, victim: &PodInfo) -> bool {
        let Some(item) = self.pods.get(&victim.key).filter(|it| it.uid() == &*victim.uid) else {
            return true;
        };
        let view = item.decode::<StatusView>().unwrap_or_default();
        let message = format!("{SCHEDULER_NAME}: preempting to accommodate a higher priority pod");
        let reason = "PreemptionByScheduler";
        if let Some(condition) = self.condition(&view, "DisruptionTarget", "True", reason, &message)
        {
            let status = json!({"conditions": [condition]});
            self.patch_status(&victim.key, &victim.uid, status).await;
        }
        match api_requests::delete(&self.client, &path_of(&victim.key), &victim.uid).await {
            Ok(_) => {
                let message = format!("Preempted by pod {} on node {node}", pod.uid);
                self.record(victim, EventType::Normal, "Preempted", &message);
                true
            }
            Err(error) if api_requests::has_code(&error, 404) => true,
            Err(error) => {
                tracing::warn!(victim = %victim.key, %error, "a pod was not preempted");
                false
            }
        }
    }

    fn record(&self, pod: &PodInfo, event_type: EventType, reason: &str, message: &str) {
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(pod.key.namespace().to_owned()),
            name: Some(pod.key.name().to_owned()),
            uid: Some(pod.uid.to_string()),
            ..ObjectReference::default()
        };
        self.recorder.record_about(regarding, event_type, reason, message);
    }
}

fn path_of(key: &ObjectKey) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", key.namespace(), key.name())
}

/// A message that is not too long for an Event.
fn truncated(message: &str) -> String {
    if message.len() <= MAX_EVENT_MESSAGE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(MAX_EVENT_MESSAGE - 4);
    format!("{} ...", &message[..end])
}
