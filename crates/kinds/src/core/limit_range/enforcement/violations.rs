//! [`validate_pod`] and [`validate_claim`]: compare pods and claims with limit ranges.
//!
//! Each limit is compared with each container, so clients could make the number of comparisons and
//! of violations very large. [`COMPARED_MAX`] limits the comparisons, [`VIOLATIONS_MAX`] and
//! [`MESSAGES_MAX`] limit the violations.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Bounds, Limits};
use crate::core::pod::totals::{Amounts, total_without_overhead};
use crate::validation::quantities::amount;
use machinery::fields::{at, entries, list, top};
use machinery::quantity::Quantity;
use machinery::{Object, Value};

/// The maximum number of comparisons for one object. A pod that can be stored has fewer than
/// 200,000 quantities, so a namespace with a few limit ranges does not reach the limit.
const COMPARED_MAX: usize = 2_000_000;

/// Violations are collected until their messages have this many bytes, each message counted once.
const MESSAGES_MAX: usize = 1 << 20;

/// Violations are collected up to this number, including those with the same message.
const VIOLATIONS_MAX: usize = 100_000;

/// The largest value whose thousandths fit into an `i64`.
const MAX_MILLI: i64 = i64::MAX / 1000;

/// Why limit ranges refuse an object.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The messages of the violations.
    Violations(Vec<String>),
    /// The object and the limit ranges of its namespace are too large to be compared.
    TooLarge,
}

/// Fails with the violations of the first limit range that is violated.
pub fn validate_pod(ranges: &[Arc<Limits>], pod: &Object) -> Result<(), Refusal> {
    let spec = top(pod, "spec");
    let has_bounds = |kind: &str| {
        ranges.iter().any(|range| range.bounds.iter().any(|it| it.kind == kind && !it.is_empty()))
    };
    let containers: Vec<Resources<'_>> = if has_bounds("Container") {
        let all = ["containers", "initContainers"].iter().flat_map(|part| list(spec, part));
        all.map(|container| Resources::of(at(container, &["resources"]))).collect()
    } else {
        Vec::new()
    };
    let total = if has_bounds("Pod") {
        [total_without_overhead(spec, "requests"), total_without_overhead(spec, "limits")]
    } else {
        [Amounts::new(), Amounts::new()]
    };
    let total = Resources::of_amounts(&total[0], &total[1]);
    let mut comparison = Comparison::new();
    for range in ranges {
        for bounds in range.bounds.iter().filter(|bounds| !bounds.is_empty()) {
            let compared = match bounds.kind.as_str() {
                "Container" => containers.as_slice(),
                "Pod" => std::slice::from_ref(&total),
                _ => &[],
            };
            for resources in compared {
                comparison.compare(bounds, resources)?;
            }
        }
        comparison.finish()?;
    }
    Ok(())
}

/// Fails with the violations of the first limit range that is violated.
pub fn validate_claim(ranges: &[Arc<Limits>], claim: &Object) -> Result<(), Refusal> {
    let resources = Resources::of(at(top(claim, "spec"), &["resources"]));
    let mut comparison = Comparison::new();
    for range in ranges {
        for bounds in range.bounds.iter().filter(|it| it.kind == "PersistentVolumeClaim") {
            comparison.compare_requests(bounds, &resources)?;
        }
        comparison.finish()?;
    }
    Ok(())
}

/// Quantities, in the order of the names of their resources.
struct Quantities<'a>(Vec<(&'a str, Quantity)>);

impl Quantities<'_> {
    fn get(&self, name: &str) -> Option<&Quantity> {
        let index = self.0.binary_search_by_key(&name, |(name, _)| name).ok()?;
        Some(&self.0[index].1)
    }
}

/// The requests and limits of a container, a pod or a claim.
struct Resources<'a> {
    requests: Quantities<'a>,
    limits: Quantities<'a>,
}

impl<'a> Resources<'a> {
    fn of(resources: &'a Value) -> Self {
        let read = |key: &str| {
            let mut read: Vec<_> =
                entries(resources, key).map(|(name, value)| (name, amount(value))).collect();
            read.sort_unstable_by_key(|(name, _)| *name);
            Quantities(read)
        };
        Self { requests: read("requests"), limits: read("limits") }
    }

    fn of_amounts(requests: &'a Amounts, limits: &'a Amounts) -> Self {
        let read = |amounts: &'a Amounts| {
            Quantities(amounts.iter().map(|(name, it)| (name.as_str(), it.clone())).collect())
        };
        Self { requests: read(requests), limits: read(limits) }
    }
}

impl Bounds {
    fn is_empty(&self) -> bool {
        self.min.is_empty() && self.max.is_empty() && self.ratio.is_empty()
    }
}

/// Compares one object with limit ranges.
struct Comparison {
    messages: Vec<String>,
    seen: HashSet<String>,
    /// The size of `messages`.
    size: usize,
    /// The number of violations, also of those that have the same message.
    violations: usize,
    /// The remaining number of comparisons.
    comparisons_left: usize,
}

impl Comparison {
    fn new() -> Self {
        Self {
            messages: Vec::new(),
            seen: HashSet::new(),
            size: 0,
            violations: 0,
            comparisons_left: COMPARED_MAX,
        }
    }

    fn compare(&mut self, bounds: &Bounds, resources: &Resources<'_>) -> Result<(), Refusal> {
        let Resources { requests, limits } = resources;
        self.count(bounds)?;
        for (name, min) in &bounds.min {
            self.add_violation(below_minimum(
                &bounds.kind,
                name,
                min,
                requests.get(name),
                limits.get(name),
            ))?;
        }
        for (name, max) in &bounds.max {
            self.add_violation(above_maximum(
                &bounds.kind,
                name,
                max,
                requests.get(name),
                limits.get(name),
            ))?;
        }
        for (name, ratio) in &bounds.ratio {
            let (request, limit) = (requests.get(name), limits.get(name));
            self.add_violation(ratio_exceeded(&bounds.kind, name, ratio, request, limit))?;
        }
        Ok(())
    }

    /// Compares a claim, of which only the requests are limited.
    fn compare_requests(
        &mut self,
        bounds: &Bounds,
        resources: &Resources<'_>,
    ) -> Result<(), Refusal> {
        let requests = &resources.requests;
        self.count(bounds)?;
        for (name, min) in &bounds.min {
            self.add_violation(below_minimum(&bounds.kind, name, min, requests.get(name), None))?;
        }
        for (name, max) in &bounds.max {
            self.add_violation(request_above_maximum(&bounds.kind, name, max, requests.get(name)))?;
        }
        Ok(())
    }

    /// Counts the comparisons with `bounds`. Fails if there are too many.
    fn count(&mut self, bounds: &Bounds) -> Result<(), Refusal> {
        let count = 1 + bounds.min.len() + bounds.max.len() + bounds.ratio.len();
        let Some(left) = self.comparisons_left.checked_sub(count) else {
            self.finish()?;
            return Err(Refusal::TooLarge);
        };
        self.comparisons_left = left;
        Ok(())
    }

    /// Adds a violation, if there is one. Fails if there are too many.
    fn add_violation(&mut self, message: Option<String>) -> Result<(), Refusal> {
        let Some(message) = message else { return Ok(()) };
        self.violations += 1;
        if !self.seen.contains(&message) {
            self.size += message.len();
            self.seen.insert(message.clone());
            self.messages.push(message);
        }
        if self.size > MESSAGES_MAX || self.violations > VIOLATIONS_MAX {
            self.messages.push("(there are too many errors to show all of them)".to_owned());
            return self.finish();
        }
        Ok(())
    }

    /// Fails if there are violations.
    fn finish(&mut self) -> Result<(), Refusal> {
        if self.messages.is_empty() {
            return Ok(());
        }
        Err(Refusal::Violations(std::mem::take(&mut self.messages)))
    }
}

fn below_minimum(
    kind: &str,
    name: &str,
    min: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let rule = || format!("minimum {name} usage per {kind} is {min}");
    match request {
        None => Some(format!("{}.  No request is specified", rule())),
        Some(request) if request < min => Some(format!("{}, but request is {request}", rule())),
        Some(_) => limit.filter(|it| *it < min).map(|it| format!("{}, but limit is {it}", rule())),
    }
}

fn above_maximum(
    kind: &str,
    name: &str,
    max: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let rule = || format!("maximum {name} usage per {kind} is {max}");
    let is_beyond = |it: &&Quantity| *it > max;
    match limit {
        None => Some(format!("{}.  No limit is specified", rule())),
        Some(limit) if limit > max => Some(format!("{}, but limit is {limit}", rule())),
        Some(_) => request.filter(is_beyond).map(|it| format!("{}, but request is {it}", rule())),
    }
}

fn request_above_maximum(
    kind: &str,
    name: &str,
    max: &Quantity,
    request: Option<&Quantity>,
) -> Option<String> {
    let rule = || format!("maximum {name} usage per {kind} is {max}");
    match request {
        None => Some(format!("{}.  No request is specified", rule())),
        Some(request) => (request > max).then(|| format!("{}, but request is {request}", rule())),
    }
}

#[allow(clippy::cast_precision_loss, reason = "Kubernetes compares them as floats, too")]
fn ratio_exceeded(
    kind: &str,
    name: &str,
    ratio: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let rule = || format!("{name} max limit to request ratio per {kind} is {ratio}");
    let Some(request) = request.filter(|it| !it.is_zero()) else {
        return Some(format!("{}, but no request is specified or request is 0", rule()));
    };
    let Some(limit) = limit.filter(|it| !it.is_zero()) else {
        return Some(format!("{}, but no limit is specified or limit is 0", rule()));
    };
    let is_small = request.value() <= MAX_MILLI && limit.value() <= MAX_MILLI;
    let found = if is_small {
        limit.milli_value() as f64 / request.milli_value() as f64
    } else {
        limit.value() as f64 / request.value() as f64
    };
    let is_beyond = if ratio.value() <= MAX_MILLI {
        found * 1000.0 > ratio.milli_value() as f64
    } else {
        found > ratio.value() as f64
    };
    is_beyond.then(|| format!("{}, but provided ratio is {found:.6}", rule()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;
    use machinery::json;

    fn limits(limit: Value) -> Arc<Limits> {
        Arc::new(Limits::of(&object(json!({"spec": {"limits": [limit]}}))))
    }

    fn messages(outcome: Result<(), Refusal>) -> Vec<String> {
        match outcome {
            Ok(()) => Vec::new(),
            Err(Refusal::Violations(messages)) => messages,
            Err(Refusal::TooLarge) => panic!("too many comparisons"),
        }
    }

    fn pod(resources: Value) -> Object {
        object(json!({"spec": {"containers": [{"name": "c", "resources": resources}]}}))
    }

    #[test]
    fn a_container_outside_of_its_limits_is_refused() {
        let limits = limits(json!({"type": "Container", "min": {"cpu": "100m"},
            "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "2"}}));
        let about =
            |resources| messages(validate_pod(std::slice::from_ref(&limits), &pod(resources)));
        assert_eq!(
            about(json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}})),
            Vec::<String>::new()
        );
        assert_eq!(
            about(json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "2"}})),
            [
                "minimum cpu usage per Container is 100m, but request is 50m",
                "maximum cpu usage per Container is 1, but limit is 2",
                "cpu max limit to request ratio per Container is 2, but provided ratio is 40.000000",
            ]
        );
        assert_eq!(
            about(json!({})),
            [
                "minimum cpu usage per Container is 100m.  No request is specified",
                "maximum cpu usage per Container is 1.  No limit is specified",
                "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
            ]
        );
    }

    #[test]
    fn the_total_of_a_pod_and_the_request_of_a_claim_are_limited() {
        let sum = limits(json!({"type": "Pod", "max": {"memory": "1Gi"}}));
        let container = json!({"name": "c", "resources": {"limits": {"memory": "600Mi"}}});
        let pod = object(json!({"spec": {"containers": [container, container]}}));
        assert_eq!(
            messages(validate_pod(&[sum], &pod)),
            ["maximum memory usage per Pod is 1Gi, but limit is 1200Mi"]
        );
        let storage = limits(json!({"type": "PersistentVolumeClaim",
            "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}));
        let claim =
            |size: &str| object(json!({"spec": {"resources": {"requests": {"storage": size}}}}));
        let about = |size| messages(validate_claim(std::slice::from_ref(&storage), &claim(size)));
        assert_eq!(about("1500Mi"), Vec::<String>::new());
        assert_eq!(
            about("3Gi"),
            ["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"]
        );
    }

    #[test]
    fn the_size_of_the_collected_violations_is_limited() {
        let min: machinery::Map<String, Value> =
            (0..2000).map(|n| (format!("example.com/r{n}"), "2".into())).collect();
        let range = limits(json!({"type": "Container", "min": min}));
        let container = |n: usize| {
            let requests: machinery::Map<String, Value> =
                min.keys().map(|name| (name.clone(), format!("{n}m").into())).collect();
            json!({"name": "c", "resources": {"requests": requests}})
        };
        let containers: Value = (0..20).map(container).collect();
        let pod = object(json!({"spec": {"containers": containers}}));
        let found = messages(validate_pod(&[range], &pod));
        assert!((10_000..20_000).contains(&found.len()), "{}", found.len());
        let last = "(there are too many errors to show all of them)";
        assert_eq!(found.last().map(String::as_str), Some(last));
    }

    #[test]
    fn an_object_that_needs_too_many_comparisons_is_refused() {
        let range = limits(json!({"type": "Container", "min": {"cpu": "1"}}));
        let container = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
        let containers: Value = (0..2000).map(|_| container.clone()).collect();
        let pod = object(json!({"spec": {"containers": containers}}));
        let ranges = vec![range; 1000];
        assert_eq!(validate_pod(&ranges[..10], &pod), Ok(()));
        assert_eq!(validate_pod(&ranges, &pod), Err(Refusal::TooLarge));
    }
}
