//! `ClusterRoleBinding`: grants a cluster role to subjects, in the whole cluster.

use super::GROUP;
use super::role::RuleScope;
use super::role_binding::{cells, defaults, validate_binding, validate_same_role};
use crate::table;
use machinery::{ErrorList, Object, names};
use types::columns::{AGE, NAME, column, wide};
use types::resource::{Column, Columns, Resource, Strategy};

/// The resource of the kind `ClusterRoleBinding`.
pub fn resource() -> Resource {
    let version = table::v1("rbac/v1.ClusterRoleBinding", Columns::Fixed(COLUMNS, cells));
    Resource {
        namespaced: false,
        ..table::resource(GROUP, "ClusterRoleBinding", "clusterrolebindings", &STRATEGY, version)
    }
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
    column("Role", "The kind and the name of the role that is bound, as in ClusterRole/view."),
    AGE,
    wide("Users", "Users in the clusterRoleBinding"),
    wide("Groups", "Groups in the clusterRoleBinding"),
    wide("ServiceAccounts", "ServiceAccounts in the clusterRoleBinding"),
];

fn validate(object: &Object, errors: &mut ErrorList) {
    validate_binding(object, errors, &["ClusterRole"], RuleScope::Cluster);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::refusals;
    use machinery::json;

    #[test]
    fn a_service_account_in_a_cluster_role_binding_needs_a_namespace() {
        let binding = json!({"roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "s"}]});
        assert_eq!(
            refusals(&STRATEGY, binding),
            [
                r#"roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole""#,
                "subjects[0].namespace: Required value",
            ]
        );
    }
}
