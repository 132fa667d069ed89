//! Validation of persistent volumes.

use super::super::pod::{validate_access_modes, validate_node_selector, validate_volume_source};
use super::super::volume_sources;
use crate::storage::validate_driver_name;
use crate::validation::go_struct;
use crate::validation::quantities::amount;
use crate::validation::rules::{
    dns_label, dns_subdomain, immutable, invalid_struct, no_backsteps, supported_only,
};
use crate::validation::unified_diff::{DiffBudget, unified_diff};
use machinery::fields::{at, entries, part, same, text, texts, top};
use machinery::{ErrorList, Object, Path, Value, json};

static SPEC: Path<'static> = Path::root("spec");

/// The volume sources, in the order in which Kubernetes checks them.
const SOURCES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Validates a volume.
pub(super) fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    validate_access(errors, &SPEC, spec);
    validate_capacity(errors, spec);
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    let path = SPEC.child("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        supported_only(errors, &path, policy, &["Delete", "Recycle", "Retain"]);
    }
    validate_affinity(errors, &SPEC, spec);
    validate_source(errors, &SPEC, spec, object.name());
    let host_path = text(at(spec, &["hostPath"]), "path");
    let is_root = !host_path.is_empty() && host_path.trim_end_matches('/').is_empty();
    if is_root && policy == "Recycle" {
        errors.forbidden(&path, "may not be 'recycle' for a hostPath mount of '/'");
    }
    validate_classes(errors, &SPEC, spec);
}

/// Validates the inline volume of a `VolumeAttachment`.
pub(crate) fn validate_inline(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    const HERE: &str = "in the context of inline volumes";
    let is_set = |key| part(spec, key).is_some();
    for key in ["claimRef", "capacity"].into_iter().filter(|key| is_set(key)) {
        errors.forbidden(&path.child(key), &format!("may not be specified {HERE}"));
    }
    if !is_set("csi") {
        errors.required(&path.child("csi"), &format!("has to be specified {HERE}"));
    }
    validate_access(errors, path, spec);
    if !matches!(text(spec, "persistentVolumeReclaimPolicy"), "" | "Retain") {
        let message = format!("may only be Retain {HERE}");
        errors.forbidden(&path.child("persistentVolumeReclaimPolicy"), &message);
    }
    validate_affinity(errors, path, spec);
    validate_source(errors, path, spec, "");
    if is_set("storageClassName") {
        let message = format!("may not be specified {HERE}");
        errors.forbidden(&path.child("storageClassName"), &message);
    }
}

fn validate_access(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    if texts(spec, "accessModes").next().is_none() {
        errors.required(&path.child("accessModes"), "");
    }
    validate_access_modes(errors, &path.child("accessModes"), spec);
}

fn validate_affinity(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let Some(affinity) = part(spec, "nodeAffinity") else { return };
    let path = path.child("nodeAffinity");
    match part(affinity, "required") {
        Some(selector) => validate_node_selector(errors, &path.child("required"), selector),
        None => errors.required(&path.child("required"), "must specify required node constraints"),
    }
}

fn validate_capacity(errors: &mut ErrorList, spec: &Value) {
    let path = SPEC.child("capacity");
    let names: Vec<&str> = entries(spec, "capacity").map(|(name, _)| name).collect();
    if names.is_empty() {
        errors.required(&path, "");
    }
    if names != ["storage"] {
        let shown = part(spec, "capacity").cloned().unwrap_or_default();
        errors.not_supported(&path, shown, &["storage"]);
    }
    for (name, value) in entries(spec, "capacity") {
        let size = amount(value);
        if size.value() < 0 {
            errors.invalid(&path.key(name), size.value(), "must be a valid resource quantity");
        }
        if size.is_negative() || size.is_zero() {
            errors.invalid(&path.key(name), size.to_string(), "must be greater than zero");
        }
    }
}

fn validate_source(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, name: &str) {
    let mut is_first = true;
    for kind in SOURCES {
        let Some(source) = part(spec, kind) else { continue };
        if !std::mem::take(&mut is_first) {
            errors.forbidden(&path.child(kind), "may not specify more than 1 volume type");
            continue;
        }
        match *kind {
            "csi" => validate_csi(errors, &path.child("csi"), source),
            "local" => {
                let file = path.child("local");
                match text(source, "path") {
                    "" => errors.required(&file.child("path"), ""),
                    value => no_backsteps(errors, &file.child("path"), value),
                }
                if part(spec, "nodeAffinity").is_none() {
                    let message = "Local volume requires node affinity";
                    errors.required(&path.child("nodeAffinity"), message);
                }
            }
            "iscsi" => {
                volume_sources::validate_persistent_iscsi(
                    errors,
                    &path.child("iscsi"),
                    source,
                    name,
                );
            }
            kind => validate_volume_source(errors, path, kind, source),
        }
    }
    if is_first {
        errors.required(path, "must specify a volume type");
    }
}

fn validate_csi(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    validate_driver_name(errors, &path.child("driver"), text(source, "driver"));
    if text(source, "volumeHandle").is_empty() {
        errors.required(&path.child("volumeHandle"), "");
    }
    for key in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let Some(secret) = part(source, key) else { continue };
        let path = path.child(key);
        match text(secret, "name") {
            "" => errors.required(&path.child("name"), ""),
            name => dns_subdomain(errors, &path.child("name"), name),
        }
        match text(secret, "namespace") {
            "" => errors.required(&path.child("namespace"), ""),
            namespace => dns_label(errors, &path.child("namespace"), namespace),
        }
    }
}

fn validate_classes(errors: &mut ErrorList, root: &Path<'_>, spec: &Value) {
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        dns_subdomain(errors, &root.child("storageClassName"), class);
    }
    if part(spec, "volumeMode").is_some() {
        let modes = &["Block", "Filesystem"];
        supported_only(errors, &root.child("volumeMode"), text(spec, "volumeMode"), modes);
    }
    let Some(class) = part(spec, "volumeAttributesClassName").and_then(Value::as_str) else {
        return;
    };
    let path = root.child("volumeAttributesClassName");
    if class.is_empty() {
        errors.required(&path, "an empty string is disallowed");
    } else {
        dns_subdomain(errors, &path, class);
    }
    if part(spec, "csi").is_none() {
        let message = "has to be specified when using volumeAttributesClassName";
        errors.required(&root.child("csi"), message);
    }
}

/// The volume source of a spec. `controllerExpandSecretRef` is left out if `other` does not have
/// it, since it may be added later.
fn source_of(spec: &Value, other: &Value) -> Value {
    const EXPAND_SECRET: &str = "controllerExpandSecretRef";
    let mut source = json!({});
    for kind in SOURCES {
        if let Some(value) = part(spec, kind) {
            source[*kind] = value.clone();
        }
    }
    let is_missing = part(other, "csi").is_some_and(|it| part(it, EXPAND_SECRET).is_none());
    if is_missing && let Some(csi) = source.get_mut("csi").and_then(Value::as_object_mut) {
        csi.remove(EXPAND_SECRET);
    }
    source
}

/// Validates an update of a volume: its source is immutable.
pub(super) fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate(new, errors);
    let (spec, before) = (top(new, "spec"), top(old, "spec"));
    let (source, stored) = (source_of(spec, before), source_of(before, &Value::Null));
    if !same(&source, &stored) {
        let lines = |source| go_struct::lines("PersistentVolumeSource", source);
        let difference = unified_diff(&lines(&stored), &lines(&source), &mut DiffBudget::default());
        let message =
            format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.forbidden(&SPEC.child("persistentvolumesource"), &message);
    }
    let field = |spec: &Value, key: &str| at(spec, &[key]).clone();
    // As upstream, the paths of `volumeMode` and `nodeAffinity` have no `spec`.
    let path = Path::root("volumeMode");
    immutable(errors, &path, &field(spec, "volumeMode"), &field(before, "volumeMode"));
    if part(before, "nodeAffinity").is_some()
        && !same(&field(spec, "nodeAffinity"), &field(before, "nodeAffinity"))
    {
        let message = "field is immutable, except for updating from beta label to GA";
        let (path, value) = (Path::root("nodeAffinity"), field(spec, "nodeAffinity"));
        if value.is_null() {
            errors.invalid(&path, value, message);
        } else {
            invalid_struct(errors, &path, "VolumeNodeAffinity", &value, message);
        }
    }
    let class = "volumeAttributesClassName";
    if part(before, class).is_some() && part(spec, class).is_none() {
        let message = "update from non-nil value to nil is forbidden";
        errors.forbidden(&SPEC.child(class), message);
    }
}

#[cfg(test)]
mod tests {
    use super::super::STRATEGY;
    use crate::validation::testing::{refusals, refusals_of_update};
    use machinery::{Value, json};

    fn volume(changes: Value) -> Value {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
        for (key, value) in changes.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        json!({"metadata": {"creationTimestamp": "2024-05-06T07:08:09Z"}, "spec": spec})
    }

    #[test]
    fn a_volume_requires_access_modes_capacity_and_a_source() {
        assert_eq!(
            refusals(&STRATEGY, json!({"spec": {}})),
            [
                "spec.accessModes: Required value",
                "spec.capacity: Required value",
                r#"spec.capacity: Unsupported value: null: supported values: "storage""#,
                "spec: Required value: must specify a volume type",
            ]
        );
        assert_eq!(
            refusals(&STRATEGY, volume(json!({"hostPath": {"path": "/x"}}))),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_local_volume_requires_node_affinity() {
        assert_eq!(
            refusals(&STRATEGY, volume(json!({"local": {"path": "/mnt"}}))),
            ["spec.nodeAffinity: Required value: Local volume requires node affinity"]
        );
    }

    #[test]
    fn the_source_of_a_volume_is_immutable() {
        let at = |path: &str| volume(json!({"hostPath": {"path": path}}));
        let found = refusals_of_update(&STRATEGY, at("/b"), at("/a"));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n"), "{}", found[0]);
    }
}
