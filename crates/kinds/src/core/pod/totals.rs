//! The total requests and limits of a pod.
//!
//! The containers run together, so their resources add up. Init containers run one after the other
//! and before the others, so only the maximum of them counts; but restartable init containers count
//! together with all later ones. Pod-level resources take precedence, and the overhead of the
//! runtime class is added.

use std::collections::BTreeMap;

use super::is_sidecar;
use crate::validation::quantities::{amount, is_huge_pages};
use machinery::Value;
use machinery::fields::{at, entries, list};
use machinery::quantity::Quantity;

/// Amounts of resources, by name.
pub type Amounts = BTreeMap<String, Quantity>;

/// The amounts of the map at `key`, such as `requests`.
pub(crate) fn amounts(value: &Value, key: &str) -> Amounts {
    entries(value, key).map(|(name, value)| (name.to_owned(), amount(value))).collect()
}

/// Adds the amounts of `more` to those of `to`.
pub fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.get(name).map_or_else(|| amount.clone(), |it| it.add(amount));
        to.insert(name.clone(), sum);
    }
}

/// Raises the amounts of `to` to those of `other`, where these are greater.
fn raise(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if to.get(name).is_none_or(|it| it < amount) {
            to.insert(name.clone(), amount.clone());
        }
    }
}

/// The total of the containers of a pod; `part` is `requests` or `limits`.
///
/// The time that this takes grows with the number of amounts: a container changes the amounts of
/// its own resources only, since `greatest` is never less than `sidecars`.
pub(super) fn sum_of_containers(spec: &Value, part: &str) -> Amounts {
    let of = |container| amounts(at(container, &["resources"]), part);
    let mut total = Amounts::new();
    for container in list(spec, "containers") {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut greatest) = (Amounts::new(), Amounts::new());
    for container in list(spec, "initContainers") {
        let mut own = of(container);
        if is_sidecar(container) {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            for (name, amount) in &mut own {
                amount.clone_from(&sidecars[name]);
            }
        } else {
            for (name, amount) in &mut own {
                if let Some(earlier) = sidecars.get(name) {
                    *amount = amount.add(earlier);
                }
            }
        }
        raise(&mut greatest, &own);
    }
    raise(&mut total, &greatest);
    total
}

/// The total of a pod without its overhead, with pod-level resources in place of those of the
/// containers; `part` is `requests` or `limits`.
pub(crate) fn total_without_overhead(spec: &Value, part: &str) -> Amounts {
    let mut total = sum_of_containers(spec, part);
    for (name, amount) in amounts(at(spec, &["resources"]), part) {
        if matches!(name.as_str(), "cpu" | "memory") || is_huge_pages(&name) {
            total.insert(name, amount);
        }
    }
    total
}

/// The requests of a pod, with its overhead.
pub(crate) fn requests(spec: &Value) -> Amounts {
    let mut total = total_without_overhead(spec, "requests");
    add(&mut total, &amounts(spec, "overhead"));
    total
}

/// The limits of a pod; the overhead is only added to resources that have a limit.
pub(crate) fn limits(spec: &Value) -> Amounts {
    let mut total = total_without_overhead(spec, "limits");
    let mut overhead = amounts(spec, "overhead");
    overhead.retain(|name, _| total.get(name).is_some_and(|it| !it.is_zero()));
    add(&mut total, &overhead);
    total
}

/// Formats amounts as `a=1,b=2`.
pub fn shown(amounts: &Amounts) -> String {
    let shown: Vec<String> = amounts.iter().map(|(name, it)| format!("{name}={it}")).collect();
    shown.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn container(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}, "limits": {"memory": "1Gi"}}})
    }

    #[test]
    fn containers_add_up_and_the_largest_init_container_counts() {
        let spec = json!({"containers": [container("100m"), container("200m")],
            "initContainers": [container("1"), container("2")]});
        assert_eq!(shown(&requests(&spec)), "cpu=2");
        assert_eq!(shown(&limits(&spec)), "memory=2Gi");
    }

    #[test]
    fn restartable_init_containers_add_to_later_ones() {
        let mut sidecar = container("500m");
        sidecar["restartPolicy"] = json!("Always");
        let spec = json!({"containers": [container("1")],
            "initContainers": [sidecar, container("1200m")]});
        assert_eq!(shown(&requests(&spec)), "cpu=1700m");
    }

    #[test]
    fn resources_of_init_containers_are_summed_by_name() {
        let container = |name: &str, policy: &str, amount: &str| json!({"restartPolicy": policy, "resources": {"requests": {name: amount}}});
        let spec = json!({"initContainers": [
            container("a.b/x", "Always", "1"), container("a.b/y", "", "5"),
            container("a.b/x", "", "3"), container("a.b/x", "Always", "1"),
            container("a.b/y", "Always", "2"), container("a.b/y", "", "4"),
        ]});
        assert_eq!(shown(&requests(&spec)), "a.b/x=4,a.b/y=6");
    }

    #[test]
    fn pod_level_requests_take_precedence_and_overhead_is_added() {
        let spec = json!({"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "1Mi"},
            "resources": {"requests": {"cpu": "4"}}});
        assert_eq!(shown(&requests(&spec)), "cpu=4250m,memory=1Mi");
        assert_eq!(shown(&limits(&spec)), "memory=1025Mi");
    }
}
