//! `/resize`: changes the cpu and memory of a running pod.

use super::ephemeral::keep_metadata;
use super::{is_sidecar, qos_class, service_account, spec};
use machinery::fields::{at, entries, keep, list, part, same, text, top};
use machinery::{ErrorList, Object, Path, Value};

static SPEC: Path<'static> = Path::root("spec");
const LISTS: [&str; 2] = ["containers", "initContainers"];

/// Keeps only the changes of the containers' resources. An update that adds, removes or renames
/// containers is left unchanged, and [`validate`] refuses it.
pub(super) fn prepare(new: &mut Object, old: &Object) {
    let (new_spec, old_spec) = (top(new, "spec"), top(old, "spec"));
    if !LISTS.iter().all(|part| same_names(new_spec, old_spec, part)) {
        return;
    }
    let mut merged = old_spec.clone();
    for part in LISTS {
        let updates = list(new_spec, part).iter();
        let containers = merged.get_mut(part).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, update) in containers.zip(updates) {
            for field in ["resources", "resizePolicy"] {
                copy(container, update, field);
            }
        }
    }
    if part(new_spec, "resources").is_some() {
        copy(&mut merged, new_spec, "resources");
    }
    new.map_mut().insert("spec".to_owned(), merged);
    keep(new, old, "status");
    keep_metadata(new, old);
}

fn copy(to: &mut Value, from: &Value, field: &str) {
    let Some(map) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => map.insert(field.to_owned(), value.clone()),
        None => map.remove(field),
    };
}

fn same_names(new: &Value, old: &Value, part: &str) -> bool {
    let names = |spec| list(spec, part).iter().map(|it| text(it, "name")).collect::<Vec<&str>>();
    names(new) == names(old)
}

/// Validates an update.
pub(super) fn validate(new: &Object, old: &Object, errors: &mut ErrorList) {
    let (new_spec, old_spec) = (top(new, "spec"), top(old, "spec"));
    if service_account::is_mirror(old) {
        return errors.forbidden(&Path::UNNAMED, "static pods cannot be resized");
    }
    if at(old_spec, &["os", "name"]) == "windows" {
        return errors.forbidden(&Path::UNNAMED, "windows pods cannot be resized");
    }
    let before = errors.len();
    spec::validate_pod(new, errors);
    if qos_class::class_of(new_spec) != old_class(old) {
        let message = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(&SPEC, new.str_at(&["status", "qosClass"]), message);
    }
    if !supports_resize(old) {
        errors.forbidden(&SPEC, "Pod running on node without support for resize");
    }
    if !validate_same_containers(errors, new_spec, old_spec) {
        return;
    }
    for part in LISTS {
        let path = SPEC.child(part);
        for (index, (new, old)) in list(new_spec, part).iter().zip(list(old_spec, part)).enumerate()
        {
            let path = path.index(index);
            validate_removal(errors, &path.child("resources"), new, old);
            if !same(&without_amounts(new), &without_amounts(old)) {
                forbid_other_changes(errors, &path, part);
            }
            if part == "initContainers" && !same(new, old) && !is_sidecar(new) && restarts(new) {
                let message = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                errors.forbidden(&path, message);
            }
        }
    }
    if errors.len() == before && !same(&without_containers(new_spec), &without_containers(old_spec))
    {
        errors.forbidden(&SPEC, "only cpu and memory resources are mutable");
    }
}

fn forbid_other_changes(errors: &mut ErrorList, path: &Path<'_>, part: &str) {
    if part == "containers" {
        errors.forbidden(&SPEC, "only cpu and memory resources are mutable");
    } else {
        let message = "only cpu and memory resources for init or sidecar containers are mutable";
        errors.forbidden(path, message);
    }
}

fn old_class(pod: &Object) -> &str {
    match pod.str_at(&["status", "qosClass"]) {
        "" => qos_class::class_of(top(pod, "spec")),
        class => class,
    }
}

/// Whether the node of a pod supports resizing: such a node reports the resources of running
/// containers.
fn supports_resize(pod: &Object) -> bool {
    list(top(pod, "status"), "containerStatuses")
        .iter()
        .find(|status| part(at(status, &["state"]), "running").is_some())
        .is_none_or(|status| part(status, "resources").is_some())
}

/// Validates that no container is added, removed, renamed or reordered. Returns false if one is.
fn validate_same_containers(errors: &mut ErrorList, new: &Value, old: &Value) -> bool {
    let before = errors.len();
    for part in LISTS {
        let path = SPEC.child(part);
        if list(new, part).len() != list(old, part).len() {
            errors.forbidden(&path, &format!("{part} may not be added or removed on resize"));
            continue;
        }
        for (index, (new, old)) in list(new, part).iter().zip(list(old, part)).enumerate() {
            if text(new, "name") != text(old, "name") {
                let message = format!("{part} may not be renamed or reordered on resize");
                errors.forbidden(&path.index(index).child("name"), &message);
            }
        }
    }
    errors.len() == before
}

fn validate_removal(errors: &mut ErrorList, path: &Path<'_>, new: &Value, old: &Value) {
    for field in ["requests", "limits"] {
        let is_removed = entries(at(old, &["resources"]), field)
            .any(|(name, _)| at(new, &["resources", field, name]).is_null());
        if is_removed {
            let message = format!("resource {field} cannot be removed");
            errors.forbidden(&path.child(field), &message);
        }
    }
}

/// A container without the fields that a resize may change.
fn without_amounts(container: &Value) -> Value {
    let mut rest = container.clone();
    for field in ["requests", "limits"] {
        let amounts = rest.get_mut("resources").and_then(|it| it.get_mut(field));
        if let Some(amounts) = amounts.and_then(Value::as_object_mut) {
            amounts.retain(|name, _| !matches!(name.as_str(), "cpu" | "memory"));
        }
    }
    if let Some(map) = rest.as_object_mut() {
        map.remove("resizePolicy");
    }
    rest
}

/// A spec without the containers and the pod-level resources.
fn without_containers(spec: &Value) -> Value {
    let mut rest = spec.clone();
    if let Some(map) = rest.as_object_mut() {
        map.retain(|key, _| !LISTS.contains(&key.as_str()) && key != "resources");
    }
    rest
}

/// Whether a resize restarts the container.
fn restarts(container: &Value) -> bool {
    list(container, "resizePolicy").iter().any(|it| text(it, "restartPolicy") == "RestartContainer")
}

#[cfg(test)]
mod tests {
    use super::super::STRATEGY;
    use super::*;
    use crate::validation::testing::{created, lines, object};
    use machinery::json;

    fn pod(resources: Value) -> Object {
        object(created(
            &STRATEGY,
            json!({"metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}}),
        ))
    }

    fn check(new: Value, old: Value, expected: &[&str]) {
        let old = pod(old);
        let mut new = pod(new);
        prepare(&mut new, &old);
        let mut errors = ErrorList::new();
        validate(&new, &old, &mut errors);
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn cpu_requests_may_change() {
        check(json!({"requests": {"cpu": "2"}}), json!({"requests": {"cpu": "1"}}), &[]);
    }

    #[test]
    fn requests_may_not_be_removed() {
        check(
            json!({"requests": {"cpu": "1"}}),
            json!({"requests": {"cpu": "1", "memory": "1Gi"}}),
            &[
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
            ],
        );
    }

    #[test]
    fn the_qos_class_may_not_change() {
        check(
            json!({"requests": {"cpu": "1"}}),
            json!({}),
            &[
                r#"spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing"#,
            ],
        );
    }
}
