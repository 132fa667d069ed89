//! Resets the condition `DisruptionTarget` of pods that were not deleted.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::pod_view::PodView;
use crate::time;
use keel::Clock;
use runtime::informer::ObjectEvent;
use runtime::{Action, Client, Controller, Failure, Lister, Predicate, Request};

/// The time within which a pod with the condition must be deleted.
const TIMEOUT: Duration = Duration::from_mins(2);

struct StaleCondition {
    client: Client,
    clock: Clock,
    pods: Lister<PodView>,
}

pub(super) fn start(cx: &ControllerContext) {
    let (client, clock) = (cx.client.clone(), cx.clock().clone());
    let stale_condition = StaleCondition { client, clock, pods: cx.pods() };
    let controller = Controller::for_::<Pod>()
        .named("disruption-controller-stale-condition")
        .when(Predicate::custom(has_condition))
        .workers(1)
        .reconcile(reconcile, stale_condition);
    cx.manager.add(controller);
}

/// Whether the event is about a pod with the condition. The text is searched first, since nearly no
/// pod has it.
fn has_condition(event: &ObjectEvent) -> bool {
    let item = match event {
        ObjectEvent::Added { item, .. } | ObjectEvent::Updated { new: item, .. } => item,
        ObjectEvent::Deleted { .. } => return false,
    };
    let json = item.json();
    std::str::from_utf8(&json).is_ok_and(|json| json.contains("\"DisruptionTarget\""))
        && item.decode::<PodView>().is_ok_and(|pod| may_be_stale(&pod))
}

/// Whether the pod has the condition and could lose it. The kubelet may take any time to end a pod.
fn may_be_stale(pod: &PodView) -> bool {
    pod.is_active()
        && pod.condition("DisruptionTarget").is_some_and(|condition| {
            condition.status == "True" && condition.reason != "TerminationByKubelet"
        })
}

async fn reconcile(request: Request, cx: Arc<StaleCondition>) -> Result<Action, Failure> {
    let pod = cx.pods.get_key(&request)?.filter(may_be_stale);
    let Some(pod) = pod else { return Ok(Action::Done) };
    let since = pod.condition("DisruptionTarget").and_then(|it| it.last_transition_time.as_ref());
    let age = since.map_or(TIMEOUT, |since| time::since(&cx.clock, since));
    if let Some(remaining) = TIMEOUT.checked_sub(age).filter(|remaining| !remaining.is_zero()) {
        return Ok(Action::RequeueAfter(remaining));
    }
    let path = format!("/api/v1/namespaces/{}/pods/{}/status", request.namespace(), request.name());
    let patch = json!({
        "metadata": {"resourceVersion": pod.metadata.resource_version},
        "status": {"conditions": [{
            "type": "DisruptionTarget", "status": "False", "reason": null, "message": null,
            "lastTransitionTime": time::now(&cx.clock),
        }]},
    });
    let _: Value = api_requests::strategic_merge(&cx.client, &path, &patch).await?;
    Ok(Action::Done)
}
