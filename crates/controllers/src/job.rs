//! `job-controller`: runs pods until enough of them have succeeded.
//!
//! Promise: a Job has at most `parallelism` active pods, and at most as many as completions are
//! missing. Each pod that ends is counted exactly once, since it keeps a finalizer until the status
//! contains it. A Job that has ended has the condition `Complete` or `Failed` with the reason, and no
//! active pods.
//!
//! Reads: jobs, pods. Writes: pods (also their finalizer and owner), the status of jobs, events.
//!
//! ```text
//! pods ─▶ Evaluation: how many succeeded, does the Job end ─▶ pods are created or deleted ─▶ Tracking
//! ```
//!
//! Pods with the finalizer whose Job has been deleted or has ended lose it.
//! Upstream: pkg/controller/job

mod backoff;
mod evaluation;
mod indexes;
mod pods;
mod policies;
mod status;
mod tracking;
mod view;

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::adoption::{self, Claimer};
use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::{Metadata, OwnerReference};
use crate::pod_control::{PodControl, PodOwner, collection};
use crate::slow_start::MAX_CONCURRENT;
use crate::time;
use backoff::FailureStore;
use evaluation::Evaluation;
use keel::Clock;
use machinery::PolicyRule;
use pods::PodCounts;
use runtime::informer::Item;
use runtime::informer::work_queue::RateLimits;
use runtime::recorder::EventType;
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Request, kube_client};
use status::{Condition, JobStatus, SUCCESS_CRITERIA_MET, SUSPENDED};
use tracking::Tracking;
use view::{JobPod, JobView, TRACKING_FINALIZER};

/// The controller of Jobs.
pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "job-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("job-controller"),
    rules: &[
        PolicyRule::new(&["batch"], &["jobs"], &["get"]),
        PolicyRule::new(&["batch"], &["jobs/status"], &["patch"]),
        PolicyRule::new(&[""], &["pods"], &["create", "delete", "patch"]),
    ],
    start,
};

/// The number of Jobs that are reconciled at once.
const WORKERS: usize = 5;

/// The longest delay after the first failure of a Job, and after many failures.
// Upstream: job_controller.go DefaultJobApiBackOff, MaxJobApiBackOff
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// The index of pods with the finalizer, by the key of their Job. Those without a controller have
/// the key of their namespace with an empty name, which is reconciled as well.
const TRACKED_INDEX: &str = "job-tracked";

struct Context {
    jobs: Lister<JobView>,
    pods: Lister<JobPod>,
    client: Client,
    pod_control: PodControl,
    failures: FailureStore,
    clock: Clock,
}

fn start(cx: &ControllerContext) {
    let (jobs, pods) = (cx.manager.informer::<Job>(), cx.manager.informer::<Pod>());
    adoption::add_orphan_index(&pods);
    pods.indexer().add_index(TRACKED_INDEX, |pod| {
        tracked_key(pod).map(|key| key.to_string()).into_iter().collect()
    });
    let context = Context {
        jobs: jobs.lister(),
        pods: pods.lister(),
        client: cx.client.clone(),
        pod_control: PodControl { client: cx.client.clone(), recorder: cx.recorder() },
        failures: FailureStore::default(),
        clock: cx.clock().clone(),
    };
    let limits = RateLimits {
        backoff_base: BACKOFF.0,
        backoff_cap: BACKOFF.1,
        // Upstream limits the retries of each Job, and not those of all Jobs together.
        interval: Duration::ZERO,
        ..RateLimits::default()
    };
    let controller = Controller::for_::<Job>()
        .named(cx.name)
        .back_off(limits)
        .owns::<Pod>()
        .watches::<Pod>(adoption::adopters(jobs.indexer()))
        .when(adoption::may_be_adopted(jobs.indexer()))
        .watches::<Pod>(tracked_orphans())
        .workers(WORKERS)
        .workers_per_namespace(WORKERS - 1)
        .reconcile(reconcile, context);
    cx.manager.add(controller);
}

#[derive(Deserialize)]
struct Owned {
    metadata: Metadata,
}

/// The value of a pod in the [`TRACKED_INDEX`].
fn tracked_key(pod: &Item) -> Option<Request> {
    let Owned { metadata } = pod.decode().ok()?;
    if !metadata.finalizers.iter().any(|it| it == TRACKING_FINALIZER) {
        return None;
    }
    match metadata.controller() {
        None => Some(Request::new(pod.namespace(), "")),
        Some(owner) if owner.kind == "Job" && owner.api_version == "batch/v1" => {
            Some(Request::new(pod.namespace(), &owner.name))
        }
        Some(_) => None,
    }
}

/// Maps a pod without a controller that has the finalizer to the key of its namespace.
fn tracked_orphans() -> Mapper {
    Mapper::custom(|pod| {
        let key = adoption::is_orphan(pod).then(|| tracked_key(pod)).flatten();
        key.into_iter().collect()
    })
}

async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    let job = cx.jobs.shared_key(&request)?;
    cx.release_finalizers(&request, job.as_deref()).await?;
    let Some(job) = job.filter(|job| !job.status.is_finished()) else {
        cx.failures.remove(&request);
        return Ok(Action::Done);
    };
    if job.is_managed_externally() {
        return Ok(Action::Done);
    }
    let reference = OwnerReference::controller("batch/v1", "Job", &job.metadata);
    let owner = PodOwner { metadata: &job.metadata, reference };
    let pods = cx.claim_pods(&job, &owner).await?;
    api_requests::requeue_conflict(cx.sync(&job, &owner, pods).await)
}

impl Context {
    /// Removes the finalizer of the pods whose Job was deleted or has ended.
    async fn release_finalizers(
        &self,
        request: &Request,
        job: Option<&JobView>,
    ) -> Result<(), Failure> {
        let pods = self.pods.shared_by_index(TRACKED_INDEX, &request.to_string())?.objects;
        let is_left = |pod: &&Arc<JobPod>| {
            let controller = pod.metadata.controller();
            let job = job.filter(|job| controller.is_some_and(|it| it.uid == job.metadata.uid));
            // Other controllers remove the finalizer by their own rules.
            job.is_none_or(|job| job.status.is_finished() && !job.is_managed_externally())
        };
        let left = pods.iter().filter(is_left);
        let requests: Vec<_> = left.map(|pod| remove_finalizer(&self.client, pod)).collect();
        let mut removals = stream::iter(requests).buffer_unordered(MAX_CONCURRENT);
        let mut failed = None;
        while let Some(result) = removals.next().await {
            failed = failed.or(result.err());
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// The pods of the Job, also those that have ended or are being deleted.
    async fn claim_pods(
        &self,
        job: &JobView,
        owner: &PodOwner<'_>,
    ) -> Result<Vec<Arc<JobPod>>, Failure> {
        let selector = job.selector().map_err(Failure::permanent)?;
        let path = path(&job.metadata);
        let claimer = Claimer::of_pods(&self.client, owner, &path, &selector);
        claimer.claim_with(&self.pods, |_| true, Some(TRACKING_FINALIZER)).await
    }

    /// Creates and deletes pods, and writes the status.
    async fn sync(
        &self,
        job: &JobView,
        owner: &PodOwner<'_>,
        pods: Vec<Arc<JobPod>>,
    ) -> Result<Action, Failure> {
        let mut status = job.status.clone();
        if status.start_time.is_none() && !job.is_suspended() {
            status.start_time = Some(time::now(&self.clock));
        }
        let series = self.failures.get(&job.metadata);
        let mut evaluation = Evaluation::of(job, &status, pods, series, &self.clock);
        let mut counts = PodCounts::of(&evaluation.pods);
        if evaluation.end.is_some() {
            self.delete_active(owner, &evaluation, &mut counts).await;
            if counts.active > 0 {
                // Some pods could not be deleted, so the Job has not ended yet.
                evaluation.end = None;
            }
        } else {
            let is_deleting = job.metadata.is_deleting();
            if !is_deleting {
                self.manage(job, owner, &evaluation, &mut counts).await;
            }
            if counts.active == 0 && is_complete(job, evaluation.succeeded) {
                let message = "Reached expected number of succeeded pods";
                let reason = "CompletionsReached";
                let met = Condition::new(SUCCESS_CRITERIA_MET, reason, message, &self.clock);
                evaluation.end = Some(met);
            } else if !is_deleting {
                self.set_suspended(job, owner, &mut status);
            }
        }
        status.active = counts.active;
        status.ready = Some(counts.ready);
        status.terminating = Some(counts.terminating);
        let mut tracking = Tracking {
            cx: self,
            job,
            owner,
            evaluation: &evaluation,
            written: job.status.clone(),
            version: job.metadata.resource_version.clone(),
        };
        tracking.run(status).await?;
        if let Some(error) = counts.failed {
            return Err(error.into());
        }
        let delays = evaluation.deadline.into_iter().chain(counts.retry);
        Ok(delays.min().map_or(Action::Done, |delay: Duration| Action::RequeueAfter(delay)))
    }

    /// Sets the condition `Suspended`. A Job that is resumed starts again.
    fn set_suspended(&self, job: &JobView, owner: &PodOwner<'_>, status: &mut JobStatus) {
        let suspends = job.is_suspended();
        let (reason, event, message) = if suspends {
            ("JobSuspended", "Suspended", "Job suspended")
        } else {
            ("JobResumed", "Resumed", "Job resumed")
        };
        let mut condition = Condition::new(SUSPENDED, reason, message, &self.clock);
        if !suspends {
            "False".clone_into(&mut condition.status);
        }
        if !status.set_condition(condition) {
            return;
        }
        if !suspends {
            status.start_time = Some(time::now(&self.clock));
        }
        let recorder = &self.pod_control.recorder;
        recorder.record_about(owner.object_reference(), EventType::Normal, event, message);
    }
}

/// Whether enough pods have succeeded.
fn is_complete(job: &JobView, succeeded: usize) -> bool {
    match job.completions() {
        Some(completions) => succeeded >= completions,
        None => succeeded > 0,
    }
}

/// The path of a Job.
fn path(job: &Metadata) -> String {
    format!("/apis/batch/v1/namespaces/{}/jobs/{}", job.namespace, job.name)
}

/// Removes the finalizer of a pod. A pod that does not exist any more is not an error.
async fn remove_finalizer(client: &Client, pod: &JobPod) -> Result<(), kube_client::Error> {
    if !pod.is_tracked() {
        return Ok(());
    }
    let metadata = &pod.metadata;
    let path = format!("{}/{}", collection(&metadata.namespace), metadata.name);
    // The uid makes sure that no other pod of the same name is changed.
    let patch = json!({"metadata": {
        "uid": metadata.uid,
        "$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER],
    }});
    let removed = api_requests::strategic_merge::<IgnoredAny>(client, &path, &patch).await;
    // Any other error is one: a pod that still has the finalizer would be counted again.
    api_requests::none_if_missing(removed).map(|_| ())
}
