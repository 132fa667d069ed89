//! `taint-eviction-controller`: deletes pods from nodes with `NoExecute` taints.
//!
//! It promises that a pod that does not tolerate such a taint is deleted at once, and a pod that
//! tolerates it for a time is deleted when that time is over, counted from the time of the taint, or
//! from the time at which a later pod came to the node. It reads Nodes and Pods, and writes the
//! condition `DisruptionTarget` of Pods, deletes Pods, and records Events.
//!
//! Upstream: `pkg/controller/tainteviction/taint_eviction.go`.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::Metadata;
use crate::node_lifecycle::node_view::{NodeSpec, NodeView};
use crate::pod_view::PodConditionView;
use crate::taints::{Taint, Toleration};
use crate::{api_requests, pod_index, time};
use keel::{Clock, Timestamp};
use machinery::{PolicyRule, timestamp};
use runtime::informer::{Item, ObjectEvent};
use runtime::recorder::{EventType, Recorder};
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Predicate, Request};

/// The row of this controller in the table.
pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "taint-eviction-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("node-controller"),
    rules: &[
        PolicyRule::new(&[""], &["pods"], &["delete"]),
        PolicyRule::new(&[""], &["pods/status"], &["patch"]),
    ],
    start,
};

fn start(cx: &ControllerContext) {
    pod_index::add(cx);
    let tainted = Arc::new(TaintedNodes::default());
    let pods = Arc::clone(cx.manager.informer::<Pod>().indexer());
    let context = EvictionContext {
        client: cx.client.clone(),
        recorder: cx.recorder(),
        clock: cx.clock().clone(),
        pods: cx.pods(),
        nodes: cx.manager.informer::<Node>().lister(),
        scheduled: ScheduledEvictions::default(),
    };
    let is_any_tainted = {
        let tainted = Arc::clone(&tainted);
        move |_: &ObjectEvent| !tainted.lock().is_empty()
    };
    let controller = Controller::for_::<Pod>()
        .named(cx.name)
        .when(Predicate::custom(is_any_tainted))
        .watches::<Node>(Mapper::custom(move |node| {
            pod_index::of_node(&pods, node.name()).iter().map(|pod| pod.key().clone()).collect()
        }))
        .when(Predicate::custom(move |event| tainted.update(event)))
        .workers(8)
        .reconcile(reconcile, context);
    cx.manager.add(controller);
}

/// The names of the nodes with `NoExecute` taints. While there are none, events of pods are ignored.
#[derive(Default)]
struct TaintedNodes(Mutex<HashSet<String>>);

impl TaintedNodes {
    /// Whether an event has changed the `NoExecute` taints of a node.
    fn update(&self, event: &ObjectEvent) -> bool {
        let (old, new) = match event {
            ObjectEvent::Added { item, .. } => (Vec::new(), taints_of(item)),
            ObjectEvent::Updated { old, new } => (taints_of(old), taints_of(new)),
            ObjectEvent::Deleted { item, .. } => (taints_of(item), Vec::new()),
        };
        let name = event.item().name();
        let mut nodes = self.lock();
        if new.is_empty() {
            nodes.remove(name);
        } else if !nodes.contains(name) {
            nodes.insert(name.to_owned());
        }
        old != new
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn taints_of(item: &Item) -> Vec<Taint> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Tainted {
        spec: NodeSpec,
    }
    let mut taints = item.decode::<Tainted>().unwrap_or_default().spec.taints;
    taints.retain(|taint| taint.effect == "NoExecute");
    taints
}

struct EvictionContext {
    client: Client,
    recorder: Recorder,
    clock: Clock,
    pods: Lister<TaintedPod>,
    nodes: Lister<NodeView>,
    scheduled: ScheduledEvictions,
}

/// The start of the toleration of each pod that will be deleted, with the uid of the pod: a pod that
/// is created again under its name has a start of its own.
#[derive(Default)]
struct ScheduledEvictions(Mutex<HashMap<Request, (String, Timestamp)>>);

impl ScheduledEvictions {
    /// The start of a pod's toleration, which is `start` if the pod is new.
    fn start(&self, request: &Request, uid: &str, start: Timestamp) -> Timestamp {
        let mut scheduled = self.lock();
        match scheduled.get(request) {
            Some((known, start)) if known == uid => *start,
            _ => {
                scheduled.insert(request.clone(), (uid.to_owned(), start));
                start
            }
        }
    }

    /// Forgets a pod; returns whether its deletion was scheduled.
    fn remove(&self, request: &Request) -> bool {
        self.lock().remove(request).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Request, (String, Timestamp)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TaintedPod {
    metadata: Metadata,
    spec: TaintedPodSpec,
    status: TaintedPodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TaintedPodStatus {
    start_time: Option<Time>,
    conditions: Vec<PodConditionView>,
}

impl TaintedPod {
    /// The start of the toleration: the time of the latest taint, or now, but not before the pod came
    /// to the node.
    fn toleration_start(&self, taints: &[&Taint], now: Timestamp) -> Timestamp {
        let added =
            taints.iter().filter_map(|taint| timestamp::parse(taint.time_added.as_deref()?));
        let latest = added.max().map(|(seconds, nanos)| Timestamp::new(seconds, nanos));
        let start = latest.map_or(now, |latest| latest.max(self.arrival().unwrap_or(latest)));
        start.min(now)
    }

    /// The time at which the pod came to its node, as far as it is known.
    fn arrival(&self) -> Option<Timestamp> {
        let is_bound = |it: &&PodConditionView| it.type_ == "PodScheduled" && it.status == "True";
        let bound = self.status.conditions.iter().find(is_bound);
        let times = [
            self.metadata.creation_timestamp.as_ref(),
            bound.and_then(|bound| bound.last_transition_time.as_ref()),
            self.status.start_time.as_ref(),
        ];
        times.into_iter().flatten().map(time::to_timestamp).max()
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TaintedPodSpec {
    node_name: String,
    tolerations: Vec<Toleration>,
}

/// The time for which a pod stays on a node with these taints.
#[derive(Debug, PartialEq, Eq)]
enum Tolerance {
    None,
    For(Duration),
    Forever,
}

fn tolerance(tolerations: &[Toleration], taints: &[&Taint]) -> Tolerance {
    let mut shortest = None::<i64>;
    for taint in taints {
        let Some(found) = tolerations.iter().find(|it| it.tolerates(taint)) else {
            return Tolerance::None;
        };
        if let Some(seconds) = found.seconds {
            shortest = Some(shortest.map_or(seconds, |shortest| shortest.min(seconds)));
        }
    }
    match shortest.map(u64::try_from) {
        None => Tolerance::Forever,
        Some(Ok(seconds)) if seconds > 0 => Tolerance::For(Duration::from_secs(seconds)),
        Some(_) => Tolerance::None,
    }
}

async fn reconcile(request: Request, cx: Arc<EvictionContext>) -> Result<Action, Failure> {
    let Some(pod) = cx.pods.get_key(&request)? else {
        cx.cancel(&request);
        return Ok(Action::Done);
    };
    if pod.metadata.is_deleting() {
        cx.scheduled.remove(&request);
        return Ok(Action::Done);
    }
    let node = match pod.spec.node_name.as_str() {
        "" => None,
        name => cx.nodes.shared("", name)?,
    };
    let taints = node.iter().flat_map(|node| &node.spec.taints);
    let taints: Vec<&Taint> = taints.filter(|taint| taint.effect == "NoExecute").collect();
    if taints.is_empty() {
        cx.cancel(&request);
        return Ok(Action::Done);
    }
    let wait = match tolerance(&pod.spec.tolerations, &taints) {
        Tolerance::Forever => {
            cx.cancel(&request);
            return Ok(Action::Done);
        }
        Tolerance::None => Duration::ZERO,
        Tolerance::For(duration) => {
            let now = cx.clock.now();
            let start = pod.toleration_start(&taints, now);
            (cx.scheduled.start(&request, &pod.metadata.uid, start) + duration).since(now)
        }
    };
    if !wait.is_zero() {
        return Ok(Action::RequeueAfter(wait));
    }
    cx.evict(&request, &pod).await
}

impl EvictionContext {
    /// Cancels the deletion of a pod.
    fn cancel(&self, pod: &Request) {
        if self.scheduled.remove(pod) {
            self.record(pod, &format!("Cancelling deletion of Pod {pod}"));
        }
    }

    async fn evict(&self, request: &Request, pod: &TaintedPod) -> Result<Action, Failure> {
        self.record(request, &format!("Marking for deletion Pod {request}"));
        let path = format!("/api/v1/namespaces/{}/pods/{}", request.namespace(), request.name());
        let mut condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": time::now(&self.clock),
        });
        if pod.metadata.generation > 0 {
            condition["observedGeneration"] = json!(pod.metadata.generation);
        }
        let uid = &pod.metadata.uid;
        let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}});
        let status = format!("{path}/status");
        let patched = api_requests::strategic_merge::<Value>(&self.client, &status, &patch).await;
        api_requests::none_if_missing(patched)?;
        api_requests::none_if_missing(api_requests::delete(&self.client, &path, uid).await)?;
        self.scheduled.remove(request);
        Ok(Action::Done)
    }

    fn record(&self, pod: &Request, message: &str) {
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.name().to_owned()),
            namespace: Some(pod.namespace().to_owned()),
            ..ObjectReference::default()
        };
        self.recorder.record_about(regarding, EventType::Normal, "TaintManagerEviction", message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tolerations: &str, expect: &Tolerance) {
        let tolerations: Vec<Toleration> = serde_json::from_str(tolerations).unwrap();
        let taints = [Taint::new("a", "NoExecute", None), Taint::new("b", "NoExecute", None)];
        assert_eq!(tolerance(&tolerations, &[&taints[0], &taints[1]]), *expect);
    }

    #[test]
    fn every_taint_must_be_tolerated_and_the_shortest_time_counts() {
        check("[]", &Tolerance::None);
        check(r#"[{"key":"a","operator":"Exists"}]"#, &Tolerance::None);
        check(r#"[{"operator":"Exists"}]"#, &Tolerance::Forever);
        check(
            r#"[{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},
                {"key":"b","operator":"Exists","tolerationSeconds":20}]"#,
            &Tolerance::For(Duration::from_secs(20)),
        );
        check(r#"[{"operator":"Exists","tolerationSeconds":0}]"#, &Tolerance::None);
        check(r#"[{"operator":"Exists","effect":"NoSchedule"}]"#, &Tolerance::None);
        check(r#"[{"key":"a","value":"x"},{"key":"b"}]"#, &Tolerance::None);
    }

    #[test]
    fn a_toleration_starts_with_the_taint_or_with_a_later_pod() {
        let taint = Taint::new("a", "NoExecute", Some("2024-01-01T01:00:00Z".to_owned()));
        let now = Timestamp::from_seconds(1_704_067_200 + 2 * 60 * 60);
        let minute = |pod: &Value| {
            let mut pod = pod.clone();
            pod["metadata"] = json!({"creationTimestamp": "2024-01-01T00:30:00Z"});
            let pod: TaintedPod = serde_json::from_value(pod).unwrap();
            (pod.toleration_start(&[&taint], now).seconds() - 1_704_067_200) / 60
        };
        assert_eq!(minute(&json!({})), 60);
        assert_eq!(minute(&json!({"status": {"startTime": "2024-01-01T01:20:00Z"}})), 80);
        let bound = json!({"type": "PodScheduled", "status": "True",
            "lastTransitionTime": "2024-01-01T01:10:00Z"});
        assert_eq!(minute(&json!({"status": {"conditions": [bound]}})), 70);
        assert_eq!(minute(&json!({"status": {"startTime": "2024-01-01T03:00:00Z"}})), 120);
        let timeless = Taint::new("a", "NoExecute", None);
        assert_eq!(TaintedPod::default().toleration_start(&[&timeless], now), now);
    }

    #[test]
    fn a_pod_that_is_created_again_under_its_name_has_a_start_of_its_own() {
        let (scheduled, pod) = (ScheduledEvictions::default(), Request::new("default", "p"));
        let start =
            |uid, seconds| scheduled.start(&pod, uid, Timestamp::from_seconds(seconds)).seconds();
        assert_eq!(start("first", 10), 10);
        assert_eq!(start("first", 20), 10);
        assert_eq!(start("second", 30), 30);
        assert_eq!(start("second", 40), 30);
    }
}
