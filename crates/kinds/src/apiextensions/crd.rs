//! `CustomResourceDefinition`: its resource, its defaults, and the start of its deletion.

use super::{GROUP, Termination, v1beta1, validate};
use crate::table;
use machinery::fields::{default_text, flag, keep, list, list_mut, part, text, texts, top};
use machinery::{Object, Value, json};
use types::columns::{NAME, column, wide};
use types::resource::{Column, Columns, Conventions, DeletionHooks, Resource, Strategy, Version};

/// Delays the deletion of a CRD until all objects of its kind are deleted.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

const DEPRECATION: &str = "apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated in v1.16+, unavailable in v1.22+; use apiextensions.k8s.io/v1 CustomResourceDefinition";

/// The resource of the kind `CustomResourceDefinition`.
pub fn resource() -> Resource {
    let version = |name: &str| Version {
        name: name.to_owned(),
        status: true,
        ..table::v1(
            &format!("apiextensions/{name}.CustomResourceDefinition"),
            Columns::Fixed(COLUMNS, |object, _| cells(object)),
        )
    };
    let v1beta1 = Version { deprecation: Some(DEPRECATION.to_owned()), ..version("v1beta1") };
    let mut resource = table::resource(
        GROUP,
        "CustomResourceDefinition",
        "customresourcedefinitions",
        &STRATEGY,
        version("v1"),
    );
    resource.versions.push(v1beta1);
    Resource {
        short_names: vec!["crd".to_owned(), "crds".to_owned()],
        categories: vec!["api-extensions".to_owned()],
        namespaced: false,
        prefix: format!("/registry/{GROUP}/customresourcedefinitions"),
        conventions: &Conventions::EXTENSION,
        ..resource
    }
}

pub(super) static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create,
    prepare_update,
    validate_in: Some(validate::validate_in),
    validate_status: |new, _, errors| validate::validate_status(new, errors),
    generation: true,
    unconditional_update: false,
    // Patterns in a short CRD can be slow to compile.
    expensive_writes: true,
    returns_deleted: true,
    deletion: Some(&DeletionHooks { begin: begin_deletion, held: |_| false }),
    convert: Some(v1beta1::convert),
    warnings,
    // Upstream stores CRDs in the oldest version that it can read.
    announced_storage_version: Some("v1beta1"),
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    column("Scope", "Whether its objects are in namespaces: Namespaced or Cluster."),
    column("Versions", "The versions that are served, with a mark at the one that is stored."),
    Column {
        kind: "date",
        ..column(
            "Created At",
            "The time at which the CRD was created, in RFC 3339 format and in UTC.",
        )
    },
    wide("Group", "The group of its objects."),
    wide("Kind", "The kind of its objects."),
    wide("ShortNames", "The short names of its resource."),
    Column { kind: "boolean", ..wide("Established", "Whether its objects are served.") },
];

fn cells(object: &Object) -> Vec<Value> {
    let spec = top(object, "spec");
    let names = part(spec, "names").unwrap_or(&Value::Null);
    let mut versions: Vec<String> = list(spec, "versions")
        .iter()
        .filter(|it| flag(it, "served"))
        .map(|it| {
            let mark = if flag(it, "storage") { "(storage)" } else { "" };
            format!("{}{mark}", text(it, "name"))
        })
        .collect();
    versions.sort();
    let conditions = list(top(object, "status"), "conditions");
    let is_established =
        conditions.iter().any(|it| it["type"] == "Established" && it["status"] == "True");
    vec![
        object.name().into(),
        text(spec, "scope").into(),
        versions.join(",").into(),
        object.meta_text("creationTimestamp").into(),
        text(spec, "group").into(),
        text(names, "kind").into(),
        texts(names, "shortNames").collect::<Vec<_>>().join(",").into(),
        is_established.into(),
    ]
}

fn defaults(object: &mut Object) {
    let kind = object.str_at(&["spec", "names", "kind"]).to_owned();
    let names = object.map_at(&["spec", "names"]);
    if !kind.is_empty() {
        default_text(names, "singular", &kind.to_lowercase());
        default_text(names, "listKind", &format!("{kind}List"));
    }
    let spec = object.map_at(&["spec"]);
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    if let Some(Value::Object(service)) =
        object.get_mut(&["spec", "conversion", "webhook", "clientConfig", "service"])
    {
        machinery::fields::default_value(service, "port", 443.into());
    }
    if list(top(object, "status"), "storedVersions").is_empty() {
        add_stored_version(object);
    }
}

fn prepare_create(object: &mut Object) {
    let status = json!({
        "conditions": null,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": null,
    });
    object.map_mut().insert("status".to_owned(), status);
    add_stored_version(object);
}

fn prepare_update(new: &mut Object, old: &Object) {
    keep(new, old, "status");
    add_stored_version(new);
}

/// Adds the storage version to `status.storedVersions`.
fn add_stored_version(object: &mut Object) {
    let versions = list(top(object, "spec"), "versions");
    let Some(storage) = versions.iter().find(|it| it["storage"] == true) else { return };
    let name = text(storage, "name").to_owned();
    let stored = list_mut(object.map_at(&["status"]), "storedVersions");
    if !stored.iter().any(|it| *it == name) {
        stored.push(name.into());
    }
}

/// Marks a CRD whose deletion begins: it exists until its objects are deleted.
pub fn begin_deletion(object: &mut Object, now: &str) {
    if !object.finalizers().any(|it| it == CLEANUP_FINALIZER) {
        list_mut(object.metadata_mut(), "finalizers").push(CLEANUP_FINALIZER.into());
    }
    Termination::Pending.set_in(object, now);
}

fn warnings(object: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    for version in list(top(object, "spec"), "versions") {
        let schema = &version["schema"]["openAPIV3Schema"];
        for format in schema::unknown_formats(schema) {
            warnings.push(format!("unrecognized format \"{format}\""));
        }
        for item in schema::nested_sets(schema) {
            warnings.push(format!("x-kubernetes-list-type: set for items of type \"{item}\" is not supported by server-side apply or CEL validation rules"));
        }
    }
    warnings.dedup();
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, object};

    fn widgets() -> Value {
        json!({"metadata": {"name": "widgets.example.dev"}, "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
    }

    #[test]
    fn a_new_crd_has_names_a_conversion_and_an_empty_status() {
        let made = created(&STRATEGY, widgets());
        assert_eq!(
            made["spec"]["names"],
            json!({"plural": "widgets", "singular": "widget", "kind": "Widget",
                "listKind": "WidgetList"})
        );
        assert_eq!(made["spec"]["conversion"], json!({"strategy": "None"}));
        assert_eq!(
            made["status"],
            json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""},
                "storedVersions": ["v1"]})
        );
    }

    #[test]
    fn a_new_storage_version_joins_the_stored_ones() {
        let old = object(created(&STRATEGY, widgets()));
        let mut new = old.clone();
        let versions = json!([{"name": "v1", "served": true, "storage": false},
            {"name": "v2", "served": true, "storage": true}]);
        new.map_at(&["spec"]).insert("versions".to_owned(), versions);
        prepare_update(&mut new, &old);
        assert_eq!(new.get(&["status", "storedVersions"]), Some(&json!(["v1", "v2"])));
    }

    #[test]
    fn deletion_begins_with_a_finalizer_and_a_condition() {
        let mut crd = object(created(&STRATEGY, widgets()));
        begin_deletion(&mut crd, "2024-01-01T00:00:00Z");
        assert_eq!(crd.finalizers().collect::<Vec<_>>(), [CLEANUP_FINALIZER]);
        assert_eq!(
            crd.get(&["status", "conditions"]),
            Some(&json!([{"type": "Terminating", "status": "True",
                "lastTransitionTime": "2024-01-01T00:00:00Z", "reason": "InstanceDeletionPending",
                "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"}]))
        );
    }

    #[test]
    fn unknown_formats_cause_warnings() {
        let mut crd = widgets();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] =
            json!({"a": {"type": "string", "format": "odd"}});
        assert_eq!(warnings(&object(crd)), [r#"unrecognized format "odd""#]);
    }
}
