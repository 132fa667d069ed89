//! `PersistentVolumeClaim`: a request for storage, and the volume bound to it.

use super::persistent_volume::{CLASS_ANNOTATION, access_modes, class, or_unset, phase};
use super::pod::validate_claim_spec;
use crate::table;
use crate::validation::go_struct;
use crate::validation::quantities::{amount, is_fractional};
use crate::validation::rules::{add_invalid, dns_subdomain, immutable, required};
use crate::validation::unified_diff::{DiffBudget, unified_diff};
use machinery::field_path::quote;
use machinery::fields::{at, default_text, default_value, entries, list, part, same, text, top};
use machinery::{ErrorList, Object, Path, Value, json, names};
use types::columns::{AGE, NAME, age, column, wide};
use types::resource::{Column, Columns, Now, Resource, Strategy, Version};

/// The resource of the kind `PersistentVolumeClaim`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        // As upstream, `name` can be selected besides `metadata.name`.
        selectable: [table::selectable_as("name", "metadata.name", "")].into(),
        ..table::v1("core/v1.PersistentVolumeClaim", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["pvc".to_owned()],
        ..table::resource("", "PersistentVolumeClaim", "persistentvolumeclaims", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create: |object| {
        object.map_mut().insert("status".to_owned(), json!({"phase": "Pending"}));
        drop_unsupported_sources(object);
        copy_data_source(object);
    },
    prepare_update: |new, old| {
        types::resource::keep_status(new, old);
        let had_source =
            ["dataSource", "dataSourceRef"].iter().any(|key| part(top(old, "spec"), key).is_some());
        if !had_source {
            drop_unsupported_sources(new);
        }
        copy_data_source(new);
    },
    validate,
    validate_update,
    validate_status,
    returns_deleted: true,
    warnings,
    ..Strategy::DEFAULT
};

static SPEC: Path<'static> = Path::root("spec");

const COLUMNS: &[Column] = &[
    NAME,
    column("Status", "phase represents the current phase of PersistentVolumeClaim."),
    column("Volume", "The name of the persistent volume that is bound to the claim, if any is."),
    column(
        "Capacity",
        "The capacity of the volume that is bound to the claim; at least what it requests.",
    ),
    column(
        "Access Modes",
        "The access modes of the bound volume, each abbreviated to letters such as RWO.",
    ),
    column("StorageClass", "StorageClass of the pvc"),
    column("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
    AGE,
    wide("VolumeMode", "The requested mode of the volume: Filesystem for a file system, or Block."),
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let (spec, status) = (top(object, "spec"), top(object, "status"));
    let volume = text(spec, "volumeName");
    let (capacity, modes) = match volume {
        "" => (String::new(), String::new()),
        _ => (amount(at(status, &["capacity", "storage"])).to_string(), access_modes(status)),
    };
    vec![
        object.name().into(),
        phase(object).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class(object).into(),
        or_unset(spec, "volumeAttributesClassName").into(),
        age(object, now),
        or_unset(spec, "volumeMode").into(),
    ]
}

fn defaults(object: &mut Object) {
    default_text(object.map_at(&["status"]), "phase", "Pending");
    default_value(object.map_at(&["spec"]), "volumeMode", "Filesystem".into());
}

/// Drops a `dataSource` of an unsupported kind, as upstream does without an error, and a
/// `dataSourceRef` to another namespace.
fn drop_unsupported_sources(object: &mut Object) {
    let spec = top(object, "spec");
    let source = at(spec, &["dataSource"]);
    let is_unsupported = !matches!(
        (text(source, "kind"), text(source, "apiGroup")),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
    );
    if is_unsupported && part(spec, "dataSourceRef").is_none() {
        object.map_at(&["spec"]).remove("dataSource");
    }
    // The feature gate `CrossNamespaceVolumeDataSource` is off by default.
    if !object.str_at(&["spec", "dataSourceRef", "namespace"]).is_empty() {
        object.map_at(&["spec"]).remove("dataSourceRef");
    }
}

/// Copies `dataSource` to `dataSourceRef` or vice versa if only one of them is set.
fn copy_data_source(object: &mut Object) {
    let spec = object.map_at(&["spec"]);
    let copied = |from: &Value| {
        // Upstream's field has no `omitempty`: a missing group is written as null.
        let mut to = json!({"apiGroup": null});
        for key in ["apiGroup", "kind", "name"] {
            if let Some(value) = part(from, key) {
                to[key] = value.clone();
            }
        }
        to
    };
    let find = |key: &str| spec.get(key).filter(|it| !it.is_null());
    match (find("dataSource"), find("dataSourceRef")) {
        (Some(source), None) => {
            let reference = copied(source);
            spec.insert("dataSourceRef".to_owned(), reference);
        }
        (None, Some(reference)) if text(reference, "namespace").is_empty() => {
            let source = copied(reference);
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    validate_claim_spec(errors, &SPEC, spec);
    for key in ["dataSource", "dataSourceRef"] {
        if let Some(source) = part(spec, key) {
            validate_source(errors, &SPEC.child(key), source);
        }
    }
    let (source, reference) = (at(spec, &["dataSource"]), at(spec, &["dataSourceRef"]));
    let differ =
        ["apiGroup", "kind", "name"].iter().any(|key| text(source, key) != text(reference, key));
    if !source.is_null() && !reference.is_null() && differ {
        errors.invalid(&SPEC, json!({}), "must match dataSourceRef");
    }
}

fn validate_source(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let (kind, group) = (text(source, "kind"), text(source, "apiGroup"));
    required(errors, &path.child("name"), text(source, "name"));
    required(errors, &path.child("kind"), kind);
    if group.is_empty() {
        if kind != "PersistentVolumeClaim" {
            let message = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.invalid(path, kind, message);
        }
    } else {
        dns_subdomain(errors, &path.child("apiGroup"), group);
    }
    let namespace = text(source, "namespace");
    if !namespace.is_empty() {
        let found = names::namespace_name(namespace);
        add_invalid(errors, &path.child("namespace"), namespace, found);
    }
}

/// The storage class that a claim names, or "".
pub fn class_of(claim: &Object) -> &str {
    class(claim)
}

/// Whether a claim requests more than before.
pub fn grows(new: &Object, old: &Object) -> bool {
    amount(storage(top(new, "spec"))) > amount(storage(top(old, "spec")))
}

fn storage(spec: &Value) -> &Value {
    at(spec, &["resources", "requests", "storage"])
}

/// The new spec with the old values of all fields that may change.
fn munged(new: &Object, old: &Object) -> Value {
    let (spec, before) = (top(new, "spec"), top(old, "spec"));
    let mut munged = spec.clone();
    let restore = |munged: &mut Value, key: &str| match part(before, key) {
        Some(value) => munged[key] = value.clone(),
        None => {
            munged.as_object_mut().map(|map| map.remove(key));
        }
    };
    if text(before, "volumeName").is_empty() {
        restore(&mut munged, "volumeName");
    }
    let class = |spec| part(spec, "storageClassName").and_then(Value::as_str);
    let annotated = old.annotation(CLASS_ANNOTATION);
    if class(before).is_none()
        && let Some(class) = class(spec)
        && annotated.is_none_or(|it| it == class)
    {
        restore(&mut munged, "storageClassName");
    }
    if new.str_at(&["status", "phase"]) == "Bound" {
        if part(at(spec, &["resources"]), "requests").is_some() {
            munged["resources"]["requests"]["storage"] = storage(before).clone();
        }
        restore(&mut munged, "volumeAttributesClassName");
    }
    munged
}

fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate(new, errors);
    let (spec, before) = (top(new, "spec"), top(old, "spec"));
    let annotation =
        |object: &Object| object.annotation(CLASS_ANNOTATION).unwrap_or_default().to_owned();
    let is_moved_to_the_field = text(spec, "storageClassName") == annotation(old)
        && annotation(new).is_empty()
        && part(before, "storageClassName").is_none();
    if annotation(new) != annotation(old) && !is_moved_to_the_field {
        let path = Path::root("metadata");
        let path = path.child("annotations");
        errors.invalid(&path.key(CLASS_ANNOTATION), annotation(new), "field is immutable");
    }
    let munged = munged(new, old);
    if !same(&munged, before) {
        let lines = |spec| go_struct::lines("PersistentVolumeClaimSpec", spec);
        let difference = unified_diff(&lines(before), &lines(&munged), &mut DiffBudget::default());
        let message = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{difference}"
        );
        errors.forbidden(&SPEC, &message);
    }
    let (size, size_before) = (amount(storage(spec)), amount(storage(before)));
    let capacity = amount(at(top(old, "status"), &["capacity", "storage"]));
    if size < size_before && size <= capacity {
        let path = SPEC.child("resources");
        let path = path.child("requests");
        errors.forbidden(&path.child("storage"), "field can not be less than status.capacity");
    }
    let mode = |spec| at(spec, &["volumeMode"]);
    // As upstream, the path has no `spec`.
    immutable(errors, &Path::root("volumeMode"), mode(spec), mode(before));
    let has_current = part(top(old, "status"), "currentVolumeAttributesClassName").is_some();
    let path = SPEC.child("volumeAttributesClassName");
    match part(spec, "volumeAttributesClassName").and_then(Value::as_str) {
        None if has_current && part(before, "volumeAttributesClassName").is_some() => {
            let message = "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil";
            errors.forbidden(&path, message);
        }
        Some("") if has_current && !text(before, "volumeAttributesClassName").is_empty() => {
            let message = "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil";
            errors.forbidden(&path, message);
        }
        _ => {}
    }
}

fn validate_status(new: &Object, _: &Object, errors: &mut ErrorList) {
    if list(top(new, "spec"), "accessModes").is_empty() {
        // As upstream, the field is capitalized.
        let path = Path::root("Spec");
        errors.required(&path.child("accessModes"), "");
    }
    let path = Path::root("status");
    let path = path.child("capacity");
    for (name, value) in entries(top(new, "status"), "capacity") {
        let size = amount(value).value();
        if size < 0 {
            errors.invalid(&path.key(name), size, "must be a valid resource quantity");
        }
    }
}

fn warnings(object: &Object) -> Vec<String> {
    let mut found = Vec::new();
    if object.annotation(CLASS_ANNOTATION).is_some() {
        found.push(format!(
            r#"metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use "storageClassName" attribute instead"#
        ));
    }
    for part in ["requests", "limits"] {
        let size = amount(at(top(object, "spec"), &["resources", part, "storage"]));
        if is_fractional(&size) {
            let size = quote(&size.to_string());
            found.push(format!(
                "spec.resources.{part}[storage]: fractional byte value {size} is invalid, must be an integer"
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, refusals, refusals_of_update};

    fn claim(size: &str, changes: Value) -> Value {
        let mut claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}});
        for (key, value) in changes.as_object().into_iter().flatten() {
            claim["spec"][key] = value.clone();
        }
        claim
    }

    #[test]
    fn a_new_claim_is_pending_and_has_both_data_source_fields() {
        let claim = created(
            &STRATEGY,
            claim("1Gi", json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "c"}})),
        );
        assert_eq!(claim["status"], json!({"phase": "Pending"}));
        assert_eq!(
            claim["spec"]["dataSourceRef"],
            json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "c"})
        );
        assert_eq!(claim["spec"]["volumeMode"], "Filesystem");
    }

    #[test]
    fn a_claim_requires_a_size_and_access_modes() {
        assert_eq!(
            refusals(&STRATEGY, json!({"spec": {}})),
            [
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ]
        );
    }

    #[test]
    fn a_storage_class_and_a_volume_may_be_set_later() {
        let given = claim("1Gi", json!({"storageClassName": "s", "volumeName": "v"}));
        assert_eq!(
            refusals_of_update(&STRATEGY, given, claim("1Gi", json!({}))),
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_request_of_an_unbound_claim_cannot_grow() {
        let found = refusals_of_update(&STRATEGY, claim("2Gi", json!({})), claim("1Gi", json!({})));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"), "{}", found[0]);
    }
}
