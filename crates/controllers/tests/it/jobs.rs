//! Jobs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::{Method, Request, StatusCode};

use crate::interception::{self, Interception};
use crate::objects::{PODS, names};
use crate::plane::Plane;
use machinery::{Value, json};
use runtime::reconcile_history::{ReconcileOutcome, Record};
use testenv::Client;

pub(crate) const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const WORK: &str = "/apis/batch/v1/namespaces/default/jobs/work";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

async fn plane() -> Plane {
    Plane::start(&["job"]).await
}

/// A Job with these fields in its spec, whose pods are not restarted.
pub(crate) fn job(spec: &Value) -> Value {
    let mut job = json!({
        "metadata": {"name": "work"},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox"}],
        }}},
    });
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

/// The items of a list.
pub(crate) fn items(list: &Value) -> &Vec<Value> {
    list["items"].as_array().unwrap()
}

pub(crate) fn is_active(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// The names of the active pods.
fn active(pods: &Value) -> Vec<String> {
    let active = items(pods).iter().filter(|pod| is_active(pod));
    active.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Waits until this number of pods is active, and returns all pods.
async fn until_active(plane: &Plane, count: usize) -> Value {
    let active = |_, pods: &Value| active(pods).len() == count;
    plane.until(PODS, active).await
}

/// Writes the status of a pod as its node does when it has ended.
pub(crate) async fn end_pod(client: &Client, pod: &str, phase: &str, exit_code: i32) {
    let created =
        client.read(&format!("{PODS}/{pod}")).await["metadata"]["creationTimestamp"].clone();
    let state = json!({"terminated": {"exitCode": exit_code, "finishedAt": created}});
    let container = json!({"name": "main", "image": "busybox", "imageID": "", "ready": false,
        "restartCount": 0, "state": state});
    let status = json!({"status": {"phase": phase, "containerStatuses": [container]}});
    client.merge(&format!("{PODS}/{pod}/status"), &status).await;
}

async fn succeed(client: &Client, pod: &str) {
    end_pod(client, pod, "Succeeded", 0).await;
}

async fn fail(client: &Client, pod: &str) {
    end_pod(client, pod, "Failed", 1).await;
}

/// Waits until the Job has a condition that is true.
async fn until_condition(plane: &Plane, type_: &str) -> Value {
    plane.until(WORK, |_, job| condition(job, type_)["status"] == "True").await
}

fn condition(job: &Value, type_: &str) -> Value {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|it| it["type"] == type_).cloned().unwrap_or_default()
}

/// The reason and the message of a condition.
fn reason(job: &Value, type_: &str) -> (String, String) {
    let condition = condition(job, type_);
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

/// Waits for an event about an object, and returns its message.
pub(crate) async fn event(plane: &Plane, object: &str, reason: &str) -> String {
    let find = |events: &Value| {
        let mut events = items(events).iter();
        let about = |it: &&Value| it["reason"] == reason && it["involvedObject"]["name"] == object;
        events.find(about).map(|it| it["message"].as_str().unwrap().to_owned())
    };
    let found = plane.until(EVENTS, |_, events| find(events).is_some()).await;
    find(&found).unwrap()
}

/// No pod has the finalizer.
async fn assert_untracked(plane: &Plane) {
    let has = |pod: &Value| pod["metadata"]["finalizers"] == json!([FINALIZER]);
    plane.until(PODS, |_, pods| !items(pods).iter().any(has)).await;
}

#[tokio::test]
async fn a_job_runs_pods_until_enough_have_succeeded() {
    let plane = plane().await;
    let created = plane.create(JOBS, &job(&json!({"completions": 3, "parallelism": 2}))).await;
    let pods = until_active(&plane, 2).await;
    let found = plane.until(WORK, |_, job| job["status"]["active"] == 2).await;
    assert_eq!(found["status"]["ready"], 0);
    assert_eq!(found["status"]["terminating"], 0);
    assert_eq!(found["status"]["uncountedTerminatedPods"], json!({}));
    assert!(found["status"]["startTime"].is_string());
    let uid = &created["metadata"]["uid"];
    for pod in items(&pods) {
        let metadata = &pod["metadata"];
        assert_eq!(metadata["generateName"], "work-");
        assert_eq!(metadata["finalizers"], json!([FINALIZER]));
        assert_eq!(metadata["ownerReferences"][0]["uid"], *uid);
        let labels = json!({
            "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "work",
            "controller-uid": uid, "job-name": "work",
        });
        assert_eq!(metadata["labels"], labels);
    }
    for name in active(&pods) {
        succeed(&plane, &name).await;
    }
    let pods = until_active(&plane, 1).await;
    assert_eq!(items(&pods).len(), 3);
    plane.until(WORK, |_, job| job["status"]["succeeded"] == 2).await;
    succeed(&plane, &active(&pods)[0]).await;
    let done = until_condition(&plane, "Complete").await;
    let expected = ("CompletionsReached", "Reached expected number of succeeded pods");
    for type_ in ["SuccessCriteriaMet", "Complete"] {
        let (reason, message) = reason(&done, type_);
        assert_eq!((reason.as_str(), message.as_str()), expected);
    }
    assert_eq!(done["status"]["succeeded"], 3);
    assert_eq!(done["status"]["active"], Value::Null);
    assert!(done["status"]["completionTime"].is_string());
    assert_eq!(done["status"]["uncountedTerminatedPods"], json!({}));
    assert_eq!(event(&plane, "work", "Completed").await, "Job completed");
    let message = event(&plane, "work", "SuccessfulCreate").await;
    assert!(message.starts_with("Created pod: work-"), "{message}");
    assert_untracked(&plane).await;
    assert_eq!(items(&plane.read(PODS).await).len(), 3);
    plane.stop().await;
}

#[tokio::test]
async fn a_job_without_completions_ends_when_one_pod_succeeded_and_all_ended() {
    let plane = plane().await;
    plane.create(JOBS, &job(&json!({"parallelism": 2}))).await;
    let pods = until_active(&plane, 2).await;
    let names = active(&pods);
    succeed(&plane, &names[0]).await;
    let found = plane.until(WORK, |_, job| job["status"]["succeeded"] == 1).await;
    assert_eq!(found["status"]["active"], 1);
    fail(&plane, &names[1]).await;
    let done = until_condition(&plane, "Complete").await;
    assert_eq!((&done["status"]["succeeded"], &done["status"]["failed"]), (&json!(1), &json!(1)));
    assert_eq!(items(&plane.read(PODS).await).len(), 2);
    plane.stop().await;
}

#[tokio::test]
async fn an_indexed_job_runs_each_index_until_it_succeeded() {
    let plane = plane().await;
    let spec = json!({"completions": 4, "parallelism": 3, "completionMode": "Indexed"});
    plane.create(JOBS, &job(&spec)).await;
    let pods = until_active(&plane, 3).await;
    let index = |pod: &Value| {
        let index = &pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"];
        index.as_str().unwrap().to_owned()
    };
    let of_index = |pods: &Value, wanted: &str| {
        let mut active = items(pods).iter().filter(|pod| is_active(pod));
        let pod = active.find(|pod| index(pod) == wanted).unwrap();
        pod["metadata"]["name"].as_str().unwrap().to_owned()
    };
    for (number, pod) in items(&pods).iter().enumerate() {
        let label = &pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"];
        assert_eq!(*label, number.to_string());
        assert_eq!(pod["metadata"]["generateName"], format!("work-{number}-"));
        assert_eq!(pod["spec"]["hostname"], format!("work-{number}"));
        let variable = &pod["spec"]["containers"][0]["env"][0];
        assert_eq!(variable["name"], "JOB_COMPLETION_INDEX");
        let path = "metadata.labels['batch.kubernetes.io/job-completion-index']";
        assert_eq!(variable["valueFrom"]["fieldRef"]["fieldPath"], path);
    }
    succeed(&plane, &of_index(&pods, "1")).await;
    let found = plane.until(WORK, |_, job| job["status"]["completedIndexes"] == "1").await;
    assert_eq!(found["status"]["failedIndexes"], Value::Null);
    let pods = until_active(&plane, 3).await;
    fail(&plane, &of_index(&pods, "0")).await;
    plane.until(WORK, |_, job| job["status"]["failed"] == 1).await;
    plane.advance(Duration::from_secs(10));
    let pods = until_active(&plane, 3).await;
    for number in ["0", "2", "3"] {
        succeed(&plane, &of_index(&pods, number)).await;
    }
    let done = until_condition(&plane, "Complete").await;
    assert_eq!(done["status"]["completedIndexes"], "0-3");
    assert_eq!(done["status"]["succeeded"], 4);
    assert_untracked(&plane).await;
    plane.stop().await;
}

#[tokio::test]
async fn failed_pods_are_replaced_after_a_growing_delay_until_the_limit() {
    let plane = plane().await;
    plane.create(JOBS, &job(&json!({"backoffLimit": 2}))).await;
    for (failures, delay) in [(1, 10), (2, 20)] {
        let pods = until_active(&plane, 1).await;
        fail(&plane, &active(&pods)[0]).await;
        plane.until(WORK, |_, job| job["status"]["failed"] == failures).await;
        plane.advance(Duration::from_secs(delay - 1));
        tokio::task::yield_now().await;
        assert_eq!(active(&plane.read(PODS).await), Vec::<String>::new());
        plane.advance(Duration::from_secs(1));
    }
    let pods = until_active(&plane, 1).await;
    fail(&plane, &active(&pods)[0]).await;
    let done = until_condition(&plane, "Failed").await;
    let expected = ("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    for type_ in ["FailureTarget", "Failed"] {
        let (reason, message) = reason(&done, type_);
        assert_eq!((reason.as_str(), message.as_str()), expected);
    }
    assert_eq!(done["status"]["failed"], 3);
    assert_eq!(done["status"]["completionTime"], Value::Null);
    assert_eq!(event(&plane, "work", "BackoffLimitExceeded").await, expected.1);
    plane.stop().await;
}

#[tokio::test]
async fn a_count_of_another_writer_is_not_overwritten() {
    let mut plane = plane().await;
    let path = format!("{WORK}/status");
    let is_armed = Arc::new(AtomicBool::new(false));
    let armed = Arc::clone(&is_armed);
    let connect = interception::connect(&plane, move |request| {
        let is_write = request.method() == Method::PATCH && request.uri().path() == path;
        if !is_write || !armed.swap(false, Relaxed) {
            return Interception::None;
        }
        let count = json!({"status": {"failed": 1}}).to_string().into_bytes();
        let patch = Request::patch(&path).header("content-type", "application/merge-patch+json");
        Interception::After(Box::new(patch.body(count.into()).unwrap()))
    });
    plane.restart_with(connect).await;
    plane.create(JOBS, &job(&json!({}))).await;
    let pods = until_active(&plane, 1).await;
    plane.until(WORK, |_, job| job["status"]["active"] == 1).await;
    is_armed.store(true, Relaxed);
    fail(&plane, &names(&pods)[0]).await;
    // The uid stays in the status from before the finalizer is removed until the pod is counted.
    assert_untracked(&plane).await;
    let is_counted = |_, job: &Value| job["status"]["uncountedTerminatedPods"] == json!({});
    let counted = plane.until(WORK, is_counted).await;
    assert!(!is_armed.load(Relaxed));
    assert_eq!(counted["status"]["failed"], 2);
    plane.stop().await;
}

#[tokio::test]
async fn pods_that_are_refused_are_created_again_after_a_second() {
    let mut plane = plane().await;
    let connect = interception::connect(&plane, move |request| {
        let is_creation = request.method() == Method::POST && request.uri().path() == PODS;
        if is_creation { Interception::Refused(StatusCode::FORBIDDEN) } else { Interception::None }
    });
    plane.restart_with(connect).await;
    let manager = plane.controllers().manager();
    let failures = |name: &str| {
        let is_failed = |it: &Record| matches!(it.outcome, ReconcileOutcome::Failed(_));
        let records = manager.records("job-controller");
        records.iter().filter(|it| it.request.name() == name && is_failed(it)).count()
    };
    let until_failures = async |name: &str, count: usize| {
        while failures(name) < count {
            tokio::task::yield_now().await;
        }
    };
    // The first attempt writes the status, which is followed by the second one.
    plane.create(JOBS, &job(&json!({}))).await;
    until_failures("work", 2).await;
    plane.advance(Duration::from_millis(450));
    // A retry would be before a later Job in the queue.
    for name in ["later", "last"] {
        let mut later = job(&json!({}));
        later["metadata"]["name"] = name.into();
        plane.create(JOBS, &later).await;
        until_failures(name, 2).await;
    }
    assert_eq!(failures("work"), 2);
    plane.advance(Duration::from_secs(2));
    until_failures("work", 3).await;
    plane.stop().await;
}

#[tokio::test]
async fn restarts_in_a_pod_count_towards_the_limit() {
    let plane = plane().await;
    let mut job = job(&json!({"backoffLimit": 2}));
    job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure".into();
    plane.create(JOBS, &job).await;
    let pods = until_active(&plane, 1).await;
    let container = json!({"name": "main", "image": "busybox", "imageID": "", "ready": false,
        "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    let status = json!({"status": {"phase": "Running", "containerStatuses": [container]}});
    plane.merge(&format!("{PODS}/{}/status", active(&pods)[0]), &status).await;
    let done = until_condition(&plane, "Failed").await;
    assert_eq!(reason(&done, "Failed").0, "BackoffLimitExceeded");
    assert_eq!(done["status"]["failed"], 1);
    plane.until(PODS, |_, pods| items(pods).is_empty()).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_job_fails_when_its_deadline_passes() {
    let plane = plane().await;
    plane.create(JOBS, &job(&json!({"activeDeadlineSeconds": 30, "parallelism": 2}))).await;
    until_active(&plane, 2).await;
    plane.advance(Duration::from_secs(29));
    tokio::task::yield_now().await;
    assert_eq!(active(&plane.read(PODS).await).len(), 2);
    plane.advance(Duration::from_secs(1));
    let done = until_condition(&plane, "Failed").await;
    let (reason, message) = reason(&done, "Failed");
    assert_eq!(reason, "DeadlineExceeded");
    assert_eq!(message, "Job was active longer than specified deadline");
    assert_eq!(done["status"]["failed"], 2);
    assert_eq!(event(&plane, "work", "DeadlineExceeded").await, message);
    plane.until(PODS, |_, pods| items(pods).is_empty()).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    let plane = plane().await;
    plane.create(JOBS, &job(&json!({"suspend": true, "activeDeadlineSeconds": 60}))).await;
    let found = until_condition(&plane, "Suspended").await;
    assert_eq!(reason(&found, "Suspended"), ("JobSuspended".into(), "Job suspended".into()));
    assert_eq!(found["status"]["startTime"], Value::Null);
    assert_eq!(event(&plane, "work", "Suspended").await, "Job suspended");
    plane.advance(Duration::from_mins(2));
    plane.merge(WORK, &json!({"spec": {"suspend": false}})).await;
    until_active(&plane, 1).await;
    let found = plane.until(WORK, |_, job| condition(job, "Suspended")["status"] == "False").await;
    assert_eq!(reason(&found, "Suspended"), ("JobResumed".into(), "Job resumed".into()));
    assert_eq!(event(&plane, "work", "Resumed").await, "Job resumed");
    assert_eq!(found["status"]["startTime"], "2024-01-01T00:02:00Z");

    // Pods that are deleted by a suspension are not failures.
    plane.merge(WORK, &json!({"spec": {"suspend": true}})).await;
    let found = until_condition(&plane, "Suspended").await;
    assert_eq!(found["status"]["failed"], Value::Null);
    plane.until(PODS, |_, pods| items(pods).is_empty()).await;
    let found = plane.until(WORK, |_, job| job["status"]["terminating"] == 0).await;
    assert_eq!(found["status"]["active"], Value::Null);
    plane.stop().await;
}

#[tokio::test]
async fn less_parallelism_deletes_pods_that_are_not_counted_as_failed() {
    let plane = plane().await;
    plane.create(JOBS, &job(&json!({"parallelism": 5, "completions": 9}))).await;
    until_active(&plane, 5).await;
    plane.merge(WORK, &json!({"spec": {"parallelism": 2}})).await;
    plane.until(PODS, |_, pods| items(pods).len() == 2).await;
    let found = plane
        .until(WORK, |_, job| job["status"]["active"] == 2 && job["status"]["terminating"] == 0)
        .await;
    assert_eq!(found["status"]["failed"], Value::Null);
    let message = event(&plane, "work", "SuccessfulDelete").await;
    assert!(message.starts_with("Deleted pod: work-"), "{message}");
    plane.stop().await;
}

#[tokio::test]
async fn a_deleted_pod_is_replaced_and_counts_as_failed() {
    let plane = plane().await;
    plane.create(JOBS, &job(&json!({}))).await;
    let pods = until_active(&plane, 1).await;
    let first = active(&pods).remove(0);
    plane.delete(&format!("{PODS}/{first}")).await;
    plane.until(WORK, |_, job| job["status"]["failed"] == 1).await;
    plane.advance(Duration::from_secs(10));
    let pods = plane.until(PODS, |_, pods| active(pods).len() == 1 && names(pods).len() == 1).await;
    assert_ne!(names(&pods)[0], first);
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_that_is_being_deleted_is_replaced_after_its_end_if_the_policy_says_so() {
    let plane = plane().await;
    plane.create(JOBS, &job(&json!({"podReplacementPolicy": "Failed"}))).await;
    let pods = until_active(&plane, 1).await;
    let first = active(&pods).remove(0);
    // The pod runs on a node, so that its deletion is graceful.
    let binding =
        json!({"metadata": {"name": first}, "target": {"kind": "Node", "name": "node-1"}});
    plane.create(&format!("{PODS}/{first}/binding"), &binding).await;
    plane.merge(&format!("{PODS}/{first}/status"), &json!({"status": {"phase": "Running"}})).await;
    plane.delete(&format!("{PODS}/{first}")).await;
    let found = plane.until(WORK, |_, job| job["status"]["terminating"] == 1).await;
    assert_eq!(found["status"]["failed"], Value::Null);
    plane.advance(Duration::from_secs(20));
    tokio::task::yield_now().await;
    assert_eq!(names(&plane.read(PODS).await), [first.as_str()]);
    fail(&plane, &first).await;
    plane.until(WORK, |_, job| job["status"]["failed"] == 1).await;
    plane.advance(Duration::from_secs(20));
    until_active(&plane, 1).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_policy_ignores_disruptions_and_fails_the_job_for_an_exit_code() {
    let plane = plane().await;
    let policy = json!({"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]});
    let spec = json!({"backoffLimit": 0, "parallelism": 2, "completions": 2,
        "podFailurePolicy": policy});
    plane.create(JOBS, &job(&spec)).await;
    let pods = until_active(&plane, 2).await;
    let disrupted = active(&pods).remove(0);
    let conditions = json!([{"type": "DisruptionTarget", "status": "True"}]);
    let status = json!({"status": {"phase": "Failed", "conditions": conditions}});
    plane.merge(&format!("{PODS}/{disrupted}/status"), &status).await;
    assert_eq!(
        plane.until(WORK, |_, job| job["status"]["active"] == 1).await["status"]["failed"],
        Value::Null
    );
    plane.advance(Duration::from_secs(10));
    let pods = until_active(&plane, 2).await;
    let culprit = active(&pods).remove(0);
    end_pod(&plane, &culprit, "Failed", 42).await;
    let done = until_condition(&plane, "Failed").await;
    let (reason, message) = reason(&done, "Failed");
    assert_eq!(reason, "PodFailurePolicy");
    let expected = format!(
        "Container main for pod default/{culprit} failed with exit code 42 matching FailJob rule at index 1"
    );
    assert_eq!(message, expected);
    assert_eq!(done["status"]["failed"], 2);
    plane.stop().await;
}

#[tokio::test]
async fn each_index_has_a_limit_of_failures() {
    let plane = plane().await;
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed",
        "backoffLimitPerIndex": 1, "maxFailedIndexes": 1});
    plane.create(JOBS, &job(&spec)).await;
    let pods = until_active(&plane, 3).await;
    let of_index = |pods: &Value, index: &str| {
        let key = "batch.kubernetes.io/job-completion-index";
        let is = |pod: &&Value| is_active(pod) && pod["metadata"]["annotations"][key] == index;
        items(pods).iter().find(is).cloned().unwrap()
    };
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    let failures = "batch.kubernetes.io/job-index-failure-count";
    let first = of_index(&pods, "0");
    assert_eq!(first["metadata"]["annotations"][failures], "0");
    fail(&plane, &name(&first)).await;
    plane.until(WORK, |_, job| job["status"]["active"] == 2).await;
    plane.advance(Duration::from_secs(10));
    let pods = until_active(&plane, 3).await;
    let second = of_index(&pods, "0");
    assert_eq!(second["metadata"]["annotations"][failures], "1");
    fail(&plane, &name(&second)).await;
    let found = plane.until(WORK, |_, job| job["status"]["failedIndexes"] == "0").await;
    assert_eq!(condition(&found, "FailureTarget"), Value::Null);
    succeed(&plane, &name(&of_index(&pods, "1"))).await;
    succeed(&plane, &name(&of_index(&pods, "2"))).await;
    let done = until_condition(&plane, "Failed").await;
    assert_eq!(reason(&done, "Failed"), ("FailedIndexes".into(), "Job has failed indexes".into()));
    assert_eq!(done["status"]["completedIndexes"], "1,2");
    assert_eq!(done["status"]["failed"], 2);
    plane.stop().await;
}

#[tokio::test]
async fn too_many_failed_indexes_end_the_job() {
    let plane = plane().await;
    let spec = json!({"completions": 9, "parallelism": 3, "completionMode": "Indexed",
        "backoffLimitPerIndex": 0, "maxFailedIndexes": 1});
    plane.create(JOBS, &job(&spec)).await;
    let pods = until_active(&plane, 3).await;
    let names = active(&pods);
    fail(&plane, &names[0]).await;
    fail(&plane, &names[1]).await;
    let done = until_condition(&plane, "Failed").await;
    let (reason, message) = reason(&done, "Failed");
    assert_eq!(reason, "MaxFailedIndexesExceeded");
    assert_eq!(message, "Job has exceeded the specified maximal number of failed indexes");
    assert_eq!(done["status"]["failedIndexes"], "0,1");
    plane.stop().await;
}

#[tokio::test]
async fn a_success_policy_ends_the_job_early() {
    let plane = plane().await;
    let spec = json!({"completions": 5, "parallelism": 5, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0-2", "succeededCount": 1}]}});
    plane.create(JOBS, &job(&spec)).await;
    let pods = until_active(&plane, 5).await;
    succeed(&plane, &active(&pods)[1]).await;
    let done = until_condition(&plane, "Complete").await;
    for type_ in ["SuccessCriteriaMet", "Complete"] {
        let expected = ("SuccessPolicy".to_owned(), "Matched rules at index 0".to_owned());
        assert_eq!(reason(&done, type_), expected);
    }
    assert_eq!(done["status"]["completedIndexes"], "1");
    assert_eq!(done["status"]["failed"], Value::Null);
    plane.until(PODS, |_, pods| items(pods).len() == 1).await;
    plane.stop().await;
}

#[tokio::test]
async fn the_pods_of_a_deleted_job_lose_the_finalizer() {
    let plane = plane().await;
    plane.create(JOBS, &job(&json!({"parallelism": 3}))).await;
    until_active(&plane, 3).await;
    plane.delete(&format!("{WORK}?propagationPolicy=Background")).await;
    plane.until(WORK, |code, _| code == 404).await;
    assert_untracked(&plane).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_job_of_another_controller_is_left_alone() {
    let plane = plane().await;
    plane.create(JOBS, &job(&json!({"managedBy": "example.com/queue"}))).await;
    let mut other = job(&json!({}));
    other["metadata"]["name"] = "other".into();
    plane.create(JOBS, &other).await;
    until_active(&plane, 1).await;
    let found = plane.read(WORK).await;
    assert_eq!(found["status"], json!({}));
    plane.stop().await;
}

#[tokio::test]
async fn an_orphan_is_adopted_with_the_finalizer() {
    let plane = plane().await;
    let mut manual = job(&json!({"manualSelector": true,
        "selector": {"matchLabels": {"app": "work"}}}));
    manual["spec"]["template"]["metadata"] = json!({"labels": {"app": "work"}});
    let orphan = json!({"metadata": {"name": "orphan", "labels": {"app": "work"}},
        "spec": manual["spec"]["template"]["spec"]});
    plane.create(PODS, &orphan).await;
    plane.create(JOBS, &manual).await;
    let pod = plane
        .until(&format!("{PODS}/orphan"), |_, pod| pod["metadata"]["ownerReferences"].is_array())
        .await;
    assert_eq!(pod["metadata"]["finalizers"], json!([FINALIZER]));
    plane.until(WORK, |_, job| job["status"]["active"] == 1).await;
    succeed(&plane, "orphan").await;
    until_condition(&plane, "Complete").await;
    assert_eq!(names(&plane.read(PODS).await), ["orphan"]);
    plane.stop().await;
}
