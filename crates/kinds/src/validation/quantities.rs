//! Quantities of resources: their names, and the requirements of containers.

use std::collections::{BTreeSet, HashSet};

use crate::validation::rules::{add_invalid, dns_label};
use machinery::field_path::ErrorType;
use machinery::fields::{entries, list, text};
use machinery::quantity::Quantity;
use machinery::{ErrorList, Path, Value, names};

/// The quantity of a JSON value; zero if it has none.
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

/// Whether a name belongs to Kubernetes: without a domain, or with one below kubernetes.io.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether more of it may be promised than there is.
pub(crate) fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// The resources that are counted as integers.
const WHOLE: &[&str] = &[
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

/// What has an amount besides those that are counted.
const MEASURED: &[&str] = &[
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
    if (WHOLE.contains(&name) || is_extended(name)) && is_fractional(&amount) {
        errors.invalid(path, amount.to_string(), "must be an integer");
    }
}

/// Must be the name of a known resource, or have a domain.
pub(crate) fn resource_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) -> bool {
    let messages = names::qualified_name(name);
    if !messages.is_empty() {
        add_invalid(errors, path, name, messages);
        return false;
    }
    let is_standard = WHOLE.contains(&name)
        || MEASURED.contains(&name)
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
            whole_pages(errors, &path, name, value);
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

fn whole_pages(errors: &mut ErrorList, path: &Path<'_>, name: &str, value: &Value) {
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
    let (mut seen, mut in_part) = (HashSet::new(), HashSet::new());
    for (index, claim) in list(requirements, "claims").iter().enumerate() {
        let path = path.index(index);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        let whole_claim = seen.contains(name);
        let part_of_it = request.is_empty() && in_part.contains(name);
        if whole_claim || part_of_it {
            errors.duplicate(&path, name);
        } else if seen.contains(&key) {
            errors.duplicate(&path, key.as_str());
        }
        if !request.is_empty() && !whole_claim {
            dns_label(errors, &path.child("request"), request);
        }
        if !request.is_empty() {
            in_part.insert(name);
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
    fn a_request_is_within_its_limit() {
        check(json!({"requests": {"cpu": "500m"}, "limits": {"cpu": 1}}), &[]);
        check(
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            &[r#"r.requests: Invalid value: "2": must be less than or equal to cpu limit of 1"#],
        );
    }

    #[test]
    fn requests_equal_limits_for_resources_without_overcommit() {
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
    fn names_are_known_or_have_a_domain() {
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
    fn huge_pages_come_whole_and_not_alone() {
        check(
            json!({"limits": {"hugepages-2Mi": "3Mi"}}),
            &[
                r#"r.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi"#,
                "r: Forbidden: HugePages require cpu or memory",
            ],
        );
    }

    #[test]
    fn claims_are_those_of_the_pod() {
        check(
            json!({"claims": [{"name": "gpu"}, {"name": "gpu"}, {"name": "x"}]}),
            &[
                r#"r.claims[1]: Duplicate value: "gpu""#,
                r#"r.claims[2]: Not found: "x": must be one of the names in pod.spec.resourceClaims: gpu"#,
            ],
        );
    }
}
