//! [`Evaluation`]: what the pods of a Job mean for it: the numbers that succeeded and failed, and
//! whether the Job has ended.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::backoff::{FailureSeries, finish_time};
use super::indexes::IndexSet;
use super::policies::FailureAction;
use super::status::{Condition, FAILED, FAILURE_TARGET, JobStatus, SUCCESS_CRITERIA_MET};
use super::view::{INDEX_FAILURES, JobPod, JobView, count};
use crate::time;
use keel::Clock;

/// See the [module documentation](self).
pub(super) struct Evaluation {
    /// The pods of the Job.
    pub pods: Vec<Arc<JobPod>>,
    /// The number of pods, or of indexes, that succeeded.
    pub succeeded: usize,
    /// The indexes of an indexed Job.
    pub indexes: Option<Indexes>,
    /// Why the Job has ended or will end, if so.
    pub end: Option<Condition>,
    /// The failures since the last success.
    pub series: FailureSeries,
    /// The time until the Job exceeds its deadline.
    pub deadline: Option<Duration>,
}

/// The indexes of an indexed Job.
#[derive(Default)]
pub(super) struct Indexes {
    /// The indexes that had succeeded according to the status.
    pub known: IndexSet,
    /// The indexes that have succeeded.
    pub succeeded: IndexSet,
    /// The indexes that have failed, if each index has a limit.
    pub failed: Option<IndexSet>,
    /// The last failed pod of each index whose pod is to be replaced, if each index has a limit. Its
    /// finalizer stays until the new pod has its number of failures.
    pub replaced: BTreeMap<usize, Arc<JobPod>>,
}

impl Evaluation {
    /// Evaluates the pods of a Job with this status.
    pub(super) fn of(
        job: &JobView,
        status: &JobStatus,
        pods: Vec<Arc<JobPod>>,
        series: FailureSeries,
        clock: &Clock,
    ) -> Self {
        let uncounted = &status.uncounted_terminated_pods;
        let new_succeeded = new_pods(job, &pods, &uncounted.succeeded, JobPod::has_succeeded);
        let new_failed = new_pods(job, &pods, &uncounted.failed, |pod| pod.has_failed(job));
        let counts = |pod: &&&Arc<JobPod>| action(job, pod) != FailureAction::Ignore;
        let counted_failures = new_failed.iter().filter(counts).count();
        let mut evaluation = Self {
            succeeded: status.succeeded + new_succeeded.len() + uncounted.succeeded.len(),
            indexes: None,
            end: None,
            series: series.after(&new_succeeded, &new_failed),
            deadline: None,
            pods: Vec::new(),
        };
        let failed = status.failed + counted_failures + uncounted.failed.len();
        evaluation.pods = pods;
        evaluation.find_end(job, status, failed, clock);
        if let Some(limit) = job.indexes() {
            evaluation.evaluate_indexes(job, status, limit, clock);
        }
        evaluation
    }

    /// An end that was decided before, or else a failure of the whole Job.
    fn find_end(&mut self, job: &JobView, status: &JobStatus, failed: usize, clock: &Clock) {
        if let Some(met) = status.true_condition(SUCCESS_CRITERIA_MET) {
            self.end = Some(met.clone());
        } else if let Some(target) = status.true_condition(FAILURE_TARGET) {
            self.end = Some(target.followed_by(FAILED, clock));
        } else if let Some(message) = self.failure_by_policy(job) {
            let failure = Condition::new(FAILURE_TARGET, "PodFailurePolicy", &message, clock);
            self.end = Some(failure);
        } else if failed > job.backoff_limit() || self.has_too_many_restarts(job) {
            let message = "Job has reached the specified backoff limit";
            let failure = Condition::new(FAILURE_TARGET, "BackoffLimitExceeded", message, clock);
            self.end = Some(failure);
        } else if let Some(left) = until_deadline(job, status, clock) {
            if left.is_zero() {
                let message = "Job was active longer than specified deadline";
                let failure = Condition::new(FAILURE_TARGET, "DeadlineExceeded", message, clock);
                self.end = Some(failure);
            } else {
                self.deadline = Some(left);
            }
        }
    }

    /// The message of the first rule of the policy that fails the Job.
    fn failure_by_policy(&self, job: &JobView) -> Option<String> {
        job.spec.pod_failure_policy.as_ref()?;
        let mut failed = self.pods.iter().filter(|pod| pod.has_failed(job));
        failed.find_map(|pod| match action(job, pod) {
            FailureAction::FailJob(message) => Some(message),
            _ => None,
        })
    }

    /// Whether containers that are started again in their pods have failed too often.
    fn has_too_many_restarts(&self, job: &JobView) -> bool {
        let runs = |pod: &&Arc<JobPod>| matches!(pod.status.phase.as_str(), "Running" | "Pending");
        let restarts: usize = self.pods.iter().filter(runs).map(|pod| pod.restarts()).sum();
        restarts > 0 && restarts >= job.backoff_limit() && job.restarts_on_failure()
    }

    fn evaluate_indexes(&mut self, job: &JobView, status: &JobStatus, limit: usize, clock: &Clock) {
        let known = IndexSet::parse(&status.completed_indexes, limit);
        let tracked = || self.pods.iter().filter(|pod| pod.is_tracked());
        let new = tracked().filter(|pod| pod.has_succeeded());
        let new = IndexSet::of(new.filter_map(|pod| pod.valid_index(limit)));
        let mut indexes = Indexes { succeeded: known.union(&new), known, ..Indexes::default() };
        self.succeeded = indexes.succeeded.len();
        if let Some(allowed) = job.spec.backoff_limit_per_index.map(count) {
            let known = status.failed_indexes.as_deref().unwrap_or_default();
            let new = tracked().filter(|pod| is_index_failed(job, pod, allowed));
            let new = IndexSet::of(new.filter_map(|pod| pod.valid_index(limit)));
            let failed = IndexSet::parse(known, limit).union(&new);
            if self.end.is_none() {
                self.end = failed_indexes(job, &failed, self.succeeded, limit, clock);
            }
            indexes.failed = Some(failed);
            indexes.replaced = replaced_pods(job, &self.pods, &indexes, limit);
        }
        if let (None, Some(policy)) = (&self.end, &job.spec.success_policy)
            && let Some(message) = policy.met_rule(&indexes.succeeded, limit)
        {
            let met = Condition::new(SUCCESS_CRITERIA_MET, "SuccessPolicy", &message, clock);
            self.end = Some(met);
        }
        self.indexes = Some(indexes);
    }
}

/// The end of a Job with too many failed indexes, or in which each index has ended.
fn failed_indexes(
    job: &JobView,
    failed: &IndexSet,
    succeeded: usize,
    limit: usize,
    clock: &Clock,
) -> Option<Condition> {
    let failure = |reason, message| Some(Condition::new(FAILURE_TARGET, reason, message, clock));
    if job.spec.max_failed_indexes.is_some_and(|allowed| failed.len() > count(allowed)) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return failure("MaxFailedIndexesExceeded", message);
    }
    if !failed.is_empty() && failed.len() + succeeded >= limit {
        return failure("FailedIndexes", "Job has failed indexes");
    }
    None
}

/// What the failure of a pod means.
pub(super) fn action(job: &JobView, pod: &JobPod) -> FailureAction {
    let policy = job.spec.pod_failure_policy.as_ref();
    policy.map_or(FailureAction::Count, |policy| policy.action(pod))
}

/// The pods that have ended, are not part of the status yet, and have a valid index if the Job is an
/// indexed one.
fn new_pods<'a>(
    job: &JobView,
    pods: &'a [Arc<JobPod>],
    uncounted: &[String],
    has_ended: impl Fn(&JobPod) -> bool,
) -> Vec<&'a Arc<JobPod>> {
    let uncounted: HashSet<&str> = uncounted.iter().map(String::as_str).collect();
    let is_new = |pod: &&Arc<JobPod>| {
        pod.is_tracked()
            && !uncounted.contains(pod.metadata.uid.as_str())
            && job.indexes().is_none_or(|limit| pod.valid_index(limit).is_some())
            && has_ended(pod)
    };
    pods.iter().filter(is_new).collect()
}

/// The time until the deadline of a running Job.
fn until_deadline(job: &JobView, status: &JobStatus, clock: &Clock) -> Option<Duration> {
    let allowed = Duration::from_secs(job.spec.active_deadline_seconds?);
    let start = status.start_time.as_ref().filter(|_| !job.is_suspended())?;
    Some(allowed.saturating_sub(time::since(clock, start)))
}

/// Whether the failure of a pod is the last one that its index may have.
fn is_index_failed(job: &JobView, pod: &JobPod, allowed: usize) -> bool {
    pod.has_failed(job)
        && match action(job, pod) {
            FailureAction::FailIndex => true,
            FailureAction::Ignore => false,
            _ => pod.annotated_count(INDEX_FAILURES) >= allowed,
        }
}

fn replaced_pods(
    job: &JobView,
    pods: &[Arc<JobPod>],
    indexes: &Indexes,
    limit: usize,
) -> BTreeMap<usize, Arc<JobPod>> {
    let active = active_indexes(pods);
    let mut replaced = BTreeMap::<usize, Arc<JobPod>>::new();
    for pod in pods.iter().filter(|pod| pod.is_tracked() && pod.has_failed(job)) {
        let Some(index) = pod.valid_index(limit) else { continue };
        let has_failed = indexes.failed.as_ref().is_some_and(|failed| failed.contains(index));
        if has_failed || indexes.succeeded.contains(index) || active.contains(index) {
            continue;
        }
        let is_later = |other: &Arc<JobPod>| {
            other.all_index_failures() <= pod.all_index_failures()
                && finish_time(other) <= finish_time(pod)
        };
        if replaced.get(&index).is_none_or(is_later) {
            replaced.insert(index, Arc::clone(pod));
        }
    }
    replaced
}

/// The indexes of the active pods.
pub(super) fn active_indexes(pods: &[Arc<JobPod>]) -> IndexSet {
    let active = pods.iter().filter(|pod| pod.is_active());
    IndexSet::of(active.filter_map(|pod| pod.index()))
}
