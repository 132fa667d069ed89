//! The table of all controllers: their names, their rights, and the functions that add them to a
//! manager.

use crate::controller_context::ControllerContext;
use crate::controller_manager::cache_identity;
use crate::{cron_job, job, replica_set};
use machinery::PolicyRule;
use runtime::client::Identity;

/// A built-in controller.
#[derive(Debug)]
pub struct ControllerDescriptor {
    /// The name in `--controllers`, as in Kubernetes: `replicaset-controller`.
    pub name: &'static str,
    /// Other names in `--controllers`, besides the name without `-controller`.
    pub aliases: &'static [&'static str],
    /// The permissions for its writes, and for reads that are not served by the shared caches.
    pub rules: &'static [PolicyRule],
    /// Adds the controller to the manager of its context.
    pub(crate) start: fn(&ControllerContext),
}

impl ControllerDescriptor {
    /// The user of the controller's requests.
    pub fn identity(&self) -> Identity {
        Identity::service_account(self.name)
    }
}

/// All controllers, in the order in which they start.
pub const CONTROLLERS: &[&ControllerDescriptor] = &[
    &replica_set::CONTROLLER,
    &replica_set::REPLICATION_CONTROLLER,
    &job::CONTROLLER,
    &cron_job::CONTROLLER,
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
            let short = controller.name.trim_end_matches("-controller");
            for name in controller.aliases.iter().copied().chain([controller.name, short]) {
                assert!(names.insert(name), "{name} is used twice");
            }
        }
    }
}
