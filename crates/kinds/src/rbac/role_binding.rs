//! `RoleBinding`: grants a role to subjects, in one namespace.

use super::GROUP;
use super::role::RuleScope;
use crate::table;
use crate::validation::rules::{add_invalid, immutable_struct, required, supported_only};
use machinery::fields::{default_text, maps_mut, text, top};
use machinery::{ErrorList, Object, Path, Value, names};
use types::columns::{AGE, NAME, age, column, wide};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `RoleBinding`.
pub fn resource() -> Resource {
    let version = table::v1("rbac/v1.RoleBinding", Columns::Fixed(COLUMNS, cells));
    table::resource(GROUP, "RoleBinding", "rolebindings", &STRATEGY, version)
}

static STRATEGY: Strategy = Strategy {
    defaults,
    validate,
    validate_update: |new, old, errors| {
        validate(new, errors);
        validate_same_role(new, old, errors);
    },
    validate_name: names::path_segment,
    create_on_update: true,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Role",
        "The kind and the name of the role that is bound, as in Role/reader or ClusterRole/view.",
    ),
    AGE,
    wide("Users", "Users in the roleBinding"),
    wide("Groups", "Groups in the roleBinding"),
    wide("ServiceAccounts", "ServiceAccounts in the roleBinding"),
];

/// The cells of both kinds of bindings.
pub(super) fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let role = top(object, "roleRef");
    let subjects_of = |kind: &str| -> Value {
        let names: Vec<String> = subjects(object)
            .iter()
            .filter(|subject| text(subject, "kind") == kind)
            .map(|subject| match kind {
                "ServiceAccount" => {
                    format!("{}/{}", text(subject, "namespace"), text(subject, "name"))
                }
                _ => text(subject, "name").to_owned(),
            })
            .collect();
        names.join(", ").into()
    };
    vec![
        object.name().into(),
        format!("{}/{}", text(role, "kind"), text(role, "name")).into(),
        age(object, now),
        subjects_of("User"),
        subjects_of("Group"),
        subjects_of("ServiceAccount"),
    ]
}

fn subjects(binding: &Object) -> &[Value] {
    top(binding, "subjects").as_array().map_or(&[], Vec::as_slice)
}

/// Sets the default `apiGroup` of roles, users and groups.
pub(super) fn defaults(object: &mut Object) {
    default_text(object.map_at(&["roleRef"]), "apiGroup", GROUP);
    for subject in maps_mut(object.map_mut(), "subjects") {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            default_text(subject, "apiGroup", GROUP);
        }
    }
}

fn validate(object: &Object, errors: &mut ErrorList) {
    validate_binding(object, errors, &["Role", "ClusterRole"], RuleScope::Namespace);
}

/// Validates a binding to one of the kinds of roles in `roles`.
pub(super) fn validate_binding(
    object: &Object,
    errors: &mut ErrorList,
    roles: &[&str],
    scope: RuleScope,
) {
    let role = top(object, "roleRef");
    let path = Path::root("roleRef");
    supported_only(errors, &path.child("apiGroup"), text(role, "apiGroup"), &[GROUP]);
    supported_only(errors, &path.child("kind"), text(role, "kind"), roles);
    let name = text(role, "name");
    if !name.is_empty() {
        add_invalid(errors, &path.child("name"), name, names::path_segment(name));
    }
    let subjects_path = Path::root("subjects");
    for (index, subject) in subjects(object).iter().enumerate() {
        validate_subject(errors, &subjects_path.index(index), subject, scope);
    }
    errors.declarative(|errors| required(errors, &path.child("name"), name));
}

fn validate_subject(errors: &mut ErrorList, path: &Path<'_>, subject: &Value, scope: RuleScope) {
    let (kind, name, group) =
        (text(subject, "kind"), text(subject, "name"), text(subject, "apiGroup"));
    errors.declarative(|errors| required(errors, &path.child("name"), name));
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                add_invalid(errors, &path.child("name"), name, names::dns1123_subdomain(name));
            }
            supported_only(errors, &path.child("apiGroup"), group, &[""]);
            if scope == RuleScope::Cluster {
                required(errors, &path.child("namespace"), text(subject, "namespace"));
            }
        }
        "User" | "Group" => supported_only(errors, &path.child("apiGroup"), group, &[GROUP]),
        _ => {
            supported_only(errors, &path.child("kind"), kind, &["ServiceAccount", "User", "Group"]);
        }
    }
}

/// The role of a binding is immutable: the right to change subjects must not grant other roles.
pub(super) fn validate_same_role(new: &Object, old: &Object, errors: &mut ErrorList) {
    let path = Path::root("roleRef");
    errors.declarative(|errors| {
        immutable_struct(errors, &path, "RoleRef", top(new, "roleRef"), top(old, "roleRef"));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, object, refusals, refusals_of_update};
    use machinery::json;

    fn binding_to(name: &str) -> Value {
        json!({"roleRef": {"kind": "Role", "name": name}})
    }

    #[test]
    fn the_api_group_has_a_default() {
        let binding = json!({"roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]});
        assert_eq!(
            created(&STRATEGY, binding),
            json!({"roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "r"},
                "subjects": [{"kind": "User", "apiGroup": GROUP, "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]})
        );
    }

    #[test]
    fn a_binding_names_a_role_and_subjects_of_known_kinds() {
        assert_eq!(
            refusals(
                &STRATEGY,
                json!({"roleRef": {"apiGroup": "x", "kind": "Y"}, "subjects": [{"kind": "Robot", "name": "r"}]})
            ),
            [
                r#"roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io""#,
                r#"roleRef.kind: Unsupported value: "Y": supported values: "Role", "ClusterRole""#,
                r#"subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#,
                "roleRef.name: Required value",
            ]
        );
    }

    #[test]
    fn the_role_of_a_binding_is_immutable() {
        assert_eq!(
            refusals_of_update(&STRATEGY, binding_to("b"), binding_to("a")),
            [
                r#"roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"b"}: field is immutable"#
            ]
        );
    }

    #[test]
    fn the_table_groups_subjects_by_kind() {
        let binding = object(
            json!({"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "User", "name": "v"},
                {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]}),
        );
        let mut cells = cells(&binding, &Now { unix_seconds: 0 });
        cells.remove(2);
        assert_eq!(cells, ["b", "Role/r", "u, v", "g", "n/s"]);
    }
}
