//! [`PodEvents`]: the Events of a kubelet about the containers of its pods, in Kubernetes' words.
//!
//! An event costs as much as the status of a pod, so that three for each container would multiply the
//! cost of starting pods at scale. Therefore the events about ordinary starts and stops have a budget,
//! as those of a kubelet have: beyond it they are left out. Warnings are always recorded.

use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;

use crate::pod_annotations;
use crate::pod_config::Missing;
use crate::pod_resize::{self, PendingResize, Resize};
use crate::pod_view::{ContainerStatus, PodStatus, PodView};
use crate::pod_waiting;
use keel::{Clock, Timestamp};
use runtime::recorder::{EventType, Recorder};

/// The number of events that may be recorded at once: those of 100 containers.
const BURST: u64 = 300;

/// The number of events each second in the long run; that of one kubelet.
const PER_SECOND: u64 = 50;

/// The largest number of starts that one change of a status tells.
const MAX_STARTS: u32 = 2;

/// The number of containers of a pod that cannot start about which events are recorded at once.
const MAX_REPORTED: usize = 20;

/// See the [module documentation](self).
pub(crate) struct PodEvents {
    recorder: Recorder,
    clock: Clock,
    budget: Mutex<Budget>,
}

struct Budget {
    left: u64,
    refilled: Timestamp,
}

impl PodEvents {
    /// Records with this recorder.
    pub(crate) fn new(recorder: Recorder, clock: Clock) -> Self {
        let budget = Budget { left: BURST, refilled: clock.now() };
        Self { recorder, clock, budget: Mutex::new(budget) }
    }

    /// Records what has happened between the status of a pod and its next status.
    pub(crate) fn report(&self, pod: &PodView, next: &PodStatus) {
        for (old, new, field) in [
            (&pod.status.init_container_statuses, &next.init_container_statuses, "initContainers"),
            (&pod.status.container_statuses, &next.container_statuses, "containers"),
            (
                &pod.status.ephemeral_container_statuses,
                &next.ephemeral_container_statuses,
                "ephemeralContainers",
            ),
        ] {
            for new in new {
                let old = old.iter().find(|old| old.name == new.name);
                self.report_container(pod, old, new, field);
            }
        }
        if next.reason != pod.status.reason {
            self.record(pod, None, EventType::Normal, &next.reason, &next.message);
        }
    }

    fn report_container(
        &self,
        pod: &PodView,
        old: Option<&ContainerStatus>,
        new: &ContainerStatus,
        field: &str,
    ) {
        let record = |reason: &str, message: &str| {
            let container = Some((field, new.name.as_str()));
            self.record(pod, container, EventType::Normal, reason, message);
        };
        for start in 0..starts(old, new) {
            if !self.may_record(3) {
                break;
            }
            let killed = old.filter(|_| start == 0).and_then(|old| why_killed(old, new, field));
            if let Some(why) = killed {
                record("Killing", &why);
            }
            record("Pulled", &pod_waiting::pulled(&new.image));
            record("Created", "Container created");
            record("Started", "Container started");
        }
        self.report_annotated(pod, old, new, field);
        let is_waiting =
            new.state.waiting.as_ref().is_some_and(|it| it.reason == "CrashLoopBackOff");
        if is_waiting && old.is_none_or(|old| old.state != new.state) {
            let metadata = &pod.metadata;
            let message = format!(
                "Back-off restarting failed container {} in pod {}_{}({})",
                new.name, metadata.name, metadata.namespace, metadata.uid
            );
            let container = Some((field, new.name.as_str()));
            self.record(pod, container, EventType::Warning, "BackOff", &message);
        }
    }

    /// Records why a container waits, if an annotation of the pod says so.
    fn report_annotated(
        &self,
        pod: &PodView,
        old: Option<&ContainerStatus>,
        new: &ContainerStatus,
        field: &str,
    ) {
        let Some(waiting) = &new.state.waiting else { return };
        let is_annotated = !pod.metadata.annotations.is_empty()
            && pod_annotations::text(pod, "waiting") == Some(&waiting.reason);
        if !is_annotated || old.is_some_and(|old| old.state == new.state) {
            return;
        }
        for (event_type, reason, message) in pod_waiting::events(&waiting.reason, &new.image) {
            let container = Some((field, new.name.as_str()));
            self.record(pod, container, event_type, reason, &message);
        }
    }

    /// Records that the containers of a pod are stopped.
    pub(crate) fn report_stop(&self, pod: &PodView) {
        for status in &pod.status.container_statuses {
            if status.state.running.is_some() && self.may_record(1) {
                let container = Some(("containers", status.name.as_str()));
                let message = format!("Stopping container {}", status.name);
                self.record(pod, container, EventType::Normal, "Killing", &message);
            }
        }
    }

    /// Records what has become of other resources for a pod.
    pub(crate) fn report_resize(&self, pod: &PodView, resize: &Resize) {
        let record = |event_type: EventType, reason: &str, what: &str, error: &str| {
            let message = format!("Pod resize {what}: {}", pod_resize::summary(pod, error));
            self.record(pod, None, event_type, reason, &message);
        };
        match resize {
            Resize::NotNeeded => {}
            Resize::Accepted => {
                record(EventType::Normal, "ResizeStarted", "started", "");
                record(EventType::Normal, "ResizeCompleted", "completed", "");
            }
            Resize::Pending(PendingResize { reason, message }) => {
                let known = pod.status.condition("PodResizePending");
                let is_known = known.is_some_and(|it| {
                    it.reason == *reason
                        && it.message == *message
                        && it.observed_generation == Some(pod.metadata.generation)
                });
                if !is_known {
                    record(EventType::Warning, &format!("Resize{reason}"), reason, message);
                }
            }
        }
    }

    /// Records that a pod was rejected.
    pub(crate) fn report_rejection(&self, pod: &PodView, reason: &str, message: &str) {
        self.record(pod, None, EventType::Warning, reason, message);
    }

    /// Records what a pod cannot start without, for its first containers.
    pub(crate) fn report_missing(&self, pod: &PodView, missing: &Missing) {
        if let Some((volume, why)) = &missing.volume {
            let message = format!("MountVolume.SetUp failed for volume {volume:?} : {why}");
            self.record(pod, None, EventType::Warning, "FailedMount", &message);
        }
        for (name, why) in missing.containers.iter().take(MAX_REPORTED) {
            let is_init = pod.spec.init_containers.iter().any(|it| it.name == *name);
            let field = if is_init { "initContainers" } else { "containers" };
            let (container, message) = (Some((field, name.as_str())), format!("Error: {why}"));
            self.record(pod, container, EventType::Warning, "Failed", &message);
        }
    }

    /// Records which annotations of a pod are wrong, and therefore ignored.
    pub(crate) fn report_wrong_annotations(&self, pod: &PodView) {
        for problem in pod_annotations::problems(pod) {
            self.record(pod, None, EventType::Warning, "InvalidAnnotation", &problem);
        }
    }

    /// Records an event about a pod, or one of its containers, which is in a field of the spec.
    fn record(
        &self,
        pod: &PodView,
        container: Option<(&str, &str)>,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        let (host, regarding) = (&pod.spec.node_name, reference(pod, container));
        self.recorder.record_from(host, regarding, event_type, reason, message);
    }

    /// Takes this number of events from the budget, if it has them.
    fn may_record(&self, number: u64) -> bool {
        let now = self.clock.now();
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = now.since(budget.refilled).as_secs();
        if seconds > 0 {
            budget.left = budget.left.saturating_add(seconds * PER_SECOND).min(BURST);
            budget.refilled = now;
        }
        let has_enough = budget.left >= number;
        if has_enough {
            budget.left -= number;
        }
        has_enough
    }
}

/// The number of times that a container was started between two statuses: an init container that fails
/// at once is started twice by one change.
fn starts(old: Option<&ContainerStatus>, new: &ContainerStatus) -> u32 {
    let old = old.filter(|old| !old.container_id.is_empty());
    if new.container_id.is_empty() || old.is_some_and(|old| old.container_id == new.container_id) {
        return 0;
    }
    let before = old.map_or(0, |old| old.restart_count + 1);
    (new.restart_count + 1).saturating_sub(before).clamp(1, MAX_STARTS)
}

/// Why a container was restarted whose process had not ended.
fn why_killed(old: &ContainerStatus, new: &ContainerStatus, field: &str) -> Option<String> {
    old.state.running.as_ref()?;
    let name = &new.name;
    if old.image != new.image {
        return Some(if field == "initContainers" {
            format!("Init container {name} definition changed")
        } else {
            format!("Container {name} definition changed, will be restarted")
        });
    }
    let is_resized = old.resources.is_some() && old.resources != new.resources;
    is_resized.then(|| format!("Container {name} resize requires restart"))
}

/// A reference to a pod or to one of its containers, which is in a field of the spec.
fn reference(pod: &PodView, container: Option<(&str, &str)>) -> ObjectReference {
    let metadata = &pod.metadata;
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(metadata.name.clone()),
        namespace: Some(metadata.namespace.clone()),
        uid: Some(metadata.uid.clone()),
        field_path: container.map(|(field, name)| format!("spec.{field}{{{name}}}")),
        ..ObjectReference::default()
    }
}
