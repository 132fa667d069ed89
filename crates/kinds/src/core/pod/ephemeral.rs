//! `/ephemeralcontainers`: containers that are added to a running pod for inspection.

use std::collections::HashMap;

use super::{annotations, service_account, spec};
use crate::validation::go_struct;
use crate::validation::unified_diff::{DiffBudget, unified_diff};
use machinery::field_path::quote;
use machinery::fields::{keep, list, same, text, top};
use machinery::{ErrorList, Map, Object, Path, Value};

/// Keeps only the changes of the ephemeral containers.
pub(super) fn prepare(new: &mut Object, old: &Object) {
    let containers = top(new, "spec").get("ephemeralContainers").cloned();
    keep(new, old, "spec");
    keep(new, old, "status");
    keep_metadata(new, old);
    let spec = new.map_at(&["spec"]);
    match containers {
        Some(containers) => spec.insert("ephemeralContainers".to_owned(), containers),
        None => spec.remove("ephemeralContainers"),
    };
}

/// Keeps the stored metadata, which an update of a subresource may not change.
pub(super) fn keep_metadata(new: &mut Object, old: &Object) {
    let empty = Map::new();
    let stored = old.metadata().unwrap_or(&empty);
    for field in ["labels", "annotations", "finalizers", "ownerReferences", "generation"] {
        match stored.get(field) {
            Some(value) => new.set_meta(field, value.clone()),
            None => drop(new.remove_meta(field)),
        }
    }
}

/// Validates an update: containers may be added, but not changed or removed.
pub(super) fn validate(new: &Object, old: &Object, errors: &mut ErrorList) {
    if service_account::is_mirror(old) {
        let message = "static pods do not support ephemeral containers";
        return errors.forbidden(&Path::UNNAMED, message);
    }
    spec::validate_pod(new, errors);
    annotations::validate_change(errors, top(new, "metadata"), top(old, "metadata"));
    let root = Path::root("spec");
    let path = root.child("ephemeralContainers");
    let mut by_name = HashMap::new();
    for container in list(top(new, "spec"), "ephemeralContainers") {
        by_name.entry(text(container, "name")).or_insert(container);
    }
    let mut budget = DiffBudget::default();
    for before in list(top(old, "spec"), "ephemeralContainers") {
        let name = text(before, "name");
        match by_name.get(name) {
            None => {
                let name = quote(name);
                let message = format!("existing ephemeral containers {name} may not be removed\n");
                errors.forbidden(&path, &message);
            }
            Some(after) if !same(after, before) => {
                let shown = |container: &Value| go_struct::lines("EphemeralContainer", container);
                let difference = unified_diff(&shown(before), &shown(after), &mut budget);
                let name = quote(name);
                let message = format!(
                    "existing ephemeral containers {name} may not be changed\n{difference}"
                );
                errors.forbidden(&path, &message);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{STRATEGY, spec_defaults};
    use super::*;
    use crate::validation::testing::{created, lines, object};
    use machinery::json;

    fn pod(ephemeral: &Value) -> Object {
        let mut pod = object(created(
            &STRATEGY,
            json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        ));
        pod.map_at(&["spec"]).insert("ephemeralContainers".to_owned(), ephemeral.clone());
        spec_defaults(pod.map_at(&["spec"]));
        pod
    }

    fn check(new: Value, old: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate(&pod(&new), &pod(&old), &mut errors);
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn ephemeral_containers_may_only_be_added() {
        let debug = json!([{"name": "debug", "image": "busybox", "targetContainerName": "c"}]);
        check(debug.clone(), json!([]), &[]);
        check(
            json!([]),
            debug,
            &[
                "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"debug\" may not be removed\n",
            ],
        );
    }

    #[test]
    fn invalid_ephemeral_containers_are_refused() {
        check(
            json!([{"name": "c", "image": "i", "ports": [{"containerPort": 1}], "targetContainerName": "x"}]),
            json!([]),
            &[
                r#"spec.ephemeralContainers[0].name: Duplicate value: "c""#,
                r#"spec.ephemeralContainers[0].targetContainerName: Not found: "x""#,
                "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
            ],
        );
    }

    #[test]
    fn only_the_ephemeral_containers_are_updated() {
        let old = pod(&json!([]));
        let mut new = object(json!({"metadata": {"name": "a", "labels": {"x": "y"}},
            "spec": {"ephemeralContainers": [{"name": "d"}]}}));
        prepare(&mut new, &old);
        assert_eq!(new.label("x"), None);
        assert_eq!(new.str_at(&["spec", "restartPolicy"]), "Always");
        assert_eq!(new.get(&["spec", "ephemeralContainers"]), Some(&json!([{"name": "d"}])));
    }
}
