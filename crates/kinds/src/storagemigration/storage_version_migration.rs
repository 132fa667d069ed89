//! `StorageVersionMigration`: rewrites all objects of a resource in its storage version.

use crate::table;
use crate::validation::conditions::validate_conditions;
use crate::validation::rules::{IMMUTABLE, dns_subdomain, immutable_struct};
use machinery::fields::{at, list, text, top};
use machinery::{ErrorList, GroupResource, Object, Path, Value, names};
use types::columns::column;
use types::resource::{
    Column, Columns, Now, Resource, Strategy, Version, drop_status, keep_status,
};

/// The resource of the kind `StorageVersionMigration`, which is not served by default.
pub fn resource() -> Resource {
    let shape = "storagemigration/v1beta1.StorageVersionMigration";
    let version = Version {
        name: "v1beta1".to_owned(),
        served: false,
        status: true,
        ..table::v1(shape, Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        namespaced: false,
        ..table::resource(
            "storagemigration.k8s.io",
            "StorageVersionMigration",
            "storageversionmigrations",
            &STRATEGY,
            version,
        )
    }
}

static STRATEGY: Strategy = Strategy {
    prepare_create: drop_status,
    prepare_update: keep_status,
    validate,
    validate_update: |new, old, errors| {
        validate(new, errors);
        let (new, old) = (top(new, "spec"), top(old, "spec"));
        immutable_struct(errors, &SPEC, "StorageVersionMigrationSpec", new, old);
    },
    validate_status,
    unconditional_update: false,
    ..Strategy::DEFAULT
};

static SPEC: Path<'static> = Path::root("spec");

const COLUMNS: &[Column] = &[
    column("Name", types::columns::NAME.description),
    column("Resource", "GroupResource to migrate"),
    column("Status", "Status of the migration"),
];

fn cells(object: &Object, _: &Now) -> Vec<Value> {
    let resource = at(top(object, "spec"), &["resource"]);
    let resource = GroupResource::new(text(resource, "group"), text(resource, "resource"));
    let conditions = list(top(object, "status"), "conditions").iter();
    let state = conditions
        .filter(|it| text(it, "status") == "True")
        .map(|it| text(it, "type"))
        .rfind(|it| matches!(*it, "Running" | "Succeeded" | "Failed"));
    vec![object.name().into(), resource.to_string().into(), state.unwrap_or("Unknown").into()]
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let (path, value) = (SPEC.child("resource"), at(top(object, "spec"), &["resource"]));
    let (group, resource) = (text(value, "group"), text(value, "resource"));
    if resource.is_empty() {
        errors.required(&path.child("resource"), "resource is required to be set");
    } else {
        let messages = names::dns1035_label(resource);
        if !messages.is_empty() {
            errors.invalid(&path.child("resource"), resource, &messages.join(","));
        }
    }
    if !group.is_empty() {
        dns_subdomain(errors, &path.child("group"), group);
    }
}

/// Upstream: `ValidateStorageVersionMigrationStatusUpdate`
fn validate_status(new: &Object, old: &Object, errors: &mut ErrorList) {
    let (path, status) = (Path::root("status"), top(new, "status"));
    let version = text(status, "resourceVersion");
    let version_path = path.child("resourceVersion");
    // Kubernetes 1.35 refuses an empty version, so that a migration that fails before it has begun never
    // shows that; 1.36 accepts it.
    if !version.is_empty() && !is_resource_version(version) {
        let message = format!("resource version is not well formed: {version}");
        errors.invalid(&version_path, version, &message);
    }
    let conditions = path.child("conditions");
    validate_conditions(errors, &conditions, list(status, "conditions"));
    let former = text(top(old, "status"), "resourceVersion");
    if !former.is_empty() && former != version {
        errors.invalid(&version_path, version, IMMUTABLE);
    }
    let [is_running, has_succeeded, has_failed] =
        ["Running", "Succeeded", "Failed"].map(|it| is_true(new, it));
    let [had_succeeded, had_failed] = ["Succeeded", "Failed"].map(|it| is_true(old, it));
    let rules = [
        (
            has_succeeded && has_failed,
            "Both success and failed conditions cannot be true at the same time",
        ),
        (
            has_succeeded && is_running,
            "Running condition cannot be true when success condition is true",
        ),
        (
            has_failed && is_running,
            "Running condition cannot be true when failed condition is true",
        ),
        (
            had_succeeded && !has_succeeded,
            "Success condition cannot be set to false once it is true",
        ),
        (had_failed && !has_failed, "Failed condition cannot be set to false once it is true"),
    ];
    for (_, message) in rules.into_iter().filter(|(is_broken, _)| *is_broken) {
        errors.invalid(&conditions, Value::from(list(status, "conditions").to_vec()), message);
    }
}

/// Whether this is a positive number without leading zeros, as the version of an object is.
fn is_resource_version(text: &str) -> bool {
    !text.starts_with('0') && text.bytes().all(|it| it.is_ascii_digit())
}

fn is_true(object: &Object, condition: &str) -> bool {
    let mut conditions = list(top(object, "status"), "conditions").iter();
    conditions.any(|it| text(it, "type") == condition && text(it, "status") == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{lines, object, refusals, refusals_of_update};
    use machinery::json;

    fn migration(group: &str, resource: &str) -> Value {
        json!({"spec": {"resource": {"group": group, "resource": resource}}})
    }

    #[test]
    fn the_resource_is_required_and_cannot_be_changed() {
        assert_eq!(
            refusals(&STRATEGY, migration("", "")),
            ["spec.resource.resource: Required value: resource is required to be set"]
        );
        let invalid = refusals(&STRATEGY, migration("Ex", "9s"));
        assert_eq!(invalid.len(), 2, "{invalid:?}");
        let (old, new) = (migration("apps", "deployments"), migration("", "secrets"));
        let changed = refusals_of_update(&STRATEGY, new, old);
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert!(changed[0].starts_with("spec: Invalid value: "), "{changed:?}");
    }

    fn condition(kind: &str, status: &str) -> Value {
        let at = "2024-01-01T00:00:00Z";
        json!({"type": kind, "status": status, "reason": "R", "lastTransitionTime": at})
    }

    fn status_refusals(new: &Value, old: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        let [new, old] = [new, old].map(|status| object(json!({"status": status})));
        validate_status(&new, &old, &mut errors);
        lines(&errors)
    }

    #[test]
    fn the_end_of_a_migration_and_its_resource_version_are_final() {
        let succeeded = json!({"resourceVersion": "7",
            "conditions": [condition("Running", "False"), condition("Succeeded", "True")]});
        assert_eq!(status_refusals(&succeeded, &json!({})), Vec::<String>::new());
        let again = json!({"resourceVersion": "8", "conditions": [condition("Running", "True")]});
        let refused = status_refusals(&again, &succeeded);
        assert_eq!(refused.len(), 2, "{refused:?}");
        assert_eq!(refused[0], r#"status.resourceVersion: Invalid value: "8": field is immutable"#);
        assert!(refused[1].ends_with("Success condition cannot be set to false once it is true"));
        let failed = json!({"conditions": [condition("Failed", "True")]});
        assert_eq!(status_refusals(&failed, &json!({})), Vec::<String>::new());
        assert_eq!(
            status_refusals(&json!({"resourceVersion": "07"}), &json!({})),
            [
                r#"status.resourceVersion: Invalid value: "07": resource version is not well formed: 07"#
            ]
        );
    }

    #[test]
    fn the_table_shows_the_condition_that_is_true() {
        let mut shown = migration("apps", "deployments");
        shown["metadata"] = json!({"name": "m"});
        let cells_of = |value: &Value| cells(&object(value.clone()), &Now { unix_seconds: 0 });
        assert_eq!(cells_of(&shown), [json!("m"), json!("deployments.apps"), json!("Unknown")]);
        let conditions = [condition("Running", "False"), condition("Succeeded", "True")];
        shown["status"] = json!({"conditions": conditions});
        assert_eq!(cells_of(&shown)[2], json!("Succeeded"));
    }
}
