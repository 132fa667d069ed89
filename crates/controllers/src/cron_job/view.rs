//! [`CronJobView`] and [`JobView`]: the fields of a `CronJob` and of its Jobs that the controller
//! reads.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::adoption::HasMetadata;
use crate::metadata::Metadata;
use crate::workload::Workload;

/// See the [module documentation](self).
pub(super) type CronJobView = Workload<CronJobSpec, CronJobStatus>;

/// The spec of a `CronJob`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CronJobSpec {
    /// The schedule in cron's syntax.
    pub schedule: String,
    /// The time zone of the schedule; UTC by default.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// The time after which a Job is not started any more.
    #[serde(default)]
    pub starting_deadline_seconds: Option<i64>,
    /// `Allow`, `Forbid` or `Replace`.
    #[serde(default)]
    pub concurrency_policy: String,
    /// Whether no Jobs are created.
    #[serde(default)]
    pub suspend: Option<bool>,
    /// The template of the Jobs.
    pub job_template: JobTemplate,
    /// The number of succeeded Jobs that are kept.
    #[serde(default)]
    pub successful_jobs_history_limit: Option<usize>,
    /// The number of failed Jobs that are kept.
    #[serde(default)]
    pub failed_jobs_history_limit: Option<usize>,
}

/// The template of Jobs. The spec is not decoded, since it is only copied.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct JobTemplate {
    /// The metadata of the Jobs.
    #[serde(default)]
    pub metadata: TemplateMetadata,
    /// The spec of the Jobs.
    pub spec: Box<RawValue>,
}

/// The metadata of a template.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct TemplateMetadata {
    /// The labels of the Jobs.
    pub labels: BTreeMap<String, String>,
    /// The annotations of the Jobs.
    pub annotations: BTreeMap<String, String>,
}

/// The status of a `CronJob`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CronJobStatus {
    /// The Jobs that have not finished.
    pub active: Vec<JobReference>,
    /// The scheduled time of the last Job.
    pub last_schedule_time: Option<Time>,
    /// The time at which a Job was last completed.
    pub last_successful_time: Option<Time>,
}

/// A reference to a Job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct JobReference {
    api_version: String,
    kind: String,
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    resource_version: String,
    /// The uid.
    pub uid: String,
}

impl JobReference {
    /// A reference to the Job with this metadata.
    pub(super) fn to(job: &Metadata) -> Self {
        Self {
            api_version: "batch/v1".to_owned(),
            kind: "Job".to_owned(),
            name: job.name.clone(),
            namespace: job.namespace.clone(),
            resource_version: job.resource_version.clone(),
            uid: job.uid.clone(),
        }
    }
}

impl CronJobStatus {
    /// Whether a Job is in the list of active ones.
    pub(super) fn is_active(&self, uid: &str) -> bool {
        self.active.iter().any(|job| job.uid == uid)
    }

    /// Removes a Job from the list of active ones.
    pub(super) fn remove_active(&mut self, uid: &str) {
        self.active.retain(|job| job.uid != uid);
    }

    /// A merge patch with the whole status.
    pub(super) fn patch(&self) -> Value {
        json!({
            "active": if self.active.is_empty() { Value::Null } else { json!(self.active) },
            "lastScheduleTime": self.last_schedule_time,
            "lastSuccessfulTime": self.last_successful_time,
        })
    }
}

/// A Job of a `CronJob`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct JobView {
    /// The metadata.
    pub metadata: Metadata,
    /// The status.
    #[serde(default)]
    pub status: JobStatus,
}

impl HasMetadata for JobView {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// A part of a Job's status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct JobStatus {
    /// The time at which the Job was started.
    pub start_time: Option<Time>,
    /// The time at which the Job completed.
    pub completion_time: Option<Time>,
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl JobView {
    /// `Complete` or `Failed`; `None` if the Job has not finished.
    pub(super) fn end(&self) -> Option<&str> {
        let is_end = |it: &&Condition| {
            matches!(it.type_.as_str(), "Complete" | "Failed") && it.status == "True"
        };
        self.status.conditions.iter().find(is_end).map(|condition| condition.type_.as_str())
    }
}
