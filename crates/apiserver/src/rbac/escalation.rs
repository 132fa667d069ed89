//! Nobody grants what he does not have: a user who writes a role must have all of its rights, or the
//! right to `escalate` it; a user who writes a binding must have all rights of its role, or the right
//! to `bind` it.
//!
//! Upstream: registry/rbac `policybased`, `escalation_check.go`

use serde::Deserialize;

use super::GROUP;
use super::policy_index::{ResolutionError, RoleReference};
use super::rule::Rule;
use super::rule_resolver::RuleResolver;
use crate::auth::authentication::User;
use crate::auth::authorization::{Attributes, Authorizers, ResourceAttributes, masters};
use machinery::{GroupResource, Object, Status, Value};

/// A write of a role or a binding.
pub(crate) struct PolicyWrite<'a> {
    pub user: &'a User,
    /// The plural of the kind.
    pub plural: &'a str,
    /// The namespace of the request; empty for kinds of the cluster.
    pub namespace: &'a str,
    /// The name in the path of the request; empty if the object is created.
    pub requested_name: &'a str,
    /// The object to be stored.
    pub object: &'a Object,
    /// The stored object; None if it is created.
    pub old: Option<&'a Object>,
}

fn is_aggregated(role: &Object) -> bool {
    let selectors =
        role.get(&["aggregationRule", "clusterRoleSelectors"]).and_then(Value::as_array);
    selectors.is_some_and(|it| !it.is_empty())
}

/// Refuses a write of a role or a binding that would grant rights that its user does not have. Writes
/// of other kinds are not refused.
pub(crate) async fn check(
    write: &PolicyWrite<'_>,
    resolver: &RuleResolver,
    authorizers: &Authorizers,
) -> Result<(), Status> {
    let is_role = matches!(write.plural, "roles" | "clusterroles");
    if !is_role && !matches!(write.plural, "rolebindings" | "clusterrolebindings") {
        return Ok(());
    }
    if masters::contains(write.user) {
        return Ok(());
    }
    if is_role {
        check_role(write, resolver, authorizers).await
    } else {
        check_binding(write, resolver, authorizers).await
    }
}

async fn check_role(
    write: &PolicyWrite<'_>,
    resolver: &RuleResolver,
    authorizers: &Authorizers,
) -> Result<(), Status> {
    if write.is_authorized(authorizers, "escalate", write.plural, write.requested_name).await
        || write.changes_only_owners_and_finalizers()
    {
        return Ok(());
    }
    let confirm =
        |rules: &[Rule]| resolver.confirm_no_escalation(write.user, write.namespace, rules);
    confirm(&Rule::of_role(write.object)).map_err(|why| write.forbidden(&why))?;
    let uses_aggregation = is_aggregated(write.object) || write.old.is_some_and(is_aggregated);
    if uses_aggregation && confirm(&Rule::full_authority()).is_err() {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        return Err(write.forbidden(why));
    }
    Ok(())
}

async fn check_binding(
    write: &PolicyWrite<'_>,
    resolver: &RuleResolver,
    authorizers: &Authorizers,
) -> Result<(), Status> {
    if write.changes_only_owners_and_finalizers() {
        return Ok(());
    }
    let role = write.object.get(&["roleRef"]).map(RoleReference::deserialize);
    let role = role.and_then(Result::ok).unwrap_or_default();
    let plural = match role.kind.as_str() {
        "ClusterRole" => Some("clusterroles"),
        "Role" => Some("roles"),
        _ => None,
    };
    if let Some(plural) = plural
        && write.is_authorized(authorizers, "bind", plural, &role.name).await
    {
        return Ok(());
    }
    let role = resolver.role(&role, write.namespace).map_err(|error| match &error {
        // Upstream: the resource is that of the request.
        ResolutionError::NotFound(role) => {
            Status::not_found(&GroupResource::new(GROUP, write.plural), &role.name)
        }
        _ => Status::internal(&error),
    })?;
    let confirmed = resolver.confirm_no_escalation(write.user, write.namespace, &role.rules);
    confirmed.map_err(|why| write.forbidden(&why))
}

impl PolicyWrite<'_> {
    async fn is_authorized(
        &self,
        authorizers: &Authorizers,
        verb: &str,
        resource: &str,
        name: &str,
    ) -> bool {
        let target = ResourceAttributes {
            group: GROUP,
            version: "*",
            resource,
            namespace: self.namespace,
            name,
            ..ResourceAttributes::default()
        };
        authorizers.decide(&Attributes::of_resource(self.user, verb, target)).await.is_allowed()
    }

    /// Whether the write changes only what the garbage collector changes.
    fn changes_only_owners_and_finalizers(&self) -> bool {
        let Some(old) = self.old else { return false };
        let stripped = |object: &Object| {
            let mut map = object.map().clone();
            if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
                for field in ["ownerReferences", "finalizers", "managedFields"] {
                    metadata.remove(field);
                }
            }
            map
        };
        stripped(self.object) == stripped(old)
    }

    fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(&GroupResource::new(GROUP, self.plural), self.object.name(), why)
    }
}
