//! Validation of the volume mounts and volume devices of a container.

use std::collections::{HashMap, HashSet};

use crate::validation::rules::{descending_path, has_backsteps, required, supported_only};
use machinery::fields::{flag, list, part, text};
use machinery::{ErrorList, Path, Value};

/// The valid volumes of a pod, by name.
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
        let (name, mount_path) = (text(mount, "name"), text(mount, "mountPath"));
        required(errors, &item.child("name"), name);
        if !volumes.contains_key(name) {
            errors.not_found(&item.child("name"), name);
        }
        required(errors, &item.child("mountPath"), mount_path);
        if seen.contains(&mount_path) {
            errors.invalid(&item.child("mountPath"), mount_path, "must be unique");
        }
        seen.insert(mount_path);
        if device_names.contains(name) {
            let message = "must not already exist in volumeDevices";
            errors.invalid(&item.child("name"), name, message);
        }
        if device_paths.contains(mount_path) {
            let message = "must not already exist as a path in volumeDevices";
            errors.invalid(&item.child("mountPath"), mount_path, message);
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
    let (mut names, mut device_paths) = (HashSet::new(), HashSet::new());
    for (index, device) in list(container, "volumeDevices").iter().enumerate() {
        let item = path.index(index);
        let (name, device_path) = (text(device, "name"), text(device, "devicePath"));
        let (name_field, device_path_field) = (item.child("name"), item.child("devicePath"));
        required(errors, &name_field, name);
        if names.contains(&name) {
            errors.invalid(&name_field, name, "must be unique");
        }
        match volumes.get(name) {
            None => errors.not_found(&name_field, name),
            Some(volume) => {
                let is_claim = part(volume, "persistentVolumeClaim").or(part(volume, "ephemeral"));
                if is_claim.is_none() {
                    let message = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.invalid(&name_field, name, message);
                }
            }
        }
        required(errors, &device_path_field, device_path);
        if device_paths.contains(&device_path) {
            errors.invalid(&device_path_field, device_path, "must be unique");
        }
        if has_backsteps(device_path) {
            errors.invalid(&device_path_field, device_path, "can not contain backsteps ('..')");
        } else {
            device_paths.insert(device_path);
        }
        if mount_names.contains(name) {
            errors.invalid(&name_field, name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(device_path) {
            let message = "must not already exist as a path in volumeMounts";
            errors.invalid(&device_path_field, device_path, message);
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
    fn a_mount_requires_a_volume_of_the_pod_and_a_unique_path() {
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
    fn a_device_requires_a_claim() {
        check(
            json!({"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}),
            &[
                r#"d[0].name: Invalid value: "v": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"#,
            ],
        );
    }

    #[test]
    fn a_sub_path_may_not_leave_the_volume() {
        check(
            json!({"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../b"}]}),
            &[r#"m.subPath: Invalid value: "../b": must not contain '..'"#],
        );
    }
}
