//! Tests of the tables.

use std::collections::HashSet;

use super::*;

/// The rules of a role, with those of the roles that it aggregates.
fn effective_rules(name: &str) -> Vec<PolicyRule> {
    let role = roles().find(|role| role.name == name).unwrap();
    let selected =
        |other: &&BootstrapRole| other.labels.iter().any(|label| role.aggregates.contains(label));
    let aggregated = roles().filter(selected).flat_map(|other| effective_rules(other.name));
    role.rules.iter().copied().chain(aggregated).collect()
}

fn may(role: &str, verb: &str, group: &str, resource: &str, subresource: &str) -> bool {
    effective_rules(role).iter().any(|rule| rule.allows(verb, group, resource, subresource))
}

#[test]
fn the_tables_have_the_number_of_objects_that_kubernetes_creates() {
    let in_cluster = roles().filter(|role| role.namespace.is_empty()).count();
    assert_eq!((in_cluster, roles().count() - in_cluster), (68, 7));
    let in_cluster = bindings().filter(|binding| binding.namespace.is_empty()).count();
    assert_eq!((in_cluster, bindings().count() - in_cluster), (49, 7));
}

#[test]
fn names_are_unique_within_a_namespace() {
    let mut seen = HashSet::new();
    for role in roles() {
        assert!(seen.insert((role.namespace, role.name)), "{role:?}");
    }
    let mut seen = HashSet::new();
    for binding in bindings() {
        assert!(seen.insert((binding.namespace, binding.name)), "{binding:?}");
    }
}

#[test]
fn a_binding_names_a_role_of_its_namespace() {
    let roles: HashSet<_> = roles().map(|role| (role.namespace, role.name)).collect();
    for binding in bindings() {
        assert!(roles.contains(&(binding.namespace, binding.role)), "{binding:?}");
    }
}

#[test]
fn a_rule_is_about_resources_or_about_urls() {
    for role in roles() {
        assert_ne!(role.rules.is_empty(), role.aggregates.is_empty(), "{}", role.name);
        for rule in role.rules {
            let about_resources = !rule.groups.is_empty() && !rule.resources.is_empty();
            assert!(!rule.verbs.is_empty() && about_resources == rule.urls.is_empty(), "{rule:?}");
            assert!(rule.urls.is_empty() || role.namespace.is_empty(), "{rule:?}");
        }
    }
}

#[test]
fn the_lists_of_a_rule_are_sorted() {
    for rule in roles().flat_map(|role| role.rules) {
        for list in [rule.verbs, rule.groups, rule.resources, rule.names, rule.urls] {
            assert!(list.is_sorted(), "{rule:?}");
        }
    }
}

#[test]
fn only_edit_and_admin_may_read_secrets() {
    assert!(!may("view", "get", "", "secrets", ""));
    assert!(may("edit", "get", "", "secrets", ""));
    assert!(may("admin", "get", "", "secrets", ""));
}

#[test]
fn view_only_reads() {
    for rule in effective_rules("view") {
        assert_eq!(rule.verbs, ["get", "list", "watch"], "{rule:?}");
    }
}

#[test]
fn only_admin_may_write_role_bindings() {
    assert!(!may("edit", "create", GROUP, "rolebindings", ""));
    assert!(may("admin", "create", GROUP, "rolebindings", ""));
    assert!(!may("admin", "create", GROUP, "clusterrolebindings", ""));
}

#[test]
fn a_controller_acts_as_a_service_account() {
    let name = "system:controller:job-controller";
    let binding = bindings().find(|binding| binding.name == name).unwrap();
    assert_eq!(*binding.subjects, [BootstrapSubject::ServiceAccount("job-controller")]);
    assert_eq!(
        binding.to_value(),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
                "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
            },
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [
                {"kind": "ServiceAccount", "name": "job-controller", "namespace": "kube-system"},
            ],
        })
    );
}

#[test]
fn an_aggregated_role_is_created_without_rules() {
    let edit = roles().find(|role| role.name == "edit").unwrap().to_value();
    assert_eq!(edit["rules"], Value::Null);
    assert_eq!(
        edit["aggregationRule"],
        json!({"clusterRoleSelectors": [{"matchLabels": {TO_EDIT: "true"}}]})
    );
    assert_eq!(
        edit["metadata"]["labels"],
        json!({"kubernetes.io/bootstrapping": "rbac-defaults", TO_ADMIN: "true"})
    );
}
