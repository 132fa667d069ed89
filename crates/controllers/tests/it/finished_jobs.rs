//! The deletion of finished Jobs.

use std::time::Duration;

use serde_json::json;

use crate::plane::Plane;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// Creates a Job that has finished at the present time of the plane, 2024-01-01T00:00:00Z.
async fn create_finished(plane: &Plane, name: &str, time_to_live: Option<u32>) {
    let template = json!({"spec": {"restartPolicy": "Never",
        "containers": [{"name": "a", "image": "a"}]}});
    let spec = json!({"template": template, "ttlSecondsAfterFinished": time_to_live});
    plane.create(JOBS, &json!({"metadata": {"name": name}, "spec": spec})).await;
    let at = "2024-01-01T00:00:00Z";
    let condition =
        |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": at});
    let status = json!({
        "startTime": at,
        "completionTime": at,
        "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    });
    plane.merge(&format!("{JOBS}/{name}/status"), &json!({"status": status})).await;
}

#[tokio::test]
async fn a_finished_job_is_deleted_when_its_time_to_live_has_passed() {
    let plane = Plane::start(&["ttl-after-finished-controller"]).await;
    create_finished(&plane, "short", Some(60)).await;
    create_finished(&plane, "long", Some(3600)).await;
    create_finished(&plane, "kept", None).await;
    create_finished(&plane, "at-once", Some(0)).await;
    // No garbage collector runs, so a deletion in the foreground does not end.
    let is_deleting =
        |_: u16, job: &serde_json::Value| !job["metadata"]["deletionTimestamp"].is_null();
    let deleted = plane.until(&format!("{JOBS}/at-once"), is_deleting).await;
    assert_eq!(deleted["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    plane.advance(Duration::from_secs(59));
    plane.merge(&format!("{JOBS}/long"), &json!({"spec": {"ttlSecondsAfterFinished": 10}})).await;
    plane.until(&format!("{JOBS}/long"), is_deleting).await;
    assert!(!is_deleting(200, &plane.read(&format!("{JOBS}/short")).await));
    plane.advance(Duration::from_secs(1));
    plane.until(&format!("{JOBS}/short"), is_deleting).await;
    plane.advance(Duration::from_hours(1));
    assert!(!is_deleting(200, &plane.read(&format!("{JOBS}/kept")).await));
    plane.stop().await;
}
