//! The roles of users: `cluster-admin`, `admin`, `edit` and `view`, and the roles that the last three
//! aggregate.

use super::terms::{
    ALL, APPS, AUTHORIZATION, AUTOSCALING, BATCH, COORDINATION, CORE, CORE_AND_EVENTS, CREATE,
    DISCOVERY, EXTENSIONS, NETWORKING, POLICY, RBAC, READ, READ_WRITE, RESOURCE, WRITE, rule,
};
use super::{BootstrapRole, TO_ADMIN, TO_EDIT, TO_VIEW};
use machinery::PolicyRule;

/// The roles of users.
pub(super) const USER_ROLES: &[BootstrapRole] = &[
    // All rights.
    BootstrapRole {
        name: "cluster-admin",
        rules: &[rule(ALL, ALL, ALL), PolicyRule::on_urls(ALL, ALL)],
        ..BootstrapRole::EMPTY
    },
    // The rights of `edit`, and the right to grant them to others in the namespace.
    BootstrapRole { name: "admin", aggregates: &[TO_ADMIN], ..BootstrapRole::EMPTY },
    // Everything in a namespace but its quota, its limits, its roles and the status of objects.
    BootstrapRole {
        name: "edit",
        labels: &[TO_ADMIN],
        aggregates: &[TO_EDIT],
        ..BootstrapRole::EMPTY
    },
    // Reading in a namespace, except for what leads to further rights, such as secrets.
    BootstrapRole {
        name: "view",
        labels: &[TO_EDIT],
        aggregates: &[TO_VIEW],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:aggregate-to-admin",
        labels: &[TO_ADMIN],
        rules: &[
            rule(AUTHORIZATION, &["localsubjectaccessreviews"], CREATE),
            rule(RBAC, &["rolebindings", "roles"], READ_WRITE),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:aggregate-to-edit",
        labels: &[TO_EDIT],
        rules: &[
            rule(
                CORE,
                &[
                    "pods/attach",
                    "pods/exec",
                    "pods/portforward",
                    "pods/proxy",
                    "secrets",
                    "services/proxy",
                ],
                READ,
            ),
            rule(CORE, &["serviceaccounts"], &["impersonate"]),
            rule(
                CORE,
                &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"],
                WRITE,
            ),
            rule(CORE, &["pods/eviction"], CREATE),
            rule(
                CORE,
                &[
                    "configmaps",
                    "persistentvolumeclaims",
                    "replicationcontrollers",
                    "replicationcontrollers/scale",
                    "secrets",
                    "serviceaccounts",
                    "services",
                    "services/proxy",
                ],
                WRITE,
            ),
            rule(CORE, &["serviceaccounts/token"], CREATE),
            rule(CORE_AND_EVENTS, &["events"], WRITE),
            rule(
                APPS,
                &[
                    "daemonsets",
                    "deployments",
                    "deployments/rollback",
                    "deployments/scale",
                    "replicasets",
                    "replicasets/scale",
                    "statefulsets",
                    "statefulsets/scale",
                ],
                WRITE,
            ),
            rule(AUTOSCALING, &["horizontalpodautoscalers"], WRITE),
            rule(BATCH, &["cronjobs", "jobs"], WRITE),
            rule(
                EXTENSIONS,
                &[
                    "daemonsets",
                    "deployments",
                    "deployments/rollback",
                    "deployments/scale",
                    "ingresses",
                    "networkpolicies",
                    "replicasets",
                    "replicasets/scale",
                    "replicationcontrollers/scale",
                ],
                WRITE,
            ),
            rule(POLICY, &["poddisruptionbudgets"], WRITE),
            rule(NETWORKING, &["ingresses", "networkpolicies"], WRITE),
            rule(COORDINATION, &["leases"], READ_WRITE),
            rule(RESOURCE, &["resourceclaims", "resourceclaimtemplates"], WRITE),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:aggregate-to-view",
        labels: &[TO_VIEW],
        rules: &[
            rule(
                CORE,
                &[
                    "configmaps",
                    "endpoints",
                    "persistentvolumeclaims",
                    "persistentvolumeclaims/status",
                    "pods",
                    "replicationcontrollers",
                    "replicationcontrollers/scale",
                    "serviceaccounts",
                    "services",
                    "services/status",
                ],
                READ,
            ),
            rule(
                CORE,
                &[
                    "bindings",
                    "limitranges",
                    "namespaces/status",
                    "pods/log",
                    "pods/status",
                    "replicationcontrollers/status",
                    "resourcequotas",
                    "resourcequotas/status",
                ],
                READ,
            ),
            // Within a namespace, this is the right to read the namespace itself.
            rule(CORE, &["namespaces"], READ),
            rule(CORE_AND_EVENTS, &["events"], READ),
            rule(DISCOVERY, &["endpointslices"], READ),
            rule(
                APPS,
                &[
                    "controllerrevisions",
                    "daemonsets",
                    "daemonsets/status",
                    "deployments",
                    "deployments/scale",
                    "deployments/status",
                    "replicasets",
                    "replicasets/scale",
                    "replicasets/status",
                    "statefulsets",
                    "statefulsets/scale",
                    "statefulsets/status",
                ],
                READ,
            ),
            rule(
                AUTOSCALING,
                &["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
                READ,
            ),
            rule(BATCH, &["cronjobs", "cronjobs/status", "jobs", "jobs/status"], READ),
            rule(
                EXTENSIONS,
                &[
                    "daemonsets",
                    "daemonsets/status",
                    "deployments",
                    "deployments/scale",
                    "deployments/status",
                    "ingresses",
                    "ingresses/status",
                    "networkpolicies",
                    "replicasets",
                    "replicasets/scale",
                    "replicasets/status",
                    "replicationcontrollers/scale",
                ],
                READ,
            ),
            rule(POLICY, &["poddisruptionbudgets", "poddisruptionbudgets/status"], READ),
            rule(NETWORKING, &["ingresses", "ingresses/status", "networkpolicies"], READ),
            rule(
                RESOURCE,
                &["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"],
                READ,
            ),
        ],
        ..BootstrapRole::EMPTY
    },
];
