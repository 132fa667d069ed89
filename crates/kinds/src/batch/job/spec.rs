//! Defaults, validation and warnings of the spec of a job or a job template.

use super::{NAME_LABELS, UID_LABELS, is_indexed, policies};
use crate::core::pod::{template_warnings, validate_template};
use crate::validation::go_struct;
use crate::validation::rules::{at_least_zero, dns_subdomain, label_selector};
use crate::validation::workload::{self, SPEC};
use machinery::fields::{
    at, default_text, flag, integer, map_mut, maps_mut, number, part, text, top,
};
use machinery::selector::LabelSelector;
use machinery::{ErrorList, Map, Object, Path, Value, names};

/// The maximum `parallelism` and `maxFailedIndexes` of an indexed job: with more, the list of its
/// completed indexes could become too long.
const MAX_INDEXED: i64 = 100_000;

/// The number of completions above which [`MAX_WITH_MANY`] applies.
const MANY_COMPLETIONS: i64 = 100_000;

/// The maximum `parallelism` and `maxFailedIndexes` of an indexed job with many completions.
const MAX_WITH_MANY: i64 = 10_000;

const MAX_MANAGED_BY: usize = 63;

/// Sets the defaults that a job and a job template have in common.
pub(in crate::batch) fn spec_defaults(spec: &mut Map<String, Value>) {
    workload::template_defaults(spec);
    let Some(policy) = map_mut(spec, "podFailurePolicy") else { return };
    for rule in maps_mut(policy, "rules") {
        for pattern in maps_mut(rule, "onPodConditions") {
            default_text(pattern, "status", "True");
        }
    }
}

/// Validates a new job.
pub(super) fn validate(job: &Object, errors: &mut ErrorList) {
    validate_generated_selector(errors, job);
    validate_job_spec(errors, top(job, "spec"));
    validate_hostnames(errors, job);
}

/// Validates the spec of a job, including the selector.
pub(super) fn validate_job_spec(errors: &mut ErrorList, spec: &Value) {
    validate_spec(errors, &SPEC, spec);
    match part(spec, "selector") {
        None => errors.required(&SPEC.child("selector"), ""),
        Some(selector) => label_selector(errors, &SPEC.child("selector"), selector),
    }
    if let Some(selector) = workload::selector_of(spec) {
        let path = SPEC.child("template");
        workload::validate_match(errors, &path, &selector, workload::template_labels(spec));
    }
}

/// Labels and selectors of the user must not contradict the generated ones.
fn validate_generated_selector(errors: &mut ErrorList, job: &Object) {
    let spec = top(job, "spec");
    if flag(spec, "manualSelector") || part(spec, "selector").is_none() {
        return;
    }
    let labels = workload::template_labels(spec);
    let path = SPEC.child("template");
    let path = path.child("metadata");
    let path = path.child("labels");
    let [name, old_name] = NAME_LABELS;
    let [uid, old_uid] = UID_LABELS;
    let expected =
        [(old_uid, job.uid()), (old_name, job.name()), (uid, job.uid()), (name, job.name())];
    for (key, value) in expected {
        match labels.get(key) {
            None => errors.required(&path.key(key), &format!("must be '{value}'")),
            Some(found) if found == value => {}
            Some(_) => {
                errors.invalid(&path.key(key), labels.clone(), &format!("must be '{value}'"));
            }
        }
    }
    let selector = at(spec, &["selector"]);
    let value_of = |key: &str| expected.iter().find(|(it, _)| *it == key).map(|(_, value)| *value);
    if LabelSelector::from_value(selector).is_ok_and(|selector| !selector.matches(value_of)) {
        workload::invalid_selector(errors, selector, "`selector` not auto-generated");
    }
}

/// The hostname of a pod of an indexed job is the job's name and the pod's index.
pub(super) fn validate_hostnames(errors: &mut ErrorList, job: &Object) {
    let spec = top(job, "spec");
    let completions = number(spec, "completions");
    if !is_indexed(spec) || completions <= 0 {
        return;
    }
    let longest = format!("{}-{}", job.name(), completions - 1);
    if !names::dns1123_label(&longest).is_empty() {
        let message = format!("will not able to create pod with invalid DNS label: {longest}");
        errors.invalid(&Path::root("metadata").child("name"), job.name(), &message);
    }
}

/// Validates the spec of a job or a job template, except for the selector.
pub(in crate::batch) fn validate_spec(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        at_least_zero(errors, &path.child(field), number(spec, field));
    }
    if part(spec, "maxFailedIndexes").is_some() && part(spec, "backoffLimitPerIndex").is_none() {
        let message = "when maxFailedIndexes is specified";
        errors.required(&path.child("backoffLimitPerIndex"), message);
    }
    if part(spec, "managedBy").is_some() {
        validate_managed_by(errors, &path.child("managedBy"), text(spec, "managedBy"));
    }
    validate_completion_mode(errors, path, spec);
    if part(spec, "podFailurePolicy").is_some() {
        policies::validate_failure_policy(errors, &path.child("podFailurePolicy"), spec);
    }
    if let Some(policy) = part(spec, "successPolicy") {
        let path = path.child("successPolicy");
        if is_indexed(spec) {
            let completions = number(spec, "completions");
            policies::validate_success_policy(errors, &path, policy, completions);
        } else {
            let message = "requires indexed completion mode";
            go_struct::invalid(errors, &path, "SuccessPolicy", policy, message);
        }
    }
    if part(spec, "podReplacementPolicy").is_some() {
        let policy = text(spec, "podReplacementPolicy");
        let has_failure_policy = part(spec, "podFailurePolicy").is_some();
        let supported: &[&str] =
            if has_failure_policy { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        if !supported.contains(&policy) {
            errors.not_supported(&path.child("podReplacementPolicy"), policy, supported);
        }
    }
    let path = path.child("template");
    validate_template(errors, &path, at(spec, &["template"]));
    validate_restart_policy(errors, &path, spec);
}

/// Validates `managedBy`, which must be a domain and a path below it.
fn validate_managed_by(errors: &mut ErrorList, path: &Path<'_>, manager: &str) {
    const PATH_BYTES: &[u8] = b"/-._~%!$&'()*+,;=:";
    if manager.is_empty() {
        errors.required(path, "");
    } else if let Some((host, rest)) =
        manager.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    {
        dns_subdomain(errors, path, host);
        if !rest.bytes().all(|b| b.is_ascii_alphanumeric() || PATH_BYTES.contains(&b)) {
            let message =
                r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
            errors.invalid(path, rest, message);
        }
    } else {
        let message = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.invalid(path, manager, message);
    }
    if manager.len() > MAX_MANAGED_BY {
        errors.too_long(path, MAX_MANAGED_BY);
    }
}

fn validate_completion_mode(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let mode = text(spec, "completionMode");
    match (part(spec, "completionMode").is_some(), mode) {
        (true, "Indexed") => return validate_indexed(errors, path, spec),
        (false, _) | (_, "NonIndexed") => {}
        _ => {
            let supported = &["NonIndexed", "Indexed"];
            return errors.not_supported(&path.child("completionMode"), mode, supported);
        }
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if let Some(value) = part(spec, field) {
            let message = "requires indexed completion mode";
            errors.invalid(&path.child(field), value.clone(), message);
        }
    }
}

fn validate_indexed(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let parallelism_path = path.child("parallelism");
    let failed_path = path.child("maxFailedIndexes");
    let (parallelism, failed) = (number(spec, "parallelism"), integer(spec, "maxFailedIndexes"));
    let completions = integer(spec, "completions");
    if completions.is_none() {
        errors.required(&path.child("completions"), "when completion mode is Indexed");
    }
    if parallelism > MAX_INDEXED {
        let message =
            format!("must be less than or equal to {MAX_INDEXED} when completion mode is Indexed");
        errors.invalid(&parallelism_path, parallelism, &message);
    }
    if let Some(failed) = failed {
        if completions.is_some_and(|completions| failed > completions) {
            let message = "must be less than or equal to completions";
            errors.invalid(&failed_path, failed, message);
        }
        if failed > MAX_INDEXED {
            let message = format!("must be less than or equal to {MAX_INDEXED}");
            errors.invalid(&failed_path, failed, &message);
        }
    }
    let has_many = completions.is_some_and(|completions| completions > MANY_COMPLETIONS);
    if !has_many || part(spec, "backoffLimitPerIndex").is_none() {
        return;
    }
    let message = format!(
        "must be less than or equal to {MAX_WITH_MANY} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
    );
    if failed.is_none() {
        let message = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.required(&failed_path, &message);
    }
    if parallelism > MAX_WITH_MANY {
        errors.invalid(&parallelism_path, parallelism, &message);
    }
    if let Some(failed) = failed.filter(|failed| *failed > MAX_WITH_MANY) {
        errors.invalid(&failed_path, failed, &message);
    }
}

/// Refuses `Always`, with which a pod never completes.
fn validate_restart_policy(errors: &mut ErrorList, template: &Path<'_>, spec: &Value) {
    let path = template.child("spec");
    let path = path.child("restartPolicy");
    match text(at(spec, &["template", "spec"]), "restartPolicy") {
        // `Always` is the default of pods, so it is reported as a missing value.
        "" | "Always" => errors.required(&path, r#"valid values: "OnFailure", "Never""#),
        "Never" => {}
        "OnFailure" if part(spec, "podFailurePolicy").is_none() => {}
        "OnFailure" => {
            let message = r#"only "Never" is supported when podFailurePolicy is specified"#;
            errors.invalid(&path, "OnFailure", message);
        }
        other => errors.not_supported(&path, other, &["OnFailure", "Never"]),
    }
}

/// Adds the warnings about the spec of a job or a job template at `path`.
pub(in crate::batch) fn add_spec_warnings(out: &mut Vec<String>, path: &Path<'_>, spec: &Value) {
    let has_many = number(spec, "completions") > MANY_COMPLETIONS
        && number(spec, "parallelism") > MAX_WITH_MANY;
    if is_indexed(spec) && has_many {
        out.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    let template = at(spec, &["template"]);
    let (metadata, pod) = (at(template, &["metadata"]), at(template, &["spec"]));
    template_warnings(out, &path.child("template"), metadata, pod);
}
