//! Validation of the volumes of a pod.

use std::collections::HashSet;

use super::super::volume_sources;
use super::mounts::Volumes;
use super::projected::{validate_downward, validate_keys, validate_projected};
use crate::validation::quantities::amount;
use crate::validation::rules::{
    add_invalid, descending_path, dns_label, label_selector, labels, no_backsteps, one_of,
    required, supported_only,
};
use machinery::field_path::quote;
use machinery::fields::{at, integer, list, part, text, texts};
use machinery::{ErrorList, Path, Value, names};

/// The volume sources, in the order in which Kubernetes checks them.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// The required fields of some sources.
const REQUIRED: &[(&str, &[&str])] = &[
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("glusterfs", &["endpoints", "path"]),
    ("cinder", &["volumeID"]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("gitRepo", &["repository"]),
];

/// Validates the volumes and returns the valid ones. `pod` is the name of the pod, after which the
/// claims of ephemeral volumes are named, or "".
pub(super) fn validate_volumes<'a>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    spec: &'a Value,
    pod: &str,
) -> Volumes<'a> {
    let volumes = list(spec, "volumes");
    let ephemeral_claims: HashSet<String> = volumes
        .iter()
        .filter(|volume| !pod.is_empty() && part(volume, "ephemeral").is_some())
        .map(|volume| format!("{pod}-{}", text(volume, "name")))
        .collect();
    let mut valid = Volumes::new();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let name = text(volume, "name");
        let before = errors.len();
        validate_source(errors, &path, volume, pod);
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            dns_label(errors, &path.child("name"), name);
        }
        if valid.contains_key(name) {
            errors.duplicate(&path.child("name"), name);
        }
        if errors.len() == before {
            valid.insert(name, volume);
        }
        if let Some(claim) = part(volume, "persistentVolumeClaim") {
            let claim = text(claim, "claimName");
            if ephemeral_claims.contains(claim) {
                let message = "must not reference a PVC that gets created for an ephemeral volume";
                let path = path.child("persistentVolumeClaim");
                errors.invalid(&path.child("claimName"), claim, message);
            }
        }
    }
    valid
}

fn validate_source(errors: &mut ErrorList, path: &Path<'_>, volume: &Value, pod: &str) {
    let mut is_first = true;
    for kind in SOURCES {
        let Some(source) = part(volume, kind) else { continue };
        if std::mem::take(&mut is_first) {
            validate_volume_source(errors, path, kind, source);
            if *kind == "ephemeral" && !pod.is_empty() {
                validate_claim_name(errors, path, text(volume, "name"), pod);
            }
        } else {
            errors.forbidden(&path.child(kind), "may not specify more than 1 volume type");
        }
    }
    if is_first {
        errors.required(path, "must specify a volume type");
    }
}

fn validate_claim_name(errors: &mut ErrorList, path: &Path<'_>, volume: &str, pod: &str) {
    if volume.is_empty() {
        return;
    }
    let claim = format!("{pod}-{volume}");
    for message in names::dns1123_subdomain(&claim) {
        let message = format!("PVC name {}: {message}", quote(&claim));
        errors.invalid(&path.child("name"), volume, &message);
    }
}

/// Validates a source of a volume; `kind` is the field that has it.
pub(crate) fn validate_volume_source(
    errors: &mut ErrorList,
    volume: &Path<'_>,
    kind: &str,
    source: &Value,
) {
    // As upstream, the path of this source has another name than its field.
    let path = volume.child(if kind == "gcePersistentDisk" { "persistentDisk" } else { kind });
    for field in REQUIRED.iter().filter(|(name, _)| *name == kind).flat_map(|(_, fields)| *fields) {
        required(errors, &path.child(field), text(source, field));
    }
    match kind {
        "emptyDir" => validate_empty_dir(errors, &path, source),
        "hostPath" => validate_host_path(errors, &path, source),
        "gitRepo" => descending_path(errors, &path.child("directory"), text(source, "directory")),
        "secret" => validate_keys(errors, &path, source, "secretName"),
        "configMap" => validate_keys(errors, &path, source, "name"),
        "downwardAPI" => validate_downward(errors, &path, source),
        "projected" => validate_projected(errors, &path, source),
        "nfs" => validate_nfs(errors, &path, source),
        "csi" => validate_csi(errors, &path, source),
        "image" => {
            required(errors, &path.child("reference"), text(source, "reference"));
            let policies = &["Always", "IfNotPresent", "Never"];
            one_of(errors, &path.child("pullPolicy"), text(source, "pullPolicy"), policies);
        }
        "ephemeral" => validate_ephemeral(errors, &path, source),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            if let Some(partition) =
                integer(source, "partition").filter(|it| !(0..=255).contains(it))
            {
                // As upstream, the message excludes 0, which is allowed.
                let message = "must be between 1 and 255, inclusive";
                errors.invalid(&path.child("partition"), partition, message);
            }
        }
        "flocker" => validate_flocker(errors, &path, source),
        kind => volume_sources::validate(errors, &path, kind, source),
    }
}

fn validate_empty_dir(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    if part(source, "sizeLimit").is_some_and(|limit| amount(limit).is_negative()) {
        let message = "SizeLimit field must be a valid resource quantity";
        errors.forbidden(&path.child("sizeLimit"), message);
    }
}

fn validate_host_path(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    const TYPES: &[&str] = &[
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    if text(source, "path").is_empty() {
        return errors.required(&path.child("path"), "");
    }
    no_backsteps(errors, &path.child("path"), text(source, "path"));
    supported_only(errors, &path.child("type"), text(source, "type"), TYPES);
}

fn validate_nfs(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    required(errors, &path.child("server"), text(source, "server"));
    required(errors, &path.child("path"), text(source, "path"));
    if !text(source, "path").starts_with('/') {
        errors.invalid(&path.child("path"), text(source, "path"), "must be an absolute path");
    }
}

fn validate_csi(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let driver = text(source, "driver");
    let driver_path = path.child("driver");
    if driver.is_empty() {
        errors.required(&driver_path, "");
    } else {
        if driver.len() > 63 {
            errors.too_long(&driver_path, 63);
        }
        add_invalid(errors, &driver_path, driver, names::dns1123_subdomain(&driver.to_lowercase()));
    }
    if let Some(secret) = part(source, "nodePublishSecretRef") {
        let name = text(secret, "name");
        if name.is_empty() {
            errors.required(&path.child("nodePublishSecretRef").child("name"), "");
        } else {
            // As upstream, the path has no `nodePublishSecretRef`.
            add_invalid(errors, &path.child("name"), name, names::dns1123_subdomain(name));
        }
    }
}

fn validate_flocker(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let (name, id) = (text(source, "datasetName"), text(source, "datasetUUID"));
    if name.is_empty() && id.is_empty() {
        errors.required(path, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !id.is_empty() {
        let message = "datasetName and datasetUUID can not be specified simultaneously";
        errors.invalid(path, "resource", message);
    }
    if name.contains('/') {
        errors.invalid(&path.child("datasetName"), name, "must not contain '/'");
    }
}

/// Validates an ephemeral volume, whose claim is created for the pod.
fn validate_ephemeral(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let path = path.child("volumeClaimTemplate");
    let Some(template) = part(source, "volumeClaimTemplate") else {
        return errors.required(&path, "");
    };
    let metadata = path.child("metadata");
    labels(errors, &metadata.child("labels"), at(template, &["metadata", "labels"]));
    validate_claim_spec(errors, &path.child("spec"), at(template, &["spec"]));
}

/// Validates the access modes of a volume or a claim.
pub(crate) fn validate_access_modes(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let modes: Vec<&str> = texts(spec, "accessModes").collect();
    for mode in &modes {
        supported_only(errors, path, mode, MODES);
    }
    let is_exclusive = modes.contains(&"ReadWriteOncePod");
    if is_exclusive && modes.iter().any(|it| *it != "ReadWriteOncePod" && MODES.contains(it)) {
        let message = "may not use ReadWriteOncePod with other access modes";
        errors.forbidden(path, message);
    }
}

/// Validates the spec of a claim, from a template or on its own.
pub(crate) fn validate_claim_spec(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    if texts(spec, "accessModes").next().is_none() {
        errors.required(&path.child("accessModes"), "at least 1 access mode is required");
    }
    label_selector(errors, &path.child("selector"), at(spec, &["selector"]));
    validate_access_modes(errors, &path.child("accessModes"), spec);
    let resources = path.child("resources");
    let storage_path = resources.key("storage");
    match at(spec, &["resources", "requests", "storage"]) {
        Value::Null => errors.required(&storage_path, ""),
        storage if amount(storage).is_zero() || amount(storage).is_negative() => {
            let shown = amount(storage).to_string();
            errors.invalid(&storage_path, shown, "must be greater than zero");
        }
        _ => {}
    }
    for field in ["storageClassName", "volumeAttributesClassName"] {
        let class = text(spec, field);
        if !class.is_empty() {
            add_invalid(errors, &path.child(field), class, names::dns1123_subdomain(class));
        }
    }
    if part(spec, "volumeMode").is_some() {
        let mode = text(spec, "volumeMode");
        supported_only(errors, &path.child("volumeMode"), mode, &["Block", "Filesystem"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    fn check(volumes: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate_volumes(&mut errors, &Path::root("v"), &json!({"volumes": volumes}), "pod");
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn a_volume_requires_a_unique_name() {
        check(
            json!([{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}, {"emptyDir": {}}]),
            &[r#"v[1].name: Duplicate value: "a""#, "v[2].name: Required value"],
        );
    }

    #[test]
    fn a_volume_may_have_only_one_source() {
        check(
            json!([{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
            &["v[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        );
    }

    #[test]
    fn the_fields_of_volume_sources_are_validated() {
        check(
            json!([{"name": "a", "secret": {}}, {"name": "b", "persistentVolumeClaim": {}},
                {"name": "c", "hostPath": {"path": "/a/../b", "type": "Odd"}},
                {"name": "d", "nfs": {"server": "s", "path": "rel"}}]),
            &[
                "v[0].secret.secretName: Required value",
                "v[1].persistentVolumeClaim.claimName: Required value",
                r#"v[2].hostPath.path: Invalid value: "/a/../b": must not contain '..'"#,
                r#"v[2].hostPath.type: Unsupported value: "Odd": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket""#,
                r#"v[3].nfs.path: Invalid value: "rel": must be an absolute path"#,
            ],
        );
    }

    #[test]
    fn a_volume_may_not_refer_to_the_claim_of_an_ephemeral_volume() {
        let template = json!({"spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}});
        check(
            json!([{"name": "a", "ephemeral": {"volumeClaimTemplate": template}},
                {"name": "b", "persistentVolumeClaim": {"claimName": "pod-a"}}]),
            &[
                r#"v[1].persistentVolumeClaim.claimName: Invalid value: "pod-a": must not reference a PVC that gets created for an ephemeral volume"#,
            ],
        );
    }
}
