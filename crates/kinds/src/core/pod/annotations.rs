//! Validation of the annotations of pods that Kubernetes gives a meaning.

use super::each_container;
use super::service_account::MIRROR;
use crate::validation::rules::descending_path;
use machinery::field_path::quote;
use machinery::fields::{annotation, at, entries, part, text};
use machinery::{ErrorList, Path, Value};

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

static METADATA: Path<'static> = Path::root("metadata");

/// Validates the annotations of a pod.
pub(super) fn validate_pod(errors: &mut ErrorList, metadata: &Value, spec: &Value) {
    validate(errors, &METADATA.child("annotations"), metadata, spec);
}

/// Validates the annotations of a pod or a pod template, which are at `path`.
pub(super) fn validate(errors: &mut ErrorList, path: &Path<'_>, metadata: &Value, spec: &Value) {
    let is_unbound = text(spec, "nodeName").is_empty();
    if let Some(mirror) = annotation(metadata, MIRROR).filter(|_| is_unbound) {
        let message = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&path.key(MIRROR), mirror, message);
    }
    if let Some(cost) = annotation(metadata, DELETION_COST).filter(|cost| !is_cost(cost)) {
        errors.invalid(&path.key(DELETION_COST), cost, "must be a 32bit integer");
    }
    for (key, value) in entries(metadata, "annotations") {
        let value = value.as_str().unwrap_or_default();
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            validate_seccomp(errors, &path.child(key), value);
        }
        if let Some(container) = key.strip_prefix(APP_ARMOR) {
            if !has_container(spec, container) {
                errors.invalid(&path.key(key), container, "container not found");
            }
            let is_known = matches!(value, "" | "runtime/default" | "unconfined")
                || value.starts_with("localhost/");
            if !is_known {
                let message = format!("invalid AppArmor profile name: {}", quote(value));
                errors.invalid(&path.key(key), value, &message);
            }
        }
    }
}

/// Whether a text is a 32-bit integer without a plus sign or leading zeros.
fn is_cost(text: &str) -> bool {
    let has_leading_zero = text.len() > 1 && text.starts_with('0');
    !text.starts_with('+') && !has_leading_zero && text.parse::<i32>().is_ok()
}

fn has_container(spec: &Value, name: &str) -> bool {
    let mut found = false;
    each_container(spec, &Path::EMPTY, |container, _| found |= text(container, "name") == name);
    found
}

fn validate_seccomp(errors: &mut ErrorList, path: &Path<'_>, profile: &str) {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => {}
        other => match other.strip_prefix("localhost/") {
            Some(file) => descending_path(errors, path, file),
            None => errors.invalid(path, other, "must be a valid seccomp profile"),
        },
    }
}

/// Validates an update of the annotations: some are immutable.
pub(super) fn validate_change(errors: &mut ErrorList, new: &Value, old: &Value) {
    let path = METADATA.child("annotations");
    let what = |key: &str| match key {
        MIRROR => Some("mirror pod annotation"),
        key if key.starts_with(APP_ARMOR) => Some("AppArmor annotations"),
        _ => None,
    };
    for (key, value) in entries(old, "annotations") {
        let changed = annotation(new, key) != value.as_str();
        if let Some(what) = what(key).filter(|_| changed) {
            errors.forbidden(&path.key(key), &format!("may not remove or update {what}"));
        }
    }
    for (key, _) in entries(new, "annotations") {
        if let Some(what) = what(key).filter(|_| annotation(old, key).is_none()) {
            errors.forbidden(&path.key(key), &format!("may not add {what}"));
        }
    }
}

/// Deprecated annotations and the fields that replaced them must agree.
pub(super) fn validate_match(
    errors: &mut ErrorList,
    metadata: &Value,
    spec: &Value,
    path: &Path<'_>,
) {
    let pod_context = at(spec, &["securityContext"]);
    if let (Some(profile), Some(value)) =
        (part(pod_context, "seccompProfile"), annotation(metadata, SECCOMP_POD))
    {
        let context = path.child("securityContext");
        validate_profile_match(errors, &context.child("seccompProfile"), "seccomp", profile, value);
    }
    let is_windows = at(spec, &["os", "name"]) == "windows";
    each_container(spec, path, |container, path| {
        let context = at(container, &["securityContext"]);
        let path = path.child("securityContext");
        let name = text(container, "name");
        let seccomp = annotation(metadata, &format!("{SECCOMP_CONTAINER}{name}"));
        if let (Some(profile), Some(value)) = (part(context, "seccompProfile"), seccomp) {
            validate_profile_match(
                errors,
                &path.child("seccompProfile"),
                "seccomp",
                profile,
                value,
            );
        }
        let profile = part(context, "appArmorProfile").or(part(pod_context, "appArmorProfile"));
        let armor = annotation(metadata, &format!("{APP_ARMOR}{name}"));
        if let (Some(profile), Some(value), false) = (profile, armor, is_windows) {
            validate_profile_match(
                errors,
                &path.child("appArmorProfile"),
                "apparmor",
                profile,
                value,
            );
        }
    });
}

fn validate_profile_match(
    errors: &mut ErrorList,
    path: &Path<'_>,
    what: &str,
    profile: &Value,
    value: &str,
) {
    let same_type = match text(profile, "type") {
        "Unconfined" => value == "unconfined",
        "RuntimeDefault" => {
            value == "runtime/default" || (what == "seccomp" && value == "docker/default")
        }
        "Localhost" => value.starts_with("localhost/"),
        _ => return,
    };
    if !same_type {
        let message = format!("{what} type in annotation and field must match");
        errors.forbidden(&path.child("type"), &message);
    } else if text(profile, "type") == "Localhost"
        && value.strip_prefix("localhost/") != Some(text(profile, "localhostProfile"))
    {
        let message = format!("{what} profile in annotation and field must match");
        errors.forbidden(&path.child("localhostProfile"), &message);
    }
}
