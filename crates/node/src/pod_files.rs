//! Adds the files that the containers of a pod make on the disk of their node, when they make them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::commands::NodeFiles;
use crate::pod_plan::PodPlan;
use crate::pod_view::{Container, ContainerStatus, PodStatus, PodView, Terminated};
use crate::time;
use keel::Timestamp;

/// Adds the files that the containers of a pod have made by now, when it gets its `next` status.
/// Returns the time until the next file.
pub(crate) fn add(
    pod: &PodView,
    plan: &PodPlan<'_>,
    next: &PodStatus,
    node_files: &NodeFiles,
    now: Timestamp,
) -> Option<Duration> {
    if pod.spec.volumes.iter().all(|volume| volume.host_path.is_none()) {
        // Most pods.
        return None;
    }
    let (spec, old) = (&pod.spec, &pod.status);
    let groups = [
        (&spec.containers, &old.container_statuses, &next.container_statuses),
        (&spec.init_containers, &old.init_container_statuses, &next.init_container_statuses),
    ];
    let mut wake_after: Option<Duration> = None;
    for (containers, old, next) in groups {
        for container in containers {
            let find = |all: &'_ [ContainerStatus]| {
                all.iter().find(|status| status.name == container.name).cloned()
            };
            let Some(status) = find(next) else { continue };
            for (run, elapsed) in runs(find(old).as_ref(), &status, now) {
                let left = add_run(pod, plan, container, node_files, run, elapsed);
                wake_after = wake_after.into_iter().chain(left).min();
            }
        }
    }
    wake_after
}

/// Adds the files that a run has made in this time. Returns the time until its next file.
fn add_run(
    pod: &PodView,
    plan: &PodPlan<'_>,
    container: &Container,
    node_files: &NodeFiles,
    run: u32,
    elapsed: Duration,
) -> Option<Duration> {
    let files = plan.files(container, run);
    let made = files.iter().filter(|(_, at)| **at <= elapsed);
    let made: Vec<&str> = made.map(|(path, _)| path.as_str()).collect();
    node_files.add(pod, container, &pod.container_id(&container.name, run), &made);
    files.values().filter_map(|at| at.checked_sub(elapsed)).filter(|it| !it.is_zero()).min()
}

/// The runs of a container that go on, or have ended since its old status, and their durations.
fn runs(
    old: Option<&ContainerStatus>,
    status: &ContainerStatus,
    now: Timestamp,
) -> BTreeMap<u32, Duration> {
    let mut runs = BTreeMap::new();
    if let Some(running) = &status.state.running {
        let started = running.started_at.as_deref().and_then(time::parse).unwrap_or(now);
        runs.insert(status.restart_count, now.since(started));
    }
    let ended = |status: &ContainerStatus| -> [Option<Terminated>; 2] {
        [status.state.terminated.clone(), status.last_state.terminated.clone()]
    };
    let known = old.map(ended).unwrap_or_default();
    for terminated in ended(status).into_iter().filter(|it| !known.contains(it)).flatten() {
        let times = [&terminated.started_at, &terminated.finished_at]
            .map(|text| text.as_deref().and_then(time::parse).unwrap_or(now));
        let run = terminated.container_id.rsplit('/').next().and_then(|it| it.parse().ok());
        runs.extend(run.map(|run| (run, times[1].since(times[0]))));
    }
    runs
}
