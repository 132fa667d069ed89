//! Pods whose commands say how long they run and how they end.

use std::time::Duration;

use crate::plane::{Plane, condition};
use machinery::{Value, json};

/// The spec of a pod that is not restarted, with this command.
fn spec(command: &[&str]) -> Value {
    let container = json!({"name": "main", "image": "busybox", "command": command});
    json!({"restartPolicy": "Never", "containers": [container]})
}

#[tokio::test]
async fn a_pod_that_sleeps_succeeds_after_that_time() {
    let plane = Plane::start(1, &["none"]).await;
    plane.create_pod("nap", json!({}), spec(&["sleep", "30"])).await;
    plane.until_phase("nap", "Running").await;
    plane.advance(Duration::from_secs(29));
    plane.create_pod("other", json!({}), json!({})).await;
    plane.until_phase("other", "Running").await;
    plane.until_phase("nap", "Running").await;
    plane.advance(Duration::from_secs(1));
    let pod = plane.until_phase("nap", "Succeeded").await;
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(ended["finishedAt"], "2024-01-01T00:00:30Z");
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_fails_with_the_exit_code_of_its_script() {
    let plane = Plane::start(1, &["none"]).await;
    plane.create_pod("bad", json!({}), spec(&["sh", "-c", "true && exit 3"])).await;
    let pod = plane.until_phase("bad", "Failed").await;
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(3), &json!("Error")));
    plane.stop().await;
}

#[tokio::test]
async fn an_annotation_decides_before_the_command() {
    let plane = Plane::start(1, &["none"]).await;
    let annotations = json!({"sampan.dev/exit-code": "0"});
    plane.create_pod("good", annotations, spec(&["false"])).await;
    plane.until_phase("good", "Succeeded").await;
    plane.stop().await;
}

#[tokio::test]
async fn the_job_of_a_command_that_sleeps_stays_active() {
    let plane = Plane::start(1, &["job"]).await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = |name: &str, command: &[&str]| {
        let mut spec = spec(command);
        spec["nodeName"] = json!("sampan-0");
        json!({"metadata": {"name": name},
            "spec": {"backoffLimit": 0, "template": {"spec": spec}}})
    };
    plane.create(jobs, &job("long", &["sleep", "1d"])).await;
    plane.create(jobs, &job("bad", &["/bin/false"])).await;
    plane.create(jobs, &job("other", &["work"])).await;
    let second = Duration::from_secs(1);
    let is_failed = |_, job: &Value| condition(job, "Failed")["status"] == "True";
    let failed = plane.advance_until(second, &format!("{jobs}/bad"), is_failed).await;
    assert_eq!(condition(&failed, "Failed")["reason"], "BackoffLimitExceeded");
    let has_succeeded = |_, job: &Value| job["status"]["succeeded"] == 1;
    plane.advance_until(second, &format!("{jobs}/other"), has_succeeded).await;
    let is_ready = |_, job: &Value| job["status"]["ready"] == 1;
    let long = plane.advance_until(second, &format!("{jobs}/long"), is_ready).await;
    assert_eq!(long["status"]["active"], 1);
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_fails_at_its_active_deadline() {
    let plane = Plane::start(1, &["none"]).await;
    plane.create_pod("late", json!({}), json!({"activeDeadlineSeconds": 60})).await;
    plane.until_phase("late", "Running").await;
    plane.advance(Duration::from_mins(1));
    let pod = plane.until_phase("late", "Failed").await;
    assert_eq!(pod["status"]["reason"], "DeadlineExceeded");
    let message = "Pod was active on the node longer than the specified deadline";
    assert_eq!(pod["status"]["message"], message);
    assert_eq!(condition(&pod, "Ready")["reason"], "PodFailed");
    plane.stop().await;
}

#[tokio::test]
async fn a_file_on_the_disk_of_a_node_exists_from_the_time_at_which_it_is_made() {
    let plane = Plane::start(1, &["none"]).await;
    let spec = |script: &str| {
        let mut spec = spec(&["sh", "-c", script]);
        spec["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
        let path = json!({"path": "/tmp/job", "type": "DirectoryOrCreate"});
        spec["volumes"] = json!([{"name": "data", "hostPath": path}]);
        spec
    };
    let writer = "touch /data/first; sleep 60; touch /data/second; sleep 1000000";
    plane.create_pod("writer", json!({}), spec(writer)).await;
    plane.until_phase("writer", "Running").await;
    let reader = "[ -e /data/first ] || exit 1; [ -e /data/second ] || exit 2; exit 3";
    let exit_code = async |name: &str| {
        plane.create_pod(name, json!({}), spec(reader)).await;
        let pod = plane.until_phase(name, "Failed").await;
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"].clone()
    };
    assert_eq!(exit_code("early").await, 2);
    plane.advance(Duration::from_secs(61));
    // Another pod is advanced after the writer.
    plane.create_pod("other", json!({}), json!({})).await;
    plane.until_phase("other", "Running").await;
    assert_eq!(exit_code("late").await, 3);
    plane.stop().await;
}
