//! [`PodPlan`]: what becomes of a simulated pod, as its annotations and its commands say.
//!
//! | annotation | meaning | default |
//! |---|---|---|
//! | `sampan.dev/start-after: 5s` | the containers are created for this time | `0s` |
//! | `sampan.dev/waiting: ImagePullBackOff` | the containers wait for this reason and never start | |
//! | `sampan.dev/init-duration: 2s` | each init container runs for this time | `0s` |
//! | `sampan.dev/ready-after: 10s` | a container is ready this time after its start | the delay of its readiness probe |
//! | `sampan.dev/ready: "false"` | the containers run but are not ready | `"true"` |
//! | `sampan.dev/run-for: 30s` | the containers run for this time and then exit | |
//! | `sampan.dev/exit-code: "1"` | their exit code; without `run-for` they exit at once | `"0"` |
//! | `exit-code.sampan.dev/NAME: "1"` | the exit code of the container or init container NAME | |
//! | `sampan.dev/termination: 5s` | a deleted pod ends after this time, within its grace period | `0s` |
//!
//! A value that cannot be parsed is ignored, with an [Event](crate::pod_annotations). Without `run-for`
//! and `exit-code` the [command](crate::commands) of a container decides, if it is understood. If not,
//! the containers of a Job whose policy is not `Always` exit at once with code 0, as those of KWOK do,
//! init containers as well, and other containers do not end.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::commands::{self, NodeFiles, Process};
use crate::pod_annotations;
use crate::pod_config::Missing;
use crate::pod_resize::Resize;
use crate::pod_view::{Container, PodView};

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub(crate) struct PodPlan<'a> {
    /// The time for which the containers are created.
    pub start_after: Duration,
    /// The reason for which the containers never start.
    pub waiting: Option<&'a str>,
    /// Whether the containers are never ready.
    is_never_ready: bool,
    /// The time between the start of a container and its readiness, if the annotations decide that.
    ready_after: Option<Duration>,
    /// The time that a deleted pod needs to end.
    pub termination: Option<Duration>,
    /// The time for which the containers run, if the annotations decide that.
    run_for: Option<Duration>,
    /// The time for which each init container runs, if the annotations decide that.
    init_duration: Option<Duration>,
    /// The exit code of the containers that have none of their own.
    exit_code: Option<i32>,
    /// What the pod cannot start without.
    pub missing: Missing,
    /// Whether the containers get the resources of the spec.
    pub resize: Resize,
    pod: &'a PodView,
    /// Needed to follow the commands of the containers; `None` if they are not followed.
    node_files: Option<&'a NodeFiles>,
    /// Whether a container ends if nothing is known about it.
    ends: bool,
}

impl<'a> PodPlan<'a> {
    /// The plan of a pod.
    pub(crate) fn of(pod: &'a PodView, node_files: &'a NodeFiles) -> Self {
        let is_of_job = pod.metadata.owner_references.iter().any(|it| it.kind == "Job");
        let ends = is_of_job && pod.spec.restart_policy != "Always";
        Self { node_files: Some(node_files), ends, ..Self::of_annotations(pod) }
    }

    /// The plan of a pod, whose annotations alone decide whether it ends.
    pub(crate) fn of_annotations(pod: &'a PodView) -> Self {
        let nothing = Self {
            start_after: Duration::ZERO,
            waiting: None,
            is_never_ready: false,
            ready_after: None,
            termination: None,
            run_for: None,
            init_duration: None,
            exit_code: None,
            missing: Missing::default(),
            resize: Resize::default(),
            pod,
            node_files: None,
            ends: false,
        };
        if pod.metadata.annotations.is_empty() {
            // Most pods.
            return nothing;
        }
        let text = |name: &str| pod_annotations::text(pod, name);
        let duration = |name: &str| pod_annotations::duration(text(name)?);
        let exit_code = text("exit-code").and_then(pod_annotations::exit_code);
        let has_own = |it: &Container| pod_annotations::own_exit_code(pod, &it.name).is_some();
        let exits = || exit_code.is_some() || pod.spec.containers.iter().any(has_own);
        Self {
            start_after: duration("start-after").unwrap_or_default(),
            waiting: text("waiting").and_then(pod_annotations::reason),
            is_never_ready: text("ready").and_then(pod_annotations::flag) == Some(false),
            ready_after: duration("ready-after"),
            termination: duration("termination"),
            run_for: duration("run-for").or_else(|| exits().then_some(Duration::ZERO)),
            init_duration: duration("init-duration"),
            exit_code,
            ..nothing
        }
    }

    /// The time between the start of a container and its readiness; `None` if it is never ready.
    pub(crate) fn ready_after(&self, container: &Container) -> Option<Duration> {
        let probed = || Duration::from_secs(container.readiness_probe.initial_delay_seconds.into());
        (!self.is_never_ready).then(|| self.ready_after.unwrap_or_else(probed))
    }

    /// The process of a container after this number of restarts.
    pub(crate) fn process(&self, container: &Container, restarts: u32) -> Process {
        if self.run_for.is_some() {
            let own = self.own_exit_code(&container.name);
            let exit_code = own.or(self.exit_code).unwrap_or_default();
            return Process { run_for: self.run_for, exit_code };
        }
        let unknown = if self.ends { Process::SUCCESS } else { Process::ENDLESS };
        self.command(container, restarts).unwrap_or(unknown)
    }

    /// The process of an init container after this number of restarts.
    pub(crate) fn init_process(&self, container: &Container, restarts: u32) -> Process {
        let own_exit_code = self.own_exit_code(&container.name);
        if self.init_duration.is_some() || own_exit_code.is_some() {
            let run_for = Some(self.init_duration.unwrap_or_default());
            return Process { run_for, exit_code: own_exit_code.unwrap_or_default() };
        }
        self.command(container, restarts).unwrap_or(Process::SUCCESS)
    }

    fn command(&self, container: &Container, restarts: u32) -> Option<Process> {
        commands::process(self.pod, container, restarts, self.node_files?)
    }

    /// The files that a container, which may be an init container, makes in the run after this number
    /// of restarts, and the times after its start.
    pub(crate) fn files(&self, container: &Container, restarts: u32) -> BTreeMap<String, Duration> {
        let is_init = self.pod.spec.init_containers.iter().any(|it| it.name == container.name);
        let is_annotated = if is_init {
            self.init_duration.is_some() || self.own_exit_code(&container.name).is_some()
        } else {
            self.run_for.is_some()
        };
        match self.node_files {
            Some(files) if !is_annotated => commands::files(self.pod, container, restarts, files),
            _ => BTreeMap::new(),
        }
    }

    fn own_exit_code(&self, container: &str) -> Option<i32> {
        if self.pod.metadata.annotations.is_empty() {
            return None;
        }
        pod_annotations::own_exit_code(self.pod, container)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(json: &str) -> PodView {
        serde_json::from_str(json).unwrap()
    }

    fn container(json: &str) -> Container {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_pod_without_annotations_starts_at_once_and_does_not_end() {
        let pod = pod(r#"{"spec":{"restartPolicy":"Never"}}"#);
        let files = NodeFiles::default();
        let plan = PodPlan::of(&pod, &files);
        assert_eq!(plan.start_after, Duration::ZERO);
        assert_eq!(plan.ready_after(&container(r#"{"name":"a"}"#)), Some(Duration::ZERO));
        assert_eq!(plan.process(&container(r#"{"name":"a"}"#), 0), Process::ENDLESS);
        assert_eq!(plan.init_process(&container(r#"{"name":"a"}"#), 0), Process::SUCCESS);
    }

    #[test]
    fn the_pod_of_a_job_exits_at_once_unless_told_otherwise() {
        let owners = r#""ownerReferences":[{"kind":"Job"}]"#;
        let at_once =
            pod(&format!(r#"{{"metadata":{{{owners}}},"spec":{{"restartPolicy":"Never"}}}}"#));
        let unknown = container(r#"{"name":"a","command":["work"]}"#);
        assert_eq!(
            PodPlan::of(&at_once, &NodeFiles::default()).process(&unknown, 0),
            Process::SUCCESS
        );
        let later = pod(&format!(
            r#"{{"metadata":{{{owners},"annotations":{{"sampan.dev/run-for":"1m"}}}},"spec":{{"restartPolicy":"Never"}}}}"#
        ));
        let process = PodPlan::of(&later, &NodeFiles::default()).process(&unknown, 0);
        assert_eq!(process.run_for, Some(Duration::from_mins(1)));
    }

    #[test]
    fn the_exit_code_of_a_container_decides_before_that_of_the_pod() {
        let pod = pod(
            r#"{"metadata":{"annotations":{"sampan.dev/exit-code":"1","exit-code.sampan.dev/b":"3"}}}"#,
        );
        let files = NodeFiles::default();
        let plan = PodPlan::of(&pod, &files);
        let [a, b] = ["a", "b"].map(|name| container(&format!(r#"{{"name":"{name}"}}"#)));
        assert_eq!((plan.process(&a, 0).exit_code, plan.process(&b, 0).exit_code), (1, 3));
        let codes = (plan.init_process(&a, 0).exit_code, plan.init_process(&b, 0).exit_code);
        assert_eq!(codes, (0, 3));
    }

    #[test]
    fn the_readiness_probe_delays_readiness_unless_annotations_decide() {
        let probed = container(r#"{"name":"a","readinessProbe":{"initialDelaySeconds":20}}"#);
        let files = NodeFiles::default();
        let check = |annotations: &str, expect: Option<u64>| {
            let pod = pod(&format!(r#"{{"metadata":{{"annotations":{annotations}}}}}"#));
            let found = PodPlan::of(&pod, &files).ready_after(&probed);
            assert_eq!(found, expect.map(Duration::from_secs), "{annotations}");
        };
        check("{}", Some(20));
        check(r#"{"sampan.dev/ready-after":"3s"}"#, Some(3));
        check(r#"{"sampan.dev/ready":"false"}"#, None);
    }

    #[test]
    fn annotations_decide_before_the_command() {
        let annotated =
            pod(r#"{"metadata":{"annotations":{"sampan.dev/exit-code":"2","other":"x"}}}"#);
        let command = container(r#"{"name":"a","command":["sleep","10"]}"#);
        let process = PodPlan::of(&annotated, &NodeFiles::default()).process(&command, 0);
        assert_eq!(process, Process { run_for: Some(Duration::ZERO), exit_code: 2 });
        let other = pod(r#"{"metadata":{"annotations":{"other":"x"}}}"#);
        let process = PodPlan::of(&other, &NodeFiles::default()).process(&command, 0);
        assert_eq!(process, Process { run_for: Some(Duration::from_secs(10)), exit_code: 0 });
        assert_eq!(PodPlan::of_annotations(&other).process(&command, 0), Process::ENDLESS);
    }

    #[test]
    fn wrong_annotations_change_nothing() {
        let json = r#"{"metadata":{"annotations":{"sampan.dev/exit-code":"999",
            "sampan.dev/run-for":"3","sampan.dev/waiting":"not a reason!","sampan.dev/ready":"nope",
            "exit-code.sampan.dev/nosuch":"1","exit-code.sampan.dev/a":"x",
            "exit-code.sampan.dev/init":"3"}},
            "spec":{"containers":[{"name":"a"}],"initContainers":[{"name":"init"}]}}"#;
        let (pod, files) = (pod(json), NodeFiles::default());
        let plan = PodPlan::of(&pod, &files);
        assert_eq!(plan.waiting, None);
        let [a, init] = ["a", "init"].map(|name| container(&format!(r#"{{"name":"{name}"}}"#)));
        assert_eq!(plan.process(&a, 0), Process::ENDLESS);
        assert_eq!(plan.ready_after(&a), Some(Duration::ZERO));
        assert_eq!(plan.init_process(&init, 0).exit_code, 3, "that one is correct");
    }
}
