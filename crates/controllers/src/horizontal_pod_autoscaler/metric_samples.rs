//! What the autoscaler calculates with: the metrics of pods, and the parts of pods that it reads.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use crate::metadata::Metadata;
use crate::pod_view::PodConditionView;
use keel::Timestamp;
use machinery::quantity::Quantity;

/// The value of a metric of one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// The end of the window.
    pub(super) timestamp: Timestamp,
    /// The time over which the value was measured.
    pub(super) window: Duration,
    /// The value in thousandths.
    pub(super) value: i64,
}

/// The metric of each pod, by name.
pub(super) type Samples = BTreeMap<String, Sample>;

/// The parts of a pod that the autoscaler reads.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScaledPod {
    pub(super) metadata: Metadata,
    pub(super) spec: ScaledPodSpec,
    pub(super) status: ScaledPodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ScaledPodSpec {
    pub(super) containers: Vec<Container>,
    pub(super) init_containers: Vec<Container>,
    /// The resources of the whole pod.
    pub(super) resources: Resources,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) restart_policy: String,
    pub(super) resources: Resources,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resources {
    pub(super) requests: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ScaledPodStatus {
    pub(super) phase: String,
    pub(super) conditions: Vec<PodConditionView>,
    pub(super) start_time: Option<Time>,
}

impl ScaledPod {
    /// The condition `Ready`.
    pub(super) fn ready_condition(&self) -> Option<&PodConditionView> {
        self.status.conditions.iter().find(|condition| condition.type_ == "Ready")
    }

    /// Whether the pod runs and is ready.
    pub(super) fn is_running_and_ready(&self) -> bool {
        self.status.phase == "Running"
            && self.ready_condition().is_some_and(|condition| condition.status == "True")
    }

    /// The request for a resource in thousandths: of one container, or (`""`) of the pod. An error
    /// is a message for the user.
    // Upstream: podautoscaler/replica_calculator.go calculateRequests
    pub(super) fn request(&self, resource: &str, container: &str) -> Result<i64, String> {
        let pod_level = &self.spec.resources.requests;
        if container.is_empty()
            && let Some(request) = pod_level.get(resource)
        {
            return Ok(milli_value(request));
        }
        let sidecars = self.spec.init_containers.iter().filter(|it| it.restart_policy == "Always");
        let mut all = self.spec.containers.iter().chain(sidecars);
        let request_of = |it: &Container| match it.resources.requests.get(resource) {
            Some(request) => Ok(milli_value(request)),
            None => Err(format!(
                "missing request for {resource} in container {} of Pod {}",
                it.name, self.metadata.name
            )),
        };
        if container.is_empty() {
            return all.try_fold(0_i64, |sum, it| Ok(sum.saturating_add(request_of(it)?)));
        }
        let found = all.find(|it| it.name == container);
        found.map_or_else(
            || Err(format!("container {container} not found in Pod {}", self.metadata.name)),
            request_of,
        )
    }
}

/// A quantity in thousandths; 0 if it cannot be parsed.
pub(super) fn milli_value(quantity: &str) -> i64 {
    Quantity::parse(quantity).map(|quantity| quantity.milli_value()).unwrap_or_default()
}

/// A quantity of thousandths, as Kubernetes writes it.
pub(super) fn milli_quantity(value: i64) -> String {
    Quantity::parse(&format!("{value}m")).map(|quantity| quantity.to_string()).unwrap_or_default()
}

/// A quantity of a resource; bytes have binary suffixes.
pub(super) fn resource_quantity(resource: &str, value: i64) -> String {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if resource != "memory" || value % 1000 != 0 || (value / 1000).abs() < 1024 {
        return milli_quantity(value);
    }
    let (mut bytes, mut exponent) = (value / 1000, 0);
    while bytes % 1024 == 0 && exponent < 6 {
        bytes /= 1024;
        exponent += 1;
    }
    format!("{bytes}{}", SUFFIXES[exponent])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_by_kubernetes() {
        assert_eq!(resource_quantity("cpu", 250), "250m");
        assert_eq!(resource_quantity("cpu", 2000), "2");
        assert_eq!(resource_quantity("memory", 64 * 1024 * 1024 * 1000), "64Mi");
        assert_eq!(resource_quantity("memory", 500_000), "500");
        assert_eq!(resource_quantity("memory", 1_500_500), "1500500m");
    }

    #[test]
    fn the_request_of_a_pod_is_that_of_its_containers_and_sidecars() {
        let pod: ScaledPod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p"},
            "spec": {
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "100m"}}},
                    {"name": "b", "resources": {"requests": {"cpu": "1"}}}],
                "initContainers": [
                    {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "5m"}}},
                    {"name": "i"}],
            },
        }))
        .unwrap();
        assert_eq!(pod.request("cpu", ""), Ok(1105));
        assert_eq!(pod.request("cpu", "b"), Ok(1000));
        let mut huge = pod.clone();
        huge.spec.containers[1].resources.requests =
            [("cpu".into(), "9223372036854776".into())].into();
        assert_eq!(huge.request("cpu", ""), Ok(i64::MAX));
        let missing = "missing request for memory in container a of Pod p";
        assert_eq!(pod.request("memory", ""), Err(missing.to_owned()));
        assert_eq!(pod.request("cpu", "x"), Err("container x not found in Pod p".to_owned()));
    }
}
