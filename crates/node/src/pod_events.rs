//! [`PodEvents`]: the Events of a kubelet about the containers of its pods, in Kubernetes' words.
//!
//! An event costs as much as the status of a pod, so that three for each container would multiply the
//! cost of starting pods at scale. Therefore the events about ordinary starts and stops have a budget,
//! as those of a kubelet have: beyond it they are left out. Warnings are always recorded.

use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;

use crate::pod_annotations;
use crate::pod_config::Missing;
use crate::pod_view::{ContainerStatus, PodStatus, PodView};
use keel::{Clock, Timestamp};
use runtime::recorder::{EventType, Recorder};

/// The number of events that may be recorded at once: those of 100 containers.
const BURST: u64 = 300;

/// The number of events each second in the long run; that of one kubelet.
const PER_SECOND: u64 = 50;

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
        let old_id = old.map(|old| old.container_id.as_str()).unwrap_or_default();
        if new.container_id != old_id && self.may_record(3) {
            let record = |reason: &str, message: &str| {
                let container = Some((field, new.name.as_str()));
                self.record(pod, container, EventType::Normal, reason, message);
            };
            record(
                "Pulled",
                &format!(
                    "Container image {:?} already present on machine and can be accessed by the pod",
                    new.image
                ),
            );
            record("Created", "Container created");
            record("Started", "Container started");
        }
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

    /// Records that a pod was rejected.
    pub(crate) fn report_rejection(&self, pod: &PodView, reason: &str, message: &str) {
        self.record(pod, None, EventType::Warning, reason, message);
    }

    /// Records what a pod cannot start without.
    pub(crate) fn report_missing(&self, pod: &PodView, missing: &Missing) {
        if let Some((volume, why)) = &missing.volume {
            let message = format!("MountVolume.SetUp failed for volume {volume:?} : {why}");
            self.record(pod, None, EventType::Warning, "FailedMount", &message);
        }
        for (name, why) in &missing.containers {
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
