//! Validation of the names and quantities of resources, and of the requirements of containers and
//! pods.

use std::collections::{BTreeSet, HashSet};

use crate::validation::rules::{add_invalid, dns_label};
use machinery::field_path::ErrorType;
use machinery::fields::{entries, list, text};
use machinery::quantity::Quantity;
use machinery::{ErrorList, Path, Value, names};

/// The quantity of a JSON value; zero if it is not a quantity.
pub(crate) fn amount(value: &Value) -> Quantity {
    let parsed = match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => return Quantity::zero(),
    };
    parsed.unwrap_or_else(|_| Quantity::zero())
}

/// Whether an amount has a fraction.
pub(crate) fn is_fractional(amount: &Quantity) -> bool {
    amount.milli_value() % 1000 != 0
}

/// Whether a resource is native to Kubernetes: its name has no domain, or one in kubernetes.io.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether a resource is an extended resource, whose name has a domain of its own.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether the request of a resource may differ from its limit.
pub(crate) fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// The resources that are counted as integers.
const INTEGER_RESOURCES: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// The other standard resources.
const OTHER_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "storage",
    "requests.storage",
];

/// Must not be negative, and an integer for counted resources.
pub(crate) fn validate_amount(errors: &mut ErrorList, path: &Path<'_>, name: &str, value: &Value) {
    let amount = amount(value);
    if amount.is_negative() {
        errors.invalid(path, amount.to_string(), "must be greater than or equal to 0");
    }
    if (INTEGER_RESOURCES.contains(&name) || is_extended(name)) && is_fractional(&amount) {
        errors.invalid(path, amount.to_string(), "must be an integer");
    }
}

/// Must be the name of a standard resource, or have a domain. Returns whether it is valid.
pub(crate) fn resource_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) -> bool {
    let messages = names::qualified_name(name);
    if !messages.is_empty() {
        add_invalid(errors, path, name, messages);
        return false;
    }
    let is_standard = INTEGER_RESOURCES.contains(&name)
        || OTHER_RESOURCES.contains(&name)
        || is_huge_pages(name.strip_prefix("requests.").unwrap_or(name));
    if !name.contains('/') && !is_standard {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
        return false;
    }
    true
}

/// Must be a resource that a container can request.
pub(crate) fn container_resource_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    resource_name(errors, path, name);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_pages(name) {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

/// Must be a resource that a pod can request as a whole.
fn pod_resource_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    let is_supported = matches!(name, "cpu" | "memory") || is_huge_pages(name);
    if resource_name(errors, path, name) && !is_supported {
        errors.not_supported(path, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// Validates the resources of a container; `claims` are the names of the pod's resource claims.
pub(crate) fn validate_container(
    errors: &mut ErrorList,
    path: &Path<'_>,
    requirements: &Value,
    claims: &BTreeSet<&str>,
) {
    validate_requirements(errors, path, requirements, container_resource_name);
    validate_claims(errors, &path.child("claims"), requirements, claims);
}

/// Validates the pod-level resources.
pub(crate) fn validate_pod(errors: &mut ErrorList, path: &Path<'_>, requirements: &Value) {
    if requirements.get("claims").is_some() {
        let message = "claims may not be set for Resources at pod-level";
        errors.forbidden(&path.child("claims"), message);
    }
    validate_requirements(errors, path, requirements, pod_resource_name);
}

fn validate_requirements(
    errors: &mut ErrorList,
    path: &Path<'_>,
    requirements: &Value,
    name_rule: fn(&mut ErrorList, &Path<'_>, &str),
) {
    for part in ["limits", "requests"] {
        let path = path.child(part);
        for (name, value) in entries(requirements, part) {
            let path = path.key(name);
            name_rule(errors, &path, name);
            validate_amount(errors, &path, name, value);
            whole_huge_pages(errors, &path, name, value);
        }
    }
    for (name, request) in entries(requirements, "requests") {
        let limit = requirements.get("limits").and_then(|limits| limits.get(name));
        request_within_limit(errors, path, name, request, limit);
    }
    let all = || entries(requirements, "limits").chain(entries(requirements, "requests"));
    let has_pages = all().any(|(name, _)| is_huge_pages(name));
    if has_pages && !all().any(|(name, _)| matches!(name, "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

/// Must be a multiple of the page size, if the resource is huge pages.
fn whole_huge_pages(errors: &mut ErrorList, path: &Path<'_>, name: &str, value: &Value) {
    let Some(size) = name.strip_prefix("hugepages-") else { return };
    let size = Quantity::parse(size).unwrap_or_else(|_| Quantity::zero());
    let amount = amount(value);
    let fits = !is_fractional(&size) && size.value() > 0 && amount.value() % size.value() == 0;
    if !fits {
        let message = format!("{amount} is not positive integer multiple of {name}");
        errors.invalid(path, amount.to_string(), &message);
    }
}

fn request_within_limit(
    errors: &mut ErrorList,
    path: &Path<'_>,
    name: &str,
    request: &Value,
    limit: Option<&Value>,
) {
    let request = amount(request);
    let Some(limit) = limit.map(amount) else {
        if !may_be_overcommitted(name) {
            let message = "Limit must be set for non overcommitable resources";
            errors.required(&path.child("limits"), message);
        }
        return;
    };
    let requests = path.child("requests");
    if request != limit && !may_be_overcommitted(name) {
        let message = format!("must be equal to {name} limit of {limit}");
        errors.invalid(&requests, request.to_string(), &message);
    } else if request > limit {
        let message = format!("must be less than or equal to {name} limit of {limit}");
        errors.invalid(&requests, request.to_string(), &message);
    }
}

/// Must refer to claims of the pod, each at most once.
fn validate_claims(
    errors: &mut ErrorList,
    path: &Path<'_>,
    requirements: &Value,
    claims: &BTreeSet<&str>,
) {
    // `seen` has `claim` or `claim/request`, `with_requests` the claims of the latter.
    let (mut seen, mut with_requests) = (HashSet::new(), HashSet::new());
    for (index, claim) in list(requirements, "claims").iter().enumerate() {
        let path = path.index(index);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        let has_whole_claim = seen.contains(name);
        let has_part_of_claim = request.is_empty() && with_requests.contains(name);
        if has_whole_claim || has_part_of_claim {
            errors.duplicate(&path, name);
        } else if seen.contains(&key) {
            errors.duplicate(&path, key.as_str());
        }
        if !request.is_empty() && !has_whole_claim {
            dns_label(errors, &path.child("request"), request);
        }
        if !request.is_empty() {
            with_requests.insert(name);
        }
        seen.insert(key);
        if errors.is_full() {
            return;
        }
        if !claims.contains(name) {
            let known: Vec<&str> = claims.iter().copied().collect();
            let rest = if known.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", known.join(", "))
            };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{rest}");
            errors.add(ErrorType::NotFound, &path, Some(name.into()), &detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    fn check(requirements: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate_container(&mut errors, &Path::root("r"), &requirements, &BTreeSet::from(["gpu"]));
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn a_request_may_not_exceed_its_limit() {
        check(json!({"requests": {"cpu": "500m"}, "limits": {"cpu": 1}}), &[]);
        check(
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            &[r#"r.requests: Invalid value: "2": must be less than or equal to cpu limit of 1"#],
        );
    }

    #[test]
    fn requests_of_extended_resources_must_equal_their_limits() {
        check(
            json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}}),
            &[r#"r.requests: Invalid value: "1": must be equal to example.com/gpu limit of 2"#],
        );
        check(
            json!({"requests": {"example.com/gpu": "1"}}),
            &["r.limits: Required value: Limit must be set for non overcommitable resources"],
        );
        check(
            json!({"limits": {"example.com/gpu": "1.5"}}),
            &[r#"r.limits[example.com/gpu]: Invalid value: "1500m": must be an integer"#],
        );
    }

    #[test]
    fn unknown_resources_and_negative_quantities_are_refused() {
        check(
            json!({"limits": {"fuel": "1"}}),
            &[
                r#"r.limits[fuel]: Invalid value: "fuel": must be a standard resource type or fully qualified"#,
                r#"r.limits[fuel]: Invalid value: "fuel": must be a standard resource for containers"#,
            ],
        );
        check(
            json!({"limits": {"cpu": "-1"}}),
            &[r#"r.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0"#],
        );
    }

    #[test]
    fn huge_pages_must_be_whole_and_require_cpu_or_memory() {
        check(
            json!({"limits": {"hugepages-2Mi": "3Mi"}}),
            &[
                r#"r.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi"#,
                "r: Forbidden: HugePages require cpu or memory",
            ],
        );
    }

    #[test]
    fn claims_must_be_unique_and_declared_by_the_pod() {
        check(
            json!({"claims": [{"name": "gpu"}, {"name": "gpu"}, {"name": "x"}]}),
            &[
                r#"r.claims[1]: Duplicate value: "gpu""#,
                r#"r.claims[2]: Not found: "x": must be one of the names in pod.spec.resourceClaims: gpu"#,
            ],
        );
    }
}
