//! Jobs whose controller is killed again and again: each pod is counted exactly once, and there is
//! never one too many.

use std::time::Duration;

use crate::crash::{Crash, LastWrite};
use crate::jobs::{JOBS, end_pod, is_active, items, job};
use crate::objects::PODS;
use crate::plane::Plane;
use keel::Entropy;
use machinery::{Value, json};

/// The number of kills.
const RESTARTS: u64 = 100;

/// The number of polls without a change after which the clock is advanced, for delayed pods.
const IDLE_POLLS: u32 = 20;

/// A plane whose Job controller is killed again and again.
struct CrashingPlane {
    plane: Plane,
    random: Entropy,
    crash: Crash,
    restarts: u64,
}

impl CrashingPlane {
    async fn start() -> Self {
        let mut plane = Plane::start(&["job"]).await;
        plane.stop_controllers().await;
        let crash = Crash::after(0, LastWrite::Answered);
        Self { plane, random: Entropy::seeded(7), crash, restarts: 0 }
    }

    /// Starts controllers with empty caches after each crash. Of every second crash, the last write
    /// was done, but its response was lost.
    async fn restart_if_crashed(&mut self) {
        if !self.crash.has_happened() {
            return;
        }
        self.restarts += 1;
        let last_write = match self.restarts % 2 {
            0 => LastWrite::ResponseLost,
            _ => LastWrite::Answered,
        };
        let writes = 1 + i64::try_from(self.random.below(6)).unwrap();
        self.crash = Crash::after(writes, last_write);
        self.plane.restart_until(&self.crash).await;
    }
}

/// Runs one Job to its end. Returns its final state and its pods.
async fn run_job(crashing: &mut CrashingPlane, name: &str, spec: &Value) -> [Value; 2] {
    let mut job = job(spec);
    job["metadata"]["name"] = name.into();
    crashing.plane.create(JOBS, &job).await;
    let path = format!("{PODS}?labelSelector=job-name%3D{name}");
    let mut idle = 0;
    loop {
        crashing.restart_if_crashed().await;
        let CrashingPlane { plane, random, .. } = &*crashing;
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
    let mut crashing = CrashingPlane::start().await;
    let mut number = 0;
    while crashing.restarts < RESTARTS {
        number += 1;
        let mut spec = json!({"completions": 4, "parallelism": 3, "backoffLimit": 1000});
        if number % 2 == 0 {
            spec["completionMode"] = "Indexed".into();
        }
        if number % 4 == 0 {
            spec["backoffLimitPerIndex"] = 1000.into();
        }
        let [job, pods] = run_job(&mut crashing, &format!("job-{number}"), &spec).await;
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
    crashing.plane.stop().await;
}
