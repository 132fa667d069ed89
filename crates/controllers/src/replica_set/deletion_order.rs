//! The order in which surplus pods are deleted: those that do least first.
//!
//! Upstream: `controller_utils.go`, `ActivePodsWithRanks`

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::pod_view::PodView;
use crate::time;
use keel::Clock;

/// The annotation with the cost of the deletion of a pod.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The first `count` of `pods` in the order of deletion. `related` are the pods of all sets with the
/// same controller; a node with many of them loses its pods first.
///
/// Of pods that became ready at different times of a similar age, that with the lowest uid is deleted
/// first, which is a random one. Upstream compares each pair of pods so, also where others of them
/// became ready at the same time; that is no order, so pods with the same time stay together here.
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
        let key_of = |pod: &&'a Arc<PodView>| usefulness(pod, rank(pod), clock);
        // The lowest uid of the pods that became ready at the same time.
        let mut first_uids = HashMap::<_, &str>::new();
        for pod in &pods {
            let uid = pod.metadata.uid.as_str();
            let first = first_uids.entry((key_of(pod), ready_since(pod))).or_insert(uid);
            *first = uid.min(first);
        }
        pods.sort_by_cached_key(|pod| {
            let (usefulness, uid) = (key_of(pod), pod.metadata.uid.as_str());
            let first = first_uids.get(&(usefulness, ready_since(pod))).copied();
            let age = age_rank(pod.metadata.creation_timestamp.as_ref(), clock);
            (usefulness, first, Reverse(pod.restarts()), age, uid)
        });
    }
    pods.truncate(count);
    pods
}

/// Less useful pods are deleted first: those without a node, by phase, not ready, by their cost, on a
/// node with many others, and ready for a shorter time.
type Usefulness = (bool, u8, bool, i32, Reverse<usize>, Option<u32>);

fn usefulness(pod: &PodView, rank: usize, clock: &Clock) -> Usefulness {
    let (has_node, is_ready) = (!pod.spec.node_name.is_empty(), pod.is_ready());
    let ready_rank = if is_ready { age_rank(pod.ready_since(), clock) } else { None };
    (has_node, phase_order(pod), is_ready, deletion_cost(pod), Reverse(rank), ready_rank)
}

fn ready_since(pod: &PodView) -> Option<jiff::Timestamp> {
    pod.ready_since().map(|time| time.0)
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

/// The logarithm of an age, so that pods of a similar age are deleted in a random order. A pod
/// without the time is the youngest.
fn age_rank(since: Option<&Time>, clock: &Clock) -> Option<u32> {
    time::since(clock, since?).as_nanos().checked_ilog2()
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
    fn the_uid_decides_between_different_times_of_a_similar_age() {
        let restarted = json!({"status": {"containerStatuses": [{"restartCount": 3}]}});
        let ready = |name, seconds, more| {
            let at = format!("2024-01-01T00:00:0{seconds}Z");
            pod(name, name, "Running", Some(&at), more)
        };
        let none = json!({});
        // The restarts decide between equal times only.
        let pods = [ready("a", 0, &none), ready("b", 1, &restarted)];
        assert_eq!(order(&pods), ["a", "b"]);
        let pods = [ready("a", 0, &none), ready("b", 0, &restarted)];
        assert_eq!(order(&pods), ["b", "a"]);
        let pods = [ready("c", 0, &restarted), ready("a", 0, &none), ready("b", 1, &none)];
        assert_eq!(order(&pods), ["c", "a", "b"]);
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
