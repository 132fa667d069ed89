//! [`Resources`]: the amounts of cpu, memory and other resources that a pod requests or a node has.

use std::collections::BTreeMap;

use machinery::quantity::Quantity;

/// The request for cpu that scoring assumes for a container without one.
const DEFAULT_MILLI_CPU: i64 = 100;
/// The request for memory that scoring assumes for a container without one.
const DEFAULT_MEMORY: i64 = 200 << 20;

/// A `ResourceList` as it is in JSON.
pub(crate) type ResourceList = BTreeMap<String, String>;

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Resources {
    /// Thousandths of a cpu.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// Extended resources, huge pages and others, by name.
    pub scalar: BTreeMap<String, i64>,
}

impl Resources {
    /// The amounts in a list. Quantities that cannot be parsed count as zero: the API server refuses
    /// them.
    pub(crate) fn parse(list: &ResourceList) -> Self {
        let mut resources = Self::default();
        for (name, text) in list {
            let Ok(quantity) = Quantity::parse(text) else { continue };
            match name.as_str() {
                "cpu" => resources.milli_cpu = quantity.milli_value(),
                "memory" => resources.memory = quantity.value(),
                "ephemeral-storage" => resources.ephemeral_storage = quantity.value(),
                "pods" => {}
                _ => drop(resources.scalar.insert(name.clone(), quantity.value())),
            }
        }
        resources
    }

    /// Adds other amounts. A sum beyond the range is the largest amount, which no node has.
    pub(crate) fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Subtracts other amounts, which were added before. The sum must not be [saturated](Self::is_saturated).
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
    }

    fn combine(&mut self, other: &Self, operation: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = operation(self.milli_cpu, other.milli_cpu);
        self.memory = operation(self.memory, other.memory);
        self.ephemeral_storage = operation(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.scalar {
            let own = self.scalar.entry(name.clone()).or_default();
            *own = operation(*own, *amount);
        }
    }

    /// Whether an amount may be smaller than the sum of what was added.
    pub(crate) fn is_saturated(&self) -> bool {
        let mut amounts = [self.milli_cpu, self.memory, self.ephemeral_storage]
            .into_iter()
            .chain(self.scalar.values().copied());
        amounts.any(|amount| amount == i64::MAX)
    }

    /// The amount of one resource, which may be absent.
    pub(crate) fn scalar(&self, name: &str) -> i64 {
        self.scalar.get(name).copied().unwrap_or_default()
    }

    /// Raises each amount to the other one, if that is larger.
    fn raise_to(&mut self, other: &Self) {
        self.milli_cpu = self.milli_cpu.max(other.milli_cpu);
        self.memory = self.memory.max(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.max(other.ephemeral_storage);
        for (name, amount) in &other.scalar {
            let own = self.scalar.entry(name.clone()).or_default();
            *own = (*own).max(*amount);
        }
    }
}

/// The requests of one container.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContainerRequests<'a> {
    /// The list of the container.
    pub requests: &'a ResourceList,
    /// Whether it is an init container that runs as long as the pod, a sidecar.
    pub is_restartable: bool,
}

/// The parts of a pod that determine its requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodRequests<'a> {
    /// The containers.
    pub containers: &'a [ContainerRequests<'a>],
    /// The init containers, in their order.
    pub init_containers: &'a [ContainerRequests<'a>],
    /// The requests of the pod as a whole, which replace those of its containers.
    pub pod_level: &'a ResourceList,
    /// The overhead of the runtime class.
    pub overhead: &'a ResourceList,
}

impl PodRequests<'_> {
    /// The requests of a pod: of its containers together, or of the largest init container with the
    /// sidecars that run beside it.
    ///
    /// Upstream: component-helpers/resource/helpers.go `PodRequests`
    pub(crate) fn total(&self) -> Resources {
        self.total_with(|_| {})
    }

    /// The same, with default requests for cpu and memory of each container that has none.
    pub(crate) fn non_zero_total(&self) -> Resources {
        self.total_with(|list| {
            if !list.contains_key("cpu") {
                list.insert("cpu".to_owned(), format!("{DEFAULT_MILLI_CPU}m"));
            }
            if !list.contains_key("memory") {
                list.insert("memory".to_owned(), DEFAULT_MEMORY.to_string());
            }
        })
    }

    fn total_with(&self, complete: impl Fn(&mut ResourceList)) -> Resources {
        let requests = |container: &ContainerRequests<'_>| {
            let mut list = container.requests.clone();
            complete(&mut list);
            Resources::parse(&list)
        };
        let mut total = Resources::default();
        for container in self.containers {
            total.add(&requests(container));
        }
        let (mut sidecars, mut initial) = (Resources::default(), Resources::default());
        for container in self.init_containers {
            let mut running = requests(container);
            if container.is_restartable {
                total.add(&running);
                sidecars.add(&running);
                running = sidecars.clone();
            } else {
                running.add(&sidecars);
            }
            initial.raise_to(&running);
        }
        total.raise_to(&initial);
        let pod_level = Resources::parse(self.pod_level);
        for name in self.pod_level.keys() {
            match name.as_str() {
                "cpu" => total.milli_cpu = pod_level.milli_cpu,
                "memory" => total.memory = pod_level.memory,
                // Upstream supports huge pages besides; other resources cannot be set for a pod.
                _ => drop(total.scalar.insert(name.clone(), pod_level.scalar(name))),
            }
        }
        total.add(&Resources::parse(self.overhead));
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> ResourceList {
        let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, amount)| (name.to_owned(), amount.to_owned())).collect()
    }

    /// Sums containers such as `cpu=1`; a sidecar begins with `*`.
    fn total(containers: &[&str], init: &[&str], pod_level: &str, overhead: &str) -> (i64, i64) {
        let lists = |texts: &[&str]| -> Vec<(ResourceList, bool)> {
            texts.iter().map(|text| (list(text), text.starts_with('*'))).collect()
        };
        let (containers, init) = (lists(containers), lists(init));
        let views = |lists: &'static [(ResourceList, bool)]| -> Vec<ContainerRequests<'static>> {
            let view = |(requests, is_restartable): &'static (ResourceList, bool)| {
                ContainerRequests { requests, is_restartable: *is_restartable }
            };
            lists.iter().map(view).collect()
        };
        let (containers, init) = (views(containers.leak()), views(init.leak()));
        let (pod_level, overhead) = (list(pod_level), list(overhead));
        let requests = PodRequests {
            containers: &containers,
            init_containers: &init,
            pod_level: &pod_level,
            overhead: &overhead,
        };
        (requests.total().milli_cpu, requests.non_zero_total().memory >> 20)
    }

    #[test]
    fn init_containers_and_sidecars_count_with_what_runs_beside_them() {
        assert_eq!(total(&["cpu=1", "cpu=500m"], &[], "", "").0, 1500);
        assert_eq!(total(&["cpu=1"], &["cpu=3", "cpu=2"], "", "").0, 3000);
        assert_eq!(total(&["cpu=1"], &["* cpu=1", "cpu=3"], "", "").0, 4000);
        assert_eq!(total(&["cpu=1"], &["cpu=3", "* cpu=1"], "", "").0, 3000);
        assert_eq!(total(&["cpu=1"], &["* cpu=1"], "", "cpu=250m").0, 2250);
    }

    #[test]
    fn requests_beyond_the_range_are_the_largest_amount() {
        let huge = "cpu=9223372036854775";
        assert_eq!(total(&[huge, huge, "cpu=2"], &[], "", "").0, i64::MAX);
        assert_eq!(total(&["cpu=1"], &[&format!("* {huge}"), huge], "", "cpu=2").0, i64::MAX);
    }

    #[test]
    fn the_requests_of_the_pod_replace_those_of_its_containers() {
        assert_eq!(total(&["cpu=1"], &[], "cpu=4", "cpu=1").0, 5000);
    }

    #[test]
    fn a_container_without_a_request_counts_in_scores() {
        assert_eq!(total(&["", "memory=1Gi"], &[], "", ""), (0, 1224));
    }
}
