//! The arithmetic of the autoscaler: the number of replicas for which a metric would have its target
//! value. Pure: the metrics, the pods and the time are arguments.
// Upstream: podautoscaler/replica_calculator.go

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "replicas are calculated in floating point, as in Kubernetes"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use super::metric_samples::{Sample, Samples, ScaledPod};
use crate::time::to_timestamp;
use keel::Timestamp;

/// The time after the start of a pod in which its CPU usage may be that of its initialization.
const CPU_INITIALIZATION_PERIOD: Duration = Duration::from_mins(5);

/// The time after the start of a pod in which a change to unready is its first status.
const INITIAL_READINESS_DELAY: Duration = Duration::from_secs(30);

/// The relative deviations of a metric from its target that are tolerated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tolerances {
    pub(super) scale_down: f64,
    pub(super) scale_up: f64,
}

impl Default for Tolerances {
    fn default() -> Self {
        Self { scale_down: 0.1, scale_up: 0.1 }
    }
}

impl Tolerances {
    fn includes(self, ratio: f64) -> bool {
        1.0 - self.scale_down <= ratio && ratio <= 1.0 + self.scale_up
    }
}

/// The number of replicas for a metric, and its present value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// The usage in thousandths: of a pod on average, or of the object.
    pub(super) usage: i64,
    /// The usage in percent of the requests.
    pub(super) utilization: Option<i32>,
}

/// The scaled pods at a time.
pub(super) struct ScaledWorkload<'a> {
    pub(super) current_replicas: i32,
    pub(super) tolerances: Tolerances,
    pub(super) pods: &'a [ScaledPod],
    pub(super) now: Timestamp,
}

/// The pods by what their metrics say.
#[derive(Debug, Default, PartialEq, Eq)]
struct PodGroups<'a> {
    ready: usize,
    unready: BTreeSet<&'a str>,
    missing: BTreeSet<&'a str>,
    ignored: BTreeSet<&'a str>,
}

const NO_METRICS: &str = "did not receive metrics for targeted pods (pods might be unready)";
const NO_PODS: &str = "no pods returned by selector while calculating replica count";

impl ScaledWorkload<'_> {
    /// The replicas for an average utilization of a resource, in percent of the requests of the pods,
    /// or of one container.
    pub(super) fn for_utilization(
        &self,
        mut samples: Samples,
        target: i32,
        resource: &str,
        container: &str,
    ) -> Result<Proposal, String> {
        let groups = self.group(&mut samples, resource)?;
        let mut requests = std::collections::BTreeMap::new();
        for pod in self.pods {
            requests.insert(pod.metadata.name.as_str(), pod.request(resource, container)?);
        }
        let ratio_of = |samples: &Samples| utilization(samples, &requests, target);
        let (ratio, utilization, usage) = ratio_of(&samples)?;
        // Pods without a metric use all of their request if that prevents a scale-down.
        let fallback = i64::from(target.max(100));
        let at_most = |pod: &str| {
            let request = requests.get(pod).copied().unwrap_or_default();
            clamped(i128::from(request) * i128::from(fallback) / 100)
        };
        let new_ratio = |samples: &Samples| ratio_of(samples).map(|(ratio, ..)| ratio);
        let replicas = self.replicas(samples, &groups, ratio, &at_most, &new_ratio)?;
        Ok(Proposal { replicas, usage, utilization: Some(utilization) })
    }

    /// The replicas for an average value of a metric. `resource` is that of the metric, or empty.
    pub(super) fn for_average(
        &self,
        mut samples: Samples,
        target: i64,
        resource: &str,
    ) -> Result<Proposal, String> {
        let groups = self.group(&mut samples, resource)?;
        let usage = average(&samples);
        let ratio_of = |samples: &Samples| Ok(average(samples) as f64 / target as f64);
        let ratio = usage as f64 / target as f64;
        let replicas = self.replicas(samples, &groups, ratio, &|_| target, &ratio_of)?;
        Ok(Proposal { replicas, usage, utilization: None })
    }

    /// The replicas for a value of a metric that is not one of the pods.
    pub(super) fn for_value(&self, usage: i64, target: i64) -> Result<Proposal, String> {
        let ratio = usage as f64 / target as f64;
        let proposal = |replicas| Ok(Proposal { replicas, usage, utilization: None });
        if self.current_replicas == 0 {
            return proposal(ratio.ceil() as i32);
        }
        if self.tolerances.includes(ratio) {
            return proposal(self.current_replicas);
        }
        if self.pods.is_empty() {
            return Err(format!("unable to calculate ready pods: {NO_PODS}"));
        }
        let ready = self.pods.iter().filter(|pod| pod.is_running_and_ready()).count();
        proposal((ratio * ready as f64).ceil() as i32)
    }

    /// The replicas for a value per replica of a metric that is not one of the pods;
    /// `current_replicas` are those of the status.
    pub(super) fn for_value_per_pod(&self, usage: i64, target: i64) -> Proposal {
        let current = f64::from(self.current_replicas);
        let ratio = usage as f64 / (target as f64 * current);
        let replicas = if self.tolerances.includes(ratio) {
            self.current_replicas
        } else {
            (usage as f64 / target as f64).ceil() as i32
        };
        Proposal { replicas, usage: (usage as f64 / current).ceil() as i64, utilization: None }
    }

    /// Groups the pods, and removes the metrics that do not count.
    fn group(&self, samples: &mut Samples, resource: &str) -> Result<PodGroups<'_>, String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let groups = group(self.pods, samples, resource, self.now);
        let is_out = |pod: &str| groups.ignored.contains(pod) || groups.unready.contains(pod);
        samples.retain(|pod, _| !is_out(pod));
        if samples.is_empty() {
            return Err(NO_METRICS.to_owned());
        }
        Ok(groups)
    }

    /// The replicas for the `ratio` of usage and target. `at_most` is the assumed usage of a pod
    /// without a metric when scaling down.
    fn replicas(
        &self,
        mut samples: Samples,
        groups: &PodGroups<'_>,
        ratio: f64,
        at_most: &dyn Fn(&str) -> i64,
        ratio_of: &dyn Fn(&Samples) -> Result<f64, String>,
    ) -> Result<i32, String> {
        let current = self.current_replicas;
        let scales_up_with_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !scales_up_with_unready && groups.missing.is_empty() {
            if self.tolerances.includes(ratio) {
                return Ok(current);
            }
            return Ok((ratio * groups.ready as f64).ceil() as i32);
        }
        let mut assume = |pod: &str, value: i64| {
            let (timestamp, window) = (self.now, Duration::ZERO);
            samples.insert(pod.to_owned(), Sample { timestamp, window, value });
        };
        for pod in &groups.missing {
            if ratio < 1.0 {
                assume(pod, at_most(pod));
            } else if ratio > 1.0 {
                assume(pod, 0);
            }
        }
        if scales_up_with_unready {
            groups.unready.iter().for_each(|pod| assume(pod, 0));
        }
        let new_ratio = ratio_of(&samples)?;
        let turns = (ratio < 1.0 && new_ratio > 1.0) || (ratio > 1.0 && new_ratio < 1.0);
        if self.tolerances.includes(new_ratio) || turns {
            return Ok(current);
        }
        let replicas = (new_ratio * samples.len() as f64).ceil() as i32;
        let turns =
            (new_ratio < 1.0 && replicas > current) || (new_ratio > 1.0 && replicas < current);
        Ok(if turns { current } else { replicas })
    }
}

/// Groups pods by their state and metrics.
fn group<'a>(
    pods: &'a [ScaledPod],
    samples: &Samples,
    resource: &str,
    now: Timestamp,
) -> PodGroups<'a> {
    let mut groups = PodGroups::default();
    for pod in pods {
        let name = pod.metadata.name.as_str();
        if pod.metadata.is_deleting() || pod.status.phase == "Failed" {
            groups.ignored.insert(name);
        } else if pod.status.phase == "Pending" {
            groups.unready.insert(name);
        } else if let Some(sample) = samples.get(name) {
            if resource == "cpu" && is_unready(pod, sample, now) {
                groups.unready.insert(name);
            } else {
                groups.ready += 1;
            }
        } else {
            groups.missing.insert(name);
        }
    }
    groups
}

/// Whether the CPU usage of a pod says nothing, because the pod is being initialized.
fn is_unready(pod: &ScaledPod, sample: &Sample, now: Timestamp) -> bool {
    let (Some(condition), Some(start)) = (pod.ready_condition(), &pod.status.start_time) else {
        return true;
    };
    let start = to_timestamp(start);
    let changed = condition.last_transition_time.as_ref().map_or(start, to_timestamp);
    let is_false = condition.status == "False";
    if start + CPU_INITIALIZATION_PERIOD > now {
        // The window must have begun after the last change.
        is_false || sample.timestamp < changed + sample.window
    } else {
        // The pod has never been ready.
        is_false && start + INITIAL_READINESS_DELAY > changed
    }
}

/// The average of the metrics of all pods.
fn average(samples: &Samples) -> i64 {
    let total: i128 = samples.values().map(|sample| i128::from(sample.value)).sum();
    clamped(total / samples.len().max(1) as i128)
}

/// The nearest number in the range.
fn clamped(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// The ratio of the utilization and its target, the utilization in percent, and the average usage.
fn utilization(
    samples: &Samples,
    requests: &std::collections::BTreeMap<&str, i64>,
    target: i32,
) -> Result<(f64, i32, i64), String> {
    let (mut used, mut requested, mut count) = (0_i128, 0_i128, 0_i128);
    for (pod, sample) in samples {
        let Some(request) = requests.get(pod.as_str()) else { continue };
        used += i128::from(sample.value);
        requested += i128::from(*request);
        count += 1;
    }
    if requested == 0 {
        return Err("no metrics returned matched known pods".to_owned());
    }
    let percent = i32::try_from(used * 100 / requested).unwrap_or(i32::MAX);
    Ok((f64::from(percent) / f64::from(target), percent, clamped(used / count)))
}

#[cfg(test)]
mod tests;
