//! The bindings other than those of controllers, whose rows follow from their roles.

use std::borrow::Cow;

use super::BootstrapSubject::{Group, ServiceAccount, User};
use super::{BootstrapBinding, BootstrapSubject};

const CONTROLLER_MANAGER: BootstrapSubject = User("system:kube-controller-manager");
const SCHEDULER: BootstrapSubject = User("system:kube-scheduler");
const AUTHENTICATED: BootstrapSubject = Group(crate::auth::authentication::AUTHENTICATED);
const UNAUTHENTICATED: BootstrapSubject = Group(crate::auth::authentication::UNAUTHENTICATED);

/// The bindings.
pub(super) const BINDINGS: &[BootstrapBinding] = &[
    everywhere("cluster-admin", &[Group("system:masters")]),
    everywhere("system:basic-user", &[AUTHENTICATED]),
    everywhere("system:discovery", &[AUTHENTICATED]),
    everywhere("system:kube-controller-manager", &[CONTROLLER_MANAGER]),
    everywhere("system:kube-dns", &[ServiceAccount("kube-dns")]),
    everywhere("system:kube-scheduler", &[SCHEDULER]),
    everywhere("system:monitoring", &[Group("system:monitoring")]),
    // The node authorizer grants the rights of nodes.
    everywhere("system:node", &[]),
    everywhere("system:node-proxier", &[User("system:kube-proxy")]),
    everywhere("system:public-info-viewer", &[AUTHENTICATED, UNAUTHENTICATED]),
    everywhere("system:service-account-issuer-discovery", &[Group("system:serviceaccounts")]),
    everywhere("system:volume-scheduler", &[SCHEDULER]),
    within(
        "kube-public",
        "system:controller:bootstrap-signer",
        &[ServiceAccount("bootstrap-signer")],
    ),
    BootstrapBinding {
        namespace: "kube-system",
        name: "system::extension-apiserver-authentication-reader",
        role: "extension-apiserver-authentication-reader",
        subjects: Cow::Borrowed(&[CONTROLLER_MANAGER, SCHEDULER]),
    },
    within(
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        &[
            CONTROLLER_MANAGER,
            ServiceAccount("kube-controller-manager"),
            ServiceAccount("leader-election-controller"),
        ],
    ),
    within(
        "kube-system",
        "system::leader-locking-kube-scheduler",
        &[SCHEDULER, ServiceAccount("kube-scheduler")],
    ),
    within(
        "kube-system",
        "system:controller:bootstrap-signer",
        &[ServiceAccount("bootstrap-signer")],
    ),
    within("kube-system", "system:controller:cloud-provider", &[ServiceAccount("cloud-provider")]),
    within("kube-system", "system:controller:token-cleaner", &[ServiceAccount("token-cleaner")]),
];

/// The binding of the `ClusterRole` of the same name.
const fn everywhere(name: &'static str, subjects: &'static [BootstrapSubject]) -> BootstrapBinding {
    within("", name, subjects)
}

/// The binding of the `Role` of the same name in the namespace.
const fn within(
    namespace: &'static str,
    name: &'static str,
    subjects: &'static [BootstrapSubject],
) -> BootstrapBinding {
    BootstrapBinding { namespace, name, role: name, subjects: Cow::Borrowed(subjects) }
}
