//! [`NodeAuthorizer`]: a node may do what its kubelet needs. It reads the objects that its own pods
//! refer to, and no others.
//!
//! ```text
//! node ◀─ pod ◀─ secret, configmap, serviceaccount, resourceclaim, persistentvolumeclaim
//!                                                  persistentvolumeclaim ◀─ persistentvolume ◀─ secret
//! node ◀─ volumeattachment, resourceslice
//! ```
//!
//! The authorizer does not see the content of writes: the admission plugin `NodeRestriction` checks
//! that a node creates and changes its own objects only.
//!
//! Upstream: plugin/pkg/auth/authorizer/node

mod pod_references;
mod volume_references;
mod relations;
mod stored_relations;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;

use crate::auth::authentication::User;
use crate::auth::authorization::{
    Attributes, Authorization, Authorizer, Decision, ResourceAttributes, Rules,
};
use crate::cache::watch_cache::WatchCache;
use crate::rbac::bootstrap_policy;
use crate::storage::Storage;
use machinery::PolicyRule;
use machinery::field_path::quote;
use relations::Referenced;
use stored_relations::StoredRelations;

/// The namespace of the leases of nodes.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// See the [module documentation](self).
pub(crate) struct NodeAuthorizer {
    relations: Arc<StoredRelations>,
    cache: Arc<WatchCache>,
    /// The rules of the role `system:node`, for resources without rules of their own.
    rules: &'static [PolicyRule],
}

impl fmt::Debug for NodeAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeAuthorizer")
    }
}

/// The reason for which a node is not allowed to do something, which may be empty.
type Reason = Cow<'static, str>;

impl Authorizer for NodeAuthorizer {
    fn name(&self) -> &'static str {
        "node"
    }

    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
        let Some(node) = attributes.user.node_name() else {
            return Decision::no_opinion("").into();
        };
        if node.is_empty() {
            let user = quote(&attributes.user.name);
            return Decision::no_opinion(format!("unknown node for user {user}")).into();
        }
        // The role has no rules on other paths.
        let Some(target) = &attributes.resource else { return Decision::no_opinion("").into() };
        // The cache has everything that was written before the request in most cases.
        let is_caught_up = || matches!(self.cache.catch_up().now_or_never(), Some(Ok(())));
        if !depends_on_objects(target) || is_caught_up() {
            return self.decide(node, attributes.verb, target).into();
        }
        Authorization::Pending(Box::pin(async move {
            match self.cache.catch_up().await {
                Ok(()) => self.decide(node, attributes.verb, target),
                Err(error) => Decision::failed(error.to_string()),
            }
        }))
    }

    fn rules(&self, user: &User, _: &str, rules: &mut Rules) {
        if user.node_name().is_some() {
            rules.incomplete = true;
            let error = "node authorizer does not support user rule resolution";
            rules.evaluation_errors.push(error.to_owned());
        }
    }
}

impl NodeAuthorizer {
    /// The authorizer of a plane. It starts a task that keeps its index small.
    pub(crate) fn start(storage: &Storage) -> Self {
        let relations = Arc::new(StoredRelations::new(storage));
        let refresh = stored_relations::refresh(
            Arc::clone(&relations),
            storage.clock.clone(),
            storage.tasks.shutdown(),
        );
        storage.tasks.spawn("node-relations", refresh);
        let rules = bootstrap_policy::rules_of_cluster_role("system:node");
        Self { relations, cache: Arc::clone(&storage.cache), rules }
    }

    fn decide(&self, node: &str, verb: &str, target: &ResourceAttributes<'_>) -> Decision {
        match self.check(node, verb, target) {
            Ok(()) => Decision::allow(),
            Err(reason) => Decision::no_opinion(reason),
        }
    }

    fn check(&self, node: &str, verb: &str, target: &ResourceAttributes<'_>) -> Result<(), Reason> {
        match (target.group, target.resource) {
            ("", "secrets") => self.check_read(Referenced::Secret, node, verb, target),
            ("", "configmaps") => self.check_read(Referenced::ConfigMap, node, verb, target),
            ("", "persistentvolumeclaims") if target.subresource == "status" => {
                if !matches!(verb, "update" | "patch") {
                    return Err("can only get/update/patch this type".into());
                }
                self.check_referenced(Referenced::VolumeClaim, node, target)
            }
            ("", "persistentvolumeclaims") => {
                check_get(verb, target)?;
                self.check_referenced(Referenced::VolumeClaim, node, target)
            }
            ("", "persistentvolumes") => {
                check_get(verb, target)?;
                related(node, target, || self.relations.uses_volume(node, target.name))
            }
            ("resource.k8s.io", "resourceclaims") => {
                check_get(verb, target)?;
                self.check_referenced(Referenced::ResourceClaim, node, target)
            }
            ("storage.k8s.io", "volumeattachments") => {
                check_get(verb, target)?;
                related(node, target, || self.relations.has_attachment(node, target.name))
            }
            ("", "serviceaccounts") => self.check_service_account(node, verb, target),
            ("coordination.k8s.io", "leases") => check_lease(node, verb, target),
            ("storage.k8s.io", "csinodes") => check_csi_node(node, verb, target),
            ("resource.k8s.io", "resourceslices") => self.check_slice(node, verb, target),
            ("", "nodes") => check_node(node, verb, target),
            ("", "pods") => self.check_pod(node, verb, target),
            // Upstream: the feature `PodCertificateRequest` is off by default.
            ("certificates.k8s.io", "podcertificaterequests") => Err("".into()),
            _ => self.check_rules(verb, target),
        }
    }

    fn check_rules(&self, verb: &str, target: &ResourceAttributes<'_>) -> Result<(), Reason> {
        let is_allowed = self.rules.iter().any(|rule| {
            rule.allows(verb, target.group, target.resource, target.subresource)
                && rule.allows_name(target.name)
        });
        if is_allowed { Ok(()) } else { Err("".into()) }
    }

    fn check_referenced(
        &self,
        kind: Referenced,
        node: &str,
        target: &ResourceAttributes<'_>,
    ) -> Result<(), Reason> {
        related(node, target, || self.relations.refers(node, kind, target.namespace, target.name))
    }

    /// Checks a read of an object that pods refer to. A list or a watch of that object alone has its
    /// name in the field selector.
    fn check_read(
        &self,
        kind: Referenced,
        node: &str,
        verb: &str,
        target: &ResourceAttributes<'_>,
    ) -> Result<(), Reason> {
        if !matches!(verb, "get" | "list" | "watch") {
            return Err("can only read resources of this type".into());
        }
        if !target.subresource.is_empty() {
            return Err("cannot read subresource".into());
        }
        if target.namespace.is_empty() {
            return Err("can only read namespaced object of this type".into());
        }
        self.check_referenced(kind, node, target)
    }

    fn check_service_account(
        &self,
        node: &str,
        verb: &str,
        target: &ResourceAttributes<'_>,
    ) -> Result<(), Reason> {
        if verb == "get" && target.subresource.is_empty() {
            return self.check_read(Referenced::ServiceAccount, node, verb, target);
        }
        if verb != "create" || target.name.is_empty() {
            return Err("can only create tokens for individual service accounts".into());
        }
        if target.subresource != "token" {
            return Err("can only create token subresource of serviceaccount".into());
        }
        self.check_referenced(Referenced::ServiceAccount, node, target)
    }

    fn check_slice(
        &self,
        node: &str,
        verb: &str,
        target: &ResourceAttributes<'_>,
    ) -> Result<(), Reason> {
        if !target.subresource.is_empty() {
            return Err("cannot authorize ResourceSlice subresources".into());
        }
        match verb {
            // `NodeRestriction` checks the node of the slice.
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => {
                related(node, target, || self.relations.has_slice(node, target.name))
            }
            "watch" | "list" | "deletecollection" if selects_node(target, node) => Ok(()),
            "watch" | "list" | "deletecollection" => Err(
                "can only list/watch/deletecollection resourceslices with nodeName field selector"
                    .into(),
            ),
            _ => {
                Err("only the following verbs are allowed for a ResourceSlice: get, watch, list, \
                      create, update, patch, delete, deletecollection"
                    .into())
            }
        }
    }

    fn check_pod(
        &self,
        node: &str,
        verb: &str,
        target: &ResourceAttributes<'_>,
    ) -> Result<(), Reason> {
        let related_pod = || {
            related(node, target, || self.relations.has_pod(node, target.namespace, target.name))
        };
        match (target.subresource, verb) {
            ("", "get") => related_pod(),
            ("", "list" | "watch") if selects_node(target, node) => Ok(()),
            ("", "list" | "watch") if !target.name.is_empty() => related_pod(),
            ("", "list" | "watch") => {
                Err("can only list/watch pods with spec.nodeName field selector".into())
            }
            // `NodeRestriction` checks that the pod is on the node, and that a new one is a mirror
            // pod.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Ok(())
            }
            _ => Err("".into()),
        }
    }
}

/// Whether the decision depends on stored objects: on pods and what is related to them.
fn depends_on_objects(target: &ResourceAttributes<'_>) -> bool {
    const RESOURCES: [&str; 9] = [
        "secrets",
        "configmaps",
        "pods",
        "serviceaccounts",
        "persistentvolumeclaims",
        "persistentvolumes",
        "volumeattachments",
        "resourceclaims",
        "resourceslices",
    ];
    !target.name.is_empty() && RESOURCES.contains(&target.resource)
}

/// Whether only objects of the node are selected.
fn selects_node(target: &ResourceAttributes<'_>, node: &str) -> bool {
    target.selectors.is_some_and(|it| it.requires("spec.nodeName", node))
}

/// An error unless the node is related to the object.
fn related(
    node: &str,
    target: &ResourceAttributes<'_>,
    is_related: impl FnOnce() -> bool,
) -> Result<(), Reason> {
    if target.name.is_empty() {
        return Err("No Object name found".into());
    }
    if is_related() {
        return Ok(());
    }
    Err(format!("no relationship found between node '{node}' and this object").into())
}

fn check_get(verb: &str, target: &ResourceAttributes<'_>) -> Result<(), Reason> {
    if verb != "get" {
        return Err("can only get individual resources of this type".into());
    }
    if !target.subresource.is_empty() {
        return Err("cannot get subresource".into());
    }
    Ok(())
}

fn is_get_or_write(verb: &str) -> bool {
    matches!(verb, "get" | "create" | "update" | "patch" | "delete")
}

fn check_lease(node: &str, verb: &str, target: &ResourceAttributes<'_>) -> Result<(), Reason> {
    if !is_get_or_write(verb) {
        return Err("can only get, create, update, patch, or delete a node lease".into());
    }
    if target.namespace != LEASE_NAMESPACE {
        let namespace = quote(LEASE_NAMESPACE);
        return Err(format!("can only access leases in the {namespace} system namespace").into());
    }
    // The name of a new lease is unknown here; `NodeRestriction` checks it.
    if verb != "create" && target.name != node {
        return Err("can only access node lease with the same name as the requesting node".into());
    }
    Ok(())
}

fn check_csi_node(node: &str, verb: &str, target: &ResourceAttributes<'_>) -> Result<(), Reason> {
    if !is_get_or_write(verb) {
        return Err("can only get, create, update, patch, or delete a CSINode".into());
    }
    if !target.subresource.is_empty() {
        return Err("cannot authorize CSINode subresources".into());
    }
    // The name of a new one is unknown here; `NodeRestriction` checks it.
    if verb != "create" && target.name != node {
        return Err("can only access CSINode with the same name as the requesting node".into());
    }
    Ok(())
}

/// Checks access to nodes. A node reads itself also before it exists.
fn check_node(node: &str, verb: &str, target: &ResourceAttributes<'_>) -> Result<(), Reason> {
    match (target.subresource, verb) {
        // `NodeRestriction` checks that a node writes itself only.
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") if target.name == node => Ok(()),
        ("", "get" | "list" | "watch") if target.name.is_empty() => {
            Err(format!("node '{node}' cannot read all nodes, only its own Node object").into())
        }
        ("", "get" | "list" | "watch") => {
            let other = target.name;
            Err(format!("node '{node}' cannot read '{other}', only its own Node object").into())
        }
        _ => Err("".into()),
    }
}
