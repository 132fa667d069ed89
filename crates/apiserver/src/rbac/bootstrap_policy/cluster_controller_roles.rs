//! The roles of the controllers of the cluster itself: nodes, namespaces, accounts, certificates,
//! addresses and policies.

use super::BootstrapRole;
use super::terms::{
    ALL, AUTHORIZATION, CERTIFICATES, CORE, CREATE, EVENTS, GET, LIST_WATCH, NETWORKING,
    PATCH_UPDATE, RBAC, READ, READ_PATCH_UPDATE, UPDATE, rule,
};

/// The roles of the controllers of the cluster.
pub(super) const CLUSTER_CONTROLLER_ROLES: &[BootstrapRole] = &[
    BootstrapRole {
        name: "system:controller:certificate-controller",
        rules: &[
            rule(
                CERTIFICATES,
                &["certificatesigningrequests"],
                &["delete", "get", "list", "watch"],
            ),
            rule(
                CERTIFICATES,
                &["certificatesigningrequests/approval", "certificatesigningrequests/status"],
                UPDATE,
            ),
            rule(CERTIFICATES, &["signers"], &["approve"])
                .for_names(&["kubernetes.io/kube-apiserver-client-kubelet"]),
            rule(CERTIFICATES, &["signers"], &["sign"]).for_names(&[
                "kubernetes.io/kube-apiserver-client",
                "kubernetes.io/kube-apiserver-client-kubelet",
                "kubernetes.io/kubelet-serving",
                "kubernetes.io/legacy-unknown",
            ]),
            rule(AUTHORIZATION, &["subjectaccessreviews"], CREATE),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:clusterrole-aggregation-controller",
        rules: &[
            // Aggregates rules that it does not have itself.
            rule(RBAC, &["clusterroles"], &["escalate", "get", "list", "patch", "update", "watch"]),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:generic-garbage-collector",
        rules: &[rule(ALL, ALL, &["delete", "get", "list", "patch", "update", "watch"]), EVENTS],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:legacy-service-account-token-cleaner",
        rules: &[
            // The date since which the use of tokens is recorded.
            rule(CORE, &["configmaps"], GET)
                .for_names(&["kube-apiserver-legacy-service-account-token-tracking"]),
            rule(CORE, &["secrets"], &["delete", "patch"]),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:namespace-controller",
        rules: &[
            rule(CORE, &["namespaces"], &["delete", "get", "list", "watch"]),
            rule(CORE, &["namespaces/finalize", "namespaces/status"], UPDATE),
            rule(ALL, ALL, &["delete", "deletecollection", "get", "list", "watch"]),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:node-controller",
        rules: &[
            rule(CORE, &["nodes"], &["delete", "get", "list", "patch", "update", "watch"]),
            rule(CORE, &["nodes/status"], PATCH_UPDATE),
            rule(CORE, &["pods/status"], PATCH_UPDATE),
            rule(CORE, &["pods"], &["delete", "get", "list", "watch"]),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:resourcequota-controller",
        rules: &[
            rule(ALL, ALL, LIST_WATCH),
            rule(CORE, &["resourcequotas/status"], UPDATE),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:root-ca-cert-publisher",
        rules: &[rule(CORE, &["configmaps"], &["create", "update"]), EVENTS],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:route-controller",
        rules: &[
            rule(CORE, &["nodes"], LIST_WATCH),
            rule(CORE, &["nodes/status"], &["patch"]),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:service-account-controller",
        rules: &[rule(CORE, &["serviceaccounts"], CREATE), EVENTS],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:service-cidrs-controller",
        rules: &[
            rule(NETWORKING, &["servicecidrs"], READ_PATCH_UPDATE),
            rule(NETWORKING, &["servicecidrs/finalizers"], PATCH_UPDATE),
            rule(NETWORKING, &["servicecidrs/status"], PATCH_UPDATE),
            rule(NETWORKING, &["ipaddresses"], READ),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:ttl-controller",
        rules: &[rule(CORE, &["nodes"], &["list", "patch", "update", "watch"]), EVENTS],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:controller:validatingadmissionpolicy-status-controller",
        rules: &[
            rule(&["admissionregistration.k8s.io"], &["validatingadmissionpolicies"], READ),
            rule(
                &["admissionregistration.k8s.io"],
                &["validatingadmissionpolicies/status"],
                &["get", "patch", "update"],
            ),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
];
