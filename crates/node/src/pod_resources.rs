//! The resources of pods and their containers, and [`Amounts`] of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::pod_view::{Container, ContainerStatus, PodView};
use machinery::quantity::Quantity;

/// Quantities by the names of the resources.
pub(crate) type ResourceList = BTreeMap<String, String>;

/// The resources of a container or pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceRequirements {
    /// What it may use at most.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: ResourceList,
    /// What is reserved for it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: ResourceList,
    /// The claims of the pod that it uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ResourceClaim>,
}

/// A claim of the pod that a container uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceClaim {
    /// The name of the claim.
    pub name: String,
    /// The part of the claim; empty for the whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request: String,
}

/// Whether a container restarts when the amount of a resource changes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResizePolicy {
    /// `cpu` or `memory`
    pub resource_name: String,
    /// `NotRequired` or `RestartContainer`
    pub restart_policy: String,
}

/// Amounts by the names of the resources: of `cpu` in thousandths, of others in whole units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Amounts(BTreeMap<String, i64>);

impl Amounts {
    /// The amounts in a list. The API server refuses quantities that cannot be parsed.
    pub(crate) fn of(list: &ResourceList) -> Self {
        let amount = |(name, text): (&String, &String)| {
            let quantity = Quantity::parse(text).ok()?;
            let is_cpu = name == "cpu";
            let amount = if is_cpu { quantity.milli_value() } else { quantity.value() };
            Some((name.clone(), amount))
        };
        Self(list.iter().filter_map(amount).collect())
    }

    /// The amount of a resource, if it is named.
    pub(crate) fn get(&self, name: &str) -> Option<i64> {
        self.0.get(name).copied()
    }

    /// The names of the resources.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Subtracts amounts that were added before. The sum must not be [saturated](Self::is_saturated).
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = own.saturating_sub(*amount);
        }
    }

    /// Adds other amounts. A sum beyond the range is the largest amount, which no node has.
    pub(crate) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = own.saturating_add(*amount);
        }
    }

    /// Whether an amount may be smaller than the sum of what was added.
    pub(crate) fn is_saturated(&self) -> bool {
        self.0.values().any(|amount| *amount == i64::MAX)
    }

    /// Raises each amount to the other one, if that is larger.
    fn raise_to(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = (*own).max(*amount);
        }
    }
}

/// What a pod requests now.
pub(crate) fn requested(pod: &PodView) -> Amounts {
    total(pod, |container, _| Amounts::of(&container.resources.requests))
}

/// What the node of a pod has accepted; of containers that were not created, what they request.
pub(crate) fn allocated(pod: &PodView) -> Amounts {
    total(pod, |container, statuses| {
        let status = statuses.iter().find(|it| it.name == container.name);
        match status.filter(|it| it.resources.is_some()) {
            Some(status) => Amounts::of(&status.allocated_resources),
            None => Amounts::of(&container.resources.requests),
        }
    })
}

/// The requests of a pod: of its containers together, or of the largest init container with the
/// sidecars that run beside it.
///
/// Upstream: component-helpers/resource/helpers.go `PodRequests`
fn total(pod: &PodView, requests: impl Fn(&Container, &[ContainerStatus]) -> Amounts) -> Amounts {
    let (spec, status) = (&pod.spec, &pod.status);
    let mut total = Amounts::default();
    for container in &spec.containers {
        total.add(&requests(container, &status.container_statuses));
    }
    let (mut sidecars, mut initial) = (Amounts::default(), Amounts::default());
    for container in &spec.init_containers {
        let mut running = requests(container, &status.init_container_statuses);
        if container.is_sidecar() {
            total.add(&running);
            sidecars.add(&running);
            running.clone_from(&sidecars);
        } else {
            running.add(&sidecars);
        }
        initial.raise_to(&running);
    }
    total.raise_to(&initial);
    // The requests of the pod replace those of its containers.
    total.0.extend(Amounts::of(&spec.resources.requests).0);
    total.add(&Amounts::of(&spec.overhead));
    total
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cpu(spec: &Value) -> Option<i64> {
        requested(&serde_json::from_value(json!({"spec": spec})).unwrap()).get("cpu")
    }

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(cpu: &str) -> Value {
        let mut sidecar = container(cpu);
        sidecar["restartPolicy"] = json!("Always");
        sidecar
    }

    #[test]
    fn init_containers_and_sidecars_count_with_what_runs_beside_them() {
        let check = |init: &[Value], expect: i64| {
            let main = [container("1"), container("500m")];
            assert_eq!(cpu(&json!({"containers": main, "initContainers": init})), Some(expect));
        };
        check(&[], 1500);
        check(&[container("3"), container("2")], 3000);
        check(&[sidecar("1"), container("3")], 4000);
        check(&[container("3"), sidecar("1")], 3000);
        assert_eq!(cpu(&json!({"containers": [{"name": "c"}]})), None);
        let huge = container("9223372036854775");
        assert_eq!(cpu(&json!({"containers": [huge, huge, container("2")]})), Some(i64::MAX));
    }

    #[test]
    fn the_requests_of_the_pod_replace_those_of_its_containers() {
        let spec = json!({"containers": [container("1")], "overhead": {"cpu": "1"},
            "resources": {"requests": {"cpu": "4"}}});
        assert_eq!(cpu(&spec), Some(5000));
    }
}
