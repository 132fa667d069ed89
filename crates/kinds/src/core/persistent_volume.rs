//! `PersistentVolume`: a piece of storage that outlives pods.

mod validate;

pub(crate) use validate::validate_inline;

use super::volume_sources;
use crate::table;
use crate::validation::quantities::amount;
use machinery::fields::{at, default_text, default_value, map_mut, part, text, texts, top};
use machinery::{Object, Path, Value, json};
use types::columns::{AGE, NAME, age, column, wide};
use types::resource::{
    Column, Columns, Now, Resource, Strategy, Version, keep_all_but_status, keep_status,
};

/// The resource of the kind `PersistentVolume`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        // As upstream, `name` can be selected besides `metadata.name`.
        selectable: [table::selectable_as("name", "metadata.name", "")].into(),
        ..table::v1("core/v1.PersistentVolume", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["pv".to_owned()],
        namespaced: false,
        ..table::resource("", "PersistentVolume", "persistentvolumes", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create,
    prepare_update: keep_status,
    prepare_status,
    set_status_times,
    validate: validate::validate,
    validate_update: validate::validate_update,
    returns_deleted: true,
    warnings,
    ..Strategy::DEFAULT
};

/// The annotation for the storage class that preceded the field `storageClassName`.
pub(super) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Capacity",
        "The capacity of the volume in bytes, as the creator of the volume has set it.",
    ),
    column(
        "Access Modes",
        "The access modes of the volume, each abbreviated to letters such as RWO.",
    ),
    column(
        "Reclaim Policy",
        "What happens to the volume when it is released from its claim: Retain, Delete or Recycle.",
    ),
    column("Status", "The phase of the volume: Pending, Available, Bound, Released or Failed."),
    column("Claim", "The namespace and name of the claim to which the volume is bound."),
    column("StorageClass", "StorageClass of the pv"),
    column("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
    column("Reason", "The reason for the present phase of the volume, for example of a failure."),
    AGE,
    wide(
        "VolumeMode",
        "The mode of the volume: Filesystem for a file system, Block for a raw device.",
    ),
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let (spec, status) = (top(object, "spec"), top(object, "status"));
    let claim = part(spec, "claimRef").map_or_else(String::new, |claim| {
        format!("{}/{}", text(claim, "namespace"), text(claim, "name"))
    });
    vec![
        object.name().into(),
        amount(at(spec, &["capacity", "storage"])).to_string().into(),
        access_modes(spec).into(),
        text(spec, "persistentVolumeReclaimPolicy").into(),
        phase(object).into(),
        claim.into(),
        class(object).into(),
        or_unset(spec, "volumeAttributesClassName").into(),
        text(status, "reason").into(),
        age(object, now),
        or_unset(spec, "volumeMode").into(),
    ]
}

/// The abbreviated access modes, such as `RWO,ROX`.
pub(super) fn access_modes(value: &Value) -> String {
    const ABBREVIATIONS: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes: Vec<&str> = ABBREVIATIONS
        .iter()
        .filter(|(mode, _)| texts(value, "accessModes").any(|it| it == *mode))
        .map(|(_, abbreviation)| *abbreviation)
        .collect();
    modes.join(",")
}

/// The phase of a volume or a claim; `Terminating` while it is being deleted.
pub(super) fn phase(object: &Object) -> &str {
    match object.deletion_timestamp() {
        Some(_) => "Terminating",
        None => object.str_at(&["status", "phase"]),
    }
}

/// The storage class of a volume or a claim.
pub(super) fn class(object: &Object) -> &str {
    object.annotation(CLASS_ANNOTATION).unwrap_or(text(top(object, "spec"), "storageClassName"))
}

/// The text at `key`, or `<unset>`.
pub(super) fn or_unset<'a>(spec: &'a Value, key: &str) -> &'a str {
    part(spec, key).and_then(Value::as_str).unwrap_or("<unset>")
}

fn defaults(object: &mut Object) {
    default_text(object.map_at(&["status"]), "phase", "Pending");
    let spec = object.map_at(&["spec"]);
    default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
    default_value(spec, "volumeMode", "Filesystem".into());
    if let Some(path) = map_mut(spec, "hostPath") {
        default_value(path, "type", "".into());
    }
    volume_sources::defaults(spec);
}

fn prepare_create(object: &mut Object) {
    let now = object.meta_text("creationTimestamp").to_owned();
    let status = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
    object.map_mut().insert("status".to_owned(), status);
}

/// Keeps the stored time of the last phase transition if the phase is the same and the new status
/// has no time.
fn prepare_status(new: &mut Object, old: &Object) {
    keep_all_but_status(new, old);
    let time = old.str_at(&["status", "lastPhaseTransitionTime"]).to_owned();
    let is_same_phase = new.str_at(&["status", "phase"]) == old.str_at(&["status", "phase"]);
    if is_same_phase && !time.is_empty() {
        default_text(new.map_at(&["status"]), "lastPhaseTransitionTime", &time);
    }
}

/// Sets the time of the last phase transition if the phase changes and the client has not set another
/// time.
fn set_status_times(new: &mut Object, old: &Object, now: &str) {
    let phase = |it: &Object| it.str_at(&["status", "phase"]).to_owned();
    let time = |it: &Object| it.str_at(&["status", "lastPhaseTransitionTime"]).to_owned();
    if phase(new) != phase(old) && (time(new).is_empty() || time(new) == time(old)) {
        new.map_at(&["status"]).insert("lastPhaseTransitionTime".to_owned(), now.into());
    }
}

fn warnings(object: &Object) -> Vec<String> {
    const ANNOTATIONS: [(&str, &str); 2] = [
        (CLASS_ANNOTATION, r#"deprecated since v1.8; use "storageClassName" attribute instead"#),
        (
            "volume.beta.kubernetes.io/mount-options",
            r#"deprecated since v1.31; use "mountOptions" attribute instead"#,
        ),
    ];
    const SOURCES: [(&str, &str, &str); 6] = [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        (
            "photonPersistentDisk",
            "photonPersistentDisk",
            "deprecated in v1.11, non-functional in v1.16+",
        ),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    let metadata = Path::root("metadata");
    let annotations = metadata.child("annotations");
    let mut found: Vec<String> = ANNOTATIONS
        .iter()
        .filter(|(key, _)| object.annotation(key).is_some())
        .map(|(key, message)| format!("{}: {message}", annotations.key(key)))
        .collect();
    let spec = top(object, "spec");
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        found.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
    }
    for (field, shown, message) in SOURCES {
        if part(spec, field).is_some() {
            found.push(format!("spec.{shown}: {message}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, object};

    #[test]
    fn a_new_volume_is_pending_and_retained() {
        let volume = json!({"metadata": {"creationTimestamp": "2024-05-06T07:08:09Z"}, "spec": {"hostPath": {"path": "/x"}}});
        assert_eq!(
            created(&STRATEGY, volume),
            json!({"metadata": {"creationTimestamp": "2024-05-06T07:08:09Z"},
                "spec": {"hostPath": {"path": "/x", "type": ""}, "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
                "status": {"phase": "Pending", "lastPhaseTransitionTime": "2024-05-06T07:08:09Z"}})
        );
    }

    #[test]
    fn a_change_of_the_phase_sets_its_time() {
        let volume = |phase: &str, time: &str| {
            object(json!({"status": {"phase": phase, "lastPhaseTransitionTime": time}}))
        };
        let old = volume("Pending", "1");
        let time_of = |mut new: Object| {
            set_status_times(&mut new, &old, "2");
            new.str_at(&["status", "lastPhaseTransitionTime"]).to_owned()
        };
        assert_eq!(time_of(volume("Pending", "1")), "1");
        assert_eq!(time_of(volume("Bound", "1")), "2");
        assert_eq!(time_of(volume("Bound", "7")), "7");
        assert_eq!(time_of(object(json!({"status": {"phase": "Bound"}}))), "2");
    }

    #[test]
    fn the_table_shows_capacity_and_claim() {
        let volume = object(
            json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "s"}, "status": {"phase": "Bound"}}),
        );
        let cells = cells(&volume, &Now { unix_seconds: 0 });
        assert_eq!(
            cells[..8],
            ["v", "1Gi", "RWO,RWX", "Retain", "Bound", "n/c", "s", "<unset>"].map(Value::from)
        );
    }
}
