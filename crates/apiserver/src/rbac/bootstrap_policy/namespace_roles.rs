//! The roles within the namespaces of the system.

use super::BootstrapRole;
use super::terms::{COORDINATION, CORE, EVENTS, READ, UPDATE, rule};

/// The roles in namespaces.
pub(super) const NAMESPACE_ROLES: &[BootstrapRole] = &[
    BootstrapRole {
        namespace: "kube-public",
        name: "system:controller:bootstrap-signer",
        rules: &[
            rule(CORE, &["configmaps"], READ),
            rule(CORE, &["configmaps"], UPDATE).for_names(&["cluster-info"]),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        namespace: "kube-system",
        name: "extension-apiserver-authentication-reader",
        rules: &[
            rule(CORE, &["configmaps"], READ).for_names(&["extension-apiserver-authentication"])
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        namespace: "kube-system",
        name: "system::leader-locking-kube-controller-manager",
        rules: &[
            rule(COORDINATION, &["leases"], &["create", "get", "list", "update", "watch"]),
            rule(COORDINATION, &["leasecandidates"], &["create", "get", "list", "update", "watch"]),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        namespace: "kube-system",
        name: "system::leader-locking-kube-scheduler",
        rules: &[
            rule(COORDINATION, &["leases"], &["create", "get", "list", "update", "watch"]),
            rule(COORDINATION, &["leasecandidates"], &["create", "get", "list", "update", "watch"]),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        namespace: "kube-system",
        name: "system:controller:bootstrap-signer",
        rules: &[rule(CORE, &["secrets"], READ)],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        namespace: "kube-system",
        name: "system:controller:cloud-provider",
        rules: &[rule(CORE, &["configmaps"], &["create", "get", "list", "watch"])],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        namespace: "kube-system",
        name: "system:controller:token-cleaner",
        rules: &[rule(CORE, &["secrets"], &["delete", "get", "list", "watch"]), EVENTS],
        ..BootstrapRole::EMPTY
    },
];
