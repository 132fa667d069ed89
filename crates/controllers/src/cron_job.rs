//! `cronjob-controller`: creates Jobs on a schedule.
//!
//! Promise: at each scheduled time, one Job is created, unless the `CronJob` is suspended, its
//! concurrency policy forbids it, or its deadline has passed. The name of a Job contains its time, so
//! that it is not created twice. Of finished Jobs, only the last ones are kept.
//!
//! Reads: cronjobs, jobs. Writes: jobs, the status of cronjobs, events.
//!
//! Upstream: pkg/controller/cronjob

mod jobs;
mod schedule;
mod view;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::adoption;
use crate::api_requests;
use crate::api_requests::is_namespace_terminating;
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::object_reference::object_reference;
use jobs::{CreatedJob, job_name};
use keel::Clock;
use machinery::PolicyRule;
use runtime::recorder::{EventType, Recorder};
use runtime::{Action, Client, Controller, Failure, Lister, Request};
use schedule::{Due, MissedTimes, Timetable, Zones};
use view::{CronJobStatus, CronJobView, JobReference, JobView};

/// The controller of `CronJob`s.
pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "cronjob-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("cronjob-controller"),
    rules: &[
        PolicyRule::new(&["batch"], &["cronjobs/status"], &["patch"]),
        PolicyRule::new(&["batch"], &["jobs"], &["create", "delete", "get"]),
    ],
    start,
};

/// The number of `CronJob`s that are reconciled at once.
const WORKERS: usize = 5;

struct Context {
    cron_jobs: Lister<CronJobView>,
    jobs: Lister<JobView>,
    client: Client,
    recorder: Recorder,
    zones: Zones,
    /// The schedule of each `CronJob` when it was last reconciled.
    known: Mutex<HashMap<Request, KnownSchedule>>,
    clock: Clock,
}

/// A schedule that was seen by a reconcile.
struct KnownSchedule {
    /// The uid of the `CronJob`, the schedule and the time zone.
    key: [String; 3],
    /// The time at which it replaced another schedule of the same `CronJob`.
    since: Option<keel::Timestamp>,
}

fn start(cx: &ControllerContext) {
    let context = Context {
        cron_jobs: cx.manager.informer::<CronJob>().lister(),
        jobs: cx.manager.informer::<Job>().lister(),
        client: cx.client.clone(),
        recorder: cx.recorder(),
        zones: Zones::default(),
        known: Mutex::default(),
        clock: cx.clock().clone(),
    };
    let controller = Controller::for_::<CronJob>()
        .named(cx.name)
        .owns::<Job>()
        .workers(WORKERS)
        .workers_per_namespace(WORKERS - 1)
        .reconcile(reconcile, context);
    cx.manager.add(controller);
}

async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    let Some(cron_job) = cx.cron_jobs.shared_key(&request)? else {
        cx.lock_known().remove(&request);
        return Ok(Action::Done);
    };
    let rescheduled = cx.rescheduled(&request, &cron_job);
    let jobs = adoption::controlled_by(&cx.jobs, &cron_job.metadata)?;
    let status = cron_job.status.clone();
    let mut sync = Sync { cx: &cx, cron_job: &cron_job, jobs, rescheduled, status };
    let result = sync.run().await;
    // What was observed and done is written, also after an error.
    let written = sync.write_status().await;
    if written.is_ok() {
        // The status has what the deleted Jobs have shown.
        sync.clean_up().await;
    }
    api_requests::requeue_conflict(written.and(result))
}

/// One reconcile of a `CronJob`.
struct Sync<'a> {
    cx: &'a Context,
    cron_job: &'a CronJobView,
    /// The Jobs that the `CronJob` controls.
    jobs: Vec<Arc<JobView>>,
    /// The time at which the present schedule was first seen, if it replaced another one.
    rescheduled: Option<keel::Timestamp>,
    /// The new status.
    status: CronJobStatus,
}

impl Context {
    fn lock_known(&self) -> MutexGuard<'_, HashMap<Request, KnownSchedule>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time at which the schedule of the `CronJob` was changed, if a reconcile has seen that.
    fn rescheduled(&self, request: &Request, cron_job: &CronJobView) -> Option<keel::Timestamp> {
        let spec = &cron_job.spec;
        let zone = spec.time_zone.clone().unwrap_or_default();
        let key = [cron_job.metadata.uid.clone(), spec.schedule.clone(), zone];
        let mut all_known = self.lock_known();
        let since = match all_known.get(request) {
            Some(known) if known.key == key => return known.since,
            Some(known) if known.key[0] == key[0] => Some(self.clock.now()),
            _ => None,
        };
        all_known.insert(request.clone(), KnownSchedule { key, since });
        since
    }

    /// The scheduled times of a `CronJob` that is not suspended; `None` if they are not valid.
    fn timetable(&self, cron_job: &CronJobView) -> Option<Timetable> {
        if cron_job.metadata.is_deleting() {
            return None;
        }
        let spec = &cron_job.spec;
        if let Some(name) = &spec.time_zone
            && self.zones.get(name).is_none()
        {
            let message = format!("invalid timeZone: {name:?}: unknown time zone {name}");
            self.record(cron_job, EventType::Warning, "UnknownTimeZone", &message);
            return None;
        }
        if spec.suspend == Some(true) {
            return None;
        }
        if spec.schedule.contains("TZ") {
            let message = format!(
                "CRON_TZ or TZ used in schedule {:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
                spec.schedule
            );
            self.record(cron_job, EventType::Warning, "UnsupportedSchedule", &message);
        }
        match Timetable::parse(&spec.schedule, spec.time_zone.as_deref(), &self.zones) {
            Ok(timetable) => Some(timetable),
            Err(why) => {
                let message = format!("unparseable schedule: {:?} : {why}", spec.schedule);
                self.record(cron_job, EventType::Warning, "UnparseableSchedule", &message);
                None
            }
        }
    }

    fn record(&self, cron_job: &CronJobView, event_type: EventType, reason: &str, message: &str) {
        let regarding = object_reference("batch/v1", "CronJob", &cron_job.metadata);
        self.recorder.record_about(regarding, event_type, reason, message);
    }
}

impl Sync<'_> {
    async fn run(&mut self) -> Result<Action, Failure> {
        self.observe_jobs();
        self.forget_missing_jobs();
        let Some(timetable) = self.cx.timetable(self.cron_job) else { return Ok(Action::Done) };
        let now = self.cx.clock.now();
        let due = match timetable.due(self.cron_job, now) {
            Ok(due) => due,
            Err(why) => {
                let message = format!("invalid schedule: {} : {why}", self.cron_job.spec.schedule);
                self.warn("InvalidSchedule", &message);
                return Ok(Action::Done);
            }
        };
        // A change of the schedule concerns future times, not those since the last Job.
        let is_new = |due: &Due| self.rescheduled.is_none_or(|since| due.is_after(since));
        if let Some(due) = due.filter(is_new) {
            self.start_job(&timetable, &due).await?;
        }
        Ok(timetable.requeue_after(self.cron_job, self.status.last_schedule_time.as_ref(), now))
    }

    /// Removes finished Jobs from the active ones.
    fn observe_jobs(&mut self) {
        for job in self.jobs.clone() {
            let is_known = self.status.is_active(&job.metadata.uid);
            let name = &job.metadata.name;
            let Some(end) = job.end() else {
                if !is_known {
                    let message =
                        format!("Saw a job that the controller did not create or forgot: {name}");
                    self.warn("UnexpectedJob", &message);
                }
                continue;
            };
            if is_known {
                self.status.remove_active(&job.metadata.uid);
                let message = format!("Saw completed job: {name}, condition: {end}");
                self.inform("SawCompletedJob", &message);
            }
            if end == "Complete" {
                let last = self.status.last_successful_time.as_ref();
                let is_later =
                    |last| job.status.completion_time.as_ref().is_some_and(|it| it > last);
                if last.is_none_or(is_later) {
                    self.status.last_successful_time.clone_from(&job.status.completion_time);
                }
            }
        }
    }

    /// Removes Jobs that do not exist any more from the active ones.
    fn forget_missing_jobs(&mut self) {
        let children: HashSet<&str> =
            self.jobs.iter().map(|job| job.metadata.uid.as_str()).collect();
        let (jobs, namespace) = (self.cx.jobs.indexer(), &self.cron_job.metadata.namespace);
        let exists = |active: &JobReference| {
            children.contains(active.uid.as_str())
                || jobs
                    .get(&Request::new(namespace, &active.name))
                    .is_some_and(|job| job.uid() == active.uid)
        };
        let missing: Vec<JobReference> =
            self.status.active.iter().filter(|it| !exists(it)).cloned().collect();
        for job in missing {
            self.inform("MissingJob", &format!("Active job went missing: {}", job.name));
            self.status.remove_active(&job.uid);
        }
    }

    /// Creates the Job that is due, if the policies allow it and no other object has its name.
    async fn start_job(&mut self, timetable: &Timetable, due: &Due) -> Result<(), Failure> {
        let spec = &self.cron_job.spec;
        if due.missed == MissedTimes::Many {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.warn("TooManyMissedTimes", message);
        }
        if due.is_too_late(spec.starting_deadline_seconds, self.cx.clock.now()) {
            let message = format!("Missed scheduled time to start a job: {}", due.rfc1123());
            self.warn("MissSchedule", &message);
            return Ok(());
        }
        let name = job_name(&self.cron_job.metadata.name, due.time);
        let namespace = &self.cron_job.metadata.namespace;
        let is_active = |it: &JobReference| it.name == name && it.namespace == *namespace;
        let last = self.status.last_schedule_time.as_ref().map(|it| it.0.as_second());
        if self.status.active.iter().any(is_active) || last == Some(due.time.as_second()) {
            return Ok(());
        }
        match spec.concurrency_policy.as_str() {
            "Forbid" if !self.status.active.is_empty() => {
                let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.inform("JobAlreadyActive", message);
                return Ok(());
            }
            "Replace" => self.delete_active().await?,
            _ => {}
        }
        if let Some(job) = self.create_job(timetable, due, &name).await? {
            self.status.active.push(JobReference::to(&job.metadata));
            self.status.last_schedule_time = Some(Time(due.time));
        }
        Ok(())
    }

    /// Creates a Job, or finds the one that was created before the status could be written. `None` if
    /// the Job of another owner has the name.
    async fn create_job(
        &self,
        timetable: &Timetable,
        due: &Due,
        name: &str,
    ) -> Result<Option<CreatedJob>, Failure> {
        let metadata = &self.cron_job.metadata;
        let time = timetable.rfc3339(due.time);
        let job = jobs::new_job(self.cron_job, name, &time);
        let collection = jobs::collection(&metadata.namespace);
        let created = api_requests::create(&self.cx.client, &collection, &job).await;
        match created {
            Ok(job) => {
                self.inform("SuccessfulCreate", &format!("Created job {name}"));
                Ok(Some(job))
            }
            Err(error) if is_namespace_terminating(&error) => Err(error.into()),
            Err(error) if api_requests::has_reason(&error, "AlreadyExists") => {
                let path = format!("{collection}/{name}");
                let found: Option<CreatedJob> = api_requests::get(&self.cx.client, &path).await?;
                let found = found.ok_or(error)?;
                let is_own = found.metadata.controller().is_some_and(|it| it.uid == metadata.uid);
                Ok(is_own.then_some(found))
            }
            Err(error) => {
                let message = format!("Error creating job: {}", api_requests::message(&error));
                self.warn("FailedCreate", &message);
                Err(error.into())
            }
        }
    }

    async fn write_status(&self) -> Result<(), Failure> {
        if self.status == self.cron_job.status {
            return Ok(());
        }
        let metadata = &self.cron_job.metadata;
        let path = format!(
            "/apis/batch/v1/namespaces/{}/cronjobs/{}/status",
            metadata.namespace, metadata.name
        );
        let patch = json!({
            "metadata": metadata.precondition(),
            "status": self.status.patch(),
        });
        api_requests::merge::<IgnoredAny>(&self.cx.client, &path, &patch).await?;
        Ok(())
    }

    fn inform(&self, reason: &str, message: &str) {
        self.cx.record(self.cron_job, EventType::Normal, reason, message);
    }

    fn warn(&self, reason: &str, message: &str) {
        self.cx.record(self.cron_job, EventType::Warning, reason, message);
    }
}
