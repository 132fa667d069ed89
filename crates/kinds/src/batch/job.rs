//! `Job`: pods that run until enough of them have succeeded.
//!
//! A job selects its pods by its own uid, which the server writes into the template's labels and
//! into the selector, unless `manualSelector` is set.

mod indexes;
mod policies;
mod spec;
mod status;
mod update;

pub(super) use spec::{add_spec_warnings, spec_defaults, validate_spec};

use crate::table;
use crate::validation::workload::columns::{CONTAINERS, IMAGES, SELECTOR, containers};
use crate::validation::workload::{self, SPEC};
use machinery::field_path::quote;
use machinery::fields::{at, default_value, flag, integer, number, part, text, top};
use machinery::{Map, Object, Value, json, timestamp};
use types::columns::{AGE, NAME, age, column, condition, selector, since};
use types::resource::{
    Column, Columns, GarbageCollectionPolicy, Now, Resource, Strategy, Version,
    keep_all_but_status, keep_status,
};

/// The labels with the job's name: the one with a prefix, and the older one without.
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// The labels that hold the job's uid.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

/// The resource of the kind `Job`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        selectable: [table::selectable_as("status.successful", "status.succeeded", "0")].into(),
        ..table::v1("batch/v1.Job", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        categories: vec!["all".to_owned()],
        ..table::resource("batch", "Job", "jobs", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create,
    prepare_update: |new, old| {
        keep_status(new, old);
        copy_template_labels(new);
    },
    prepare_status: |new, old| {
        keep_all_but_status(new, old);
        copy_template_labels(new);
    },
    validate: spec::validate,
    validate_update: update::validate_update,
    validate_status: status::validate_status,
    generation: true,
    warnings: |job| {
        let mut warnings = Vec::new();
        workload::warn_of_name(&mut warnings, job.name());
        add_spec_warnings(&mut warnings, &SPEC, top(job, "spec"));
        warnings
    },
    update_warnings: Some(|new, old| {
        let mut warnings = Vec::new();
        if new.generation() != old.generation() {
            add_spec_warnings(&mut warnings, &SPEC, top(new, "spec"));
        }
        warnings
    }),
    unknown_label: |label| format!("field label {} not supported for Job", quote(label)),
    garbage_collection: GarbageCollectionPolicy::OrphanDependents(Some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
    )),
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    column("Status", "Status of the job."),
    column("Completions", "The number of pods that succeeded, and the number that must succeed."),
    column("Duration", "Time required to complete the job."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn cells(job: &Object, now: &Now) -> Vec<Value> {
    let spec = top(job, "spec");
    let [names, images] = containers(at(spec, &["template"]));
    vec![
        job.name().into(),
        state(job).into(),
        completions(job).into(),
        duration(top(job, "status"), now).into(),
        age(job, now),
        names,
        images,
        selector(at(spec, &["selector"])).into(),
    ]
}

fn state(job: &Object) -> &'static str {
    let has = |kind: &&str| condition(top(job, "status"), kind) == "True";
    let finished = ["Complete", "Failed"].into_iter().find(has);
    let deleted = job.deletion_timestamp().map(|_| "Terminating");
    let running = || ["Suspended", "FailureTarget", "SuccessCriteriaMet"].into_iter().find(has);
    finished.or(deleted).or_else(running).unwrap_or("Running")
}

fn completions(job: &Object) -> String {
    let spec = top(job, "spec");
    let succeeded = number(top(job, "status"), "succeeded");
    match (integer(spec, "completions"), number(spec, "parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(status: &Value, now: &Now) -> String {
    let seconds = |key| timestamp::parse(text(status, key)).map(|(seconds, _)| seconds);
    match (seconds("startTime"), seconds("completionTime")) {
        (None, _) => String::new(),
        (Some(_), None) => since(text(status, "startTime"), now),
        (Some(start), Some(end)) => timestamp::human_duration(end - start),
    }
}

fn defaults(job: &mut Object) {
    let spec = job.map_at(&["spec"]);
    spec_defaults(spec);
    let is_set =
        |spec: &Map<String, Value>, key: &str| spec.get(key).is_some_and(|it| !it.is_null());
    if !is_set(spec, "completions") && !is_set(spec, "parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    default_value(spec, "parallelism", 1.into());
    let limit = if is_set(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 };
    default_value(spec, "backoffLimit", limit.into());
    default_value(spec, "completionMode", "NonIndexed".into());
    default_value(spec, "suspend", false.into());
    let replacement =
        if is_set(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    default_value(spec, "podReplacementPolicy", replacement.into());
    default_value(spec, "manualSelector", false.into());
}

fn prepare_create(job: &mut Object) {
    workload::reset_status(job, json!({}));
    if !flag(top(job, "spec"), "manualSelector") {
        generate_selector(job);
    }
    copy_template_labels(job);
}

/// Adds the labels and the selector of the server. Those that the user set are kept; validation
/// refuses them if they do not match.
fn generate_selector(job: &mut Object) {
    let (name, uid) = (Value::from(job.name()), Value::from(job.uid()));
    let labels = job.map_at(&["spec", "template", "metadata", "labels"]);
    for (keys, value) in [(NAME_LABELS, name), (UID_LABELS, uid.clone())] {
        for key in keys {
            labels.entry(key).or_insert_with(|| value.clone());
        }
    }
    let selected = job.map_at(&["spec", "selector", "matchLabels"]);
    selected.entry(UID_LABELS[0]).or_insert(uid);
}

/// Gives a job without labels those of its pod template. Upstream sets this default whenever a
/// stored job is read, so it includes the generated labels.
fn copy_template_labels(job: &mut Object) {
    let labels = workload::template_labels(top(job, "spec")).clone();
    let own = at(top(job, "metadata"), &["labels"]);
    let has_own = own.as_object().is_some_and(|own| !own.is_empty());
    if !has_own && labels.is_object() {
        job.set_meta("labels", labels);
    }
}

/// Whether a job is complete or failed.
fn is_finished(status: &Value) -> bool {
    is_true(status, "Complete") || is_true(status, "Failed")
}

/// Whether a condition of this type is True.
fn is_true(status: &Value, kind: &str) -> bool {
    machinery::fields::list(status, "conditions")
        .iter()
        .any(|condition| text(condition, "type") == kind && text(condition, "status") == "True")
}

/// Whether pods have indexes, each of which must succeed once.
fn is_indexed(spec: &Value) -> bool {
    part(spec, "completionMode").is_some_and(|mode| mode == "Indexed")
}

#[cfg(test)]
mod tests;
