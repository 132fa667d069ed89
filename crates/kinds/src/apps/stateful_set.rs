//! `StatefulSet`: pods with names and volumes of their own, which they keep when they are replaced.

use std::collections::BTreeSet;

use super::rollout;
use crate::core::pod::{validate_claim_spec, validate_template};
use crate::table;
use crate::validation::go_struct;
use crate::validation::quantities::{amount, is_fractional};
use crate::validation::rules::{
    IMMUTABLE, at_least_zero, at_most_100_percent, count_or_percent, dns_label, immutable, labels,
    supported_only,
};
use crate::validation::workload::columns::{CONTAINERS, IMAGES, containers};
use crate::validation::workload::{self, SPEC, counters};
use machinery::field_path::{ErrorType, quote};
use machinery::fields::{
    at, default_text, default_value, list, map_mut, maps_mut, number, part, same, text, top,
};
use machinery::meta::validate_annotations;
use machinery::{ErrorList, Map, Object, Path, Value, json, names};
use types::columns::{AGE, NAME, age, column};
use types::resource::{Column, Columns, Now, Resource, Strategy, Version, keep_status};

/// The resource of the kind `StatefulSet`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        scale: Some(workload::scale()),
        ..table::v1("apps/v1.StatefulSet", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["sts".to_owned()],
        categories: vec!["all".to_owned()],
        ..table::resource("apps", "StatefulSet", "statefulsets", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create: |set| {
        workload::reset_status(set, json!({"replicas": 0, "availableReplicas": 0}));
    },
    prepare_update: keep_status,
    validate,
    validate_update,
    validate_status,
    validate_name: names::dns1123_label,
    generation: true,
    warnings: |set| {
        let mut warnings = workload::warnings_of_template(set);
        add_spec_warnings(&mut warnings, set, "");
        warnings
    },
    update_warnings: Some(|new, old| {
        let mut warnings = workload::update_warnings(new, old);
        add_spec_warnings(&mut warnings, new, "Spec");
        warnings
    }),
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] =
    &[NAME, column("Ready", "Number of the pod with ready state"), AGE, CONTAINERS, IMAGES];

fn cells(set: &Object, now: &Now) -> Vec<Value> {
    let (spec, status) = (top(set, "spec"), top(set, "status"));
    let [names, images] = containers(at(spec, &["template"]));
    let ready = format!("{}/{}", number(status, "readyReplicas"), number(spec, "replicas"));
    vec![set.name().into(), ready.into(), age(set, now), names, images]
}

fn defaults(set: &mut Object) {
    let spec = set.map_at(&["spec"]);
    workload::template_defaults(spec);
    default_text(spec, "podManagementPolicy", "OrderedReady");
    default_value(spec, "updateStrategy", json!({}));
    if let Some(strategy) = map_mut(spec, "updateStrategy") {
        strategy_defaults(strategy);
    }
    default_value(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    if let Some(policy) = map_mut(spec, "persistentVolumeClaimRetentionPolicy") {
        default_text(policy, "whenDeleted", "Retain");
        default_text(policy, "whenScaled", "Retain");
    }
    default_value(spec, "replicas", 1.into());
    default_value(spec, "revisionHistoryLimit", 10.into());
    maps_mut(spec, "volumeClaimTemplates").for_each(claim_defaults);
}

fn strategy_defaults(strategy: &mut Map<String, Value>) {
    if strategy.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
        default_text(strategy, "type", "RollingUpdate");
        default_value(strategy, "rollingUpdate", json!({}));
    }
    if strategy["type"] != "RollingUpdate" {
        return;
    }
    if let Some(rolling) = map_mut(strategy, "rollingUpdate") {
        default_value(rolling, "partition", 0.into());
        default_value(rolling, "maxUnavailable", 1.into());
    }
}

fn claim_defaults(claim: &mut Map<String, Value>) {
    claim.insert("apiVersion".to_owned(), "v1".into());
    claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
    default_value(claim, "spec", json!({}));
    if let Some(spec) = map_mut(claim, "spec") {
        default_value(spec, "volumeMode", "Filesystem".into());
    }
    default_value(claim, "status", json!({}));
    if let Some(status) = map_mut(claim, "status") {
        default_text(status, "phase", "Pending");
    }
}

fn validate(set: &Object, errors: &mut ErrorList) {
    let spec = top(set, "spec");
    let claims = SPEC.child("volumeClaimTemplates");
    for (index, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
        let path = claims.index(index);
        validate_claim_spec(errors, &path.child("spec"), at(claim, &["spec"]));
    }
    let service = text(spec, "serviceName");
    if !service.is_empty() {
        dns_label(errors, &SPEC.child("serviceName"), service);
    }
    validate_spec(spec, TemplateValidation::Enforced, errors);
}

/// Whether the pod template is validated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TemplateValidation {
    Enforced,
    /// The stored set is invalid, possibly because of the same template.
    Skipped,
}

/// Validates the fields that are validated in updates too.
fn validate_spec(spec: &Value, template: TemplateValidation, errors: &mut ErrorList) {
    let policy = text(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let message = "must be 'OrderedReady' or 'Parallel'";
        errors.invalid(&SPEC.child("podManagementPolicy"), policy, message);
    }
    validate_strategy(errors, &SPEC.child("updateStrategy"), at(spec, &["updateStrategy"]));
    if let Some(policy) = part(spec, "persistentVolumeClaimRetentionPolicy") {
        let path = SPEC.child("persistentVolumeClaimRetentionPolicy");
        for field in ["whenDeleted", "whenScaled"] {
            supported_only(errors, &path.child(field), text(policy, field), &["Retain", "Delete"]);
        }
    }
    for field in ["replicas", "minReadySeconds"] {
        at_least_zero(errors, &SPEC.child(field), number(spec, field));
    }
    let start = number(at(spec, &["ordinals"]), "start");
    at_least_zero(errors, &SPEC.child("ordinals.start"), start);
    workload::validate_selector(errors, spec, "statefulset");
    validate_pods(errors, spec, template);
    workload::validate_always_restarted(
        errors,
        &SPEC.child("template"),
        at(spec, &["template"]),
        "StatefulSet",
    );
}

fn validate_strategy(errors: &mut ErrorList, path: &Path<'_>, strategy: &Value) {
    let rolling_path = path.child("rollingUpdate");
    match (text(strategy, "type"), part(strategy, "rollingUpdate")) {
        ("", _) => errors.required(path, ""),
        ("OnDelete" | "RollingUpdate", None) => {}
        ("OnDelete", Some(rolling)) => go_struct::invalid(
            errors,
            &rolling_path,
            "RollingUpdateStatefulSetStrategy",
            rolling,
            "only allowed for updateStrategy 'RollingUpdate'",
        ),
        ("RollingUpdate", Some(rolling)) => validate_rolling(errors, &rolling_path, rolling),
        _ => {
            let message = "must be 'RollingUpdate' or 'OnDelete'";
            go_struct::invalid(errors, path, "StatefulSetUpdateStrategy", strategy, message);
        }
    }
}

fn validate_rolling(errors: &mut ErrorList, path: &Path<'_>, rolling: &Value) {
    at_least_zero(errors, &path.child("partition"), number(rolling, "partition"));
    if let Some(unavailable) = part(rolling, "maxUnavailable") {
        let path = path.child("maxUnavailable");
        count_or_percent(errors, &path, unavailable);
        if rollout::is_zero(unavailable) {
            errors.invalid(&path, unavailable.clone(), "cannot be 0");
        }
        at_most_100_percent(errors, &path, unavailable);
    }
}

fn validate_pods(errors: &mut ErrorList, spec: &Value, template: TemplateValidation) {
    let Some(selector) = workload::selector_of(spec) else {
        return workload::invalid_selector(errors, at(spec, &["selector"]), "");
    };
    let path = SPEC.child("template");
    workload::validate_match(errors, &path, &selector, workload::template_labels(spec));
    if template == TemplateValidation::Enforced {
        validate_template(errors, &path, &template_with_claims(spec));
    }
    // Upstream validates these a second time, so that their errors are reported twice.
    let metadata = at(spec, &["template", "metadata"]);
    labels(errors, &path.child("labels"), at(metadata, &["labels"]));
    if let Some(map) = at(metadata, &["annotations"]).as_object() {
        validate_annotations(map, &path.child("annotations"), errors);
    }
}

/// The template as the controller uses it: without hostname and subdomain, which the controller
/// sets, and with a volume for each claim, which replaces a volume of the same name.
fn template_with_claims(spec: &Value) -> Value {
    let mut template = at(spec, &["template"]).clone();
    let claims = list(spec, "volumeClaimTemplates").iter();
    let claims: BTreeSet<&str> =
        claims.map(|claim| text(at(claim, &["metadata"]), "name")).collect();
    let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return template;
    };
    pod.remove("subdomain");
    pod.remove("hostname");
    if claims.is_empty() {
        return template;
    }
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    if let Some(Value::Array(own)) = pod.remove("volumes") {
        volumes.extend(own.into_iter().filter(|volume| !claims.contains(text(volume, "name"))));
    }
    pod.insert("volumes".to_owned(), volumes.into());
    template
}

fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    let mut old_errors = ErrorList::new();
    validate_spec(top(old, "spec"), TemplateValidation::Enforced, &mut old_errors);
    let template = if old_errors.is_empty() {
        TemplateValidation::Enforced
    } else {
        TemplateValidation::Skipped
    };
    validate_spec(top(new, "spec"), template, errors);
    workload::validate_same_selector(errors, new, old);
    let (new, old) = (top(new, "spec"), top(old, "spec"));
    validate_same_claims(
        errors,
        list(new, "volumeClaimTemplates"),
        list(old, "volumeClaimTemplates"),
    );
    for field in ["serviceName", "podManagementPolicy"] {
        let value = |spec| Value::from(text(spec, field));
        immutable(errors, &SPEC.child(field), &value(new), &value(old));
    }
}

fn validate_same_claims(errors: &mut ErrorList, new: &[Value], old: &[Value]) {
    let is_same = new.len() == old.len() && new.iter().zip(old).all(|(new, old)| same(new, old));
    if !is_same {
        let claims: Vec<Value> = new.iter().map(go_struct::with_inline_metadata).collect();
        let shown = go_struct::line_of_list("PersistentVolumeClaim", &claims);
        let path = SPEC.child("volumeClaimTemplates");
        errors.add(ErrorType::Invalid, &path, None, &format!("{shown}: {IMMUTABLE}"));
    }
}

fn validate_status(new: &Object, old: &Object, errors: &mut ErrorList) {
    const PARTS: &[&str] =
        &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    let status = top(new, "status");
    counters::not_negative(errors, status, &["replicas"]);
    counters::not_negative(errors, status, PARTS);
    counters::not_negative(errors, status, &["observedGeneration", "collisionCount"]);
    counters::at_most_replicas(errors, status, PARTS);
    counters::available_are_ready(errors, status, "cannot be greater than status.readyReplicas");
    counters::collisions_only_grow(errors, status, top(old, "status"));
}

/// Warns of fractional storage sizes and of a negative history limit. `below` is the part of the
/// path between a claim and its resources: upstream's paths differ in creations and updates.
fn add_spec_warnings(out: &mut Vec<String>, set: &Object, below: &str) {
    let spec = top(set, "spec");
    let claims = SPEC.child("volumeClaimTemplates");
    for (index, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
        let claim_path = claims.index(index);
        let path = if below.is_empty() { claim_path } else { claim_path.child(below) };
        let path = path.child("resources");
        for part in ["requests", "limits"] {
            let storage = amount(at(claim, &["spec", "resources", part, "storage"]));
            if is_fractional(&storage) {
                out.push(format!(
                    "{}: fractional byte value {} is invalid, must be an integer",
                    path.child(part).key("storage"),
                    quote(&storage.to_string())
                ));
            }
        }
    }
    if number(spec, "revisionHistoryLimit") < 0 {
        let warning = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
        out.push(warning.to_owned());
    }
}

#[cfg(test)]
mod tests;
