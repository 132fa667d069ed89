//! The table of all controllers: their names, their rights, and the functions that add them to a
//! manager.

use crate::controller_context::ControllerContext;
use crate::controller_manager::{PROGRAM, cache_identity};
use machinery::PolicyRule;
use runtime::Identity;

/// A built-in controller.
#[derive(Debug)]
pub struct ControllerDescriptor {
    /// The name in `--controllers`, as in Kubernetes: `replicaset-controller`.
    pub name: &'static str,
    /// Other names in `--controllers`, besides the name without `-controller`.
    pub aliases: &'static [&'static str],
    /// The user of its requests, as in Kubernetes.
    pub user: ControllerUser,
    /// The permissions for its writes, and for reads that are not served by the shared caches.
    pub rules: &'static [PolicyRule],
    /// Adds the controller to the manager of its context.
    pub(crate) start: fn(&ControllerContext),
}

/// The user of a controller's requests.
#[derive(Debug, Clone, Copy)]
pub enum ControllerUser {
    /// A service account of `kube-system`. Its name is often not that of the controller:
    /// `daemon-set-controller`.
    ServiceAccount(&'static str),
    /// A program of the control plane, whose user has the prefix `system:`.
    Program(&'static str),
}

impl ControllerDescriptor {
    /// The user of the controller's requests.
    pub fn identity(&self) -> Identity {
        match self.user {
            ControllerUser::ServiceAccount(name) => Identity::service_account(name, PROGRAM),
            ControllerUser::Program(name) => Identity::user(&format!("system:{name}"), name),
        }
    }
}

/// All controllers, in the order in which they start.
pub const CONTROLLERS: &[&ControllerDescriptor] = &[
    &crate::replica_set::CONTROLLER,
    &crate::replica_set::REPLICATION_CONTROLLER,
    &crate::deployment::CONTROLLER,
    &crate::garbage_collector::CONTROLLER,
    &crate::namespace::CONTROLLER,
    &crate::ttl_after_finished::CONTROLLER,
    &crate::storage_version_migrator::CONTROLLER,
    &crate::node_lifecycle::CONTROLLER,
    &crate::taint_eviction::CONTROLLER,
    &crate::pod_garbage_collector::CONTROLLER,
    &crate::scheduler::CONTROLLER,
    &crate::service_account::CONTROLLER,
    &crate::service_account_token::CONTROLLER,
    &crate::legacy_token_cleaner::CONTROLLER,
    &crate::root_ca_publisher::CONTROLLER,
    &crate::endpoints::CONTROLLER,
    &crate::endpoint_slice::CONTROLLER,
    &crate::endpoint_slice_mirroring::CONTROLLER,
    &crate::disruption::CONTROLLER,
    &crate::horizontal_pod_autoscaler::CONTROLLER,
    &crate::metrics_api::CONTROLLER,
    &crate::persistent_volume_binder::CONTROLLER,
    &crate::persistent_volume_expander::CONTROLLER,
    &crate::pvc_protection::CONTROLLER,
    &crate::pv_protection::CONTROLLER,
    &crate::vac_protection::CONTROLLER,
    &crate::ephemeral_volume::CONTROLLER,
    &crate::stateful_set::CONTROLLER,
    &crate::daemon_set::CONTROLLER,
    &crate::certificate_approver::CONTROLLER,
    &crate::certificate_signer::CONTROLLER,
    &crate::certificate_cleaner::CONTROLLER,
    &crate::job::CONTROLLER,
    &crate::cron_job::CONTROLLER,
    &crate::cluster_role_aggregation::CONTROLLER,
];

/// A user and its permissions.
#[derive(Debug, Clone)]
pub struct Role {
    /// The user.
    pub identity: Identity,
    /// What the user may do.
    pub rules: &'static [PolicyRule],
}

/// The rules of the user that fills the shared caches.
const CACHE_RULES: &[PolicyRule] = &[PolicyRule::new(&["*"], &["*"], &["get", "list", "watch"])];

/// The rules of every controller.
const COMMON_RULES: &[PolicyRule] =
    &[PolicyRule::new(&["", "events.k8s.io"], &["events"], &["create", "patch", "update"])];

/// The permissions of all controllers.
pub fn roles() -> Vec<Role> {
    let mut roles = vec![Role { identity: cache_identity(), rules: CACHE_RULES }];
    for controller in CONTROLLERS {
        roles.push(Role { identity: controller.identity(), rules: controller.rules });
        roles.push(Role { identity: controller.identity(), rules: COMMON_RULES });
    }
    roles
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names = BTreeSet::new();
        for controller in CONTROLLERS {
            let short = controller.name.strip_suffix("-controller");
            let own = controller.aliases.iter().copied().chain([controller.name]).chain(short);
            for name in own {
                assert!(names.insert(name), "{name} is used twice");
            }
        }
    }
}
