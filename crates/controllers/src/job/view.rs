//! [`JobView`] and [`JobPod`]: the fields of a Job and of its pods that the controller reads.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde_json::Value;

use super::policies::{PodFailurePolicy, SuccessPolicy};
use super::status::JobStatus;
use crate::adoption::HasMetadata;
use crate::metadata::Metadata;
use crate::pod_control::PodTemplate;
use crate::workload::Workload;
use machinery::selector::LabelSelector;

/// The finalizer of pods that are not counted yet.
pub(super) const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// The annotation and the label with the index of a pod.
pub(super) const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The annotation with the number of failures of a pod's index before that pod.
pub(super) const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// The annotation with the number of ignored failures of a pod's index before that pod.
pub(super) const IGNORED_INDEX_FAILURES: &str =
    "batch.kubernetes.io/job-index-ignored-failure-count";

/// The value of `managedBy` for this controller.
const CONTROLLER_NAME: &str = "kubernetes.io/job-controller";

/// See the [module documentation](self).
pub(super) type JobView = Workload<JobSpec, JobStatus>;

/// The spec of a Job.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobSpec {
    #[serde(default)]
    parallelism: Option<i32>,
    /// The number of pods that must succeed; without it, one that succeeds completes the Job.
    #[serde(default)]
    pub completions: Option<i32>,
    #[serde(default)]
    completion_mode: Option<String>,
    #[serde(default)]
    backoff_limit: Option<i32>,
    /// The number of failures of an index before it has failed.
    #[serde(default)]
    pub backoff_limit_per_index: Option<i32>,
    /// The number of failed indexes before the Job fails.
    #[serde(default)]
    pub max_failed_indexes: Option<i32>,
    /// The number of seconds for which the Job may be active.
    #[serde(default)]
    pub active_deadline_seconds: Option<u64>,
    #[serde(default)]
    suspend: Option<bool>,
    #[serde(default)]
    pod_replacement_policy: Option<String>,
    /// Decides about failed pods.
    #[serde(default)]
    pub pod_failure_policy: Option<PodFailurePolicy>,
    /// Decides when an indexed Job has succeeded.
    #[serde(default)]
    pub success_policy: Option<SuccessPolicy>,
    #[serde(default)]
    managed_by: Option<String>,
    #[serde(default)]
    selector: Value,
    /// The template of the pods.
    pub template: PodTemplate,
}

impl JobView {
    /// The maximum number of active pods.
    pub(super) fn parallelism(&self) -> usize {
        count(self.spec.parallelism.unwrap_or(1))
    }

    /// The number of pods that must succeed.
    pub(super) fn completions(&self) -> Option<usize> {
        self.spec.completions.map(count)
    }

    /// The number of failed pods before the Job fails.
    pub(super) fn backoff_limit(&self) -> usize {
        count(self.spec.backoff_limit.unwrap_or(6))
    }

    /// The number of indexes; `None` if the pods have no indexes.
    pub(super) fn indexes(&self) -> Option<usize> {
        let is_indexed = self.spec.completion_mode.as_deref() == Some("Indexed");
        is_indexed.then(|| self.completions().unwrap_or(0))
    }

    /// Whether each index has its own limit of failures.
    pub(super) fn has_limit_per_index(&self) -> bool {
        self.spec.backoff_limit_per_index.is_some()
    }

    /// Whether pods shall not run.
    pub(super) fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Whether a pod that is being deleted is only replaced after it has ended.
    pub(super) fn replaces_only_failed(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed")
    }

    /// Whether another controller is responsible for the Job.
    pub(super) fn is_managed_externally(&self) -> bool {
        self.spec.managed_by.as_deref().is_some_and(|it| it != CONTROLLER_NAME)
    }

    /// The selector of its pods.
    pub(super) fn selector(&self) -> Result<LabelSelector, String> {
        LabelSelector::from_value(&self.spec.selector)
    }

    /// Whether containers that fail are started again in the same pod.
    pub(super) fn restarts_on_failure(&self) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            #[serde(default)]
            restart_policy: String,
        }
        let spec = serde_json::from_str::<Spec>(self.spec.template.spec.get());
        spec.is_ok_and(|it| it.restart_policy == "OnFailure")
    }
}

/// A number that validation keeps from being negative.
pub(super) fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// A pod of a Job.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct JobPod {
    /// The metadata.
    pub metadata: Metadata,
    /// The spec.
    pub spec: JobPodSpec,
    /// The status.
    pub status: JobPodStatus,
}

/// A part of a pod's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct JobPodSpec {
    /// The node to which the pod is bound, or empty.
    pub node_name: String,
    /// The containers that run before the others, or beside them.
    pub init_containers: Vec<InitContainer>,
}

/// A part of an init container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct InitContainer {
    /// The name.
    pub name: String,
    /// `Always` if it runs beside the containers of the pod.
    pub restart_policy: String,
}

/// A part of a pod's status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct JobPodStatus {
    /// `Pending`, `Running`, `Succeeded` or `Failed`; empty for a new pod.
    pub phase: String,
    /// The conditions.
    pub conditions: Vec<PodCondition>,
    /// The containers.
    pub container_statuses: Vec<ContainerStatus>,
    /// The init containers.
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// A condition of a pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodCondition {
    /// The type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The time of the last change of the status.
    pub last_transition_time: Option<Time>,
}

/// A part of a container's status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerStatus {
    /// The name.
    pub name: String,
    /// The number of restarts.
    pub restart_count: usize,
    /// The state.
    pub state: ContainerState,
}

/// The state of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerState {
    /// The end of the container.
    pub terminated: Option<Terminated>,
}

/// The end of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Terminated {
    /// The exit code.
    pub exit_code: i32,
    /// The time.
    pub finished_at: Option<Time>,
}

impl JobPod {
    /// Whether the pod has succeeded.
    pub(super) fn has_succeeded(&self) -> bool {
        self.status.phase == "Succeeded"
    }

    /// Whether the pod has succeeded or failed.
    pub(super) fn is_finished(&self) -> bool {
        self.has_succeeded() || self.status.phase == "Failed"
    }

    /// Whether the pod has not ended and is not being deleted.
    pub(super) fn is_active(&self) -> bool {
        !self.is_finished() && !self.metadata.is_deleting()
    }

    /// Whether the pod has not ended, but is being deleted.
    pub(super) fn is_terminating(&self) -> bool {
        !self.is_finished() && self.metadata.is_deleting()
    }

    /// Whether the pod counts as failed: also a deleted one, which may never reach the phase
    /// `Failed`, unless the Job waits for that phase.
    pub(super) fn has_failed(&self, job: &JobView) -> bool {
        let is_deleted = self.metadata.is_deleting() && !self.has_succeeded();
        self.status.phase == "Failed" || is_deleted && !job.replaces_only_failed()
    }

    /// The condition `Ready`.
    pub(super) fn ready_condition(&self) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == "Ready")
    }

    /// Whether the pod is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.ready_condition().is_some_and(|condition| condition.status == "True")
    }

    /// Whether the pod is not counted yet.
    pub(super) fn is_tracked(&self) -> bool {
        self.metadata.finalizers.iter().any(|finalizer| finalizer == TRACKING_FINALIZER)
    }

    /// The completion index; `None` if it is missing or not a number.
    pub(super) fn index(&self) -> Option<usize> {
        let index = self.metadata.annotations.get(COMPLETION_INDEX)?.parse::<u32>().ok()?;
        usize::try_from(index).ok()
    }

    /// The completion index, if it is below the number of indexes.
    pub(super) fn valid_index(&self, indexes: usize) -> Option<usize> {
        self.index().filter(|index| *index < indexes)
    }

    /// A number in an annotation; 0 if it is missing or invalid.
    pub(super) fn annotated_count(&self, annotation: &str) -> usize {
        let count = self.metadata.annotations.get(annotation).and_then(|it| it.parse::<i32>().ok());
        count.map_or(0, self::count)
    }

    /// The number of failures of the pod's index before this pod, with the ignored ones.
    pub(super) fn all_index_failures(&self) -> usize {
        self.annotated_count(INDEX_FAILURES) + self.annotated_count(IGNORED_INDEX_FAILURES)
    }

    /// The number of restarts of its containers.
    pub(super) fn restarts(&self) -> usize {
        let status = &self.status;
        let containers = status.container_statuses.iter().chain(&status.init_container_statuses);
        containers.map(|container| container.restart_count).fold(0, usize::saturating_add)
    }
}

impl HasMetadata for JobPod {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
