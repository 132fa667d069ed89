//! `ttl-after-finished-controller`: deletes finished Jobs after their `ttlSecondsAfterFinished`.
//!
//! It promises that a Job that is complete or has failed is deleted, with its dependents in the
//! foreground, when its time to live has passed since then, and not before. It reads and deletes Jobs.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::api_requests::{self, none_if_missing};
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::Metadata;
use crate::time;
use keel::Clock;
use machinery::PolicyRule;
use runtime::{Action, Client, Controller, Failure, Lister, Request};

/// The controller.
pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "ttl-after-finished-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("ttl-after-finished-controller"),
    rules: &[PolicyRule::new(&["batch"], &["jobs"], &["get", "list", "watch", "delete"])],
    start,
};

/// The fields of a Job that the controller reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobView {
    metadata: Metadata,
    spec: JobSpecView,
    status: JobStatusView,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JobSpecView {
    ttl_seconds_after_finished: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobStatusView {
    conditions: Vec<JobConditionView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JobConditionView {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    last_transition_time: Option<Time>,
}

/// The context of the reconcile function.
struct TtlAfterFinished {
    client: Client,
    jobs: Lister<JobView>,
    clock: Clock,
}

fn start(cx: &ControllerContext) {
    let context = TtlAfterFinished {
        client: cx.client.clone(),
        jobs: cx.manager.informer::<Job>().lister(),
        clock: cx.clock().clone(),
    };
    let controller = Controller::for_::<Job>().named(cx.name).workers(5);
    cx.manager.add(controller.reconcile(reconcile, context));
}

/// Upstream: `ttlafterfinished_controller.go` processJob
async fn reconcile(request: Request, cx: Arc<TtlAfterFinished>) -> Result<Action, Failure> {
    let Some(job) = cx.jobs.get_key(&request)? else { return Ok(Action::Done) };
    if let Some(action) = action_before_expiry(&job, &cx.clock) {
        return Ok(action);
    }
    // The cache may be behind a change of the time to live.
    let (namespace, name) = (request.namespace(), request.name());
    let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs/{name}");
    let Some(latest) = api_requests::get::<JobView>(&cx.client, &path).await? else {
        return Ok(Action::Done);
    };
    if let Some(action) = action_before_expiry(&latest, &cx.clock) {
        return Ok(action);
    }
    let options = json!({
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": latest.metadata.uid},
    });
    let deleted = api_requests::delete_with::<IgnoredAny>(&cx.client, &path, &options);
    none_if_missing(deleted.await)?;
    Ok(Action::Done)
}

/// What to do about a Job whose time to live has not passed; `None` if it has.
fn action_before_expiry(job: &JobView, clock: &Clock) -> Option<Action> {
    let Some(time_to_live) = job.spec.ttl_seconds_after_finished else { return Some(Action::Done) };
    let finished_at = job.status.conditions.iter().find_map(|condition| {
        let is_end = matches!(condition.type_.as_str(), "Complete" | "Failed");
        condition.last_transition_time.as_ref().filter(|_| is_end && condition.status == "True")
    });
    let Some(finished_at) = finished_at.filter(|_| !job.metadata.is_deleting()) else {
        return Some(Action::Done);
    };
    let expires_at = time::to_timestamp(finished_at) + Duration::from_secs(time_to_live.into());
    let left = expires_at.since(clock.now());
    (!left.is_zero()).then_some(Action::RequeueAfter(left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Timestamp;

    fn job(spec: &str, condition: &str) -> JobView {
        let condition = format!(r#"{{{condition},"lastTransitionTime":"1970-01-01T00:00:10Z"}}"#);
        let json = format!(r#"{{"spec":{{{spec}}},"status":{{"conditions":[{condition}]}}}}"#);
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn only_a_finished_job_with_a_time_to_live_expires() {
        let clock = Clock::manual(Timestamp::from_seconds(12));
        let ttl = r#""ttlSecondsAfterFinished":5"#;
        let complete = r#""type":"Complete","status":"True""#;
        let three_seconds = Some(Action::RequeueAfter(Duration::from_secs(3)));
        assert_eq!(action_before_expiry(&job(ttl, complete), &clock), three_seconds);
        let suspended = r#""type":"Suspended","status":"True""#;
        let not_failed = r#""type":"Failed","status":"False""#;
        for unfinished in [job("", complete), job(ttl, suspended), job(ttl, not_failed)] {
            assert_eq!(action_before_expiry(&unfinished, &clock), Some(Action::Done));
        }
        clock.advance(Duration::from_secs(3));
        assert_eq!(action_before_expiry(&job(ttl, complete), &clock), None);
    }
}
