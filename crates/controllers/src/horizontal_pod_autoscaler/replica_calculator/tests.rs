//! Tables of the arithmetic.

use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp::from_seconds(1_704_067_200);

/// Pods with a request of one CPU each, from a text with one letter per pod: `r`eady, `p`ending,
/// `u`nready since its start, `d`eleting, `f`ailed.
fn pods(states: &str) -> Vec<ScaledPod> {
    let pod = |(index, state): (usize, char)| {
        let phase = match state {
            'p' => "Pending",
            'f' => "Failed",
            _ => "Running",
        };
        let ready = if state == 'r' { "True" } else { "False" };
        let deletion = (state == 'd').then_some("2024-01-01T00:00:00Z");
        serde_json::from_value(json!({
            "metadata": {"name": format!("p{index}"), "deletionTimestamp": deletion},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": phase, "startTime": "2023-12-31T23:00:00Z",
                "conditions": [{"type": "Ready", "status": ready,
                    "lastTransitionTime": "2023-12-31T23:00:00Z"}]},
        }))
        .unwrap()
    };
    states.chars().enumerate().map(pod).collect()
}

/// The metrics of the first pods.
fn samples(values: &[i64]) -> Samples {
    let window = Duration::from_secs(30);
    let sample = |value: &i64| Sample { timestamp: NOW, window, value: *value };
    values.iter().enumerate().map(|(index, value)| (format!("p{index}"), sample(value))).collect()
}

fn workload(pods: &[ScaledPod], current_replicas: i32) -> ScaledWorkload<'_> {
    ScaledWorkload { current_replicas, tolerances: Tolerances::default(), pods, now: NOW }
}

/// The replicas and the utilization for pods in these states, whose first ones use `values` of a CPU
/// in thousandths, with a target in percent.
fn check(states: &str, values: &[i64], target: i32, expected: Result<(i32, i32), &str>) {
    let pods = pods(states);
    let current = i32::try_from(states.len()).unwrap();
    let proposal = workload(&pods, current).for_utilization(samples(values), target, "cpu", "");
    let found = proposal.map(|it| (it.replicas, it.utilization.unwrap()));
    assert_eq!(found, expected.map_err(str::to_owned), "{states} {values:?} {target}");
}

#[test]
fn replicas_follow_the_utilization() {
    check("rrr", &[300, 500, 700], 30, Ok((5, 50)));
    check("rrr", &[300, 300, 300], 50, Ok((2, 30)));
    check("rrr", &[100, 100, 100], 100, Ok((1, 10)));
    check("rr", &[0, 0], 50, Ok((0, 0)));
}

#[test]
fn a_deviation_of_a_tenth_is_tolerated() {
    check("rrr", &[1010, 1030, 1020], 100, Ok((3, 102)));
    check("rrr", &[550, 550, 550], 50, Ok((3, 55)));
    check("rrr", &[560, 560, 560], 50, Ok((4, 56)));
    check("rrr", &[450, 450, 450], 50, Ok((3, 45)));
}

#[test]
fn pods_that_are_not_ready_use_nothing_when_scaling_up() {
    check("rru", &[900, 900, 900], 50, Ok((4, 90)));
    check("rrp", &[900, 900], 50, Ok((4, 90)));
    // The change would be a scale-down then.
    check("ruuu", &[600, 600, 600, 600], 50, Ok((4, 60)));
}

#[test]
fn pods_without_metrics_dampen_the_change() {
    check("rrr", &[900, 900], 50, Ok((4, 90)));
    check("rrr", &[100, 100], 50, Ok((3, 10)));
    check("rrrrr", &[100, 100, 100, 100], 50, Ok((3, 10)));
}

#[test]
fn deleted_and_failed_pods_are_ignored() {
    check("rrdf", &[900, 900, 0, 0], 45, Ok((4, 90)));
}

#[test]
fn missing_metrics_are_an_error() {
    check("pp", &[], 50, Err(NO_METRICS));
    check("", &[], 50, Err(NO_PODS));
    check("uu", &[500, 500], 50, Err(NO_METRICS));
}

#[test]
fn the_cpu_usage_of_a_starting_pod_counts_after_one_window() {
    let mut started = pods("rr");
    for pod in &mut started {
        let just_now = serde_json::from_value(json!("2024-01-01T00:00:00Z")).ok();
        pod.status.start_time.clone_from(&just_now);
        pod.status.conditions[0].last_transition_time = just_now;
    }
    let found = |age: u64| {
        let mut samples = samples(&[900, 900]);
        for sample in samples.values_mut() {
            sample.timestamp = NOW + Duration::from_secs(age);
        }
        let now = NOW + Duration::from_secs(age);
        let workload = ScaledWorkload { now, ..workload(&started, 2) };
        workload.for_utilization(samples, 50, "cpu", "").map(|it| it.replicas)
    };
    assert_eq!(found(29), Err(NO_METRICS.to_owned()));
    assert_eq!(found(30), Ok(4));
}

#[test]
fn replicas_follow_the_average_value() {
    let check = |states: &str, values: &[i64], target, expected: (i32, i64)| {
        let pods = pods(states);
        let current = i32::try_from(states.len()).unwrap();
        let found = workload(&pods, current).for_average(samples(values), target, "").unwrap();
        assert_eq!((found.replicas, found.usage), expected, "{states} {values:?} {target}");
    };
    check("rrr", &[20_000, 10_000, 30_000], 15_000, (4, 20_000));
    check("rrr", &[12_000, 12_000, 12_000], 20_000, (2, 12_000));
    check("rr", &[20_500, 20_500], 20_000, (2, 20_500));
    check("rrr", &[50_000, 10_000], 25_000, (3, 30_000));
    // Only the readiness of CPU metrics matters.
    check("uu", &[40_000, 40_000], 20_000, (4, 40_000));
}

#[test]
fn replicas_follow_the_value_of_another_object() {
    let check = |states: &str, current, usage, target, expected: i32| {
        let pods = pods(states);
        let found = workload(&pods, current).for_value(usage, target).unwrap();
        assert_eq!((found.replicas, found.usage), (expected, usage));
    };
    check("rrr", 3, 20_000, 15_000, 4);
    check("rru", 3, 20_000, 10_000, 4);
    check("rrr", 3, 20_050, 20_000, 3);
    check("", 0, 40_000, 20_000, 2);
}

#[test]
fn replicas_follow_the_value_per_pod_of_another_object() {
    let check = |current, usage, target, expected: (i32, i64)| {
        let found = workload(&[], current).for_value_per_pod(usage, target);
        assert_eq!((found.replicas, found.usage), expected);
    };
    check(4, 8_600, 2_150, (4, 2_150));
    check(3, 8_600, 2_150, (4, 2_867));
    check(5, 8_600, 4_300, (2, 1_720));
}
