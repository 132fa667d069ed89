//! The Jobs of a `CronJob`: their names, their creation and their deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::Sync;
use super::view::{CronJobView, JobView};
use crate::api_requests;
use crate::metadata::{Metadata, OwnerReference};
use runtime::Failure;

/// The annotation with the time for which a Job was scheduled.
const SCHEDULED_TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The part of a created Job that is read.
#[derive(Deserialize)]
pub(super) struct CreatedJob {
    /// The metadata.
    pub metadata: Metadata,
}

/// A Job to create.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewJob<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: NewMetadata<'a>,
    spec: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewMetadata<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a BTreeMap<String, String>,
    annotations: BTreeMap<&'a str, &'a str>,
    owner_references: [OwnerReference; 1],
}

/// The name of the Job of a scheduled time, in minutes.
pub(super) fn job_name(cron_job: &str, time: Timestamp) -> String {
    format!("{cron_job}-{}", time.as_second() / 60)
}

/// The path of the Jobs of a namespace.
pub(super) fn collection(namespace: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs")
}

/// A Job by the template of a `CronJob`.
pub(super) fn new_job<'a>(cron_job: &'a CronJobView, name: &'a str, time: &'a str) -> NewJob<'a> {
    let template = &cron_job.spec.job_template;
    let annotations = template.metadata.annotations.iter();
    let mut annotations: BTreeMap<&str, &str> =
        annotations.map(|(key, value)| (key.as_str(), value.as_str())).collect();
    annotations.insert(SCHEDULED_TIMESTAMP, time);
    let owner = OwnerReference::controller("batch/v1", "CronJob", &cron_job.metadata);
    let metadata = NewMetadata {
        name,
        labels: &template.metadata.labels,
        annotations,
        owner_references: [owner],
    };
    NewJob { api_version: "batch/v1", kind: "Job", metadata, spec: &template.spec }
}

impl Sync<'_> {
    /// Deletes finished Jobs beyond the limits of the history, the oldest first. After an error, the
    /// deletion is repeated by the next reconcile.
    pub(super) async fn clean_up(&mut self) {
        let spec = &self.cron_job.spec;
        let limits = [
            ("Complete", spec.successful_jobs_history_limit),
            ("Failed", spec.failed_jobs_history_limit),
        ];
        for (end, limit) in limits {
            let Some(limit) = limit else { continue };
            let jobs = self.jobs.iter().filter(|job| job.end() == Some(end));
            let mut jobs: Vec<Arc<JobView>> = jobs.cloned().collect();
            let surplus = jobs.len().saturating_sub(limit);
            // Jobs that never started are the last ones.
            let key = |job: &Arc<JobView>| {
                let start = job.status.start_time.as_ref().map(|it| it.0);
                (start.is_none(), start, job.metadata.name.clone())
            };
            jobs.sort_by_cached_key(key);
            for job in jobs.into_iter().take(surplus) {
                // The error is shown by an event.
                let _ = self.delete_job(&job.metadata).await;
            }
        }
    }

    /// Deletes the active Jobs, which are replaced by a new one. The status, which its user may write,
    /// can name any Job: only its own Jobs are deleted.
    pub(super) async fn delete_active(&mut self) -> Result<(), Failure> {
        for active in self.status.active.clone() {
            let own = self.jobs.iter().find(|job| job.metadata.uid == active.uid).cloned();
            match own {
                Some(job) => self.delete_job(&job.metadata).await?,
                None => self.status.remove_active(&active.uid),
            }
        }
        Ok(())
    }

    /// Deletes a Job and its pods.
    async fn delete_job(&mut self, job: &Metadata) -> Result<(), Failure> {
        let path = format!("{}/{}", collection(&job.namespace), job.name);
        let options = json!({"propagationPolicy": "Background", "preconditions": {"uid": job.uid}});
        let deleted = api_requests::delete_with::<IgnoredAny>(&self.cx.client, &path, &options);
        if let Err(error) = deleted.await {
            let message = format!("Deleted job: {}", api_requests::message(&error));
            self.warn("FailedDelete", &message);
            return Err(error.into());
        }
        self.status.remove_active(&job.uid);
        self.inform("SuccessfulDelete", &format!("Deleted job {}", job.name));
        Ok(())
    }
}
