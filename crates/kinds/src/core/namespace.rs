//! `Namespace`: the scope of the names of objects.
//!
//! It is deleted in two steps: its phase becomes `Terminating`, and after its contents are deleted
//! the finalizer in its *spec* is removed through `/finalize`.

use crate::table;
use crate::validation::rules::qualified_name;
use machinery::fields::{at, default_text, keep, list_mut, texts, top};
use machinery::meta::validate_builtin_finalizer;
use machinery::{ErrorList, Object, Path, Value, json, names};
use types::columns::{AGE, NAME, age, column};
use types::resource::{
    Action, Column, Columns, DeletionHooks, Now, Resource, Strategy, Subresource, Version,
    keep_all_but_status,
};

/// The finalizer in a namespace's spec that protects its contents.
pub const FINALIZER: &str = "kubernetes";

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The resource of the kind `Namespace`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        selectable: [table::selectable("status.phase", "")].into(),
        ..table::v1("core/v1.Namespace", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["ns".to_owned()],
        namespaced: false,
        ..table::resource("", "Namespace", "namespaces", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create,
    prepare_update,
    prepare_status: keep_all_but_status,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    validate_status,
    validate_name: names::dns1123_label,
    returns_deleted: true,
    deletion: Some(&DeletionHooks {
        begin: |namespace, _| terminate(namespace),
        held: |namespace| !is_finalized(namespace),
    }),
    subresources: &[Subresource {
        name: "finalize",
        group: "",
        version: "",
        kind: "Namespace",
        action: Action::Replace {
            prepare: prepare_finalize,
            validate: validate_finalize,
            verbs: &["update"],
        },
    }],
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[NAME, column("Status", "The status of the namespace"), AGE];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let phase = object.str_at(&["status", "phase"]);
    vec![object.name().into(), phase.into(), age(object, now)]
}

fn defaults(object: &mut Object) {
    label_with_name(object);
    default_text(object.map_at(&["status"]), "phase", "Active");
}

/// Sets the label that lets label selectors select a namespace by its name. A generated name is
/// only known in [`prepare_create`].
fn label_with_name(object: &mut Object) {
    let name = object.name().to_owned();
    if !name.is_empty() {
        object.map_at(&["metadata", "labels"]).insert(NAME_LABEL.to_owned(), name.into());
    }
}

fn prepare_create(object: &mut Object) {
    label_with_name(object);
    object.map_mut().insert("status".to_owned(), json!({"phase": "Active"}));
    let finalizers = list_mut(object.map_at(&["spec"]), "finalizers");
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
}

fn prepare_update(new: &mut Object, old: &Object) {
    label_with_name(new);
    keep(new, old, "spec");
    keep(new, old, "status");
}

/// Prepares an update of `/finalize`: the stored status is kept.
pub fn prepare_finalize(new: &mut Object, old: &Object) {
    keep(new, old, "status");
}

/// Sets the phase of a namespace whose deletion has begun to `Terminating`.
pub fn terminate(object: &mut Object) {
    object.map_at(&["status"]).insert("phase".to_owned(), "Terminating".into());
}

/// Whether the spec has no finalizers, so that the namespace can be removed.
pub fn is_finalized(object: &Object) -> bool {
    texts(top(object, "spec"), "finalizers").next().is_none()
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = Path::root("spec");
    // As upstream, the path has no index here; that of `/finalize` has one.
    for finalizer in texts(top(object, "spec"), "finalizers") {
        finalizer_name(errors, &spec.child("finalizers"), finalizer);
    }
}

/// Validates an update of `/finalize`.
pub fn validate_finalize(new: &Object, _: &Object, errors: &mut ErrorList) {
    let spec = Path::root("spec");
    let path = spec.child("finalizers");
    for (index, finalizer) in texts(top(new, "spec"), "finalizers").enumerate() {
        finalizer_name(errors, &path.index(index), finalizer);
    }
}

fn finalizer_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    qualified_name(errors, path, name);
    validate_builtin_finalizer(name, path, errors);
}

fn validate_status(new: &Object, _: &Object, errors: &mut ErrorList) {
    let status = Path::root("status");
    let phase = at(top(new, "status"), &["phase"]).as_str().unwrap_or_default();
    let (expected, message) = match new.deletion_timestamp() {
        None => ("Active", "may only be 'Active' if `deletionTimestamp` is empty"),
        Some(_) => ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
    };
    if phase != expected {
        // As upstream, the field is capitalized.
        errors.invalid(&status.child("Phase"), phase, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, object, refusals};

    #[test]
    fn a_new_namespace_is_active_and_has_its_finalizer() {
        assert_eq!(
            created(
                &STRATEGY,
                json!({"metadata": {"name": "n", "labels": {"x": "y"}},
                "status": {"phase": "Terminating"}})
            ),
            json!({"metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n", "x": "y"}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
        );
    }

    #[test]
    fn an_update_does_not_change_the_finalizers() {
        let old =
            object(json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}));
        let mut new = object(json!({"metadata": {"name": "n"}}));
        prepare_update(&mut new, &old);
        assert_eq!(new.get(&["spec"]), Some(&json!({"finalizers": ["kubernetes"]})));
        assert!(!is_finalized(&new));
    }

    #[test]
    fn a_finalizer_must_be_standard_or_qualified_by_a_domain() {
        assert_eq!(
            refusals(&STRATEGY, json!({"spec": {"finalizers": ["kubernetes", "nodomain"]}})),
            [
                r#"spec.finalizers: Invalid value: "nodomain": name is neither a standard finalizer name nor is it fully qualified"#
            ]
        );
    }

    #[test]
    fn the_phase_terminating_requires_a_deletion_timestamp() {
        let mut errors = ErrorList::new();
        let namespace = object(json!({"status": {"phase": "Terminating"}}));
        validate_status(&namespace, &namespace, &mut errors);
        assert_eq!(
            errors.summary(),
            r#"status.Phase: Invalid value: "Terminating": may only be 'Active' if `deletionTimestamp` is empty"#
        );
    }
}
