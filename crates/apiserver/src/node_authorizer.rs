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

/// What must relate a node to the object of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// A pod of the node refers to the object.
    Referenced(Referenced),
    /// A pod of the node uses the persistent volume.
    Volume,
    /// The volume attachment is for the node.
    Attachment,
    /// The resource slice is one of the node.
    Slice,
    /// The pod is on the node.
    Pod,
}

/// The relation that a request needs to be allowed, or none if it is allowed without one.
type Need = Result<Option<Relation>, Reason>;

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
        let relation = match self.need(node, attributes.verb, target) {
            Err(reason) => return Decision::no_opinion(reason).into(),
            Ok(None) => return Decision::allow().into(),
            Ok(Some(_)) if target.name.is_empty() => {
                return Decision::no_opinion("No Object name found").into();
            }
            Ok(Some(relation)) => relation,
        };
        // The cache has everything that was written before the request in most cases.
        if matches!(self.cache.catch_up().now_or_never(), Some(Ok(()))) {
            return self.decide(node, relation, target).into();
        }
        Authorization::Pending(Box::pin(async move {
            match self.cache.catch_up().await {
                Ok(()) => self.decide(node, relation, target),
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

    /// Allows the request if the node has the relation to its object. The cache must be caught up.
    fn decide(&self, node: &str, relation: Relation, target: &ResourceAttributes<'_>) -> Decision {
        let (relations, name, namespace) = (&self.relations, target.name, target.namespace);
        let is_related = match relation {
            Relation::Referenced(kind) => relations.refers(node, kind, namespace, name),
            Relation::Volume => relations.uses_volume(node, name),
            Relation::Attachment => relations.has_attachment(node, name),
            Relation::Slice => relations.has_slice(node, name),
            Relation::Pod => relations.has_pod(node, namespace, name),
        };
        if is_related {
            return Decision::allow();
        }
        let reason = format!("no relationship found between node '{node}' and this object");
        Decision::no_opinion(reason)
    }

    /// What a request needs. It does not depend on stored objects: those decide on the relation only.
    fn need(&self, node: &str, verb: &str, target: &ResourceAttributes<'_>) -> Need {
        match (target.group, target.resource) {
            ("", "secrets") => need_for_read(Referenced::Secret, verb, target),
            ("", "configmaps") => need_for_read(Referenced::ConfigMap, verb, target),
            ("", "persistentvolumeclaims") if target.subresource == "status" => {
                if !matches!(verb, "update" | "patch") {
                    return Err("can only get/update/patch this type".into());
                }
                Ok(Some(Relation::Referenced(Referenced::VolumeClaim)))
            }
            ("", "persistentvolumeclaims") => {
                need_for_get(Relation::Referenced(Referenced::VolumeClaim), verb, target)
            }
            ("", "persistentvolumes") => need_for_get(Relation::Volume, verb, target),
            ("resource.k8s.io", "resourceclaims") => {
                need_for_get(Relation::Referenced(Referenced::ResourceClaim), verb, target)
            }
            ("storage.k8s.io", "volumeattachments") => {
                need_for_get(Relation::Attachment, verb, target)
            }
            ("", "serviceaccounts") => need_for_service_account(verb, target),
            ("coordination.k8s.io", "leases") => check_lease(node, verb, target).map(|()| None),
            ("storage.k8s.io", "csinodes") => check_csi_node(node, verb, target).map(|()| None),
            ("resource.k8s.io", "resourceslices") => need_for_slice(node, verb, target),
            ("", "nodes") => check_node(node, verb, target).map(|()| None),
            ("", "pods") => need_for_pod(node, verb, target),
            // Upstream: the feature `PodCertificateRequest` is off by default.
            ("certificates.k8s.io", "podcertificaterequests") => Err("".into()),
            _ => self.check_rules(verb, target).map(|()| None),
        }
    }

    fn check_rules(&self, verb: &str, target: &ResourceAttributes<'_>) -> Result<(), Reason> {
        let is_allowed = self.rules.iter().any(|rule| {
            rule.allows(verb, target.group, target.resource, target.subresource)
                && rule.allows_name(target.name)
        });
        if is_allowed { Ok(()) } else { Err("".into()) }
    }
}

/// Checks a read of an object that pods refer to. A list or a watch of that object alone has its name in
/// the field selector.
fn need_for_read(kind: Referenced, verb: &str, target: &ResourceAttributes<'_>) -> Need {
    if !matches!(verb, "get" | "list" | "watch") {
        return Err("can only read resources of this type".into());
    }
    if !target.subresource.is_empty() {
        return Err("cannot read subresource".into());
    }
    if target.namespace.is_empty() {
        return Err("can only read namespaced object of this type".into());
    }
    Ok(Some(Relation::Referenced(kind)))
}

fn need_for_get(relation: Relation, verb: &str, target: &ResourceAttributes<'_>) -> Need {
    if verb != "get" {
        return Err("can only get individual resources of this type".into());
    }
    if !target.subresource.is_empty() {
        return Err("cannot get subresource".into());
    }
    Ok(Some(relation))
}

fn need_for_service_account(verb: &str, target: &ResourceAttributes<'_>) -> Need {
    if verb == "get" && target.subresource.is_empty() {
        return need_for_read(Referenced::ServiceAccount, verb, target);
    }
    if verb != "create" || target.name.is_empty() {
        return Err("can only create tokens for individual service accounts".into());
    }
    if target.subresource != "token" {
        return Err("can only create token subresource of serviceaccount".into());
    }
    Ok(Some(Relation::Referenced(Referenced::ServiceAccount)))
}

fn need_for_slice(node: &str, verb: &str, target: &ResourceAttributes<'_>) -> Need {
    if !target.subresource.is_empty() {
        return Err("cannot authorize ResourceSlice subresources".into());
    }
    match verb {
        // `NodeRestriction` checks the node of the slice.
        "create" => Ok(None),
        "get" | "update" | "patch" | "delete" => Ok(Some(Relation::Slice)),
        "watch" | "list" | "deletecollection" if selects_node(target, node) => Ok(None),
        "watch" | "list" | "deletecollection" => {
            Err("can only list/watch/deletecollection resourceslices with nodeName field selector"
                .into())
        }
        _ => Err("only the following verbs are allowed for a ResourceSlice: get, watch, list, \
                  create, update, patch, delete, deletecollection"
            .into()),
    }
}

fn need_for_pod(node: &str, verb: &str, target: &ResourceAttributes<'_>) -> Need {
    match (target.subresource, verb) {
        ("", "get") => Ok(Some(Relation::Pod)),
        ("", "list" | "watch") if selects_node(target, node) => Ok(None),
        ("", "list" | "watch") if !target.name.is_empty() => Ok(Some(Relation::Pod)),
        ("", "list" | "watch") => {
            Err("can only list/watch pods with spec.nodeName field selector".into())
        }
        // `NodeRestriction` checks that the pod is on the node, and that a new one is a mirror pod.
        ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
            Ok(None)
        }
        _ => Err("".into()),
    }
}

/// Whether only objects of the node are selected.
fn selects_node(target: &ResourceAttributes<'_>, node: &str) -> bool {
    target.selectors.is_some_and(|it| it.requires("spec.nodeName", node))
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
