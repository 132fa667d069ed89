//! Validation of changes of a job. Most fields are immutable; `parallelism` is not. While a job is
//! suspended and has no active pods, the scheduling fields and the resources of its template may
//! change too.

use super::spec::{validate_hostnames, validate_job_spec};
use super::{is_indexed, is_true};
use crate::validation::go_struct;
use crate::validation::rules::{IMMUTABLE, immutable};
use crate::validation::workload::{self, SPEC};
use machinery::fields::{at, flag, list, map_mut, maps_mut, number, part, same, top};
use machinery::{ErrorList, Map, Object, Value, json};

/// Validates a change of a job.
pub(super) fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate_job_spec(errors, top(new, "spec"));
    validate_completions(errors, top(new, "spec"), top(old, "spec"));
    workload::validate_same_selector(errors, new, old);
    validate_template(errors, new, old);
    let (new_spec, old_spec) = (top(new, "spec"), top(old, "spec"));
    let values = |field| (at(new_spec, &[field]), at(old_spec, &[field]));
    for field in ["completionMode", "backoffLimitPerIndex", "managedBy"] {
        let (new, old) = values(field);
        immutable(errors, &SPEC.child(field), new, old);
    }
    for (field, name) in
        [("podFailurePolicy", "PodFailurePolicy"), ("successPolicy", "SuccessPolicy")]
    {
        let (new, old) = values(field);
        if !same(new, old) {
            go_struct::invalid(errors, &SPEC.child(field), name, new, IMMUTABLE);
        }
    }
    validate_hostnames(errors, new);
}

/// `completions` are immutable, except that they may change to `parallelism` in an indexed job.
fn validate_completions(errors: &mut ErrorList, new: &Value, old: &Value) {
    let path = SPEC.child("completions");
    let (after, before) = (at(new, &["completions"]), at(old, &["completions"]));
    if !is_indexed(new) {
        return immutable(errors, &path, after, before);
    }
    if !same(after, before) && !after.is_null() && after != at(new, &["parallelism"]) {
        let message = "can only be modified in tandem with spec.parallelism";
        errors.invalid(&path, after.clone(), message);
    }
}

fn validate_template(errors: &mut ErrorList, new: &Object, old: &Object) {
    let template = |job| at(top(job, "spec"), &["template"]);
    let (after, before) = (template(new), template(old));
    let path = SPEC.child("template");
    if !is_template_mutable(old) {
        if !same(after, before) {
            let shown = go_struct::with_inline_metadata(after);
            go_struct::invalid(errors, &path, "PodTemplateSpec", &shown, IMMUTABLE);
        }
        return;
    }
    let pod = at(after, &["spec"]);
    let expected = with_mutable_fields_of(at(before, &["spec"]), pod);
    if !same(pod, &Value::Object(expected)) {
        go_struct::invalid(errors, &path.child("spec"), "PodSpec", pod, IMMUTABLE);
    }
}

/// Whether the job is suspended and has no active pods.
fn is_template_mutable(job: &Object) -> bool {
    let status = top(job, "status");
    flag(top(job, "spec"), "suspend")
        && (part(status, "startTime").is_none() || is_true(status, "Suspended"))
        && number(status, "active") == 0
}

/// The old pod spec with the mutable fields of the new one.
fn with_mutable_fields_of(old: &Value, new: &Value) -> Map<String, Value> {
    let mut expected = old.as_object().cloned().unwrap_or_default();
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        match part(new, field) {
            Some(value) => drop(expected.insert(field.to_owned(), value.clone())),
            None => drop(expected.remove(field)),
        }
    }
    let nodes = at(new, &["affinity", "nodeAffinity"]).clone();
    let affinity = expected.entry("affinity").or_insert_with(|| json!({}));
    if let Some(affinity) = affinity.as_object_mut() {
        affinity.insert("nodeAffinity".to_owned(), nodes);
    }
    for field in ["containers", "initContainers"] {
        copy_resources(&mut expected, field, list(new, field));
    }
    if let Some(affinity) = map_mut(&mut expected, "affinity") {
        affinity.retain(|_, value| !value.is_null());
    }
    expected
}

fn copy_resources(spec: &mut Map<String, Value>, field: &str, new: &[Value]) {
    if maps_mut(spec, field).count() != new.len() {
        return;
    }
    for (container, new) in maps_mut(spec, field).zip(new) {
        if container.get("name") == new.get("name") {
            container.insert("resources".to_owned(), at(new, &["resources"]).clone());
        }
    }
}
