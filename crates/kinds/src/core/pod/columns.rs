//! The columns of `kubectl get pods`, of which the status is the art.

use std::collections::{HashMap, HashSet};

use super::is_sidecar;
use machinery::fields::{at, boolean, flag, list, number, part, text, top};
use machinery::{Object, Value};
use types::columns::{AGE, NAME, age, column, condition, or_none, since, wide};
use types::resource::{Column, Now};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Ready",
        "How many of the pod's containers are ready to serve, out of how many there are.",
    ),
    column("Status", "The aggregate status of the containers in this pod."),
    column(
        "Restarts",
        "How often containers of the pod were restarted, and when that happened last.",
    ),
    AGE,
    wide("IP", "The address of the pod, which is reachable at least inside of the cluster."),
    wide("Node", "The node that the pod was assigned to; none as long as it was not scheduled."),
    wide(
        "Nominated Node",
        "The node on which others are being evicted so that this pod can run there.",
    ),
    wide(
        "Readiness Gates",
        "How many of the conditions that the pod waits for are true, out of how many.",
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
    let is_open = |gate: &&Value| conditions.get(text(gate, "conditionType")) == Some(&"True");
    format!("{}/{}", gates.iter().filter(is_open).count(), gates.len())
}

/// What the containers' states come to.
struct Summary<'a> {
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

    /// Counts a container's restarts.
    fn restarted(&mut self, container: &'a Value) {
        self.restarts += number(container, "restartCount");
        let time = at(container, &["lastState", "terminated", "finishedAt"]).as_str();
        self.last_restart = self.last_restart.max(time.unwrap_or_default());
    }

    /// Reads the init containers up to the first that is not done.
    fn count_init_containers(
        &mut self,
        spec: &Value,
        status: &'a Value,
        sidecars: &HashSet<&str>,
    ) -> bool {
        for (index, container) in list(status, "initContainerStatuses").iter().enumerate() {
            self.restarted(container);
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
                Some(terminated) => format!("Init:{}", end_of(terminated)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => {
                    format!("Init:{waiting}")
                }
                None => format!("Init:{index}/{}", list(spec, "initContainers").len()),
            };
            return true;
        }
        false
    }

    fn count_containers(&mut self, status: &'a Value, sidecars: &HashSet<&str>) {
        (self.restarts, self.last_restart) = (0, "");
        for container in list(status, "initContainerStatuses") {
            if sidecars.contains(text(container, "name")) {
                self.restarted(container);
            }
        }
        let (mut is_running, mut error) = (false, None);
        for container in list(status, "containerStatuses").iter().rev() {
            self.restarted(container);
            let state = at(container, &["state"]);
            let waiting = at(state, &["waiting", "reason"]).as_str().unwrap_or_default();
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(terminated) = part(state, "terminated") {
                self.reason = end_of(terminated);
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

/// How a container ended: a reason, a signal or an exit code.
fn end_of(terminated: &Value) -> String {
    match (text(terminated, "reason"), number(terminated, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

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
    fn a_crashing_pod_shows_its_reason() {
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
    fn initialization_is_counted() {
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
