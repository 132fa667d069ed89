//! `VolumeAttachment`: the attachment of a volume to a node.

use super::GROUP;
use super::driver::{declared_driver_name, validate_driver_name};
use crate::core::persistent_volume::validate_inline;
use crate::table;
use crate::validation::rules::{declared_immutable, dns_subdomain, range_message};
use machinery::fields::{at, entries, flag, integer, part, text, top};
use machinery::{ErrorList, Object, Path, Value};
use types::columns::{AGE, NAME, age, boolean, column};
use types::resource::{
    Column, Columns, Now, Resource, Strategy, Version, drop_status, keep_status,
};

/// The resource of the kind `VolumeAttachment`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        ..table::v1("storage/v1.VolumeAttachment", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        namespaced: false,
        ..table::resource(GROUP, "VolumeAttachment", "volumeattachments", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    prepare_create: drop_status,
    prepare_update: keep_status,
    validate,
    validate_update,
    validate_status: validate_update,
    unconditional_update: false,
    returns_deleted: true,
    ..Strategy::DEFAULT
};

static SPEC: Path<'static> = Path::root("spec");

const MAX_METADATA: usize = 256 << 10;
const MAX_MESSAGE: usize = 1024;

const COLUMNS: &[Column] = &[
    NAME,
    Column {
        format: "name",
        ..column("Attacher", "The name of the driver that attaches and detaches the volume.")
    },
    column("PV", "The name of the persistent volume, unless it is given inline."),
    column("Node", "The name of the node to which the volume is attached, or is to be attached."),
    boolean("Attached", "Whether the attacher has attached the volume."),
    AGE,
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let spec = top(object, "spec");
    vec![
        object.name().into(),
        text(spec, "attacher").into(),
        text(at(spec, &["source"]), "persistentVolumeName").into(),
        text(spec, "nodeName").into(),
        flag(top(object, "status"), "attached").into(),
        age(object, now),
    ]
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let attacher = text(top(object, "spec"), "attacher");
    declared_driver_name(errors, &SPEC.child("attacher"), attacher);
    validate_all_but_attacher(object, errors);
}

fn validate_all_but_attacher(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    validate_source(errors, &SPEC.child("source"), at(spec, &["source"]));
    dns_subdomain(errors, &SPEC.child("nodeName"), text(spec, "nodeName"));
    validate_status(errors, top(object, "status"));
}

fn validate_source(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    const EXACTLY_ONE: &str =
        "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (part(source, "inlineVolumeSpec"), part(source, "persistentVolumeName")) {
        (None, None) => errors.required(path, EXACTLY_ONE),
        (Some(_), Some(_)) => errors.forbidden(path, EXACTLY_ONE),
        (None, Some(name)) => {
            let (path, name) =
                (path.child("persistentVolumeName"), name.as_str().unwrap_or_default());
            if name.is_empty() {
                errors.required(&path, "must specify non empty persistentVolumeName");
            }
            dns_subdomain(errors, &path, name);
        }
        (Some(inline), None) => {
            validate_inline(errors, &path.child("inlineVolumeSpec"), inline);
        }
    }
}

fn validate_status(errors: &mut ErrorList, status: &Value) {
    let path = Path::root("status");
    let size: usize = entries(status, "attachmentMetadata")
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_METADATA {
        errors.too_long(&path.child("attachmentMetadata"), MAX_METADATA);
    }
    for key in ["attachError", "detachError"] {
        let Some(error) = part(status, key) else { continue };
        let path = path.child(key);
        if text(error, "message").len() > MAX_MESSAGE {
            errors.too_long(&path.child("message"), MAX_MESSAGE);
        }
        if let Some(code) = integer(error, "errorCode").filter(|it| *it < 0) {
            let message = range_message(0, i64::from(i32::MAX));
            errors.invalid(&path.child("errorCode"), code, &message);
        }
    }
}

fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    let attacher = text(top(new, "spec"), "attacher");
    validate_driver_name(errors, &SPEC.child("attacher"), attacher);
    validate_all_but_attacher(new, errors);
    declared_immutable(errors, &SPEC, top(new, "spec"), top(old, "spec"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::refusals;
    use machinery::json;

    #[test]
    fn an_attachment_needs_an_attacher_and_a_source() {
        assert_eq!(
            refusals(&STRATEGY, json!({"spec": {"nodeName": "n"}})),
            [
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
                "spec.attacher: Required value",
            ]
        );
    }
}
