//! [`PodPlan`]: what becomes of a simulated pod, as its annotations say.
//!
//! | annotation | meaning | default |
//! |---|---|---|
//! | `sampan.dev/start-after: 5s` | the containers are created for this time | `0s` |
//! | `sampan.dev/waiting: ImagePullBackOff` | the containers wait for this reason and never start | |
//! | `sampan.dev/init-duration: 2s` | each init container runs for this time | `0s` |
//! | `sampan.dev/ready-after: 10s` | a container is ready this time after its start | `0s` |
//! | `sampan.dev/ready: "false"` | the containers run but are not ready | `"true"` |
//! | `sampan.dev/run-for: 30s` | the containers run for this time and then exit | for ever |
//! | `sampan.dev/exit-code: "1"` | their exit code; without `run-for` they exit at once | `"0"` |
//! | `exit-code.sampan.dev/NAME: "1"` | the exit code of the container or init container NAME | |
//! | `sampan.dev/termination: 5s` | a deleted pod ends after this time, within its grace period | `0s` |
//!
//! The pods of a Job whose policy is not `Always` exit at once with code 0, as those of KWOK do.
//! A value that cannot be parsed is ignored.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::pod_view::PodView;
use machinery::go_duration;

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodPlan<'a> {
    /// The time for which the containers are created.
    pub start_after: Duration,
    /// The reason for which the containers never start.
    pub waiting: Option<&'a str>,
    /// The time for which each init container runs.
    pub init_duration: Duration,
    /// The time between the start of a container and its readiness; `None` if it is never ready.
    pub ready_after: Option<Duration>,
    /// The time for which the containers run; `None` if they do not end.
    pub run_for: Option<Duration>,
    /// The time that a deleted pod needs to end.
    pub termination: Duration,
    annotations: &'a BTreeMap<String, String>,
}

impl<'a> PodPlan<'a> {
    /// The plan of a pod.
    pub(crate) fn of(pod: &'a PodView) -> Self {
        let annotations = &pod.metadata.annotations;
        let text = |name: &str| annotations.get(&format!("sampan.dev/{name}")).map(String::as_str);
        let duration = |name: &str| {
            let seconds = go_duration::parse(text(name)?).ok()?;
            Duration::try_from_secs_f64(seconds).ok()
        };
        let exits = || {
            let is_exit_code = |key: &String| key.starts_with("exit-code.sampan.dev/");
            let is_of_job = pod.metadata.owner_references.iter().any(|it| it.kind == "Job");
            is_of_job && pod.spec.restart_policy != "Always"
                || text("exit-code").is_some()
                || annotations.keys().any(is_exit_code)
        };
        let is_never_ready = text("ready") == Some("false");
        if annotations.is_empty() {
            // Most pods.
            return Self {
                start_after: Duration::ZERO,
                waiting: None,
                init_duration: Duration::ZERO,
                ready_after: Some(Duration::ZERO),
                run_for: exits().then_some(Duration::ZERO),
                termination: Duration::ZERO,
                annotations,
            };
        }
        Self {
            start_after: duration("start-after").unwrap_or_default(),
            waiting: text("waiting"),
            init_duration: duration("init-duration").unwrap_or_default(),
            ready_after: (!is_never_ready).then(|| duration("ready-after").unwrap_or_default()),
            run_for: duration("run-for").or_else(|| exits().then_some(Duration::ZERO)),
            termination: duration("termination").unwrap_or_default(),
            annotations,
        }
    }

    /// The exit code of a container.
    pub(crate) fn exit_code(&self, container: &str) -> i32 {
        let common = || self.annotations.get("sampan.dev/exit-code")?.parse().ok();
        self.own_exit_code(container).or_else(common).unwrap_or_default()
    }

    /// The exit code of an init container.
    pub(crate) fn init_exit_code(&self, container: &str) -> i32 {
        self.own_exit_code(container).unwrap_or_default()
    }

    fn own_exit_code(&self, container: &str) -> Option<i32> {
        if self.annotations.is_empty() {
            return None;
        }
        self.annotations.get(&format!("exit-code.sampan.dev/{container}"))?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(json: &str) -> PodView {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_pod_without_annotations_starts_at_once_and_does_not_end() {
        let pod = pod(r#"{"spec":{"restartPolicy":"Never"}}"#);
        let plan = PodPlan::of(&pod);
        assert_eq!((plan.start_after, plan.run_for), (Duration::ZERO, None));
        assert_eq!(plan.ready_after, Some(Duration::ZERO));
    }

    #[test]
    fn the_pod_of_a_job_exits_at_once_unless_told_otherwise() {
        let owners = r#""ownerReferences":[{"kind":"Job"}]"#;
        let at_once =
            pod(&format!(r#"{{"metadata":{{{owners}}},"spec":{{"restartPolicy":"Never"}}}}"#));
        assert_eq!(PodPlan::of(&at_once).run_for, Some(Duration::ZERO));
        let later = pod(&format!(
            r#"{{"metadata":{{{owners},"annotations":{{"sampan.dev/run-for":"1m"}}}},"spec":{{"restartPolicy":"Never"}}}}"#
        ));
        assert_eq!(PodPlan::of(&later).run_for, Some(Duration::from_secs(60)));
    }

    #[test]
    fn the_exit_code_of_a_container_decides_before_that_of_the_pod() {
        let pod = pod(
            r#"{"metadata":{"annotations":{"sampan.dev/exit-code":"1","exit-code.sampan.dev/b":"3"}}}"#,
        );
        let plan = PodPlan::of(&pod);
        assert_eq!((plan.exit_code("a"), plan.exit_code("b")), (1, 3));
        assert_eq!((plan.init_exit_code("a"), plan.init_exit_code("b")), (0, 3));
    }
}
