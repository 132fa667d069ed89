//! The filters that look at one node only: `NodeUnschedulable`, `TaintToleration`, `NodeAffinity`,
//! `NodePorts` and `NodeResourcesFit`.

use std::borrow::Cow;

use crate::scheduler::node_info::{NodeInfo, NodeObject};
use crate::scheduler::pod_info::PodTraits;
use crate::scheduler::rejection::{Plugin, Rejection};
use crate::taints::{Taint, untolerated_taint};
use machinery::node_matching::NodeLabels;

/// The taint of a node that is cordoned.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Runs all filters of this module.
pub(crate) fn filter(pod: &PodTraits, node: &NodeInfo) -> Result<(), Rejection> {
    filter_object(pod, &node.object)?;
    node_ports(pod, node)?;
    node_resources_fit(pod, node)
}

/// Runs the filters that depend on the node's object only, and not on its pods.
pub(crate) fn filter_object(pod: &PodTraits, node: &NodeObject) -> Result<(), Rejection> {
    node_unschedulable(pod, node)?;
    taint_toleration(pod, node)?;
    node_affinity(pod, node)
}

/// Whether the pod would fit on the node if it were empty.
pub(crate) fn fits_empty_node(pod: &PodTraits, node: &NodeObject) -> bool {
    let (requests, allocatable) = (&pod.requests, &node.allocatable);
    filter_object(pod, node).is_ok()
        && node.allowed_pods > 0
        && requests.milli_cpu <= allocatable.milli_cpu
        && requests.memory <= allocatable.memory
        && requests.ephemeral_storage <= allocatable.ephemeral_storage
        && requests.scalar.iter().all(|(name, amount)| *amount <= allocatable.scalar(name))
}

fn node_unschedulable(pod: &PodTraits, node: &NodeObject) -> Result<(), Rejection> {
    if !node.is_unschedulable {
        return Ok(());
    }
    let taint = Taint::new(UNSCHEDULABLE_TAINT, "NoSchedule", None);
    if pod.constraints.tolerations.iter().any(|toleration| toleration.tolerates(&taint)) {
        return Ok(());
    }
    Err(Rejection::unresolvable(Plugin::NodeUnschedulable, "node(s) were unschedulable"))
}

fn taint_toleration(pod: &PodTraits, node: &NodeObject) -> Result<(), Rejection> {
    if tolerates_taints(pod, node) {
        return Ok(());
    }
    Err(Rejection::unresolvable(Plugin::TaintToleration, "node(s) had untolerated taint(s)"))
}

/// Whether the pod tolerates the taints of a node that prevent scheduling.
pub(crate) fn tolerates_taints(pod: &PodTraits, node: &NodeObject) -> bool {
    untolerated_taint(&node.taints, &pod.constraints.tolerations, &["NoSchedule", "NoExecute"])
        .is_none()
}

fn node_affinity(pod: &PodTraits, node: &NodeObject) -> Result<(), Rejection> {
    if matches_node(pod, node) {
        return Ok(());
    }
    let reason = "node(s) didn't match Pod's node affinity/selector";
    Err(Rejection::unresolvable(Plugin::NodeAffinity, reason))
}

/// Whether the node selector and the required node affinity select the node.
pub(crate) fn matches_node(pod: &PodTraits, node: &NodeObject) -> bool {
    pod.constraints.node_selector.iter().all(|(key, value)| node.label(key) == Some(value))
        && pod.constraints.required_nodes.as_ref().is_none_or(|selector| selector.matches(node))
}

fn node_ports(pod: &PodTraits, node: &NodeInfo) -> Result<(), Rejection> {
    if pod.host_ports.is_empty() || !node.uses_any_port(&pod.host_ports) {
        return Ok(());
    }
    let reason = "node(s) didn't have free ports for the requested pod ports";
    Err(Rejection::new(Plugin::NodePorts, reason))
}

/// Upstream: noderesources/fit.go fitsRequest
pub(crate) fn node_resources_fit(pod: &PodTraits, node: &NodeInfo) -> Result<(), Rejection> {
    let (requests, allocatable) = (&pod.requests, &node.object.allocatable);
    let used = &node.requested;
    let has_room = |request: i64, allocatable: i64, used: i64| {
        request == 0 || request <= allocatable.saturating_sub(used)
    };
    let pods = i64::try_from(node.pods.len()).unwrap_or(i64::MAX);
    let fits = pods < node.object.allowed_pods
        && has_room(requests.milli_cpu, allocatable.milli_cpu, used.milli_cpu)
        && has_room(requests.memory, allocatable.memory, used.memory)
        && has_room(
            requests.ephemeral_storage,
            allocatable.ephemeral_storage,
            used.ephemeral_storage,
        )
        && requests
            .scalar
            .iter()
            .all(|(name, amount)| has_room(*amount, allocatable.scalar(name), used.scalar(name)));
    if fits { Ok(()) } else { Err(insufficient(pod, node)) }
}

/// The resources that a node does not have enough of. It cannot be helped if the node would not have
/// enough without its pods.
fn insufficient(pod: &PodTraits, node: &NodeInfo) -> Rejection {
    let (requests, allocatable) = (&pod.requests, &node.object.allocatable);
    let used = &node.requested;
    let mut reasons = Vec::<Cow<'static, str>>::new();
    let mut is_unresolvable = false;
    let pods = i64::try_from(node.pods.len()).unwrap_or(i64::MAX);
    if pods >= node.object.allowed_pods {
        reasons.push("Too many pods".into());
    }
    let mut compare = |reason: Cow<'static, str>, request: i64, allocatable: i64, used: i64| {
        if request > 0 && request > allocatable.saturating_sub(used) {
            reasons.push(reason);
            is_unresolvable |= request > allocatable;
        }
    };
    let cpu = "Insufficient cpu".into();
    compare(cpu, requests.milli_cpu, allocatable.milli_cpu, used.milli_cpu);
    compare("Insufficient memory".into(), requests.memory, allocatable.memory, used.memory);
    compare(
        "Insufficient ephemeral-storage".into(),
        requests.ephemeral_storage,
        allocatable.ephemeral_storage,
        used.ephemeral_storage,
    );
    for (name, amount) in &requests.scalar {
        let reason = format!("Insufficient {name}").into();
        compare(reason, *amount, allocatable.scalar(name), used.scalar(name));
    }
    let mut reasons = reasons.into_iter();
    Rejection {
        plugin: Plugin::NodeResourcesFit,
        is_unresolvable,
        reason: reasons.next().expect("a node that does not fit lacks a resource"),
        more_reasons: reasons.collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::scheduler::testing::{node, pod, pod_json, taint};

    fn reasons(pod: &str, node: &NodeInfo) -> String {
        match filter(&pod_json(pod).traits, node) {
            Ok(()) => "fits".to_owned(),
            Err(it) => {
                let more = it.more_reasons.iter().map(|reason| format!(", {reason}"));
                let code = if it.is_unresolvable { "!" } else { "" };
                format!("{code}{}{}", it.reason, more.collect::<String>())
            }
        }
    }

    fn info(object: NodeObject) -> NodeInfo {
        NodeInfo::of(object)
    }

    #[test]
    fn requests_beyond_the_range_do_not_fit() {
        let container = |cpu: &str| format!(r#"{{"resources":{{"requests":{{"cpu":"{cpu}"}}}}}}"#);
        let huge = container("9223372036854775");
        let pod_spec = format!(r#"{{"containers":[{huge},{huge},{}]}}"#, container("2"));
        let mut node = info(node("a", "cpu=1000"));
        assert_eq!(reasons(&pod_spec, &node), "!Insufficient cpu");

        // Such pods on a node, and their end, do not hide what the others request.
        node.add_pod(Arc::new(pod("small", "cpu=999")));
        for name in ["b", "c"] {
            node.add_pod(Arc::new(pod(name, "cpu=9223372036854775")));
        }
        let two = format!(r#"{{"containers":[{}]}}"#, container("2"));
        assert_eq!(reasons(&two, &node), "Insufficient cpu");
        assert!(node.remove_pod("b") && node.remove_pod("c"));
        assert_eq!(reasons(&two, &node), "Insufficient cpu");
        assert!(node.remove_pod("small"));
        assert_eq!((reasons(&two, &node).as_str(), node.non_zero_requested), ("fits", (0, 0)));
    }

    #[test]
    fn a_cordoned_node_takes_only_pods_that_tolerate_it() {
        let cordoned = info(NodeObject { is_unschedulable: true, ..node("a", "cpu=4") });
        assert_eq!(reasons("{}", &cordoned), "!node(s) were unschedulable");
        let tolerant = r#"{"tolerations":[{"operator":"Exists"}]}"#;
        assert_eq!(reasons(tolerant, &cordoned), "fits");
    }

    #[test]
    fn a_taint_must_be_tolerated_unless_it_is_a_preference() {
        let mut object = node("a", "cpu=4");
        object.taints = vec![taint("soft=x:PreferNoSchedule")];
        assert_eq!(reasons("{}", &info(object.clone())), "fits");
        object.taints.push(taint("gpu=yes:NoSchedule"));
        let tainted = info(object);
        assert_eq!(reasons("{}", &tainted), "!node(s) had untolerated taint(s)");
        let tolerant = r#"{"tolerations":[{"key":"gpu","value":"yes","effect":"NoSchedule"}]}"#;
        assert_eq!(reasons(tolerant, &tainted), "fits");
    }

    #[test]
    fn node_selector_and_affinity_must_both_match() {
        let mut object = node("a", "cpu=4");
        object.labels.insert("disk".to_owned(), "ssd".into());
        let node = info(object);
        let affinity = |zone: &str| {
            format!(
                r#"{{"nodeSelector":{{"disk":"ssd"}},"affinity":{{"nodeAffinity":{{
                "requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[
                {{"matchExpressions":[{{"key":"zone","operator":"{zone}"}}]}}]}}}}}}}}"#
            )
        };
        let mismatch = "!node(s) didn't match Pod's node affinity/selector";
        assert_eq!(reasons(&affinity("DoesNotExist"), &node), "fits");
        assert_eq!(reasons(&affinity("Exists"), &node), mismatch);
        assert_eq!(reasons(r#"{"nodeSelector":{"disk":"hdd"}}"#, &node), mismatch);
    }

    #[test]
    fn a_host_port_is_used_once() {
        let web = r#"{"containers":[{"ports":[{"hostPort":80,"protocol":"TCP"}]}]}"#;
        let mut node = info(node("a", "cpu=4"));
        assert_eq!(reasons(web, &node), "fits");
        node.add_pod(Arc::new(pod_json(web)));
        assert_eq!(
            reasons(web, &node),
            "node(s) didn't have free ports for the requested pod ports"
        );
        node.remove_pod("p");
        assert_eq!(reasons(web, &node), "fits");
    }

    #[test]
    fn all_missing_resources_are_named() {
        let request =
            |list: &str| format!(r#"{{"containers":[{{"resources":{{"requests":{{{list}}}}}}}]}}"#);
        let mut node = info(node("a", "cpu=4 memory=1Gi example.com/gpu=1 pods=2"));
        node.add_pod(Arc::new(pod("other", "cpu=3")));
        assert_eq!(reasons(&request(r#""cpu":"1""#), &node), "fits");
        assert_eq!(reasons(&request(r#""cpu":"2""#), &node), "Insufficient cpu");
        let more = r#""cpu":"2","memory":"2Gi","example.com/gpu":"2""#;
        assert_eq!(
            reasons(&request(more), &node),
            "!Insufficient cpu, Insufficient memory, Insufficient example.com/gpu"
        );
        node.add_pod(Arc::new(pod("third", "")));
        assert_eq!(reasons("{}", &node), "Too many pods");
    }
}
