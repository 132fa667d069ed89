//! The columns of `kubectl get pods`. The Status column summarizes the states of all containers.

use std::collections::{HashMap, HashSet};

use super::is_sidecar;
use machinery::fields::{at, boolean, flag, list, number, part, text, top};
use machinery::{Object, Value};
use types::columns::{AGE, NAME, age, column, condition, or_none, since, wide};
use types::resource::{Column, Now};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Ready", "The number of ready containers and the number of all containers."),
    column("Status", "The aggregate status of the containers in this pod."),
    column("Restarts", "The number of restarts of containers, and the time since the last one."),
    AGE,
    wide("IP", "The IP of the pod, which is reachable at least from within the cluster."),
    wide("Node", "The node to which the pod is bound; none while the pod is not scheduled."),
    wide(
        "Nominated Node",
        "The node on which other pods are preempted so that this pod can be scheduled.",
    ),
    wide(
        "Readiness Gates",
        "The number of readiness gates whose conditions are true, and the number of all.",
    ),
];

pub(super) fn cells(pod: &Object, now: &Now) -> Vec<Value> {
    let (spec, status) = (top(pod, "spec"), top(pod, "status"));
    let summary = Summary::of(pod);
    let restarts = match summary.last_restart {
        "" => summary.restarts.to_string(),
        _ if summary.restarts == 0 => "0".to_owned(),
        time => format!("{} ({} ago)", summary.restarts, since(time, now)),
    };
    let address = list(status, "podIPs").first().map_or("", |address| text(address, "ip"));
    vec![
        pod.name().into(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        age(pod, now),
        or_none(address).into(),
        or_none(text(spec, "nodeName")).into(),
        or_none(text(status, "nominatedNodeName")).into(),
        readiness_gates(spec, status).into(),
    ]
}

fn readiness_gates(spec: &Value, status: &Value) -> String {
    let gates = list(spec, "readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let mut conditions: HashMap<&str, &str> = HashMap::new();
    for condition in list(status, "conditions") {
        conditions.entry(text(condition, "type")).or_insert(text(condition, "status"));
    }
    let is_true = |gate: &&Value| conditions.get(text(gate, "conditionType")) == Some(&"True");
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len())
}

/// A summary of the states of all containers.
struct Summary<'a> {
    /// The cell of the Status column.
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: &'a str,
}

impl<'a> Summary<'a> {
    fn of(pod: &'a Object) -> Self {
        let (spec, status) = (top(pod, "spec"), top(pod, "status"));
        let sidecars = list(spec, "initContainers").iter().filter(|it| is_sidecar(it)).count();
        let mut summary = Self {
            reason: first_of(text(status, "reason"), text(status, "phase")).to_owned(),
            ready: 0,
            total: list(spec, "containers").len() + sidecars,
            restarts: 0,
            last_restart: "",
        };
        let is_gated = |it: &Value| {
            text(it, "type") == "PodScheduled" && text(it, "reason") == "SchedulingGated"
        };
        if list(status, "conditions").iter().any(is_gated) {
            "SchedulingGated".clone_into(&mut summary.reason);
        }
        let sidecars = list(spec, "initContainers").iter().filter(|it| is_sidecar(it));
        let sidecars: HashSet<&str> = sidecars.map(|it| text(it, "name")).collect();
        let is_initializing = summary.count_init_containers(spec, status, &sidecars);
        if !is_initializing || condition(status, "Initialized") == "True" {
            summary.count_containers(status, &sidecars);
        }
        if pod.deletion_timestamp().is_some() {
            if text(status, "reason") == "NodeLost" {
                "Unknown".clone_into(&mut summary.reason);
            } else if !matches!(text(status, "phase"), "Failed" | "Succeeded") {
                "Terminating".clone_into(&mut summary.reason);
            }
        }
        summary
    }

    /// Adds a container's restarts.
    fn add_restarts(&mut self, container: &'a Value) {
        self.restarts += number(container, "restartCount");
        let time = at(container, &["lastState", "terminated", "finishedAt"]).as_str();
        self.last_restart = self.last_restart.max(time.unwrap_or_default());
    }

    /// Counts the init containers up to the first that has not finished. Returns whether there is
    /// one.
    fn count_init_containers(
        &mut self,
        spec: &Value,
        status: &'a Value,
        sidecars: &HashSet<&str>,
    ) -> bool {
        for (index, container) in list(status, "initContainerStatuses").iter().enumerate() {
            self.add_restarts(container);
            let state = at(container, &["state"]);
            let terminated = part(state, "terminated");
            if terminated.is_some_and(|it| number(it, "exitCode") == 0) {
                continue;
            }
            let is_sidecar = sidecars.contains(text(container, "name"));
            if is_sidecar && boolean(container, "started") == Some(true) {
                self.ready += usize::from(flag(container, "ready"));
                continue;
            }
            let waiting = at(state, &["waiting", "reason"]).as_str().unwrap_or_default();
            self.reason = match terminated {
                Some(terminated) => format!("Init:{}", termination_reason(terminated)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => {
                    format!("Init:{waiting}")
                }
                None => format!("Init:{index}/{}", list(spec, "initContainers").len()),
            };
            return true;
        }
        false
    }

    /// Counts the containers. As upstream, the restarts of init containers other than sidecars no
    /// longer count then.
    fn count_containers(&mut self, status: &'a Value, sidecars: &HashSet<&str>) {
        (self.restarts, self.last_restart) = (0, "");
        for container in list(status, "initContainerStatuses") {
            if sidecars.contains(text(container, "name")) {
                self.add_restarts(container);
            }
        }
        let (mut is_running, mut error) = (false, None);
        for container in list(status, "containerStatuses").iter().rev() {
            self.add_restarts(container);
            let state = at(container, &["state"]);
            let waiting = at(state, &["waiting", "reason"]).as_str().unwrap_or_default();
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(terminated) = part(state, "terminated") {
                self.reason = termination_reason(terminated);
                if number(terminated, "exitCode") != 0 {
                    error = Some(self.reason.clone());
                }
            } else if flag(container, "ready") && part(state, "running").is_some() {
                is_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if is_running && condition(status, "Ready") == "True" {
                "Running".clone_into(&mut self.reason);
            } else if let Some(error) = error {
                self.reason = error;
            } else if is_running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

/// The reason why a container terminated, or else its signal or its exit code.
fn termination_reason(terminated: &Value) -> String {
    match (text(terminated, "reason"), number(terminated, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// `first` unless it is empty.
fn first_of<'a>(first: &'a str, second: &'a str) -> &'a str {
    if first.is_empty() { second } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;
    use machinery::json;

    fn check(pod: Value, ready: &str, status: &str, restarts: &str) {
        let cells = cells(&object(pod), &Now { unix_seconds: 120 });
        assert_eq!(cells[1..4], [json!(ready), json!(status), json!(restarts)]);
    }

    #[test]
    fn a_new_pod_is_pending() {
        let pod = json!({"spec": {"containers": [{}, {}]}, "status": {"phase": "Pending"}});
        check(pod, "0/2", "Pending", "0");
    }

    #[test]
    fn the_status_of_a_crashing_pod_is_the_reason_of_its_container() {
        check(
            json!({"spec": {"containers": [{}]}, "status": {"phase": "Running", "containerStatuses": [
                {"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"finishedAt": "1970-01-01T00:01:00Z"}}}]}}),
            "0/1",
            "CrashLoopBackOff",
            "3 (60s ago)",
        );
    }

    #[test]
    fn the_status_counts_finished_init_containers() {
        check(
            json!({"spec": {"containers": [{}], "initContainers": [{"name": "a"}, {"name": "b"}]},
                "status": {"phase": "Pending", "initContainerStatuses": [
                    {"name": "a", "state": {"terminated": {"exitCode": 0}}}, {"name": "b", "state": {}}]}}),
            "0/1",
            "Init:1/2",
            "0",
        );
    }

    #[test]
    fn a_pod_being_deleted_is_terminating() {
        check(
            json!({"metadata": {"deletionTimestamp": "x"}, "spec": {"containers": [{}]},
                "status": {"phase": "Running", "containerStatuses": [
                    {"ready": true, "state": {"running": {}}}]}}),
            "1/1",
            "Terminating",
            "0",
        );
    }
}
