//! Jobs whose controller is killed again and again: each pod is counted exactly once, and there is
//! never one too many.

use std::time::Duration;

use crate::crashes::CrashingPlane;
use crate::jobs::{JOBS, end_pod, is_active, items, job};
use crate::objects::PODS;
use keel::Entropy;
use machinery::{Value, json};

/// The number of kills.
const RESTARTS: u64 = 100;

/// The number of polls without a change after which the clock is advanced, for delayed pods.
const IDLE_POLLS: u32 = 20;

/// Runs one Job to its end. Returns its final state and its pods.
async fn run_job(
    plane: &mut CrashingPlane,
    name: &str,
    spec: &Value,
    random: &Entropy,
) -> [Value; 2] {
    let mut job = job(spec);
    job["metadata"]["name"] = name.into();
    plane.create(JOBS, &job).await;
    let path = format!("{PODS}?labelSelector=job-name%3D{name}");
    let mut idle = 0;
    loop {
        if plane.has_crashed() {
            plane.restart(1 + i64::try_from(random.below(6)).unwrap()).await;
        }
        let found = plane.read(&format!("{JOBS}/{name}")).await;
        let pods = plane.read(&path).await;
        assert_never_too_many(spec, &found, &pods);
        let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
        if conditions.into_iter().any(|it| it["type"] == "Complete") {
            return [found, pods];
        }
        let active: Vec<&Value> = items(&pods).iter().filter(|pod| is_active(pod)).collect();
        idle = if active.is_empty() { idle + 1 } else { 0 };
        if idle > IDLE_POLLS {
            plane.advance(Duration::from_mins(10));
        }
        for pod in active {
            let phase = if random.below(4) == 0 { "Failed" } else { "Succeeded" };
            end_pod(plane, pod["metadata"]["name"].as_str().unwrap(), phase, 0).await;
        }
        tokio::task::yield_now().await;
    }
}

fn assert_never_too_many(spec: &Value, job: &Value, pods: &Value) {
    let count = |is: &dyn Fn(&Value) -> bool| items(pods).iter().filter(|pod| is(pod)).count();
    let active = count(&is_active);
    let succeeded = count(&|pod| pod["status"]["phase"] == "Succeeded");
    let (completions, parallelism) = (&spec["completions"], &spec["parallelism"]);
    let limit = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    assert!(active <= limit(parallelism), "{job:#}");
    assert!(active + succeeded <= limit(completions), "{job:#} {pods:#}");
}

#[tokio::test]
async fn a_killed_controller_counts_each_pod_once_and_never_creates_one_too_many() {
    let mut plane = CrashingPlane::start(&["job"]).await;
    let random = Entropy::seeded(7);
    let mut number = 0;
    while plane.restarts() < RESTARTS {
        number += 1;
        let mut spec = json!({"completions": 4, "parallelism": 3, "backoffLimit": 1000});
        if number % 2 == 0 {
            spec["completionMode"] = "Indexed".into();
        }
        if number % 4 == 0 {
            spec["backoffLimitPerIndex"] = 1000.into();
        }
        let [job, pods] = run_job(&mut plane, &format!("job-{number}"), &spec, &random).await;
        let phase = |phase: &str| {
            let pods = items(&pods).iter();
            pods.filter(|pod| pod["status"]["phase"] == phase).count()
        };
        assert_eq!(job["status"]["succeeded"], 4);
        assert_eq!(phase("Succeeded"), 4);
        assert_eq!(job["status"]["failed"].as_u64().unwrap_or(0), phase("Failed") as u64);
        assert_eq!(items(&pods).len(), phase("Succeeded") + phase("Failed"));
        assert_eq!(job["status"]["uncountedTerminatedPods"], json!({}));
    }
    assert!(number > 3, "too few jobs");
    plane.stop().await;
}
