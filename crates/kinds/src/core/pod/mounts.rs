//! The volumes that a container mounts, and those that it uses as devices.

use std::collections::{HashMap, HashSet};

use crate::validation::rules::{descending_path, has_backsteps, required, supported_only};
use machinery::fields::{flag, list, part, text};
use machinery::{ErrorList, Path, Value};

/// A pod's volumes that are valid by themselves.
pub(super) type Volumes<'a> = HashMap<&'a str, &'a Value>;

/// Validates `volumeMounts`.
pub(super) fn validate_mounts(
    errors: &mut ErrorList,
    path: &Path<'_>,
    container: &Value,
    volumes: &Volumes<'_>,
) {
    let devices = list(container, "volumeDevices").iter();
    let (device_names, device_paths): (HashSet<&str>, HashSet<&str>) =
        devices.map(|it| (text(it, "name"), text(it, "devicePath"))).unzip();
    let mut seen = HashSet::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let item = path.index(index);
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        required(errors, &item.child("name"), name);
        if !volumes.contains_key(name) {
            errors.not_found(&item.child("name"), name);
        }
        required(errors, &item.child("mountPath"), place);
        if seen.contains(&place) {
            errors.invalid(&item.child("mountPath"), place, "must be unique");
        }
        seen.insert(place);
        if device_names.contains(name) {
            let message = "must not already exist in volumeDevices";
            errors.invalid(&item.child("name"), name, message);
        }
        if device_paths.contains(place) {
            let message = "must not already exist as a path in volumeDevices";
            errors.invalid(&item.child("mountPath"), place, message);
        }
        validate_sub_paths(errors, path, &item, mount);
        validate_propagation(errors, path, mount, container);
    }
}

/// Kubernetes reports most of these at the list, not at the item.
fn validate_sub_paths(errors: &mut ErrorList, path: &Path<'_>, item: &Path<'_>, mount: &Value) {
    let (plain, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
    if !plain.is_empty() {
        descending_path(errors, &path.child("subPath"), plain);
    }
    if !expression.is_empty() {
        if !plain.is_empty() {
            let message = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&item.child("subPathExpr"), expression, message);
        }
        descending_path(errors, &path.child("subPathExpr"), expression);
    }
}

fn validate_propagation(errors: &mut ErrorList, path: &Path<'_>, mount: &Value, container: &Value) {
    const MODES: &[&str] = &["Bidirectional", "HostToContainer", "None"];
    let mode = text(mount, "mountPropagation");
    let has_mode = part(mount, "mountPropagation").is_some();
    let propagation = path.child("mountPropagation");
    if has_mode {
        supported_only(errors, &propagation, mode, MODES);
        let context = container.get("securityContext").unwrap_or(&Value::Null);
        if mode == "Bidirectional" && !flag(context, "privileged") {
            let message =
                "Bidirectional mount propagation is available only to privileged containers";
            errors.forbidden(&propagation, message);
        }
    }
    if part(mount, "recursiveReadOnly").is_none() {
        return;
    }
    let recursive = path.child("recursiveReadOnly");
    match text(mount, "recursiveReadOnly") {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !flag(mount, "readOnly") {
                errors.forbidden(&recursive, "may only be specified when readOnly is true");
            }
            if has_mode && mode != "None" {
                let message =
                    "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(&recursive, message);
            }
        }
        other => errors.not_supported(&recursive, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// Validates `volumeDevices`.
pub(super) fn validate_devices(
    errors: &mut ErrorList,
    path: &Path<'_>,
    container: &Value,
    volumes: &Volumes<'_>,
) {
    let mounts = list(container, "volumeMounts").iter();
    let (mount_names, mount_paths): (HashSet<&str>, HashSet<&str>) =
        mounts.map(|it| (text(it, "name"), text(it, "mountPath"))).unzip();
    let (mut names, mut places) = (HashSet::new(), HashSet::new());
    for (index, device) in list(container, "volumeDevices").iter().enumerate() {
        let item = path.index(index);
        let (name, place) = (text(device, "name"), text(device, "devicePath"));
        let (name_path, place_path) = (item.child("name"), item.child("devicePath"));
        required(errors, &name_path, name);
        if names.contains(&name) {
            errors.invalid(&name_path, name, "must be unique");
        }
        match volumes.get(name) {
            None => errors.not_found(&name_path, name),
            Some(volume) => {
                let is_claim = part(volume, "persistentVolumeClaim").or(part(volume, "ephemeral"));
                if is_claim.is_none() {
                    let message = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.invalid(&name_path, name, message);
                }
            }
        }
        required(errors, &place_path, place);
        if places.contains(&place) {
            errors.invalid(&place_path, place, "must be unique");
        }
        if has_backsteps(place) {
            errors.invalid(&place_path, place, "can not contain backsteps ('..')");
        } else {
            places.insert(place);
        }
        if mount_names.contains(name) {
            errors.invalid(&name_path, name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(place) {
            let message = "must not already exist as a path in volumeMounts";
            errors.invalid(&place_path, place, message);
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    fn check(container: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        let volumes = json!([{"name": "v", "emptyDir": {}}]);
        let volumes: Volumes<'_> =
            volumes.as_array().into_iter().flatten().map(|it| (text(it, "name"), it)).collect();
        validate_mounts(&mut errors, &Path::root("m"), &container, &volumes);
        validate_devices(&mut errors, &Path::root("d"), &container, &volumes);
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn a_mount_needs_its_volume_and_a_place_of_its_own() {
        check(json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}), &[]);
        check(
            json!({"volumeMounts": [{"name": "w", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]}),
            &[
                r#"m[0].name: Not found: "w""#,
                r#"m[1].mountPath: Invalid value: "/a": must be unique"#,
            ],
        );
    }

    #[test]
    fn a_device_comes_from_a_claim() {
        check(
            json!({"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}),
            &[
                r#"d[0].name: Invalid value: "v": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"#,
            ],
        );
    }

    #[test]
    fn a_part_of_a_volume_is_inside_of_it() {
        check(
            json!({"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../b"}]}),
            &[r#"m.subPath: Invalid value: "../b": must not contain '..'"#],
        );
    }
}
