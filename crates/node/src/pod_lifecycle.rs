//! The life of a simulated pod: from its present status to the next one.
//!
//! ```text
//! Pending ─▶ ContainerCreating ─▶ init containers in order ─▶ Running ─▶ Succeeded or Failed
//!            start-after            init-duration               │ run-for
//!                                                  restart ◀────┘ with back-off
//! ```
//!
//! The next status depends only on the pod and the time, so that a restart of the process continues
//! where the status ends. Steps that take no time are one change: an ordinary pod becomes Running by
//! one write.

use std::time::Duration;

use crate::commands;
use crate::pod_conditions;
use crate::pod_plan::PodPlan;
use crate::pod_resize::{self, Resize};
use crate::pod_view::{Container, ContainerState, ContainerStatus, PodStatus, PodView, Terminated};
use crate::pod_waiting;
use crate::time;
use keel::Timestamp;

/// The first delay of a restart, which doubles with each further restart.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
/// The largest delay of a restart.
const MAX_BACKOFF: Duration = Duration::from_mins(5);
/// A container that has run for this time is restarted at once.
const BACKOFF_RESET: Duration = Duration::from_mins(10);

/// The next status of a pod, and the time until it changes again.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The status.
    pub status: PodStatus,
    /// The time until the next change; `None` if only a change of the pod leads to one.
    pub wake_after: Option<Duration>,
}

/// Computes the next statuses of one pod.
pub(crate) struct PodLifecycle<'a> {
    pod: &'a PodView,
    plan: &'a PodPlan<'a>,
    now: Timestamp,
    now_text: String,
    wake_after: Option<Duration>,
}

impl<'a> PodLifecycle<'a> {
    /// The life of a pod at this time.
    pub(crate) fn new(pod: &'a PodView, plan: &'a PodPlan<'a>, now: Timestamp) -> Self {
        Self { pod, plan, now, now_text: time::seconds(now), wake_after: None }
    }

    /// The next status of a pod that is not being deleted and has not ended.
    pub(crate) fn advance(mut self) -> Progress {
        let mut status = self.pod.status.clone();
        status.observed_generation = self.pod.metadata.generation;
        let start = status.start_time.get_or_insert_with(|| self.now_text.clone()).clone();
        let deadline = self.pod.spec.active_deadline_seconds.map(Duration::from_secs);
        if deadline.is_some_and(|deadline| self.has_passed(&start, deadline)) {
            return Progress { status: self.exceeded(), wake_after: None };
        }
        let is_created = self.creating_reason().is_none()
            && self.plan.missing.volume.is_none()
            && self.has_passed(&start, self.plan.start_after);
        let spec = &self.pod.spec;
        let (init, is_initialized) = self.init_containers(is_created);
        status.init_container_statuses = init;
        let has_failed = self.has_failed(&status);
        status.container_statuses = self.containers(is_initialized, has_failed);
        status.ephemeral_container_statuses = self.ephemeral_containers(is_created);
        let exit_code =
            |status: &ContainerStatus| Some(status.state.terminated.as_ref()?.exit_code);
        let codes: Option<Vec<i32>> = status.container_statuses.iter().map(exit_code).collect();
        let phase = match codes {
            _ if has_failed => "Failed",
            Some(codes) if codes.iter().all(|code| *code == 0) => "Succeeded",
            Some(_) => "Failed",
            None if is_initialized && !status.container_statuses.iter().any(never_ran) => "Running",
            None => "Pending",
        };
        phase.clone_into(&mut status.phase);
        let is_finished = phase == "Succeeded" || phase == "Failed";
        if is_finished {
            self.wake_after = None;
            self.end_sidecars(&mut status, |_| 0);
        }
        pod_conditions::set_all(&mut status, spec, is_created && !is_finished, &self.now_text);
        let pending = match &self.plan.resize {
            Resize::Pending(pending) if !is_finished => Some(pending),
            _ => None,
        };
        pod_conditions::set_resize(&mut status, pending, &self.now_text);
        Progress { status, wake_after: self.wake_after }
    }

    /// The last status of a pod that is being deleted, or the time until it ends.
    pub(crate) fn terminate(self) -> Result<PodStatus, Duration> {
        let metadata = &self.pod.metadata;
        let grace = metadata.deletion_grace_period_seconds.unwrap_or_default();
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
        let end = metadata.deletion_timestamp.as_deref().and_then(time::parse).unwrap_or(self.now);
        let wait =
            (end - grace + self.plan.termination.unwrap_or_default().min(grace)).since(self.now);
        if !wait.is_zero() {
            return Err(wait);
        }
        let mut status = self.all_killed();
        let has_succeeded = status.container_statuses.iter().all(|status| {
            status.state.terminated.as_ref().is_some_and(|terminated| terminated.exit_code == 0)
        });
        let phase = if has_succeeded { "Succeeded" } else { "Failed" };
        phase.clone_into(&mut status.phase);
        pod_conditions::set_all(&mut status, &self.pod.spec, false, &self.now_text);
        Ok(status)
    }

    /// The status of a pod whose deadline has passed.
    fn exceeded(&self) -> PodStatus {
        let mut status = self.all_killed();
        "Failed".clone_into(&mut status.phase);
        "DeadlineExceeded".clone_into(&mut status.reason);
        let message = "Pod was active on the node longer than the specified deadline";
        message.clone_into(&mut status.message);
        pod_conditions::set_all(&mut status, &self.pod.spec, false, &self.now_text);
        status
    }

    /// The status after the processes of all containers were ended; the phase is as before.
    fn all_killed(&self) -> PodStatus {
        let mut status = self.pod.status.clone();
        status.observed_generation = self.pod.metadata.generation;
        let containers = self.pod.spec.containers.iter();
        let statuses = containers.map(|container| {
            let status = known(&self.pod.status.container_statuses, container);
            self.killed(container, status.unwrap_or_else(|| new_status(container, "")))
        });
        status.container_statuses = statuses.collect();
        self.end_sidecars(&mut status, commands::stop_exit_code);
        pod_conditions::set_resize(&mut status, None, &self.now_text);
        status
    }

    /// The statuses of the init containers, and whether all have ended and all sidecars have started.
    fn init_containers(&mut self, is_created: bool) -> (Vec<ContainerStatus>, bool) {
        let spec = &self.pod.spec;
        let mut may_start = is_created;
        let mut statuses = Vec::with_capacity(spec.init_containers.len());
        for container in &spec.init_containers {
            let known = known(&self.pod.status.init_container_statuses, container);
            let mut status = known.unwrap_or_else(|| new_status(container, "PodInitializing"));
            if may_start {
                may_start = if container.is_sidecar() {
                    self.advance_sidecar(container, &mut status)
                } else {
                    self.advance_init_container(container, &mut status)
                };
            }
            self.set_resources(container, &mut status);
            statuses.push(status);
        }
        (statuses, may_start)
    }

    /// Whether the next container may start.
    fn advance_sidecar(&mut self, container: &Container, status: &mut ContainerStatus) -> bool {
        if status.state.running.is_none() {
            self.start(container, status);
        } else if status.image != container.image {
            self.replace(container, status);
        }
        self.set_readiness(container, status);
        status.state.running.is_some()
    }

    /// Whether the next container may start.
    fn advance_init_container(
        &mut self,
        container: &Container,
        status: &mut ContainerStatus,
    ) -> bool {
        if status.state.waiting.is_some() && self.may_restart(container, status) {
            self.start(container, status);
        }
        if let Some(running) = &status.state.running {
            let started = running.started_at.clone().unwrap_or_default();
            let process = self.plan.init_process(container, status.restart_count);
            if process.run_for.is_some_and(|run_for| self.has_passed(&started, run_for)) {
                self.exit(status, process.exit_code);
                if process.exit_code != 0 && self.pod.spec.restart_policy != "Never" {
                    self.restart_or_wait(container, status);
                }
            }
        }
        status.started = Some(status.state.running.is_some());
        let succeeded = status.state.terminated.as_ref().is_some_and(|it| it.exit_code == 0);
        status.ready = succeeded;
        succeeded
    }

    /// Whether an init container has failed for good.
    fn has_failed(&self, status: &PodStatus) -> bool {
        let failed = |status: &ContainerStatus| {
            status.state.terminated.as_ref().is_some_and(|terminated| terminated.exit_code != 0)
        };
        self.pod.spec.restart_policy == "Never" && status.init_container_statuses.iter().any(failed)
    }

    fn containers(&mut self, is_initialized: bool, has_failed: bool) -> Vec<ContainerStatus> {
        let spec = &self.pod.spec;
        let first = match self.creating_reason() {
            Some(reason) => reason,
            None if spec.init_containers.is_empty() => "ContainerCreating",
            None => "PodInitializing",
        };
        let mut statuses = Vec::with_capacity(spec.containers.len());
        for container in &spec.containers {
            let known = known(&self.pod.status.container_statuses, container);
            let mut status = known.unwrap_or_else(|| new_status(container, first));
            if is_initialized && !has_failed {
                match self.plan.waiting {
                    Some(reason) if status.state.waiting.is_some() => {
                        self.wait(container, &mut status, reason);
                    }
                    _ => self.advance_container(container, &mut status),
                }
            }
            self.set_resources(container, &mut status);
            statuses.push(status);
        }
        statuses
    }

    /// The reason for which the pod is never created, if its annotation is such a reason.
    fn creating_reason(&self) -> Option<&'a str> {
        self.plan.waiting.filter(|reason| pod_waiting::is_before_sandbox(reason))
    }

    /// Lets a container wait for a reason of the annotation.
    fn wait(&self, container: &Container, status: &mut ContainerStatus, reason: &str) {
        if reason != "CrashLoopBackOff" {
            let message = pod_waiting::message(reason, &container.image);
            status.state = ContainerState::waiting(reason, &message);
            return;
        }
        if status.last_state.terminated.is_none() {
            // It was restarted once, and has failed again.
            status.restart_count = 1;
            self.start(container, status);
            self.exit(status, 1);
            status.last_state = std::mem::take(&mut status.state);
        }
        let message = self.back_off_message(&status.name, backoff(status));
        status.state = ContainerState::waiting(reason, &message);
    }

    fn advance_container(&mut self, container: &Container, status: &mut ContainerStatus) {
        if status.state.waiting.is_some() {
            if self.may_restart(container, status) {
                self.start(container, status);
            }
        } else if status.state.running.is_some() && status.image != container.image {
            self.replace(container, status);
        } else if let Some(running) = &status.state.running {
            let started = running.started_at.clone().unwrap_or_default();
            // A container that was started by this call is written before it ends.
            let process = self.plan.process(container, status.restart_count);
            if process.run_for.is_some_and(|run_for| self.has_passed(&started, run_for)) {
                self.exit(status, process.exit_code);
                let policy = match container.restart_policy.as_str() {
                    "" => self.pod.spec.restart_policy.as_str(),
                    own => own,
                };
                if policy == "Always" || policy == "OnFailure" && process.exit_code != 0 {
                    self.restart_or_wait(container, status);
                }
            }
        }
        status.started = Some(status.state.running.is_some());
        self.set_readiness(container, status);
    }

    fn ephemeral_containers(&mut self, is_created: bool) -> Vec<ContainerStatus> {
        let mut statuses = Vec::new();
        for container in &self.pod.spec.ephemeral_containers {
            let known = known(&self.pod.status.ephemeral_container_statuses, container);
            let mut status = known.unwrap_or_else(|| new_status(container, "ContainerCreating"));
            if is_created && status.state.waiting.is_some() {
                self.start(container, &mut status);
                status.started = None;
            }
            self.set_resources(container, &mut status);
            statuses.push(status);
        }
        statuses
    }

    /// Starts a container, unless something is missing that it needs.
    fn start(&self, container: &Container, status: &mut ContainerStatus) {
        if let Some(why) = self.plan.missing.containers.get(&status.name) {
            status.state = ContainerState::waiting("CreateContainerConfigError", why);
            return;
        }
        if status.last_state.terminated.is_some() {
            status.restart_count += 1;
        }
        status.container_id = self.pod.container_id(&status.name, status.restart_count);
        status.image.clone_from(&container.image);
        status.image_id = image_id(&status.image);
        status.state = ContainerState::running(&self.now_text);
        status.started = Some(true);
    }

    /// Ends the process of a container and starts the container again.
    fn replace(&self, container: &Container, status: &mut ContainerStatus) {
        self.exit(status, commands::stop_exit_code(container));
        status.last_state = std::mem::take(&mut status.state);
        self.start(container, status);
    }

    /// Gives a container that was created the resources of its spec, unless it must keep those that
    /// it has. A restart for other resources makes it unready until its readiness is computed again.
    fn set_resources(&mut self, container: &Container, status: &mut ContainerStatus) {
        let keeps = matches!(self.plan.resize, Resize::Pending(_)) && status.resources.is_some();
        let has_these = status.resources.as_ref() == Some(&container.resources);
        if status.container_id.is_empty() || has_these || keeps {
            return;
        }
        let former = status.resources.replace(container.resources.clone());
        status.allocated_resources.clone_from(&container.resources.requests);
        let restarts = former.is_some_and(|it| pod_resize::needs_restart(container, &it));
        if restarts && status.state.running.is_some() {
            self.replace(container, status);
            self.set_readiness(container, status);
        }
    }

    fn exit(&self, status: &mut ContainerStatus, code: i32) {
        let started_at = status.state.running.take().and_then(|running| running.started_at);
        let reason = if code == 0 { "Completed" } else { "Error" };
        status.state = ContainerState::terminated(Terminated {
            exit_code: code,
            reason: reason.to_owned(),
            message: String::new(),
            started_at,
            finished_at: Some(self.now_text.clone()),
            container_id: status.container_id.clone(),
        });
        status.ready = false;
        status.started = Some(false);
    }

    /// Restarts a container that has just ended, at once or after its back-off.
    fn restart_or_wait(&mut self, container: &Container, status: &mut ContainerStatus) {
        status.last_state = std::mem::take(&mut status.state);
        let delay = backoff(status);
        if delay.is_zero() {
            self.start(container, status);
            return;
        }
        let message = self.back_off_message(&status.name, delay);
        status.state = ContainerState::waiting("CrashLoopBackOff", &message);
        self.wake_in(delay);
    }

    fn back_off_message(&self, container: &str, delay: Duration) -> String {
        let metadata = &self.pod.metadata;
        format!(
            "back-off {} restarting failed container={container} pod={}_{}({})",
            go_seconds(delay),
            metadata.name,
            metadata.namespace,
            metadata.uid,
        )
    }

    /// Whether a waiting container may start: it never ran, its back-off is over, or it has another
    /// image.
    fn may_restart(&mut self, container: &Container, status: &ContainerStatus) -> bool {
        let Some(last) = &status.last_state.terminated else { return true };
        if status.image != container.image {
            return true;
        }
        let finished = last.finished_at.clone().unwrap_or_default();
        self.has_passed(&finished, backoff(status))
    }

    fn set_readiness(&mut self, container: &Container, status: &mut ContainerStatus) {
        let started = status.state.running.as_ref().and_then(|running| running.started_at.clone());
        status.ready = match (started, self.plan.ready_after(container)) {
            (Some(started), Some(delay)) => self.has_passed(&started, delay),
            _ => false,
        };
    }

    /// Ends the sidecars and ephemeral containers that run.
    fn end_sidecars(&self, status: &mut PodStatus, code: impl Fn(&Container) -> i32) {
        let spec = &self.pod.spec;
        for (containers, statuses) in [
            (&spec.init_containers, &mut status.init_container_statuses),
            (&spec.ephemeral_containers, &mut status.ephemeral_container_statuses),
        ] {
            for status in statuses.iter_mut().filter(|it| it.state.running.is_some()) {
                let container = containers.iter().find(|it| it.name == status.name);
                self.exit(status, container.map_or(0, &code));
            }
        }
    }

    /// The status of a container whose pod is deleted.
    fn killed(&self, container: &Container, mut status: ContainerStatus) -> ContainerStatus {
        if status.state.running.is_some() {
            self.exit(&mut status, commands::stop_exit_code(container));
        } else if status.state.terminated.is_none() {
            let message = "The container could not be located when the pod was terminated";
            status.state = ContainerState::terminated(Terminated {
                exit_code: 137,
                reason: "ContainerStatusUnknown".to_owned(),
                message: message.to_owned(),
                ..Terminated::default()
            });
        }
        status.ready = false;
        status.started = Some(false);
        status
    }

    /// Whether `duration` has passed since a time of the status; otherwise the pod wakes then.
    fn has_passed(&mut self, since: &str, duration: Duration) -> bool {
        if duration.is_zero() {
            return true;
        }
        let due = time::parse(since).unwrap_or(self.now) + duration;
        let left = due.since(self.now);
        if !left.is_zero() {
            self.wake_in(left);
        }
        left.is_zero()
    }

    fn wake_in(&mut self, delay: Duration) {
        self.wake_after = Some(self.wake_after.map_or(delay, |earlier| earlier.min(delay)));
    }
}

/// The present status of a container. One that was created has the image with which it was created.
fn known(all: &[ContainerStatus], container: &Container) -> Option<ContainerStatus> {
    let mut known = all.iter().find(|status| status.name == container.name)?.clone();
    if known.container_id.is_empty() {
        known.image.clone_from(&container.image);
    }
    let state = &known.state;
    if state.waiting.is_none() && state.running.is_none() && state.terminated.is_none() {
        known.state = ContainerState::waiting("ContainerCreating", "");
    }
    Some(known)
}

/// Whether a container waits for its first run.
fn never_ran(status: &ContainerStatus) -> bool {
    status.state.waiting.is_some() && status.last_state.terminated.is_none()
}

fn new_status(container: &Container, reason: &str) -> ContainerStatus {
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone(),
        started: Some(false),
        state: ContainerState::waiting(reason, ""),
        ..ContainerStatus::default()
    }
}

fn image_id(image: &str) -> String {
    format!("simulated://{image}")
}

/// The delay of the next restart: the first one is immediate.
fn backoff(status: &ContainerStatus) -> Duration {
    let Some(last) = &status.last_state.terminated else { return Duration::ZERO };
    let parse = |text: &Option<String>| text.as_deref().and_then(time::parse);
    let ran = parse(&last.started_at).zip(parse(&last.finished_at));
    if status.restart_count == 0 || ran.is_some_and(|(from, to)| to.since(from) >= BACKOFF_RESET) {
        return Duration::ZERO;
    }
    let doublings = (status.restart_count - 1).min(8);
    (FIRST_BACKOFF * 2_u32.pow(doublings)).min(MAX_BACKOFF)
}

/// `10s`, `1m20s`, `5m0s`, as Go prints a duration.
fn go_seconds(delay: Duration) -> String {
    let (minutes, seconds) = (delay.as_secs() / 60, delay.as_secs() % 60);
    if minutes == 0 { format!("{seconds}s") } else { format!("{minutes}m{seconds}s") }
}

#[cfg(test)]
mod tests;
