//! `StorageClass`: how volumes are provisioned on demand.

use std::collections::HashSet;

use super::GROUP;
use super::driver::{validate_parameters, validate_provisioner};
use crate::table;
use crate::validation::rules::{declared_immutable, qualified_name, supported_only, unique};
use machinery::fields::{default_value, flag, list, part, text, top};
use machinery::{ErrorList, Object, Path, Value};
use types::columns::{AGE, NAME, age, column};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `StorageClass`.
pub fn resource() -> Resource {
    let version = table::v1("storage/v1.StorageClass", Columns::Fixed(COLUMNS, cells));
    Resource {
        short_names: vec!["sc".to_owned()],
        namespaced: false,
        ..table::resource(GROUP, "StorageClass", "storageclasses", &STRATEGY, version)
    }
}

static STRATEGY: Strategy =
    Strategy { defaults, validate, validate_update, returns_deleted: true, ..Strategy::DEFAULT };

const COLUMNS: &[Column] = &[
    NAME,
    column("Provisioner", "provisioner indicates the type of the provisioner."),
    column(
        "ReclaimPolicy",
        "What happens to a volume of the class when its claim is deleted: Delete or Retain.",
    ),
    column(
        "VolumeBindingMode",
        "When a claim is bound to a volume: Immediate or WaitForFirstConsumer.",
    ),
    column(
        "AllowVolumeExpansion",
        "Whether claims of this class may be expanded after a volume is bound to them.",
    ),
    AGE,
];

/// The annotations that mark the class of claims without a class.
const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let class = Value::Object(object.map().clone());
    let is_default =
        DEFAULT_CLASS_ANNOTATIONS.iter().any(|it| object.annotation(it) == Some("true"));
    let mark = if is_default { " (default)" } else { "" };
    let or = |key, other: &'static str| match part(&class, key).and_then(Value::as_str) {
        Some(value) => value.to_owned(),
        None => other.to_owned(),
    };
    vec![
        format!("{}{mark}", object.name()).into(),
        text(&class, "provisioner").into(),
        or("reclaimPolicy", "Delete").into(),
        or("volumeBindingMode", "Immediate").into(),
        flag(&class, "allowVolumeExpansion").into(),
        age(object, now),
    ]
}

fn defaults(object: &mut Object) {
    default_value(object.map_mut(), "reclaimPolicy", "Delete".into());
    default_value(object.map_mut(), "volumeBindingMode", "Immediate".into());
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let class = Value::Object(object.map().clone());
    validate_provisioner(errors, &Path::root("provisioner"), text(&class, "provisioner"));
    validate_parameters(errors, &class);
    let policy = text(&class, "reclaimPolicy");
    if !policy.is_empty() {
        supported_only(errors, &Path::root("reclaimPolicy"), policy, &["Delete", "Retain"]);
    }
    let modes = &["Immediate", "WaitForFirstConsumer"];
    let mode = text(&class, "volumeBindingMode");
    supported_only(errors, &Path::root("volumeBindingMode"), mode, modes);
    validate_topologies(errors, list(&class, "allowedTopologies"));
}

fn validate_topologies(errors: &mut ErrorList, topologies: &[Value]) {
    let path = Path::root("allowedTopologies");
    let mut terms: HashSet<&Value> = HashSet::new();
    for (index, term) in topologies.iter().enumerate() {
        let path = path.index(index);
        let path = path.child("matchLabelExpressions");
        let mut keys: HashSet<&str> = HashSet::new();
        for (index, requirement) in list(term, "matchLabelExpressions").iter().enumerate() {
            let path = path.index(index);
            let key = text(requirement, "key");
            let values = path.child("values");
            if list(requirement, "values").is_empty() {
                errors.required(&values, "");
            }
            unique(errors, &values, machinery::fields::texts(requirement, "values"));
            qualified_name(errors, &path.child("key"), key);
            if keys.contains(&key) {
                errors.duplicate(&path.child("key"), key);
            }
            keys.insert(key);
        }
        // Upstream: a term without requirements counts as a duplicate.
        let is_empty = list(term, "matchLabelExpressions").is_empty();
        if !terms.insert(term) || is_empty {
            errors.duplicate(&path, "");
        }
    }
}

/// Existing volumes were provisioned with the current parameters, so they are immutable.
fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate(new, errors);
    for field in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
        declared_immutable(errors, &Path::root(field), top(new, field), top(old, field));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, refusals, refusals_of_update};
    use machinery::json;

    #[test]
    fn the_defaults_are_delete_and_immediate() {
        assert_eq!(
            created(&STRATEGY, json!({"provisioner": "a.io/b"})),
            json!({"provisioner": "a.io/b", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
        );
    }

    #[test]
    fn a_class_needs_a_provisioner_and_known_policies() {
        assert_eq!(
            refusals(&STRATEGY, json!({"reclaimPolicy": "Recycle", "volumeBindingMode": "Late"})),
            [
                "provisioner: Required value",
                r#"reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain""#,
                r#"volumeBindingMode: Unsupported value: "Late": supported values: "Immediate", "WaitForFirstConsumer""#,
            ]
        );
    }

    #[test]
    fn provisioning_fields_are_immutable() {
        let class = |policy: &str, size: &str| {
            json!({"provisioner": "a.io/b", "reclaimPolicy": policy,
            "volumeBindingMode": "Immediate", "parameters": {"size": size}})
        };
        assert_eq!(
            refusals_of_update(&STRATEGY, class("Retain", "2"), class("Delete", "1")),
            [
                "parameters: Invalid value: null: field is immutable",
                "reclaimPolicy: Invalid value: null: field is immutable",
            ]
        );
    }
}
