//! `ResourceQuota`: limits the total usage of all objects of a namespace.

pub mod usage;

use std::collections::BTreeSet;

use crate::table;
use crate::validation::quantities::{amount, is_huge_pages, resource_name, validate_amount};
use crate::validation::rules::{IMMUTABLE, invalid_struct};
use machinery::fields::{at, entries, list, part, text, texts, top};
use machinery::{ErrorList, Object, Path, Value};
use types::columns::{AGE, NAME, age, column};
use types::resource::{
    Column, Columns, Now, Resource, Strategy, Version, drop_status, keep_status,
};

/// The resource of the kind `ResourceQuota`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        ..table::v1("core/v1.ResourceQuota", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["quota".to_owned()],
        ..table::resource("", "ResourceQuota", "resourcequotas", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    prepare_create: drop_status,
    prepare_update: keep_status,
    validate,
    validate_update,
    validate_status,
    returns_deleted: true,
    ..Strategy::DEFAULT
};

static SPEC: Path<'static> = Path::root("spec");

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Request",
        "The used and the hard amount of each resource, without the limits of containers.",
    ),
    column("Limit", "The used and the hard amount of the limits of all containers of the quota."),
    AGE,
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let status = top(object, "status");
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in entries(status, "hard") {
        let used = amount(at(status, &["used", name]));
        let line = format!("{name}: {used}/{}", amount(hard));
        if name.starts_with("limits.") { limits.push(line) } else { requests.push(line) }
    }
    vec![
        object.name().into(),
        requests.join(", ").into(),
        limits.join(", ").into(),
        age(object, now),
    ]
}

/// The resources that a quota can limit, besides huge pages and names with a domain.
const STANDARD_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

/// The resources of pods, to which the scopes of pods apply.
const POD_RESOURCES: &[&str] =
    &["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

fn is_standard(name: &str) -> bool {
    STANDARD_RESOURCES.contains(&name)
        || is_huge_pages(name.strip_prefix("requests.").unwrap_or(name))
}

fn validate_amounts(errors: &mut ErrorList, path: &Path<'_>, amounts: &Value, key: &str) {
    let path = path.child(key);
    for (name, value) in entries(amounts, key) {
        let path = path.key(name);
        resource_name(errors, &path, name);
        if !name.contains('/') && !is_standard(name) {
            errors.invalid(&path, name, "must be a standard resource for quota");
        }
        validate_amount(errors, &path, name, value);
    }
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    validate_amounts(errors, &SPEC, spec, "hard");
    validate_scopes(errors, spec);
    if let Some(selector) = part(spec, "scopeSelector") {
        validate_selector(errors, spec, selector);
    }
}

/// The scopes that do not apply to some resource of the quota.
fn irrelevant_scopes(spec: &Value) -> BTreeSet<&'static str> {
    SCOPES.iter().copied().filter(|scope| is_irrelevant_scope(spec, scope)).collect()
}

fn is_irrelevant_scope(spec: &Value, scope: &str) -> bool {
    entries(spec, "hard").filter(|(name, _)| is_standard(name)).any(|(name, _)| match scope {
        "BestEffort" => name != "pods",
        "VolumeAttributesClass" => !matches!(name, "persistentvolumeclaims" | "requests.storage"),
        scope if SCOPES.contains(&scope) => !POD_RESOURCES.contains(&name),
        _ => false,
    })
}

fn are_in_conflict(scopes: &BTreeSet<&str>) -> bool {
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]]
        .iter()
        .any(|pair| pair.iter().all(|scope| scopes.contains(scope)))
}

fn validate_scopes(errors: &mut ErrorList, spec: &Value) {
    let path = SPEC.child("scopes");
    let shown = at(spec, &["scopes"]);
    let irrelevant_scopes = irrelevant_scopes(spec);
    // Each error quotes all scopes: without a limit, the errors of many scopes would be very large.
    for scope in texts(spec, "scopes") {
        if errors.is_full() {
            return;
        }
        if !SCOPES.contains(&scope) {
            errors.invalid(&path, shown.clone(), "unsupported scope");
        }
        if irrelevant_scopes.contains(scope) {
            errors.invalid(&path, shown.clone(), "unsupported scope applied to resource");
        }
    }
    if are_in_conflict(&texts(spec, "scopes").collect()) {
        errors.invalid(&path, shown.clone(), "conflicting scopes");
    }
}

fn validate_selector(errors: &mut ErrorList, spec: &Value, selector: &Value) {
    let path = SPEC.child("scopeSelector");
    let path = path.child("matchExpressions");
    let mut scopes = BTreeSet::new();
    let irrelevant_scopes = irrelevant_scopes(spec);
    for requirement in list(selector, "matchExpressions") {
        if errors.is_full() {
            return;
        }
        let (scope, operator) = (text(requirement, "scopeName"), text(requirement, "operator"));
        if !SCOPES.contains(&scope) {
            errors.invalid(&path.child("scopeName"), scope, "unsupported scope");
        }
        if irrelevant_scopes.contains(scope) {
            let message = "unsupported scope applied to resource";
            invalid_struct(errors, &path, "ScopeSelector", selector, message);
        }
        let has_values = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if SCOPES.contains(&scope) && !has_values && operator != "Exists" {
            let message = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.invalid(&path.child("operator"), operator, message);
        }
        let values = list(requirement, "values");
        match operator {
            "In" | "NotIn" if values.is_empty() => errors.required(
                &path.child("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.invalid(
                &path.child("values"),
                values.to_vec(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.invalid(&path.child("operator"), other, "not a valid selector operator");
            }
        }
        scopes.insert(scope);
    }
    if are_in_conflict(&scopes) {
        errors.invalid(&path, at(spec, &["scopes"]).clone(), "conflicting scopes");
    }
}

fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate(new, errors);
    let scopes = |object| texts(top(object, "spec"), "scopes").collect::<BTreeSet<&str>>();
    if scopes(new) != scopes(old) {
        let shown = at(top(new, "spec"), &["scopes"]).clone();
        errors.invalid(&SPEC.child("scopes"), shown, IMMUTABLE);
    }
}

fn validate_status(new: &Object, _: &Object, errors: &mut ErrorList) {
    let path = Path::root("status");
    for key in ["hard", "used"] {
        validate_amounts(errors, &path, top(new, "status"), key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{object, refusals, refusals_of_update};
    use machinery::json;

    fn check(spec: Value, expected: &[&str]) {
        assert_eq!(refusals(&STRATEGY, json!({"spec": spec})), expected);
    }

    #[test]
    fn unknown_resources_and_fractional_counts_are_refused() {
        check(json!({"hard": {"pods": "10", "count/widgets.example.com": "1"}}), &[]);
        check(
            json!({"hard": {"pods": "1.5", "storage": "1"}}),
            &[
                r#"spec.hard[pods]: Invalid value: "1500m": must be an integer"#,
                r#"spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota"#,
            ],
        );
    }

    #[test]
    fn unsupported_and_conflicting_scopes_are_refused() {
        check(
            json!({"hard": {"services": "1"}, "scopes": ["BestEffort", "NotBestEffort", "Odd"]}),
            &[
                r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Odd"]: unsupported scope applied to resource"#,
                r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Odd"]: unsupported scope applied to resource"#,
                r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Odd"]: unsupported scope"#,
                r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Odd"]: conflicting scopes"#,
            ],
        );
    }

    #[test]
    fn scopes_are_immutable() {
        let quota = |scope: &str| json!({"spec": {"scopes": [scope]}});
        assert_eq!(
            refusals_of_update(&STRATEGY, quota("BestEffort"), quota("Terminating")),
            [r#"spec.scopes: Invalid value: ["BestEffort"]: field is immutable"#]
        );
    }

    #[test]
    fn the_table_shows_used_and_hard_amounts() {
        let quota = object(json!({"metadata": {"name": "q"}, "status":
            {"hard": {"limits.cpu": "2", "pods": "4", "requests.cpu": "1"}, "used": {"pods": "3", "limits.cpu": "500m"}}}));
        let mut cells = cells(&quota, &Now { unix_seconds: 0 });
        cells.pop();
        assert_eq!(cells, ["q", "pods: 3/4, requests.cpu: 0/1", "limits.cpu: 500m/2"]);
    }
}
