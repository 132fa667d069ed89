//! [`builtin`]: every built-in [`Resource`]; and the functions that construct one.

use crate::{
    admissionregistration, apiextensions, apiregistration, apps, authentication, authorization,
    autoscaling, batch, certificates, coordination, core, discovery, flowcontrol, networking, node,
    policy, rbac, resource, scheduling, storage, storagemigration,
};
use types::resource::{Columns, Conventions, Resource, Selectable, Shape, Strategy, Version};

/// All built-in kinds, also those that are not served by default. Discovery sorts them.
pub fn builtin() -> Vec<Resource> {
    let kinds = vec![
        core::binding::resource(),
        core::component_status::resource(),
        core::config_map::resource(),
        core::event::resource(),
        core::namespace::resource(),
        core::node::resource(),
        core::pod::resource(),
        core::pod_template::resource(),
        core::replication_controller::resource(),
        core::secret::resource(),
        core::service_account::resource(),
        core::service::resource(),
        apps::controller_revision::resource(),
        apps::daemon_set::resource(),
        apps::deployment::resource(),
        apps::replica_set::resource(),
        apps::stateful_set::resource(),
        batch::cron_job::resource(),
        batch::job::resource(),
        core::endpoints::resource(),
        core::limit_range::resource(),
        core::persistent_volume::resource(),
        core::persistent_volume_claim::resource(),
        core::resource_quota::resource(),
        apiregistration::api_service::resource(),
        autoscaling::horizontal_pod_autoscaler::resource(),
        certificates::certificate_signing_request::resource(),
        certificates::cluster_trust_bundle::resource(),
        networking::ingress::resource(),
        networking::ingress_class::resource(),
        networking::network_policy::resource(),
        networking::ip_address::resource(),
        networking::service_cidr::resource(),
        policy::pod_disruption_budget::resource(),
        rbac::role::resource(),
        rbac::cluster_role::resource(),
        rbac::role_binding::resource(),
        rbac::cluster_role_binding::resource(),
        storage::storage_class::resource(),
        storage::volume_attributes_class::resource(),
        storage::volume_attachment::resource(),
        storage::csi_driver::resource(),
        storage::csi_node::resource(),
        storage::csi_storage_capacity::resource(),
        storagemigration::storage_version_migration::resource(),
        admissionregistration::mutating_webhook_configuration::resource(),
        admissionregistration::validating_webhook_configuration::resource(),
        admissionregistration::validating_admission_policy::resource(),
        admissionregistration::validating_admission_policy_binding::resource(),
        admissionregistration::mutating_admission_policy::resource(),
        admissionregistration::mutating_admission_policy_binding::resource(),
        admissionregistration::initializer_configuration::resource(),
        scheduling::priority_class::resource(),
        node::runtime_class::resource(),
        discovery::endpoint_slice::resource(),
        resource::device_class::resource(),
        resource::resource_claim::resource(),
        resource::resource_claim_template::resource(),
        resource::resource_slice::resource(),
        flowcontrol::flow_schema::resource(),
        flowcontrol::priority_level_configuration::resource(),
        apiextensions::crd::resource(),
        coordination::lease::resource(),
    ];
    [kinds, authentication::resources(), authorization::resources()].concat()
}

/// A resource with one version and the usual names; a kind overrides what is unusual.
pub(crate) fn resource(
    group: &str,
    kind: &str,
    plural: &str,
    strategy: &'static Strategy,
    version: Version,
) -> Resource {
    Resource {
        group: group.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        versions: vec![version],
        storage_index: 0,
        strategy,
        conventions: &Conventions::BUILT_IN,
        prefix: format!("/registry/{plural}"),
        ttl_seconds: None,
    }
}

/// The version `v1` of a built-in kind, of the type `shape`, without subresources.
pub(crate) fn v1(shape: &str, columns: Columns) -> Version {
    Version {
        name: "v1".to_owned(),
        group: None,
        served: true,
        deprecation: None,
        shape: Shape::Typed(types::find(shape).expect("every built-in kind has its type")),
        columns,
        status: false,
        scale: None,
        selectable: [].into(),
    }
}

/// A selectable field whose label is its path, and its value if it is absent.
pub(crate) fn selectable(label: &str, absent: &'static str) -> Selectable {
    selectable_as(label, label, absent)
}

/// A field that a field selector names differently than the stored object.
pub(crate) fn selectable_as(label: &str, path: &str, absent: &'static str) -> Selectable {
    let path = path.split('.').map(str::to_owned).collect();
    Selectable { label: label.to_owned(), path, fallback: None, absent }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn resource_names_and_storage_prefixes_are_unique() {
        let resources = builtin();
        let names: BTreeSet<String> =
            resources.iter().map(|resource| resource.group_resource().to_string()).collect();
        let prefixes: BTreeSet<&str> =
            resources.iter().map(|resource| resource.prefix.as_str()).collect();
        assert_eq!((names.len(), prefixes.len()), (resources.len(), resources.len()));
    }

    #[test]
    fn storage_prefixes_are_those_of_kubernetes() {
        let prefix = |plural: &str| {
            builtin()
                .into_iter()
                .find(|resource| resource.plural == plural)
                .map(|resource| resource.prefix)
        };
        assert_eq!(prefix("pods").as_deref(), Some("/registry/pods"));
        assert_eq!(prefix("services").as_deref(), Some("/registry/services/specs"));
        assert_eq!(prefix("nodes").as_deref(), Some("/registry/minions"));
        assert_eq!(prefix("leases").as_deref(), Some("/registry/leases"));
        assert_eq!(prefix("endpoints").as_deref(), Some("/registry/services/endpoints"));
        assert_eq!(prefix("ingresses").as_deref(), Some("/registry/ingress"));
        assert_eq!(
            prefix("apiservices").as_deref(),
            Some("/registry/apiregistration.k8s.io/apiservices")
        );
    }

    #[test]
    fn every_row_of_a_table_has_a_cell_for_each_column() {
        let now = types::resource::Now { unix_seconds: 0 };
        for resource in builtin() {
            for version in &resource.versions {
                let Columns::Fixed(columns, cells) = &version.columns else {
                    panic!("{} has no fixed columns", resource.kind)
                };
                assert_eq!(columns.len(), cells(&machinery::Object::default(), &now).len());
            }
        }
    }
}
