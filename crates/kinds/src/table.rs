//! Every built-in [`Resource`], as rows.

use crate::resource::{Behavior, Columns, Resource, Selectable, Shape, Version};
use crate::{apiextensions, apps, batch, coordination, core, types};

/// All built-in kinds, in the order in which discovery lists them.
pub fn builtin() -> Vec<Resource> {
    vec![
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
        apiextensions::definition::resource(),
        coordination::lease::resource(),
    ]
}

/// A kind with one version and the usual names, to be changed where it is unusual.
pub(crate) fn row(
    group: &str,
    kind: &str,
    plural: &str,
    behavior: &'static Behavior,
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
        storage: 0,
        behavior,
        custom: false,
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
        selectable: Vec::new(),
    }
}

/// A field that a field selector may name by its path, with what stands for it when it is absent.
pub(crate) fn selectable(label: &str, absent: &'static str) -> Selectable {
    selectable_as(label, label, absent)
}

/// A field that a field selector names differently than the stored object.
pub(crate) fn selectable_as(label: &str, path: &str, absent: &'static str) -> Selectable {
    let path = path.split('.').map(str::to_owned).collect();
    Selectable { label: label.to_owned(), path, absent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_kinds_share_a_name_or_a_place() {
        let rows = builtin();
        let names: BTreeSet<String> =
            rows.iter().map(|row| row.group_resource().to_string()).collect();
        let prefixes: BTreeSet<&str> = rows.iter().map(|row| row.prefix.as_str()).collect();
        assert_eq!((names.len(), prefixes.len()), (rows.len(), rows.len()));
    }

    #[test]
    fn objects_are_kept_where_kubernetes_keeps_them() {
        let prefix = |plural: &str| {
            builtin().into_iter().find(|row| row.plural == plural).map(|row| row.prefix)
        };
        assert_eq!(prefix("pods").as_deref(), Some("/registry/pods"));
        assert_eq!(prefix("services").as_deref(), Some("/registry/services/specs"));
        assert_eq!(prefix("nodes").as_deref(), Some("/registry/minions"));
        assert_eq!(prefix("leases").as_deref(), Some("/registry/leases"));
    }

    #[test]
    fn every_row_of_a_table_has_a_cell_for_each_column() {
        let now = crate::resource::Now { unix_seconds: 0 };
        for row in builtin() {
            for version in &row.versions {
                let Columns::Fixed(columns, cells) = &version.columns else {
                    panic!("{} has no fixed columns", row.kind)
                };
                assert_eq!(columns.len(), cells(&machinery::Object::default(), &now).len());
            }
        }
    }
}
