//! The delay before failed pods are replaced: 10 s after the first failure, doubled with each
//! further one, at most 10 minutes. A pod that succeeds ends the series of failures.
//!
//! The series is kept in memory: after a restart, the delay begins anew.
//!
//! Upstream: `backoff_utils.go`

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::view::{ContainerStatus, JobPod};
use crate::metadata::Metadata;
use crate::time;
use keel::{Clock, Timestamp};
use runtime::Request;

const FIRST_DELAY: Duration = Duration::from_secs(10);
const LAST_DELAY: Duration = Duration::from_mins(10);

/// The failures of a Job's pods since the last one that succeeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FailureSeries {
    failures: usize,
    last: Timestamp,
}

/// The series of all Jobs whose last pods have failed, each with the uid of its Job.
#[derive(Default)]
pub(super) struct FailureStore(Mutex<HashMap<Request, (String, FailureSeries)>>);

impl FailureStore {
    /// The series of a Job.
    pub(super) fn get(&self, job: &Metadata) -> FailureSeries {
        let series = self.lock();
        let found = series.get(&key(job)).filter(|(uid, _)| *uid == job.uid);
        found.map(|(_, series)| *series).unwrap_or_default()
    }

    /// Replaces the series of a Job, or that of a former one of its name.
    pub(super) fn set(&self, job: &Metadata, new: FailureSeries) {
        match new.failures {
            0 => self.lock().remove(&key(job)),
            _ => self.lock().insert(key(job), (job.uid.clone(), new)),
        };
    }

    /// Forgets a Job that has ended or was deleted.
    pub(super) fn remove(&self, job: &Request) {
        self.lock().remove(job);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Request, (String, FailureSeries)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(job: &Metadata) -> Request {
    Request::new(&job.namespace, &job.name)
}

impl FailureSeries {
    /// The series after further pods have ended.
    pub(super) fn after(self, succeeded: &[&Arc<JobPod>], failed: &[&Arc<JobPod>]) -> Self {
        let mut failures: Vec<Timestamp> = failed.iter().map(|pod| finish_time(pod)).collect();
        let mut series = self;
        if let Some(success) = succeeded.iter().map(|pod| finish_time(pod)).max() {
            failures.retain(|failure| *failure > success);
            series = Self::default();
        }
        series.failures += failures.len();
        series.last = failures.into_iter().max().unwrap_or(series.last);
        series
    }

    /// The time until a pod may be created.
    pub(super) fn remaining(&self, clock: &Clock) -> Duration {
        remaining(self.failures, self.last, clock)
    }
}

/// The time until the pod of an index may be replaced, which was the last that failed.
pub(super) fn remaining_of_index(failed: &JobPod, clock: &Clock) -> Duration {
    remaining(failed.all_index_failures() + 1, finish_time(failed), clock)
}

fn remaining(failures: usize, last: Timestamp, clock: &Clock) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let factor = 1_u32.checked_shl(u32::try_from(doublings).unwrap_or(u32::MAX));
    let delay = factor.map_or(LAST_DELAY, |factor| FIRST_DELAY.saturating_mul(factor));
    delay.min(LAST_DELAY).saturating_sub(clock.now().since(last))
}

/// The time at which a pod has ended: that of its last container, or else that of the condition
/// `Ready` or of the deletion.
pub(super) fn finish_time(pod: &JobPod) -> Timestamp {
    let ready = pod.ready_condition().filter(|it| it.status == "False");
    let not_ready = || Some(time::to_timestamp(ready?.last_transition_time.as_ref()?));
    let metadata = &pod.metadata;
    let deleted = || {
        let grace = u64::try_from(metadata.deletion_grace_period_seconds.unwrap_or(0)).ok()?;
        let at = time::to_timestamp(metadata.deletion_timestamp.as_ref()?);
        Some(at - Duration::from_secs(grace))
    };
    let created = || metadata.creation_timestamp.as_ref().map(time::to_timestamp);
    let found = containers_end(pod).or_else(not_ready).or_else(deleted).or_else(created);
    found.unwrap_or_default()
}

/// The end of the last container; `None` if one has not ended.
fn containers_end(pod: &JobPod) -> Option<Timestamp> {
    let is_sidecar = |status: &&ContainerStatus| {
        let mut containers = pod.spec.init_containers.iter();
        containers.any(|it| it.name == status.name && it.restart_policy == "Always")
    };
    let sidecars = pod.status.init_container_statuses.iter().filter(is_sidecar);
    let mut last = None;
    for status in pod.status.container_statuses.iter().chain(sidecars) {
        let ended = status.state.terminated.as_ref()?.finished_at.as_ref()?;
        last = last.max(Some(time::to_timestamp(ended)));
    }
    last
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A second on 2024-01-01.
    const MIDNIGHT: i64 = 1_704_067_200;

    fn pod(pod: Value) -> Arc<JobPod> {
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn ended(time: &str) -> Arc<JobPod> {
        let state = json!({"terminated": {"finishedAt": format!("2024-01-01T{time}Z")}});
        pod(json!({"status": {"containerStatuses": [{"state": state}]}}))
    }

    #[test]
    fn the_delay_doubles_up_to_ten_minutes() {
        let clock = Clock::manual(Timestamp::from_seconds(MIDNIGHT + 4));
        let last = Timestamp::from_seconds(MIDNIGHT);
        for (failures, expected) in
            [(0, 0), (1, 6), (2, 16), (3, 36), (6, 316), (7, 596), (99, 596)]
        {
            let series = FailureSeries { failures, last };
            assert_eq!(series.remaining(&clock), Duration::from_secs(expected), "{failures}");
        }
        clock.advance(Duration::from_mins(10));
        assert_eq!(FailureSeries { failures: 99, last }.remaining(&clock), Duration::ZERO);
    }

    #[test]
    fn a_success_ends_the_series_of_earlier_failures() {
        let series = FailureSeries::default();
        let (early, middle, late) = (ended("01:00:00"), ended("02:00:00"), ended("03:00:00"));
        let series = series.after(&[], &[&early]);
        assert_eq!(series.failures, 1);
        let series = series.after(&[], &[&late, &middle]);
        assert_eq!((series.failures, series.last), (3, finish_time(&late)));
        assert_eq!(series.after(&[&late], &[]), FailureSeries::default());
        let series = series.after(&[&middle], &[&early, &late]);
        assert_eq!((series.failures, series.last), (1, finish_time(&late)));
    }

    #[test]
    fn the_series_of_a_deleted_job_is_forgotten() {
        let job = |uid: &str| Metadata {
            namespace: "n".to_owned(),
            name: "j".to_owned(),
            uid: uid.to_owned(),
            ..Metadata::default()
        };
        let (store, series) = (FailureStore::default(), FailureSeries::default());
        let series = series.after(&[], &[&ended("01:00:00")]);
        store.set(&job("1"), series);
        assert_eq!(store.get(&job("1")), series);
        assert_eq!(store.get(&job("2")), FailureSeries::default(), "another Job of the name");
        store.remove(&Request::new("n", "j"));
        assert_eq!(store.get(&job("1")), FailureSeries::default());
    }

    #[test]
    fn the_finish_time_is_estimated_if_containers_do_not_show_it() {
        let seconds = |found: Value| finish_time(&pod(found)).seconds() - MIDNIGHT;
        let created = json!({"creationTimestamp": "2024-01-01T00:00:05Z"});
        assert_eq!(seconds(json!({"metadata": created})), 5);
        let deleted = json!({"creationTimestamp": "2024-01-01T00:00:05Z",
            "deletionTimestamp": "2024-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30});
        assert_eq!(seconds(json!({"metadata": deleted})), 30);
        let unready = json!([{"type": "Ready", "status": "False",
            "lastTransitionTime": "2024-01-01T00:00:20Z"}]);
        let running = json!([{"name": "main", "state": {"running": {}}}]);
        let status = json!({"conditions": unready, "containerStatuses": running});
        assert_eq!(seconds(json!({"metadata": deleted, "status": status})), 20);
        let end =
            |at: &str| json!({"terminated": {"finishedAt": format!("2024-01-01T00:00:{at}Z")}});
        let status = json!({"conditions": unready,
            "containerStatuses": [{"name": "main", "state": end("07")}],
            "initContainerStatuses": [{"name": "side", "state": end("09")},
                {"name": "first", "state": end("50")}]});
        let spec = json!({"initContainers": [{"name": "side", "restartPolicy": "Always"},
            {"name": "first"}]});
        assert_eq!(seconds(json!({"spec": spec, "status": status})), 9);
    }
}
