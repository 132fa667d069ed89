//! Tests of the life of a pod.

use super::*;
use crate::commands::NodeFiles;

const START: i64 = 1_704_067_200;

/// Runs a pod from `spec` until it does not change for a time, and returns one line for each status:
/// the time, the phase, the states of the init containers and of the containers.
fn run(annotations: &str, spec: &str) -> Vec<String> {
    let json = format!(
        r#"{{"metadata":{{"name":"p","namespace":"n","uid":"u","generation":1,
        "annotations":{annotations}}},"spec":{spec}}}"#
    );
    let mut pod: PodView = serde_json::from_str(&json).unwrap();
    let files = NodeFiles::default();
    let (mut now, mut lines) = (Timestamp::from_seconds(START), Vec::new());
    while lines.len() < 12 && !pod.is_finished() {
        let plan = PodPlan::of(&pod, &files);
        let progress = PodLifecycle::new(&pod, &plan, now).advance();
        if progress.status == pod.status {
            let Some(delay) = progress.wake_after else { break };
            now = now + delay;
            continue;
        }
        pod.status = progress.status;
        lines.push(line(now, &pod.status));
    }
    lines
}

fn line(now: Timestamp, status: &PodStatus) -> String {
    let state = |status: &ContainerStatus| {
        let ContainerStatus { state, restart_count, .. } = status;
        let text = match (&state.waiting, &state.running, &state.terminated) {
            (Some(waiting), ..) => waiting.reason.clone(),
            (_, Some(_), _) => if status.ready { "ready" } else { "running" }.to_owned(),
            (.., Some(terminated)) => format!("exit {}", terminated.exit_code),
            _ => "none".to_owned(),
        };
        if *restart_count > 0 { format!("{text} ({restart_count})") } else { text }
    };
    let states = status.init_container_statuses.iter().chain(&status.container_statuses);
    let states: Vec<String> = states.map(state).collect();
    format!("{} {}: {}", now.seconds() - START, status.phase, states.join(", "))
}

fn check(annotations: &str, spec: &str, expect: &[&str]) {
    assert_eq!(run(annotations, spec), expect);
}

#[test]
fn an_ordinary_pod_becomes_ready_by_one_change() {
    let spec = r#"{"restartPolicy":"Always","containers":[{"name":"c"}]}"#;
    check("{}", spec, &["0 Running: ready"]);
}

#[test]
fn containers_are_created_for_the_time_that_an_annotation_says() {
    let spec = r#"{"restartPolicy":"Always","containers":[{"name":"c"}]}"#;
    check(
        r#"{"sampan.dev/start-after":"5s","sampan.dev/ready-after":"3s"}"#,
        spec,
        &["0 Pending: ContainerCreating", "5 Running: running", "8 Running: ready"],
    );
}

#[test]
fn containers_wait_for_the_reason_that_an_annotation_says() {
    let spec = r#"{"restartPolicy":"Always","containers":[{"name":"c"}],
        "initContainers":[{"name":"i"}]}"#;
    let check_reason = |reason: &str, expect: &str| {
        check(&format!(r#"{{"sampan.dev/waiting":"{reason}"}}"#), spec, &[expect]);
    };
    check_reason("ImagePullBackOff", "0 Pending: exit 0, ImagePullBackOff");
    check_reason("CrashLoopBackOff", "0 Running: exit 0, CrashLoopBackOff (1)");
    check_reason("ContainerCreating", "0 Pending: PodInitializing, ContainerCreating");
}

#[test]
fn init_containers_run_in_order_and_sidecars_go_on() {
    let spec = r#"{"restartPolicy":"Never","containers":[{"name":"c"}],"initContainers":[
        {"name":"a"},{"name":"s","restartPolicy":"Always"},{"name":"b"}]}"#;
    check("{}", spec, &["0 Running: exit 0, ready, exit 0, ready"]);
    check(
        r#"{"sampan.dev/init-duration":"2s","sampan.dev/run-for":"10s"}"#,
        spec,
        &[
            "0 Pending: running, PodInitializing, PodInitializing, PodInitializing",
            "2 Pending: exit 0, ready, running, PodInitializing",
            "4 Running: exit 0, ready, exit 0, ready",
            "14 Succeeded: exit 0, exit 0, exit 0, exit 0",
        ],
    );
}

#[test]
fn an_init_container_that_fails_decides_by_the_restart_policy() {
    let annotations = r#"{"exit-code.sampan.dev/a":"2"}"#;
    let spec = |policy: &str| {
        format!(
            r#"{{"restartPolicy":"{policy}","containers":[{{"name":"c"}}],
            "initContainers":[{{"name":"a"}}]}}"#
        )
    };
    check(annotations, &spec("Never"), &["0 Failed: exit 2, PodInitializing"]);
    let lines = run(annotations, &spec("OnFailure"));
    assert_eq!(
        lines[..3],
        [
            "0 Pending: running (1), PodInitializing",
            "0 Pending: CrashLoopBackOff (1), PodInitializing",
            "10 Pending: CrashLoopBackOff (2), PodInitializing",
        ]
    );
}

#[test]
fn a_pod_ends_by_the_exit_codes_of_its_containers() {
    let spec = r#"{"restartPolicy":"Never","containers":[{"name":"a"},{"name":"b"}]}"#;
    check(
        r#"{"sampan.dev/exit-code":"0"}"#,
        spec,
        &["0 Running: ready, ready", "0 Succeeded: exit 0, exit 0"],
    );
    check(
        r#"{"exit-code.sampan.dev/b":"7"}"#,
        spec,
        &["0 Running: ready, ready", "0 Failed: exit 0, exit 7"],
    );
}

#[test]
fn a_container_that_fails_is_restarted_with_a_growing_delay() {
    let spec = r#"{"restartPolicy":"OnFailure","containers":[{"name":"c"}]}"#;
    let lines = run(r#"{"sampan.dev/exit-code":"1"}"#, spec);
    assert_eq!(
        lines[..8],
        [
            "0 Running: ready",
            "0 Running: ready (1)",
            "0 Running: CrashLoopBackOff (1)",
            "10 Running: ready (2)",
            "10 Running: CrashLoopBackOff (2)",
            "30 Running: ready (3)",
            "30 Running: CrashLoopBackOff (3)",
            "70 Running: ready (4)",
        ]
    );
}

#[test]
fn a_container_that_ran_for_ten_minutes_is_restarted_at_once() {
    let lines = |seconds: u32| {
        let spec = format!(
            r#"{{"restartPolicy":"Always","containers":[{{"name":"c",
            "command":["sleep","{seconds}"]}}]}}"#
        );
        run("{}", &spec)
    };
    assert_eq!(
        lines(599)[1..4],
        ["599 Running: ready (1)", "1198 Running: CrashLoopBackOff (1)", "1208 Running: ready (2)"]
    );
    assert_eq!(
        lines(600)[1..4],
        ["600 Running: ready (1)", "1200 Running: ready (2)", "1800 Running: ready (3)"]
    );
}

#[test]
fn containers_run_as_their_commands_say() {
    let spec = r#"{"restartPolicy":"Never","initContainers":[{"name":"i","command":["sleep","5"]}],
        "containers":[{"name":"a","command":["sh","-c","sleep 3; exit 2"]},
        {"name":"b","command":["sleep","10"]}]}"#;
    check(
        "{}",
        spec,
        &[
            "0 Pending: running, PodInitializing, PodInitializing",
            "5 Running: exit 0, ready, ready",
            "8 Running: exit 0, exit 2, ready",
            "15 Failed: exit 0, exit 2, exit 0",
        ],
    );
}

#[test]
fn a_pod_ends_at_its_active_deadline() {
    let spec = r#"{"restartPolicy":"OnFailure","activeDeadlineSeconds":20,
        "containers":[{"name":"a","command":["sleep","5"]},{"name":"b"}]}"#;
    check(
        "{}",
        spec,
        &["0 Running: ready, ready", "5 Running: exit 0, ready", "20 Failed: exit 0, exit 0"],
    );
}

#[test]
fn a_deleted_pod_ends_within_its_grace_period() {
    let pod = |annotations: &str, command: &str| -> PodView {
        serde_json::from_str(&format!(
            r#"{{"metadata":{{"annotations":{annotations},"deletionGracePeriodSeconds":30,
            "deletionTimestamp":"2024-01-01T00:00:30Z"}},
            "spec":{{"restartPolicy":"Always","containers":[{{"name":"c",
            "command":{command}}}]}},"status":{{"phase":"Running","containerStatuses":[{{"name":"c",
            "state":{{"running":{{"startedAt":"2023-12-31T00:00:00Z"}}}}}}]}}}}"#
        ))
        .unwrap()
    };
    let now = Timestamp::from_seconds(START);
    let end = |annotations: &str, command: &str| {
        let pod = pod(annotations, command);
        let files = NodeFiles::default();
        let plan = PodPlan::of(&pod, &files);
        PodLifecycle::new(&pod, &plan, now).terminate().map(|status| line(now, &status))
    };
    let check = |annotations: &str| end(annotations, "[]");
    assert_eq!(check("{}"), Ok("0 Succeeded: exit 0".to_owned()));
    for (command, expect) in [
        (r#"["sleep","3600"]"#, "0 Failed: exit 143"),
        (r#"["/bin/sh","-c","serve & wait"]"#, "0 Failed: exit 143"),
        (r#"["/opt/sh"]"#, "0 Succeeded: exit 0"),
        (r#"["serve"]"#, "0 Succeeded: exit 0"),
    ] {
        assert_eq!(end("{}", command), Ok(expect.to_owned()), "{command}");
    }
    assert_eq!(check(r#"{"sampan.dev/termination":"5s"}"#), Err(Duration::from_secs(5)));
    assert_eq!(check(r#"{"sampan.dev/termination":"5m"}"#), Err(Duration::from_secs(30)));
}
