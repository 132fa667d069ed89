//! `CronJob`s.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::{Method, Request};

use crate::interception::{self, Interception};
use crate::jobs::{JOBS, end_pod, event, is_active, items};
use crate::objects::{PODS, names};
use crate::plane::Plane;
use machinery::{Value, json};

const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const REPORT: &str = "/apis/batch/v1/namespaces/default/cronjobs/report";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// The clock shows 2024-01-01T00:00:00Z when a plane starts; this is that time in minutes.
const START: u64 = 1_704_067_200 / 60;

const HOUR: Duration = Duration::from_hours(1);

async fn plane() -> Plane {
    Plane::start(&["cronjob", "job"]).await
}

/// A `CronJob` with these fields in its spec.
fn cron_job(spec: &Value) -> Value {
    let mut cron_job = json!({
        "metadata": {"name": "report"},
        "spec": {
            "schedule": "0 * * * *",
            "jobTemplate": {
                "metadata": {"labels": {"app": "report"}, "annotations": {"team": "a"}},
                "spec": {"template": {"spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox"}],
                }}},
            },
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        cron_job["spec"][field] = value.clone();
    }
    cron_job
}

/// The name of the Job of a time in minutes since the start.
fn job_name(minutes: u64) -> String {
    format!("report-{}", START + minutes)
}

/// Creates a `CronJob`, and waits until the controller waits for its first time.
async fn create(plane: &Plane, spec: &Value) -> Value {
    let created = plane.create(CRON_JOBS, &cron_job(spec)).await;
    settle(plane).await;
    created
}

/// Lets the tasks of the plane run until they have nothing to do.
async fn settle(plane: &Plane) {
    for _ in 0..20 {
        plane.read(REPORT).await;
        tokio::task::yield_now().await;
    }
}

/// Waits until there are Jobs with these names.
async fn until_jobs(plane: &Plane, expected: &[u64]) -> Value {
    let expected: Vec<String> = expected.iter().map(|minutes| job_name(*minutes)).collect();
    plane.until(JOBS, |_, jobs| names(jobs) == expected).await
}

/// Ends all active pods, and waits until no Job is active.
async fn finish_jobs(plane: &Plane, phase: &str) {
    for _ in 0..10_000 {
        let pods = plane.read(PODS).await;
        for pod in items(&pods).iter().filter(|pod| is_active(pod)) {
            end_pod(plane, pod["metadata"]["name"].as_str().unwrap(), phase, 1).await;
        }
        let found = plane.read(REPORT).await;
        if found["status"]["active"].is_null() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{:#}\n{:#}", plane.read(REPORT).await, plane.read(JOBS).await);
}

#[tokio::test]
async fn the_life_of_a_cron_job_from_its_creation_to_finished_pods() {
    let plane = plane().await;
    // The CronJob waits for its time.
    let created = create(&plane, &json!({})).await;
    assert_eq!(created["status"], json!({}));
    assert_eq!(names(&plane.read(JOBS).await), Vec::<String>::new());

    // At that time, a Job is created from the template.
    plane.advance(HOUR + Duration::from_millis(100));
    let jobs = until_jobs(&plane, &[60]).await;
    let job = &jobs["items"][0];
    let scheduled =
        &job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(*scheduled, "2024-01-01T01:00:00Z");
    assert_eq!(job["metadata"]["annotations"]["team"], "a");
    assert_eq!(job["metadata"]["labels"], json!({"app": "report"}));
    let owner = &job["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("CronJob"), &json!(true)));
    let name = job_name(60);
    assert_eq!(event(&plane, "report", "SuccessfulCreate").await, format!("Created job {name}"));

    // The status of the CronJob shows it.
    let found = plane.until(REPORT, |_, it| it["status"]["active"].is_array()).await;
    let active = &found["status"]["active"][0];
    assert_eq!((&active["name"], &active["uid"]), (&json!(name), &job["metadata"]["uid"]));
    assert_eq!(found["status"]["lastScheduleTime"], "2024-01-01T01:00:00Z");
    assert_eq!(found["status"]["lastSuccessfulTime"], Value::Null);

    // The Job creates a pod, which runs and succeeds on a node.
    let pods = plane.until(PODS, |_, pods| items(pods).len() == 1).await;
    let pod = names(&pods).remove(0);
    assert!(pod.starts_with(&format!("{name}-")), "{pod}");
    plane.until(&format!("{JOBS}/{name}"), |_, job| job["status"]["active"] == 1).await;
    plane.merge(&format!("{PODS}/{pod}/status"), &json!({"status": {"phase": "Running"}})).await;
    end_pod(&plane, &pod, "Succeeded", 0).await;

    // The Job completes, and the CronJob notices it.
    let job = plane
        .until(&format!("{JOBS}/{name}"), |_, job| job["status"]["completionTime"].is_string())
        .await;
    assert_eq!(job["status"]["succeeded"], 1);
    let found = plane.until(REPORT, |_, it| it["status"]["active"].is_null()).await;
    assert_eq!(found["status"]["lastSuccessfulTime"], job["status"]["completionTime"]);
    let message = format!("Saw completed job: {name}, condition: Complete");
    assert_eq!(event(&plane, "report", "SawCompletedJob").await, message);

    // The next hour has its own Job.
    plane.advance(HOUR);
    until_jobs(&plane, &[60, 120]).await;
    plane.stop().await;
}

#[tokio::test]
async fn jobs_may_run_at_the_same_time_by_default() {
    let plane = plane().await;
    create(&plane, &json!({})).await;
    plane.advance(HOUR + Duration::from_millis(100));
    until_jobs(&plane, &[60]).await;
    settle(&plane).await;
    plane.advance(HOUR);
    until_jobs(&plane, &[60, 120]).await;
    plane.until(REPORT, |_, it| it["status"]["active"].as_array().map(Vec::len) == Some(2)).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_forbidden_job_is_not_started_while_another_runs() {
    let plane = plane().await;
    create(&plane, &json!({"concurrencyPolicy": "Forbid"})).await;
    plane.advance(HOUR + Duration::from_millis(100));
    until_jobs(&plane, &[60]).await;
    settle(&plane).await;
    plane.advance(HOUR);
    let message = event(&plane, "report", "JobAlreadyActive").await;
    let expected =
        "Not starting job because prior execution is running and concurrency policy is Forbid";
    assert_eq!(message, expected);
    until_jobs(&plane, &[60]).await;
    // The missed Job is started late.
    finish_jobs(&plane, "Succeeded").await;
    until_jobs(&plane, &[60, 120]).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_replaced_job_is_deleted() {
    let plane = plane().await;
    create(&plane, &json!({"concurrencyPolicy": "Replace"})).await;
    plane.advance(HOUR + Duration::from_millis(100));
    until_jobs(&plane, &[60]).await;
    settle(&plane).await;
    plane.advance(HOUR);
    until_jobs(&plane, &[120]).await;
    let message = event(&plane, "report", "SuccessfulDelete").await;
    assert_eq!(message, format!("Deleted job {}", job_name(60)));
    let is_new = |it: &Value| it["status"]["active"][0]["name"] == job_name(120);
    plane.until(REPORT, |_, it| is_new(it)).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_status_cannot_make_the_controller_delete_the_jobs_of_others() {
    let plane = plane().await;
    plane.create("/api/v1/namespaces", &json!({"metadata": {"name": "other"}})).await;
    let spec = cron_job(&json!({}))["spec"]["jobTemplate"]["spec"].clone();
    let job = |name: &str| json!({"metadata": {"name": name}, "spec": spec});
    let others = "/apis/batch/v1/namespaces/other/jobs";
    let mut active = Vec::new();
    for collection in [others, JOBS] {
        let job = plane.create(collection, &job("precious")).await;
        let metadata = &job["metadata"];
        active.push(json!({"kind": "Job", "namespace": metadata["namespace"],
            "name": "precious", "uid": metadata["uid"]}));
    }
    create(&plane, &json!({"concurrencyPolicy": "Replace"})).await;
    plane.merge(&format!("{REPORT}/status"), &json!({"status": {"active": active}})).await;
    settle(&plane).await;
    plane.advance(HOUR + Duration::from_millis(100));
    plane.until(JOBS, |_, jobs| names(jobs) == ["precious", job_name(60).as_str()]).await;
    assert_eq!(names(&plane.read(others).await), ["precious"]);
    plane.stop().await;
}

#[tokio::test]
async fn a_late_job_is_not_started_after_its_deadline() {
    let plane = plane().await;
    create(
        &plane,
        &json!({"schedule": "0 6 * * *", "startingDeadlineSeconds": 200, "suspend": true}),
    )
    .await;
    plane.advance(HOUR * 7);
    plane.merge(REPORT, &json!({"spec": {"suspend": false}})).await;
    settle(&plane).await;
    assert_eq!(names(&plane.read(JOBS).await), Vec::<String>::new());
    plane.merge(REPORT, &json!({"spec": {"startingDeadlineSeconds": null}})).await;
    until_jobs(&plane, &[360]).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_suspended_cron_job_starts_the_last_missed_job_when_it_is_resumed() {
    let plane = plane().await;
    create(&plane, &json!({"schedule": "*/2 * * * *", "suspend": true})).await;
    plane.advance(HOUR * 5 + Duration::from_secs(30));
    settle(&plane).await;
    assert_eq!(names(&plane.read(JOBS).await), Vec::<String>::new());
    plane.merge(REPORT, &json!({"spec": {"suspend": false}})).await;
    until_jobs(&plane, &[300]).await;
    let message = event(&plane, "report", "TooManyMissedTimes").await;
    let expected = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
    assert_eq!(message, expected);
    plane.stop().await;
}

#[tokio::test]
async fn a_new_schedule_concerns_future_times() {
    let plane = plane().await;
    create(&plane, &json!({"schedule": "0 0 1 6 *"})).await;
    plane.advance(HOUR + Duration::from_mins(1));
    plane.merge(REPORT, &json!({"spec": {"schedule": "*/30 * * * *"}})).await;
    settle(&plane).await;
    assert_eq!(names(&plane.read(JOBS).await), Vec::<String>::new());
    plane.advance(Duration::from_secs(29 * 60 + 1));
    until_jobs(&plane, &[90]).await;
    plane.stop().await;
}

#[tokio::test]
async fn the_schedule_is_that_of_the_time_zone() {
    let plane = plane().await;
    create(&plane, &json!({"schedule": "30 12 * * *", "timeZone": "Asia/Kolkata"})).await;
    plane.advance(HOUR * 7 + Duration::from_millis(100));
    let jobs = until_jobs(&plane, &[420]).await;
    let annotations = &jobs["items"][0]["metadata"]["annotations"];
    let scheduled = &annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(*scheduled, "2024-01-01T12:30:00+05:30");
    plane.stop().await;
}

#[tokio::test]
async fn only_the_last_finished_jobs_are_kept() {
    let plane = plane().await;
    create(&plane, &json!({"successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 0})).await;
    plane.advance(Duration::from_millis(100));
    for hour in 1..=4 {
        plane.advance(HOUR);
        let is_started = |it: &Value| it["status"]["active"][0]["name"] == job_name(hour * 60);
        plane.until(REPORT, |_, it| is_started(it)).await;
        finish_jobs(&plane, "Succeeded").await;
    }
    until_jobs(&plane, &[180, 240]).await;
    plane.merge(REPORT, &json!({"spec": {"jobTemplate": {"spec": {"backoffLimit": 0}}}})).await;
    settle(&plane).await;
    plane.advance(HOUR);
    plane.until(REPORT, |_, it| it["status"]["active"].is_array()).await;
    finish_jobs(&plane, "Failed").await;
    let found = until_jobs(&plane, &[180, 240]).await;
    assert_eq!(items(&found).len(), 2);
    let message = format!("Saw completed job: {}, condition: Failed", job_name(300));
    let is_seen = |events: &Value| items(events).iter().any(|it| it["message"] == message);
    let deleted = format!("Deleted job {}", job_name(300));
    let is_deleted = |events: &Value| items(events).iter().any(|it| it["message"] == deleted);
    plane.until(EVENTS, |_, events| is_seen(events) || is_deleted(events)).await;
    plane.stop().await;
}

#[tokio::test]
async fn the_last_success_is_known_if_no_job_is_kept() {
    let plane = plane().await;
    create(&plane, &json!({"successfulJobsHistoryLimit": 0})).await;
    plane.advance(HOUR + Duration::from_millis(100));
    until_jobs(&plane, &[60]).await;
    plane.until(REPORT, |_, it| it["status"]["active"].is_array()).await;
    finish_jobs(&plane, "Succeeded").await;
    until_jobs(&plane, &[]).await;
    let found = plane.read(REPORT).await;
    assert_eq!(found["status"]["lastSuccessfulTime"], "2024-01-01T01:00:00Z");
    plane.stop().await;
}

#[tokio::test]
async fn a_job_that_ends_while_the_schedule_changes_is_not_active_any_more() {
    let mut plane = plane().await;
    let is_armed = Arc::new(AtomicBool::new(false));
    let armed = Arc::clone(&is_armed);
    // The schedule changes while the end of the Job is written, so the next reconcile sees both.
    let connect = interception::connect(&plane, move |request| {
        let is_write =
            request.method() == Method::PATCH && request.uri().path() == format!("{REPORT}/status");
        if !is_write || !armed.swap(false, Relaxed) {
            return Interception::None;
        }
        let patch = json!({"spec": {"schedule": "*/30 * * * *"}}).to_string().into_bytes();
        let request = Request::patch(REPORT).header("content-type", "application/merge-patch+json");
        Interception::After(Box::new(request.body(patch.into()).unwrap()))
    });
    plane.restart_with(connect).await;
    create(&plane, &json!({})).await;
    plane.advance(HOUR + Duration::from_millis(100));
    until_jobs(&plane, &[60]).await;
    plane.until(REPORT, |_, it| it["status"]["active"].is_array()).await;
    plane.advance(Duration::from_mins(40));
    is_armed.store(true, Relaxed);
    finish_jobs(&plane, "Succeeded").await;
    assert!(!is_armed.load(Relaxed));
    let found = plane.read(REPORT).await;
    assert_eq!(found["spec"]["schedule"], "*/30 * * * *");
    assert!(found["status"]["lastSuccessfulTime"].is_string());
    // The new schedule concerns future times, also after the status was written.
    settle(&plane).await;
    until_jobs(&plane, &[60]).await;
    plane.advance(Duration::from_mins(20));
    until_jobs(&plane, &[60, 120]).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_job_of_another_owner_is_left_alone_and_the_next_time_has_its_own_job() {
    let plane = plane().await;
    let mut foreign = cron_job(&json!({}))["spec"]["jobTemplate"].clone();
    foreign["metadata"]["name"] = job_name(60).into();
    let foreign = plane.create(JOBS, &foreign).await;
    create(&plane, &json!({"concurrencyPolicy": "Replace"})).await;
    plane.advance(HOUR + Duration::from_millis(100));
    settle(&plane).await;
    assert_eq!(plane.read(REPORT).await["status"], json!({}));

    plane.advance(HOUR);
    let jobs = until_jobs(&plane, &[60, 120]).await;
    assert_eq!(jobs["items"][0]["metadata"]["uid"], foreign["metadata"]["uid"]);
    let found = plane.until(REPORT, |_, it| it["status"]["active"].is_array()).await;
    assert_eq!(found["status"]["active"].as_array().unwrap().len(), 1);
    assert_eq!(found["status"]["active"][0]["name"], job_name(120));
    plane.stop().await;
}

#[tokio::test]
async fn a_missing_job_is_forgotten() {
    let plane = plane().await;
    create(&plane, &json!({})).await;
    plane.advance(HOUR + Duration::from_millis(100));
    until_jobs(&plane, &[60]).await;
    plane.until(REPORT, |_, it| it["status"]["active"].is_array()).await;
    plane.delete(&format!("{JOBS}/{}?propagationPolicy=Background", job_name(60))).await;
    plane.until(REPORT, |_, it| it["status"]["active"].is_null()).await;
    let message = event(&plane, "report", "MissingJob").await;
    assert_eq!(message, format!("Active job went missing: {}", job_name(60)));
    plane.stop().await;
}

/// A node that runs each pod for no time. It never ends: a watch, which ends after less than an hour,
/// is resumed.
async fn run_pods(client: testenv::Client) -> Infallible {
    let pods = client.read(PODS).await;
    let mut version = pods["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    loop {
        let path = format!("{PODS}?watch=true&resourceVersion={version}");
        let mut watch = client.watch(&path).await;
        while let Some((event_type, pod)) = watch.next().await {
            pod["metadata"]["resourceVersion"].as_str().unwrap().clone_into(&mut version);
            if event_type == "ADDED" {
                let path = format!("{PODS}/{}/status", pod["metadata"]["name"].as_str().unwrap());
                client.merge(&path, &json!({"status": {"phase": "Succeeded"}})).await;
            }
        }
    }
}

/// Waits with a watch until the next Job has succeeded and is no longer active.
async fn until_done(plane: &Plane, before: &Value) -> Value {
    let (collection, name) = REPORT.rsplit_once('/').unwrap();
    let version = before["metadata"]["resourceVersion"].as_str().unwrap();
    let selector = format!("fieldSelector=metadata.name%3D{name}&resourceVersion={version}");
    let mut watch = plane.client().watch(&format!("{collection}?watch=true&{selector}")).await;
    loop {
        let (_, report) = watch.next().await.unwrap();
        let status = &report["status"];
        let is_later = status["lastSuccessfulTime"] != before["status"]["lastSuccessfulTime"];
        if is_later && status["active"].is_null() {
            return report;
        }
    }
}

#[tokio::test]
async fn a_week_of_an_hourly_cron_job() {
    let plane = plane().await;
    let node = run_pods(plane.client());
    let week = async {
        create(&plane, &json!({})).await;
        let mut report = plane.read(REPORT).await;
        plane.advance(Duration::from_millis(100));
        for hour in 1..=7 * 24 {
            plane.advance(HOUR);
            report = until_done(&plane, &report).await;
            let job = plane.read(&format!("{JOBS}/{}", job_name(hour * 60))).await;
            assert!(job["status"]["completionTime"].is_string(), "{job}");
            assert_eq!(job["status"]["succeeded"], 1);
            assert_eq!(job["status"]["failed"], Value::Null);
        }
        let last = 7 * 24 * 60;
        let jobs = until_jobs(&plane, &[last - 120, last - 60, last]).await;
        assert_eq!(items(&jobs).len(), 3);
        let found = plane.read(REPORT).await;
        assert_eq!(found["status"]["lastScheduleTime"], "2024-01-08T00:00:00Z");
        assert_eq!(found["status"]["lastSuccessfulTime"], "2024-01-08T00:00:00Z");
    };
    tokio::select! {
        () = week => {}
        never = node => match never {},
    }
    plane.stop().await;
}
