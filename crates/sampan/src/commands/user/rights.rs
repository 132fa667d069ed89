//! [`missing`]: the rights that a command takes and its user lacks, all at once, and before anything is
//! made.

use std::fmt;

use futures_util::future::join_all;
use kube_client::Client;

use client::json_requests::create;
use machinery::{Value, json};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

const CERTIFICATES: &str = "certificates.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// A right on a resource.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Right<'a> {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    /// Empty for all namespaces, and for resources outside of namespaces.
    namespace: &'a str,
    /// The object; empty for all of them.
    name: &'static str,
    /// Another name whose right includes this one.
    or_name: &'static str,
}

/// The rights that `sampan user add` takes for a certificate.
const FOR_A_CERTIFICATE: [Right<'_>; 8] = [
    right("create", CERTIFICATES, "certificatesigningrequests"),
    right("get", CERTIFICATES, "certificatesigningrequests"),
    Right {
        subresource: "approval",
        ..right("update", CERTIFICATES, "certificatesigningrequests")
    },
    Right {
        name: "kubernetes.io/kube-apiserver-client",
        or_name: "kubernetes.io/*",
        ..right("approve", CERTIFICATES, "signers")
    },
    right("list", RBAC, "clusterrolebindings"),
    right("list", RBAC, "rolebindings"),
    of_records("get"),
    of_records("patch"),
];

/// The rights that it takes besides for a role. `bind` is not among them: whoever has the rights of the
/// role needs none.
const FOR_A_ROLE: [&str; 4] = ["create", "get", "patch", "delete"];

const fn right(verb: &'static str, group: &'static str, resource: &'static str) -> Right<'static> {
    Right { verb, group, resource, subresource: "", namespace: "", name: "", or_name: "" }
}

const fn of_records(verb: &'static str) -> Right<'static> {
    Right { namespace: "kube-system", name: "sampan-users", ..right(verb, "", "configmaps") }
}

/// The rights that `sampan user add` takes; with a role, those to give it in a namespace or in the
/// cluster.
pub(super) fn of_add(has_role: bool, namespace: Option<&str>) -> Vec<Right<'_>> {
    let mut rights: Vec<Right<'_>> = FOR_A_CERTIFICATE.to_vec();
    rights.push(Right { namespace: "kube-system", ..right("create", "", "configmaps") });
    if has_role {
        rights.push(right("list", RBAC, "clusterroles"));
        let resource = if namespace.is_some() { "rolebindings" } else { "clusterrolebindings" };
        let namespace = namespace.unwrap_or_default();
        rights.extend(FOR_A_ROLE.map(|verb| Right { namespace, ..right(verb, RBAC, resource) }));
    }
    rights
}

/// The rights that the user of the client lacks.
pub(super) async fn missing<'a>(client: &Client, rights: &[Right<'a>]) -> Vec<Right<'a>> {
    let held = join_all(rights.iter().map(|it| it.is_held(client))).await;
    rights.iter().zip(held).filter(|(_, is_held)| !is_held).map(|(right, _)| *right).collect()
}

impl Right<'_> {
    /// Whether the user of the client has it, as far as the server says.
    async fn is_held(&self, client: &Client) -> bool {
        for name in [self.name, self.or_name] {
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {
                    "verb": self.verb,
                    "group": self.group,
                    "resource": self.resource,
                    "subresource": self.subresource,
                    "namespace": self.namespace,
                    "name": name,
                }},
            });
            match create::<Value>(client, REVIEWS, &review).await {
                Ok(reviewed) if reviewed["status"]["allowed"] != true => {}
                _ => return true,
            }
            if self.or_name.is_empty() {
                break;
            }
        }
        false
    }
}

impl fmt::Display for Right<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        for (before, part) in [
            (".", self.group),
            ("/", self.subresource),
            (" ", self.name),
            (" in namespace ", self.namespace),
        ] {
            if !part.is_empty() {
                write!(f, "{before}{part}")?;
            }
        }
        Ok(())
    }
}
