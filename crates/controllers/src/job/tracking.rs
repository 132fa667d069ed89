//! [`Tracking`]: counts the pods that have ended, each exactly once, also if the controller stops
//! between any two writes.
//!
//! ```text
//! 1. status: the uids of ended pods are added to uncountedTerminatedPods
//! 2. pods:   the finalizer is removed
//! 3. status: uids of pods without the finalizer leave the list, and the counters grow, in one write
//! ```
//!
//! The succeeded pods of an indexed Job need no uids: their index is added to `completedIndexes`
//! before the finalizer is removed. The conditions `SuccessCriteriaMet` and `FailureTarget` are
//! written in step 1, `Complete` and `Failed` in step 3.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use serde::Deserialize;
use serde_json::json;

use super::evaluation::{Evaluation, action};
use super::policies::FailureAction;
use super::status::{COMPLETE, Condition, FAILED, FAILURE_TARGET, JobStatus, SUCCESS_CRITERIA_MET};
use super::view::{JobPod, JobView};
use super::{Context, remove_finalizer};
use crate::api_requests;
use crate::metadata::Metadata;
use crate::pod_control::PodOwner;
use crate::slow_start::MAX_CONCURRENT;
use runtime::recorder::EventType;
use runtime::{Failure, kube_client};

/// The largest number of uids in the status, and of pods that are counted at once.
const MAX_UNCOUNTED: usize = 500;

/// See the [module documentation](self).
pub(super) struct Tracking<'a> {
    /// The controller.
    pub cx: &'a Context,
    /// The Job.
    pub job: &'a JobView,
    /// The Job as the owner of its pods.
    pub owner: &'a PodOwner<'a>,
    /// What its pods mean.
    pub evaluation: &'a Evaluation,
    /// The status at the server.
    pub written: JobStatus,
    /// The version of the Job at the server.
    pub version: String,
}

/// The pods that lose their finalizer.
#[derive(Default)]
struct Batch<'a> {
    pods: Vec<&'a Arc<JobPod>>,
    /// Whether further pods have to wait for the next reconcile.
    is_full: bool,
}

impl<'a> Tracking<'a> {
    /// Writes the new status and counts pods.
    pub(super) async fn run(&mut self, mut status: JobStatus) -> Result<(), Failure> {
        let pods = &self.evaluation.pods;
        let tracked = pods.iter().filter(|pod| pod.is_tracked());
        let mut tracked: HashSet<&str> = tracked.map(|pod| pod.metadata.uid.as_str()).collect();
        status.count_pods_without_finalizer(&tracked);
        let batch = self.collect(&mut status);
        if let Some(indexes) = &self.evaluation.indexes {
            status.succeeded = indexes.succeeded.len();
            status.completed_indexes = indexes.succeeded.to_string();
            status.failed_indexes = indexes.failed.as_ref().map(ToString::to_string);
        }
        let end = self.add_interim_condition(&mut status);
        if self.written != status {
            self.write(&status).await?;
            self.cx.failures.set(&self.job.metadata, self.evaluation.series);
        }
        let (mut failed, client) = (None, &self.cx.client);
        let remove = async |pod| (pod, remove_finalizer(client, pod).await);
        let requests: Vec<_> = batch.pods.iter().map(|pod| remove(*pod)).collect();
        let mut removals = stream::iter(requests).buffer_unordered(MAX_CONCURRENT);
        while let Some((pod, result)) = removals.next().await {
            match result {
                Ok(()) => _ = tracked.remove(pod.metadata.uid.as_str()),
                Err(error) => failed = Some(error),
            }
        }
        status.count_pods_without_finalizer(&tracked);
        let end = end.filter(|_| failed.is_none() && !batch.is_full && may_finish(&status));
        if let Some(end) = &end {
            if end.type_ == COMPLETE {
                status.completion_time.clone_from(&end.last_transition_time);
            }
            status.set_condition(end.clone());
        }
        if self.written != status {
            self.write(&status).await?;
        }
        if let Some(end) = &end {
            self.record_end(&status, end);
        }
        failed.map_or(Ok(()), |error: kube_client::Error| Err(error.into()))
    }

    /// The pods that can lose their finalizer. Those that are counted by their uid are added to the
    /// uncounted ones.
    fn collect(&self, status: &mut JobStatus) -> Batch<'a> {
        let evaluation = self.evaluation;
        let mut pods: Vec<&Arc<JobPod>> = evaluation.pods.iter().collect();
        if evaluation.indexes.is_some() {
            // Indexes are completed in their order if there are more pods than one batch.
            pods.sort_by_key(|pod| pod.index());
        }
        let uncounted = &mut status.uncounted_terminated_pods;
        let known = uncounted.clone();
        let (succeeded, failed): (HashSet<&String>, HashSet<&String>) =
            (known.succeeded.iter().collect(), known.failed.iter().collect());
        let mut batch = Batch::default();
        let mut new_indexes = 0;
        for pod in pods.into_iter().filter(|pod| pod.is_tracked() && self.is_done(pod)) {
            batch.pods.push(pod);
            let uid = &pod.metadata.uid;
            if pod.has_succeeded() && !failed.contains(uid) {
                if let (Some(indexes), Some(limit)) = (&evaluation.indexes, self.job.indexes()) {
                    let index = pod.valid_index(limit);
                    new_indexes += usize::from(index.is_some_and(|it| !indexes.known.contains(it)));
                } else if !succeeded.contains(uid) {
                    uncounted.succeeded.push(uid.clone());
                }
            } else if self.counts_as_failed(pod) && !failed.contains(uid) {
                uncounted.failed.push(uid.clone());
            }
            if new_indexes + uncounted.succeeded.len() + uncounted.failed.len() >= MAX_UNCOUNTED {
                batch.is_full = true;
                break;
            }
        }
        batch
    }

    /// Whether a pod that has not succeeded is counted. When a Job has failed, so have all its pods.
    fn counts_as_failed(&self, pod: &JobPod) -> bool {
        let end = self.evaluation.end.as_ref();
        let is_job_failed = end.is_some_and(|end| end.type_ != SUCCESS_CRITERIA_MET);
        (pod.has_failed(self.job) || is_job_failed)
            && self.job.indexes().is_none_or(|limit| pod.valid_index(limit).is_some())
            && action(self.job, pod) != FailureAction::Ignore
    }

    /// Whether a pod has been evaluated and may lose its finalizer.
    fn is_done(&self, pod: &JobPod) -> bool {
        if self.job.metadata.is_deleting() || self.evaluation.end.is_some() || pod.has_succeeded() {
            return true;
        }
        let indexes = self.evaluation.indexes.as_ref();
        let replaced = indexes.zip(pod.index()).and_then(|(it, index)| it.replaced.get(&index));
        pod.has_failed(self.job) && replaced.is_none_or(|it| it.metadata.uid != pod.metadata.uid)
    }

    /// Adds the condition that precedes the last one, and returns the last one.
    fn add_interim_condition(&self, status: &mut JobStatus) -> Option<Condition> {
        let end = self.evaluation.end.as_ref()?;
        let type_ = match end.type_.as_str() {
            FAILURE_TARGET => FAILED,
            SUCCESS_CRITERIA_MET => COMPLETE,
            _ => return Some(end.clone()),
        };
        if status.true_condition(&end.type_).is_none() {
            status.conditions.push(end.clone());
        }
        Some(end.followed_by(type_, &self.cx.clock))
    }

    /// Writes the status, unless the Job was changed by others in the meantime.
    async fn write(&mut self, status: &JobStatus) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Written {
            metadata: Metadata,
        }
        let metadata = &self.job.metadata;
        let path = format!("{}/status", super::path(metadata));
        let patch = json!({
            "metadata": {"uid": metadata.uid, "resourceVersion": self.version},
            "status": status.patch_from(&self.written),
        });
        let written = api_requests::merge::<Written>(&self.cx.client, &path, &patch).await?;
        self.version = written.metadata.resource_version;
        self.written = status.clone();
        Ok(())
    }

    fn record_end(&self, status: &JobStatus, end: &Condition) {
        let record = |event_type, reason: &str, message: &str| {
            let regarding = self.owner.object_reference();
            self.cx.pod_control.recorder.record_about(regarding, event_type, reason, message);
        };
        if end.type_ == FAILED {
            return record(EventType::Warning, &end.reason, &end.message);
        }
        if self.job.completions().is_some_and(|wanted| status.succeeded > wanted) {
            let message = "Too many succeeded pods running after completion count reached";
            record(EventType::Warning, "TooManySucceededPods", message);
        }
        record(EventType::Normal, "Completed", "Job completed");
    }
}

/// Whether all pods are counted and none is being deleted.
fn may_finish(status: &JobStatus) -> bool {
    let uncounted = &status.uncounted_terminated_pods;
    uncounted.succeeded.is_empty()
        && uncounted.failed.is_empty()
        && status.terminating.unwrap_or(0) == 0
}
