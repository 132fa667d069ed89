//! The order in which surplus pods are deleted: those that do least first.
//!
//! Upstream: `controller_utils.go`, `ActivePodsWithRanks`

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::pod_view::PodView;
use crate::time;
use keel::Clock;

/// The annotation with the cost of the deletion of a pod.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The first `count` of `pods` in the order of deletion. `related` are the pods of all sets with the
/// same controller; a node with many of them loses its pods first.
pub(super) fn choose<'a>(
    mut pods: Vec<&'a Arc<PodView>>,
    related: &[Arc<PodView>],
    count: usize,
    clock: &Clock,
) -> Vec<&'a Arc<PodView>> {
    if count < pods.len() {
        let mut on_node = HashMap::<&str, usize>::new();
        let own = if related.is_empty() { pods.as_slice() } else { &[] };
        for pod in related.iter().chain(own.iter().copied()) {
            *on_node.entry(pod.spec.node_name.as_str()).or_default() += 1;
        }
        let rank = |pod: &PodView| on_node.get(pod.spec.node_name.as_str()).copied().unwrap_or(0);
        pods.sort_by(|one, other| compare(one, rank(one), other, rank(other), clock));
    }
    pods.truncate(count);
    pods
}

/// `Less` if `one` is deleted before `other`.
fn compare(
    one: &PodView,
    rank: usize,
    other: &PodView,
    other_rank: usize,
    clock: &Clock,
) -> Ordering {
    let key = |pod: &PodView| {
        (!pod.spec.node_name.is_empty(), phase_order(pod), pod.is_ready(), deletion_cost(pod))
    };
    let age_of = |pod: &PodView| age_rank(pod.metadata.creation_timestamp.as_ref(), clock);
    key(one)
        .cmp(&key(other))
        .then(other_rank.cmp(&rank))
        .then_with(|| ready_order(one, other, clock))
        .then_with(|| other.restarts().cmp(&one.restarts()))
        .then_with(|| age_of(one).cmp(&age_of(other)))
        .then_with(|| one.metadata.uid.cmp(&other.metadata.uid))
}

fn phase_order(pod: &PodView) -> u8 {
    match pod.status.phase.as_str() {
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    }
}

fn deletion_cost(pod: &PodView) -> i32 {
    let cost = pod.metadata.annotations.get(DELETION_COST);
    cost.and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// Pods that became ready recently are deleted first.
fn ready_order(one: &PodView, other: &PodView, clock: &Clock) -> Ordering {
    if !one.is_ready() || !other.is_ready() {
        return Ordering::Equal;
    }
    age_rank(one.ready_since(), clock).cmp(&age_rank(other.ready_since(), clock))
}

/// The logarithm of an age, so that pods of a similar age are deleted in a random order. A pod
/// without the time is the youngest.
fn age_rank(since: Option<&Time>, clock: &Clock) -> u32 {
    let age = since.map_or(Duration::ZERO, |since| time::since(clock, since));
    (age.as_secs() + 1).ilog2()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use keel::Timestamp;

    fn pod(
        name: &str,
        node: &str,
        phase: &str,
        ready_at: Option<&str>,
        more: &Value,
    ) -> Arc<PodView> {
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {"nodeName": node},
            "status": {"phase": phase},
        });
        if let Some(at) = ready_at {
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": "True", "lastTransitionTime": at}]);
        }
        machinery::patch::merge::apply(&mut pod, more);
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    /// The names of the pods in the order of deletion.
    fn order(pods: &[Arc<PodView>]) -> Vec<String> {
        let clock = Clock::manual(Timestamp::from_seconds(1_704_067_200 + 100_000));
        let mut left: Vec<&Arc<PodView>> = pods.iter().collect();
        let mut names = Vec::new();
        while !left.is_empty() {
            let first =
                if left.len() == 1 { left[0] } else { choose(left.clone(), &[], 1, &clock)[0] };
            names.push(first.metadata.name.clone());
            left.retain(|it| it.metadata.name != first.metadata.name);
        }
        names
    }

    #[test]
    fn pods_that_do_less_are_deleted_first() {
        let none = json!({});
        let cheap = json!({"metadata": {"annotations": {DELETION_COST: "-1"}}});
        let restarted = json!({"status": {"containerStatuses": [{"restartCount": 3}]}});
        let pods = [
            pod("ready-long", "a", "Running", Some("2024-01-01T00:00:00Z"), &none),
            pod("ready-shortly", "b", "Running", Some("2024-01-02T03:00:00Z"), &none),
            pod("restarted", "c", "Running", Some("2024-01-01T00:00:00Z"), &restarted),
            pod("cheap", "d", "Running", Some("2024-01-01T00:00:00Z"), &cheap),
            pod("not-ready", "e", "Running", None, &none),
            pod("pending", "f", "Pending", None, &none),
            pod("unassigned", "", "Pending", None, &none),
        ];
        let expected = [
            "unassigned",
            "pending",
            "not-ready",
            "cheap",
            "ready-shortly",
            "restarted",
            "ready-long",
        ];
        assert_eq!(order(&pods), expected);
    }

    #[test]
    fn a_node_with_several_pods_loses_one_first() {
        let none = json!({});
        let ready = |name, node| pod(name, node, "Running", Some("2024-01-01T00:00:00Z"), &none);
        let pods = [ready("alone", "a"), ready("one", "b"), ready("two", "b")];
        assert_eq!(order(&pods)[0], "one");
        assert_eq!(order(&pods)[1], "alone");
    }
}
