//! The roles of the controllers of workloads, of their services and of their volumes.

use super::BootstrapRole;
use super::terms::{
    ALL, APPS, APPS_AND_EXTENSIONS, AUTOSCALING, BATCH, CORE, CREATE, DISCOVERY, EVENTS, GET,
    LIST_WATCH, PATCH_UPDATE, POLICY, READ, READ_PATCH_UPDATE, READ_UPDATE, RESOURCE, STORAGE,
    UPDATE, rule,
};

/// The roles of the controllers of workloads, services and volumes.
pub(super) const WORKLOAD_CONTROLLER_ROLES: &[BootstrapRole] = &[
    BootstrapRole {
        name: "system:controller:attachdetach-controller",
        rules: &[
            rule(CORE, &["persistentvolumeclaims", "persistentvolumes"], LIST_WATCH),
            rule(CORE, &["nodes"], READ),
            rule(CORE, &["nodes/status"], PATCH_UPDATE),
            rule(CORE, &["pods"], LIST_WATCH),
            EVENTS,
            rule(STORAGE, &["volumeattachments"], &["create", "delete", "get", "list", "watch"]),
            rule(STORAGE, &["csidrivers"], READ),
            rule(STORAGE, &["csinodes"], READ),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:cronjob-controller",
        rules: &[
            rule(BATCH, &["cronjobs"], READ_UPDATE),
            rule(
                BATCH,
                &["jobs"],
                &["create", "delete", "get", "list", "patch", "update", "watch"],
            ),
            rule(BATCH, &["cronjobs/status"], UPDATE),
            rule(BATCH, &["cronjobs/finalizers"], UPDATE),
            rule(CORE, &["pods"], &["delete", "list", "watch"]),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:daemon-set-controller",
        rules: &[
            rule(APPS_AND_EXTENSIONS, &["daemonsets"], READ),
            rule(APPS_AND_EXTENSIONS, &["daemonsets/status"], UPDATE),
            rule(APPS_AND_EXTENSIONS, &["daemonsets/finalizers"], UPDATE),
            rule(CORE, &["nodes"], LIST_WATCH),
            rule(CORE, &["pods"], &["create", "delete", "list", "patch", "watch"]),
            rule(CORE, &["pods/binding"], CREATE),
            rule(
                APPS,
                &["controllerrevisions"],
                &["create", "delete", "get", "list", "patch", "update", "watch"],
            ),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:deployment-controller",
        rules: &[
            rule(APPS_AND_EXTENSIONS, &["deployments"], READ_UPDATE),
            rule(APPS_AND_EXTENSIONS, &["deployments/status"], UPDATE),
            rule(APPS_AND_EXTENSIONS, &["deployments/finalizers"], UPDATE),
            rule(
                APPS_AND_EXTENSIONS,
                &["replicasets"],
                &["create", "delete", "get", "list", "patch", "update", "watch"],
            ),
            rule(CORE, &["pods"], READ_UPDATE),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:disruption-controller",
        rules: &[
            rule(APPS_AND_EXTENSIONS, &["deployments"], READ),
            rule(APPS_AND_EXTENSIONS, &["replicasets"], READ),
            rule(CORE, &["replicationcontrollers"], READ),
            rule(POLICY, &["poddisruptionbudgets"], READ),
            rule(APPS, &["statefulsets"], READ),
            rule(POLICY, &["poddisruptionbudgets/status"], UPDATE),
            rule(CORE, &["pods/status"], PATCH_UPDATE),
            rule(ALL, &["*/scale"], GET),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:endpoint-controller",
        rules: &[
            rule(CORE, &["pods", "services"], READ),
            rule(CORE, &["endpoints"], &["create", "delete", "get", "list", "update", "watch"]),
            rule(CORE, &["endpoints/restricted"], CREATE),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:endpointslice-controller",
        rules: &[
            rule(CORE, &["nodes", "pods", "services"], READ),
            // To own objects with `blockOwnerDeletion`, here and in other roles.
            rule(CORE, &["services/finalizers"], UPDATE),
            rule(
                DISCOVERY,
                &["endpointslices"],
                &["create", "delete", "get", "list", "update", "watch"],
            ),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:endpointslicemirroring-controller",
        rules: &[
            rule(CORE, &["endpoints", "services"], READ),
            rule(CORE, &["services/finalizers"], UPDATE),
            rule(CORE, &["endpoints/finalizers"], UPDATE),
            rule(
                DISCOVERY,
                &["endpointslices"],
                &["create", "delete", "get", "list", "update", "watch"],
            ),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:ephemeral-volume-controller",
        rules: &[
            rule(CORE, &["pods"], READ),
            rule(CORE, &["pods/finalizers"], UPDATE),
            rule(CORE, &["persistentvolumeclaims"], &["create", "get", "list", "watch"]),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:expand-controller",
        rules: &[
            rule(CORE, &["persistentvolumes"], READ_PATCH_UPDATE),
            rule(CORE, &["persistentvolumeclaims/status"], PATCH_UPDATE),
            rule(CORE, &["persistentvolumeclaims"], READ),
            EVENTS,
            rule(CORE, &["services"], GET),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:horizontal-pod-autoscaler",
        rules: &[
            rule(AUTOSCALING, &["horizontalpodautoscalers"], READ),
            rule(AUTOSCALING, &["horizontalpodautoscalers/status"], UPDATE),
            rule(ALL, &["*/scale"], &["get", "update"]),
            rule(CORE, &["pods"], LIST_WATCH),
            rule(&["metrics.k8s.io"], &["pods"], LIST_WATCH),
            rule(&["custom.metrics.k8s.io"], ALL, READ),
            rule(&["external.metrics.k8s.io"], ALL, READ),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:job-controller",
        rules: &[
            rule(BATCH, &["jobs"], READ_PATCH_UPDATE),
            rule(BATCH, &["jobs/status"], UPDATE),
            rule(BATCH, &["jobs/finalizers"], UPDATE),
            rule(CORE, &["pods"], &["create", "delete", "list", "patch", "watch"]),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:persistent-volume-binder",
        rules: &[
            rule(
                CORE,
                &["persistentvolumes"],
                &["create", "delete", "get", "list", "update", "watch"],
            ),
            rule(CORE, &["persistentvolumes/status"], UPDATE),
            rule(CORE, &["persistentvolumeclaims"], READ_UPDATE),
            rule(CORE, &["persistentvolumeclaims/status"], UPDATE),
            rule(CORE, &["pods"], &["create", "delete", "get", "list", "watch"]),
            rule(STORAGE, &["storageclasses"], READ),
            rule(CORE, &["nodes"], LIST_WATCH),
            EVENTS,
            rule(CORE, &["events"], &["watch"]),
            rule(CORE, &["services"], GET),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:pod-garbage-collector",
        rules: &[
            rule(CORE, &["pods"], &["delete", "list", "watch"]),
            rule(CORE, &["nodes"], READ),
            rule(CORE, &["pods/status"], &["patch"]),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:pv-protection-controller",
        rules: &[rule(CORE, &["persistentvolumes"], READ_UPDATE), EVENTS],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:pvc-protection-controller",
        rules: &[
            rule(CORE, &["persistentvolumeclaims"], READ_UPDATE),
            rule(CORE, &["pods"], READ),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:replicaset-controller",
        rules: &[
            rule(APPS_AND_EXTENSIONS, &["replicasets"], READ_UPDATE),
            rule(APPS_AND_EXTENSIONS, &["replicasets/status"], UPDATE),
            rule(APPS_AND_EXTENSIONS, &["replicasets/finalizers"], UPDATE),
            rule(CORE, &["pods"], &["create", "delete", "list", "patch", "watch"]),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:replication-controller",
        rules: &[
            rule(CORE, &["replicationcontrollers"], READ_UPDATE),
            rule(CORE, &["replicationcontrollers/status"], UPDATE),
            rule(CORE, &["replicationcontrollers/finalizers"], UPDATE),
            rule(CORE, &["pods"], &["create", "delete", "list", "patch", "watch"]),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:resource-claim-controller",
        rules: &[
            rule(CORE, &["pods"], READ),
            rule(CORE, &["pods/finalizers"], UPDATE),
            rule(RESOURCE, &["resourceclaims"], &["create", "delete", "get", "list", "watch"]),
            rule(RESOURCE, &["resourceclaims", "resourceclaims/status"], PATCH_UPDATE),
            rule(CORE, &["pods/status"], PATCH_UPDATE),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:selinux-warning-controller",
        rules: &[
            EVENTS,
            rule(CORE, &["persistentvolumes"], READ),
            rule(CORE, &["persistentvolumeclaims"], READ),
            rule(CORE, &["pods"], READ),
            rule(STORAGE, &["csidrivers"], READ),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:service-controller",
        rules: &[
            rule(CORE, &["services"], READ),
            rule(CORE, &["services/status"], PATCH_UPDATE),
            rule(CORE, &["nodes"], LIST_WATCH),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:statefulset-controller",
        rules: &[
            rule(CORE, &["pods"], LIST_WATCH),
            rule(APPS, &["statefulsets"], READ),
            rule(APPS, &["statefulsets/status"], UPDATE),
            rule(APPS, &["statefulsets/finalizers"], UPDATE),
            rule(CORE, &["pods"], &["create", "delete", "get", "patch", "update"]),
            rule(
                APPS,
                &["controllerrevisions"],
                &["create", "delete", "get", "list", "patch", "update", "watch"],
            ),
            rule(CORE, &["persistentvolumeclaims"], &["create", "get", "list", "watch"]),
            rule(CORE, &["persistentvolumeclaims"], &["delete", "update"]),
            rule(CORE, &["pods/finalizers"], UPDATE),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:ttl-after-finished-controller",
        rules: &[rule(BATCH, &["jobs"], &["delete", "get", "list", "watch"]), EVENTS],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:volumeattributesclass-protection-controller",
        rules: &[
            rule(CORE, &["persistentvolumeclaims"], READ),
            rule(CORE, &["persistentvolumes"], READ),
            rule(STORAGE, &["volumeattributesclasses"], READ_UPDATE),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
];
