//! The quality-of-service class of a pod.

use crate::validation::quantities::amount;
use machinery::Value;
use machinery::fields::{at, entries, list};

/// `Guaranteed` if every container's requests of cpu and memory equal its limits, `BestEffort` if
/// no container has any, else `Burstable`. Pod-level resources take precedence.
pub fn class_of(spec: &Value) -> &'static str {
    let pod_level = at(spec, &["resources"]);
    if ["requests", "limits"].iter().any(|part| entries(pod_level, part).next().is_some()) {
        return class_of_requirements(pod_level);
    }
    let containers = list(spec, "initContainers").iter().chain(list(spec, "containers"));
    combined(containers.map(|container| class_of_requirements(at(container, &["resources"]))))
}

fn class_of_requirements(requirements: &Value) -> &'static str {
    combined(["cpu", "memory"].iter().map(|name| {
        let request = amount(at(requirements, &["requests", name]));
        let limit = amount(at(requirements, &["limits", name]));
        match (request == limit, request.is_zero()) {
            (false, _) => "Burstable",
            (true, true) => "BestEffort",
            (true, false) => "Guaranteed",
        }
    }))
}

/// The class if all are the same, else `Burstable`.
fn combined(mut classes: impl Iterator<Item = &'static str>) -> &'static str {
    let Some(first) = classes.next() else { return "BestEffort" };
    if classes.all(|class| class == first) { first } else { "Burstable" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn check(resources: &[Value], expected: &str) {
        let containers: Vec<Value> =
            resources.iter().map(|resources| json!({"resources": resources})).collect();
        assert_eq!(class_of(&json!({"containers": containers})), expected);
    }

    #[test]
    fn the_class_follows_from_requests_and_limits() {
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}});
        check(&[json!({})], "BestEffort");
        check(&[json!({"requests": {"cpu": "100m"}})], "Burstable");
        check(std::slice::from_ref(&full), "Guaranteed");
        check(&[full, json!({})], "Burstable");
        let half = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1000m"}});
        check(&[half], "Burstable");
    }
}
