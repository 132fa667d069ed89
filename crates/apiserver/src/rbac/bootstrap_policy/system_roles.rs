//! The roles of the components of a cluster, and of all authenticated users: `system:*`.

use super::BootstrapRole;
use super::terms::{
    ALL, APPS, APPS_AND_EXTENSIONS, AUTHENTICATION, AUTHORIZATION, CERTIFICATES, COORDINATION,
    CORE, CREATE, DISCOVERY, EVENTS, EXTENSIONS, GET, LIST_WATCH, NETWORKING, PATCH_UPDATE, POLICY,
    READ, READ_PATCH_UPDATE, READ_UPDATE, READ_WRITE, RESOURCE, STORAGE, UPDATE, rule,
};
use machinery::PolicyRule;

/// The roles of components.
pub(super) const SYSTEM_ROLES: &[BootstrapRole] = &[
    BootstrapRole {
        name: "system:auth-delegator",
        rules: &[
            rule(AUTHENTICATION, &["tokenreviews"], CREATE),
            rule(AUTHORIZATION, &["subjectaccessreviews"], CREATE),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:basic-user",
        rules: &[
            rule(AUTHORIZATION, &["selfsubjectaccessreviews", "selfsubjectrulesreviews"], CREATE),
            rule(AUTHENTICATION, &["selfsubjectreviews"], CREATE),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        rules: &[rule(CERTIFICATES, &["certificatesigningrequests/nodeclient"], CREATE)],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        rules: &[rule(CERTIFICATES, &["certificatesigningrequests/selfnodeclient"], CREATE)],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:certificates.k8s.io:kube-apiserver-client-approver",
        rules: &[rule(CERTIFICATES, &["signers"], &["approve"])
            .for_names(&["kubernetes.io/kube-apiserver-client"])],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        rules: &[rule(CERTIFICATES, &["signers"], &["approve"])
            .for_names(&["kubernetes.io/kube-apiserver-client-kubelet"])],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:certificates.k8s.io:kubelet-serving-approver",
        rules: &[rule(CERTIFICATES, &["signers"], &["approve"])
            .for_names(&["kubernetes.io/kubelet-serving"])],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:certificates.k8s.io:legacy-unknown-approver",
        rules: &[rule(CERTIFICATES, &["signers"], &["approve"])
            .for_names(&["kubernetes.io/legacy-unknown"])],
        ..BootstrapRole::EMPTY
    },
    // What a client needs in order to negotiate versions.
    BootstrapRole {
        name: "system:discovery",
        rules: &[PolicyRule::on_urls(
            &[
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/healthz",
                "/livez",
                "/openapi",
                "/openapi/*",
                "/readyz",
                "/version",
                "/version/",
            ],
            GET,
        )],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:heapster",
        rules: &[
            rule(CORE, &["events", "namespaces", "nodes", "pods"], READ),
            rule(EXTENSIONS, &["deployments"], READ),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:kube-aggregator",
        rules: &[rule(CORE, &["endpoints", "services"], READ)],
        ..BootstrapRole::EMPTY
    },
    // The process; each controller has a service account and a role of its own.
    BootstrapRole {
        name: "system:kube-controller-manager",
        rules: &[
            EVENTS,
            rule(COORDINATION, &["leases"], CREATE),
            rule(COORDINATION, &["leases"], &["get", "update"])
                .for_names(&["kube-controller-manager"]),
            rule(CORE, &["secrets", "serviceaccounts"], CREATE),
            rule(CORE, &["secrets"], &["delete"]),
            rule(CORE, &["configmaps", "namespaces", "secrets", "serviceaccounts"], GET),
            rule(CORE, &["secrets", "serviceaccounts"], UPDATE),
            rule(AUTHENTICATION, &["tokenreviews"], CREATE),
            rule(AUTHORIZATION, &["subjectaccessreviews"], CREATE),
            // The informers, which all controllers share.
            rule(ALL, ALL, LIST_WATCH),
            rule(CORE, &["serviceaccounts/token"], CREATE),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:kube-dns",
        rules: &[rule(CORE, &["endpoints", "services"], LIST_WATCH)],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:kube-scheduler",
        rules: &[
            EVENTS,
            rule(COORDINATION, &["leases"], CREATE),
            rule(COORDINATION, &["leases"], READ_UPDATE).for_names(&["kube-scheduler"]),
            rule(COORDINATION, &["leasecandidates"], READ_WRITE),
            rule(CORE, &["nodes"], READ),
            rule(CORE, &["pods"], &["delete", "get", "list", "watch"]),
            rule(CORE, &["bindings", "pods/binding"], CREATE),
            rule(CORE, &["pods/status"], PATCH_UPDATE),
            rule(CORE, &["replicationcontrollers", "services"], READ),
            rule(APPS_AND_EXTENSIONS, &["replicasets"], READ),
            rule(APPS, &["statefulsets"], READ),
            rule(POLICY, &["poddisruptionbudgets"], READ),
            rule(CORE, &["persistentvolumeclaims", "persistentvolumes"], READ),
            rule(AUTHENTICATION, &["tokenreviews"], CREATE),
            rule(AUTHORIZATION, &["subjectaccessreviews"], CREATE),
            rule(STORAGE, &["csinodes"], READ),
            rule(STORAGE, &["volumeattachments"], READ),
            rule(CORE, &["namespaces"], READ),
            rule(STORAGE, &["csidrivers"], READ),
            rule(STORAGE, &["csistoragecapacities"], READ),
            rule(RESOURCE, &["deviceclasses"], READ),
            rule(RESOURCE, &["resourceclaims"], READ_PATCH_UPDATE),
            rule(RESOURCE, &["resourceclaims/status"], READ_PATCH_UPDATE),
            rule(CORE, &["pods/finalizers"], UPDATE),
            rule(RESOURCE, &["resourceslices"], READ),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:kubelet-api-admin",
        rules: &[
            rule(CORE, &["nodes"], READ),
            rule(CORE, &["nodes"], &["proxy"]),
            rule(CORE, &["nodes/log", "nodes/metrics", "nodes/proxy", "nodes/stats"], ALL),
            rule(CORE, &["nodes/configz", "nodes/healthz", "nodes/pods"], ALL),
        ],
        ..BootstrapRole::EMPTY
    },
    // The individual health checks are here, because they may tell more than `/healthz` does.
    BootstrapRole {
        name: "system:monitoring",
        rules: &[
            PolicyRule::on_urls(
                &[
                    "/healthz",
                    "/healthz/*",
                    "/livez",
                    "/livez/*",
                    "/metrics",
                    "/metrics/slis",
                    "/readyz",
                    "/readyz/*",
                ],
                GET,
            ),
            rule(CORE, &["nodes/metrics"], GET),
        ],
        ..BootstrapRole::EMPTY
    },
    // The node authorizer and the admission plugin `NodeRestriction` limit a node to its own objects.
    // The default binding of this role has no subjects.
    BootstrapRole {
        name: "system:node",
        rules: &[
            rule(AUTHENTICATION, &["tokenreviews"], CREATE),
            rule(AUTHORIZATION, &["localsubjectaccessreviews", "subjectaccessreviews"], CREATE),
            rule(CORE, &["services"], READ),
            rule(CORE, &["nodes"], &["create", "get", "list", "watch"]),
            rule(CORE, &["nodes/status"], PATCH_UPDATE),
            rule(CORE, &["nodes"], PATCH_UPDATE),
            EVENTS,
            rule(CORE, &["pods"], READ),
            rule(CORE, &["pods"], &["create", "delete"]),
            rule(CORE, &["pods/status"], PATCH_UPDATE),
            rule(CORE, &["pods/eviction"], CREATE),
            rule(CORE, &["configmaps", "secrets"], READ),
            rule(CORE, &["persistentvolumeclaims", "persistentvolumes"], GET),
            rule(CORE, &["endpoints"], GET),
            rule(
                CERTIFICATES,
                &["certificatesigningrequests"],
                &["create", "get", "list", "watch"],
            ),
            rule(COORDINATION, &["leases"], &["create", "delete", "get", "patch", "update"]),
            rule(STORAGE, &["volumeattachments"], GET),
            rule(CORE, &["serviceaccounts/token"], CREATE),
            rule(CORE, &["persistentvolumeclaims/status"], &["get", "patch", "update"]),
            rule(STORAGE, &["csidrivers"], READ),
            rule(STORAGE, &["csinodes"], &["create", "delete", "get", "patch", "update"]),
            rule(&["node.k8s.io"], &["runtimeclasses"], READ),
            rule(RESOURCE, &["resourceclaims"], GET),
            rule(RESOURCE, &["resourceslices"], &["deletecollection"]),
            rule(CORE, &["serviceaccounts"], GET),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:node-bootstrapper",
        rules: &[rule(
            CERTIFICATES,
            &["certificatesigningrequests"],
            &["create", "get", "list", "watch"],
        )],
        ..BootstrapRole::EMPTY
    },
    // Has no default binding, since it may run in any namespace.
    BootstrapRole {
        name: "system:node-problem-detector",
        rules: &[rule(CORE, &["nodes"], GET), rule(CORE, &["nodes/status"], &["patch"]), EVENTS],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:node-proxier",
        rules: &[
            rule(CORE, &["endpoints", "services"], LIST_WATCH),
            rule(CORE, &["nodes"], READ),
            EVENTS,
            rule(NETWORKING, &["servicecidrs"], LIST_WATCH),
            rule(DISCOVERY, &["endpointslices"], LIST_WATCH),
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:persistent-volume-provisioner",
        rules: &[
            rule(CORE, &["persistentvolumes"], &["create", "delete", "get", "list", "watch"]),
            rule(CORE, &["persistentvolumeclaims"], READ_UPDATE),
            rule(STORAGE, &["storageclasses"], READ),
            rule(CORE, &["events"], &["watch"]),
            EVENTS,
        ],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:public-info-viewer",
        rules: &[PolicyRule::on_urls(
            &["/healthz", "/livez", "/readyz", "/version", "/version/"],
            GET,
        )],
        ..BootstrapRole::EMPTY
    },
    // With and without a slash at the end: older generated clients send one.
    BootstrapRole {
        name: "system:service-account-issuer-discovery",
        rules: &[PolicyRule::on_urls(
            &[
                "/.well-known/openid-configuration",
                "/.well-known/openid-configuration/",
                "/openid/v1/jwks",
                "/openid/v1/jwks/",
            ],
            GET,
        )],
        ..BootstrapRole::EMPTY
    },
    BootstrapRole {
        name: "system:volume-scheduler",
        rules: &[
            rule(CORE, &["persistentvolumes"], READ_PATCH_UPDATE),
            rule(STORAGE, &["storageclasses"], READ),
            rule(CORE, &["persistentvolumeclaims"], READ_PATCH_UPDATE),
        ],
        ..BootstrapRole::EMPTY
    },
];
