//! A limit range at work: what it gives to containers that ask for nothing, and what it holds
//! against pods and claims.

use crate::core::pod::totals::{Amounts, amounts, of_containers};
use crate::fields::{at, entries, list, maps_mut, text, top};
use machinery::quantity::Quantity;
use machinery::{Map, Object, Value};

/// The annotation that tells what was filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Beyond this, thousandths do not fit.
const MAX_MILLI: i64 = i64::MAX / 1000;

/// A limit range, read once.
#[derive(Debug, Default)]
pub struct Limits {
    /// What containers get that ask for nothing, as it is written.
    default: Map<String, Value>,
    default_request: Map<String, Value>,
    bounds: Vec<Bounds>,
}

/// What is said of one type of things.
#[derive(Debug)]
struct Bounds {
    kind: String,
    min: Amounts,
    max: Amounts,
    ratio: Amounts,
}

impl Limits {
    /// Reads a limit range.
    pub fn of(range: &Object) -> Self {
        let mut limits = Self::default();
        for limit in list(top(range, "spec"), "limits") {
            let kind = text(limit, "type").to_owned();
            if kind == "Container" {
                let copied =
                    |key| entries(limit, key).map(|(key, it)| (key.to_owned(), it.clone()));
                limits.default.extend(copied("default"));
                limits.default_request.extend(copied("defaultRequest"));
            }
            limits.bounds.push(Bounds {
                kind,
                min: amounts(limit, "min"),
                max: amounts(limit, "max"),
                ratio: amounts(limit, "maxLimitRequestRatio"),
            });
        }
        limits
    }

    /// Fills in what the containers of a pod do not ask for, and notes that.
    pub fn fill_in(&self, pod: &mut Object) {
        let mut notes = Vec::new();
        for (part, word) in [("containers", "container"), ("initContainers", "init container")] {
            for container in maps_mut(pod.map_at(&["spec"]), part) {
                let mut set = |key, defaults, what| {
                    let names = fill_container(container, key, defaults);
                    if !names.is_empty() {
                        let names = names.join(", ");
                        let name = container.get("name").and_then(Value::as_str);
                        let name = name.unwrap_or_default();
                        notes.push(format!("{names} {what} for {word} {name}"));
                    }
                };
                set("requests", &self.default_request, "request");
                set("limits", &self.default, "limit");
            }
        }
        if !notes.is_empty() {
            let note = format!("LimitRanger plugin set: {}", notes.join("; "));
            pod.map_at(&["metadata", "annotations"]).insert(ANNOTATION.to_owned(), note.into());
        }
    }

    /// What is to be held against a pod.
    pub fn complaints_about_pod(&self, pod: &Object) -> Vec<String> {
        let spec = top(pod, "spec");
        let mut found = Vec::new();
        for bounds in &self.bounds {
            match bounds.kind.as_str() {
                "Container" => {
                    for part in ["containers", "initContainers"] {
                        for container in list(spec, part) {
                            let resources = at(container, &["resources"]);
                            let requests = amounts(resources, "requests");
                            bounds.check(&requests, &amounts(resources, "limits"), &mut found);
                        }
                    }
                }
                "Pod" => {
                    let requests = of_containers(spec, "requests");
                    bounds.check(&requests, &of_containers(spec, "limits"), &mut found);
                }
                _ => {}
            }
        }
        found
    }

    /// What is to be held against a claim for storage.
    pub fn complaints_about_claim(&self, claim: &Object) -> Vec<String> {
        let requests = amounts(at(top(claim, "spec"), &["resources"]), "requests");
        let mut found = Vec::new();
        for bounds in self.bounds.iter().filter(|it| it.kind == "PersistentVolumeClaim") {
            for (name, min) in &bounds.min {
                found.extend(too_little(&bounds.kind, name, min, &requests, &Amounts::new()));
            }
            for (name, max) in &bounds.max {
                found.extend(too_much_asked(&bounds.kind, name, max, requests.get(name)));
            }
        }
        found
    }
}

/// The names of what was filled in.
fn fill_container(
    container: &mut Map<String, Value>,
    key: &str,
    defaults: &Map<String, Value>,
) -> Vec<String> {
    let resources = container.get("resources").and_then(|it| it.get(key));
    let is_missing = |name: &&String| resources.is_none_or(|it| it.get(name.as_str()).is_none());
    let mut missing: Vec<String> = defaults.keys().filter(is_missing).cloned().collect();
    if missing.is_empty() {
        return missing;
    }
    missing.sort_unstable();
    let empty = || Value::Object(Map::new());
    let resources = container.entry("resources").or_insert_with(empty);
    if !resources.is_object() {
        *resources = empty();
    }
    if !resources[key].is_object() {
        resources[key] = empty();
    }
    for name in &missing {
        resources[key][name] = defaults[name].clone();
    }
    missing
}

impl Bounds {
    fn check(&self, requests: &Amounts, limits: &Amounts, found: &mut Vec<String>) {
        for (name, min) in &self.min {
            found.extend(too_little(&self.kind, name, min, requests, limits));
        }
        for (name, max) in &self.max {
            found.extend(too_much(&self.kind, name, max, requests, limits));
        }
        for (name, ratio) in &self.ratio {
            let (request, limit) = (requests.get(name), limits.get(name));
            found.extend(too_far_apart(&self.kind, name, ratio, request, limit));
        }
    }
}

fn too_little(
    kind: &str,
    name: &str,
    min: &Quantity,
    requests: &Amounts,
    limits: &Amounts,
) -> Option<String> {
    let rule = format!("minimum {name} usage per {kind} is {min}");
    let limit = limits.get(name);
    match requests.get(name) {
        None => Some(format!("{rule}.  No request is specified")),
        Some(request) if request < min => Some(format!("{rule}, but request is {request}")),
        Some(_) => limit.filter(|it| *it < min).map(|it| format!("{rule}, but limit is {it}")),
    }
}

fn too_much(
    kind: &str,
    name: &str,
    max: &Quantity,
    requests: &Amounts,
    limits: &Amounts,
) -> Option<String> {
    let rule = format!("maximum {name} usage per {kind} is {max}");
    let request = requests.get(name);
    match limits.get(name) {
        None => Some(format!("{rule}.  No limit is specified")),
        Some(limit) if limit > max => Some(format!("{rule}, but limit is {limit}")),
        Some(_) => request.filter(|it| *it > max).map(|it| format!("{rule}, but request is {it}")),
    }
}

fn too_much_asked(
    kind: &str,
    name: &str,
    max: &Quantity,
    request: Option<&Quantity>,
) -> Option<String> {
    let rule = format!("maximum {name} usage per {kind} is {max}");
    match request {
        None => Some(format!("{rule}.  No request is specified")),
        Some(request) => (request > max).then(|| format!("{rule}, but request is {request}")),
    }
}

#[allow(clippy::cast_precision_loss, reason = "Kubernetes compares them as floats, too")]
fn too_far_apart(
    kind: &str,
    name: &str,
    ratio: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let rule = format!("{name} max limit to request ratio per {kind} is {ratio}");
    let Some(request) = request.filter(|it| !it.is_zero()) else {
        return Some(format!("{rule}, but no request is specified or request is 0"));
    };
    let Some(limit) = limit.filter(|it| !it.is_zero()) else {
        return Some(format!("{rule}, but no limit is specified or limit is 0"));
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
    is_beyond.then(|| format!("{rule}, but provided ratio is {found:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;
    use machinery::json;

    fn limits(limit: Value) -> Limits {
        Limits::of(&object(json!({"spec": {"limits": [limit]}})))
    }

    fn pod(resources: Value) -> Object {
        object(json!({"spec": {"containers": [{"name": "c", "resources": resources}]}}))
    }

    #[test]
    fn what_is_not_asked_for_is_filled_in_and_noted() {
        let limits = limits(json!({"type": "Container",
            "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}}));
        let mut pod = pod(json!({"limits": {"cpu": "2"}}));
        limits.fill_in(&mut pod);
        assert_eq!(
            at(top(&pod, "spec"), &["containers"])[0]["resources"],
            json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m"}})
        );
        assert_eq!(
            pod.annotation(ANNOTATION),
            Some(
                "LimitRanger plugin set: cpu request for container c; memory limit for container c"
            )
        );
    }

    #[test]
    fn containers_keep_within_their_bounds() {
        let limits = limits(json!({"type": "Container", "min": {"cpu": "100m"},
            "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "2"}}));
        let about = |resources| limits.complaints_about_pod(&pod(resources));
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
    fn a_pod_is_judged_by_its_sum_and_a_claim_by_its_request() {
        let sum = limits(json!({"type": "Pod", "max": {"memory": "1Gi"}}));
        let container = json!({"name": "c", "resources": {"limits": {"memory": "600Mi"}}});
        let pod = object(json!({"spec": {"containers": [container, container]}}));
        assert_eq!(
            sum.complaints_about_pod(&pod),
            ["maximum memory usage per Pod is 1Gi, but limit is 1200Mi"]
        );
        let storage = limits(json!({"type": "PersistentVolumeClaim",
            "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}));
        let claim =
            |size: &str| object(json!({"spec": {"resources": {"requests": {"storage": size}}}}));
        assert_eq!(storage.complaints_about_claim(&claim("1500Mi")), Vec::<String>::new());
        assert_eq!(
            storage.complaints_about_claim(&claim("3Gi")),
            ["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"]
        );
    }
}
