//! What policies and their bindings have in common. Expressions are only required to be present
//! here; their syntax is checked where they are compiled.

use super::matching;
use crate::validation::rules::{add_invalid, label_selector, required, supported_only};
use machinery::fields::{at, list, part, text, texts, top};
use machinery::{ErrorList, Object, Path, Value, names};
use schema::is_identifier;
use types::columns::{age, selector};
use types::resource::Now;

pub(super) static SPEC: Path<'static> = Path::root("spec");

/// Validates what both kinds of policies have in common; `constraints` adds checks of
/// `matchConstraints`.
pub(super) fn validate_policy(
    new: &Object,
    old: Option<&Object>,
    errors: &mut ErrorList,
    constraints: fn(&mut ErrorList, &Value),
) {
    let spec = top(new, "spec");
    let policy = text(spec, "failurePolicy");
    supported_only(errors, &SPEC.child("failurePolicy"), policy, &["Fail", "Ignore"]);
    if let Some(kind) = part(spec, "paramKind") {
        validate_param_kind(errors, &SPEC.child("paramKind"), kind);
    }
    let path = SPEC.child("matchConstraints");
    match part(spec, "matchConstraints") {
        None => errors.required(&path, ""),
        Some(resources) => {
            matching::validate_match_resources(errors, &path, resources);
            if list(resources, "resourceRules").is_empty() {
                errors.required(&path.child("resourceRules"), "");
            }
            constraints(errors, spec);
        }
    }
    let are_same = old.is_some_and(|old| {
        let old = top(old, "spec");
        ["paramKind", "matchConditions"].iter().all(|key| at(old, &[key]) == at(spec, &[key]))
    });
    if !are_same {
        let conditions = list(spec, "matchConditions");
        matching::validate_conditions(errors, &SPEC.child("matchConditions"), conditions);
    }
    let path = SPEC.child("variables");
    for (index, variable) in list(spec, "variables").iter().enumerate() {
        let path = path.index(index);
        let name = text(variable, "name");
        if name.trim().is_empty() {
            errors.required(&path.child("name"), "name is not specified");
        } else if !is_identifier(name) {
            errors.invalid(&path.child("name"), name, "must be a valid CEL identifier");
        }
        if text(variable, "expression").trim().is_empty() {
            errors.required(&path.child("expression"), "expression is not specified");
        }
    }
}

fn validate_param_kind(errors: &mut ErrorList, path: &Path<'_>, kind: &Value) {
    let api_version = text(kind, "apiVersion");
    let version_path = path.child("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if api_version.is_empty() {
        errors.required(&version_path, "");
    } else if version.contains('/') {
        let message = format!("unexpected GroupVersion string: {api_version}");
        errors.invalid(&version_path, api_version, &message);
    } else {
        let found = names::dns1123_subdomain(group);
        if !group.is_empty() && !found.is_empty() {
            errors.invalid(&version_path, group, &found.join(","));
        }
        let found = names::dns1035_label(version);
        if version.is_empty() {
            errors.invalid(&version_path, api_version, "version must be specified");
        } else if !found.is_empty() {
            errors.invalid(&version_path, version, &found.join(","));
        }
    }
    let name = text(kind, "kind");
    required(errors, &path.child("kind"), name);
    let found = names::dns1035_label(&name.to_lowercase());
    if !name.is_empty() && !found.is_empty() {
        let message =
            format!("may have mixed case, but should otherwise match: {}", found.join(","));
        errors.invalid(&path.child("kind"), name, &message);
    }
}

/// Validates what both kinds of bindings have besides the name of their policy.
pub(super) fn validate_binding(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    if let Some(reference) = part(spec, "paramRef") {
        validate_param_ref(errors, &SPEC.child("paramRef"), reference);
    }
    if let Some(resources) = part(spec, "matchResources") {
        matching::validate_match_resources(errors, &SPEC.child("matchResources"), resources);
    }
}

fn validate_param_ref(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let name = text(reference, "name");
    let selector = part(reference, "selector");
    add_invalid(errors, &path.child("name"), name, names::path_segment(name));
    match (name, selector) {
        ("", None) => errors.required(path, "one of name or selector must be specified"),
        (_, None) => {}
        (name, Some(selector)) => {
            if !name.is_empty() {
                errors.forbidden(&path.child("name"), EXCLUSIVE);
            }
            label_selector(errors, &path.child("selector"), selector);
            if !name.is_empty() {
                errors.forbidden(&path.child("selector"), EXCLUSIVE);
            }
        }
    }
    let action = text(reference, "parameterNotFoundAction");
    let path = path.child("parameterNotFoundAction");
    required(errors, &path, action);
    if !action.is_empty() {
        supported_only(errors, &path, action, &["Deny", "Allow"]);
    }
}

/// Refuses rules for deletions in the `MatchResources` at `key`: deleted objects are not mutated.
pub(super) fn refuse_deletion(errors: &mut ErrorList, key: &str, spec: &Value) {
    let path = SPEC.child(key);
    let path = path.child("resourceRules");
    for rule in list(at(spec, &[key]), "resourceRules") {
        for operation in texts(rule, "operations") {
            let operations = &["*", "CONNECT", "CREATE", "UPDATE"];
            supported_only(errors, &path.child("operations"), operation, operations);
        }
    }
}

/// The cells of a policy; the items of the list `counted` in its spec are counted.
pub(super) fn policy_cells(object: &Object, now: &Now, counted: &str) -> Vec<Value> {
    let spec = top(object, "spec");
    let kind = part(spec, "paramKind").map_or("<unset>".to_owned(), |kind| {
        format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind"))
    });
    vec![object.name().into(), list(spec, counted).len().into(), kind.into(), age(object, now)]
}

/// The cells of a binding.
pub(super) fn binding_cells(object: &Object, now: &Now) -> Vec<Value> {
    let spec = top(object, "spec");
    let reference = at(spec, &["paramRef"]);
    let parameters = match (text(reference, "name"), part(reference, "selector")) {
        ("", None) => "<unset>".to_owned(),
        ("", Some(it)) => selector(it),
        (name, _) => match text(reference, "namespace") {
            "" => format!("*/{name}"),
            namespace => format!("{namespace}/{name}"),
        },
    };
    vec![object.name().into(), text(spec, "policyName").into(), parameters.into(), age(object, now)]
}
