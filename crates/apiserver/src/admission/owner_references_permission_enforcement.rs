//! `OwnerReferencesPermissionEnforcement`: a user who sets `blockOwnerDeletion` must be allowed to
//! update the owner's finalizers, and a user who changes the owners of an object must be allowed to
//! delete the object.

use std::collections::HashSet;

use super::{Attributes, Operation};
use crate::auth::authorization;
use crate::auth::authorization::ResourceAttributes;
use crate::registry::admit::AdmissionFuture;
use crate::request::{ResourcePath, Verb};
use machinery::{GroupVersion, Object, Status, Value};

/// Validates new and changed owner references.
pub(super) fn validate<'a>(
    attributes: &'a Attributes<'a>,
    object: &'a Object,
) -> AdmissionFuture<'a, ()> {
    Box::pin(validate_owners(attributes, object))
}

async fn validate_owners(attributes: &Attributes<'_>, object: &Object) -> Result<(), Status> {
    let (new, old) = (owners(object), attributes.old.map_or(&[][..], owners));
    let resource = attributes.scope.resource();
    // A binding changes the node of the pod and cannot change its owners.
    let is_binding = resource.plural == "pods" && attributes.scope.path.subresource == "binding";
    if new == old || is_binding {
        return Ok(());
    }
    if attributes.operation != Operation::Create {
        let target =
            ResourcePath { name: object.name().to_owned(), ..attributes.scope.path.clone() };
        let why = "cannot set an ownerRef on a resource you can't delete";
        authorize(attributes, object, Verb::Delete, &target, why).await?;
    }
    let already_blocking_uids: HashSet<&str> =
        old.iter().filter(|it| blocks_owner_deletion(it)).map(|it| text(it, "uid")).collect();
    let newly_blocking: Vec<&Value> = new
        .iter()
        .filter(|it| blocks_owner_deletion(it) && !already_blocking_uids.contains(text(it, "uid")))
        .collect();
    let any_finalizers = ResourcePath {
        group: "*".to_owned(),
        version: "*".to_owned(),
        resource: "*".to_owned(),
        name: "*".to_owned(),
        subresource: "finalizers".to_owned(),
        ..ResourcePath::default()
    };
    let why = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on";
    if newly_blocking.is_empty()
        || authorize(attributes, object, Verb::Update, &any_finalizers, why).await.is_ok()
    {
        return Ok(());
    }
    for owner in newly_blocking {
        let target = finalizers_of(attributes, owner).ok_or_else(|| {
            let (version, kind) = (text(owner, "apiVersion"), text(owner, "kind"));
            let why = format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} Kind {kind}: no matches for kind \"{kind}\" in version \"{version}\""
            );
            attributes.forbidden(object, &why)
        })?;
        authorize(attributes, object, Verb::Update, &target, why).await?;
    }
    Ok(())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn owners(object: &Object) -> &[Value] {
    let owners = object.metadata().and_then(|it| it.get("ownerReferences"));
    owners.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn blocks_owner_deletion(owner: &Value) -> bool {
    owner.get("blockOwnerDeletion") == Some(&Value::Bool(true))
}

/// The finalizers subresource of an owner; None if its kind is not served.
fn finalizers_of(attributes: &Attributes<'_>, owner: &Value) -> Option<ResourcePath> {
    let version: GroupVersion = text(owner, "apiVersion").parse().ok()?;
    let catalog = attributes.scope.storage.catalog.load();
    let (served, _) = catalog
        .resources(&version.group, &version.version)
        .into_iter()
        .find(|(served, _)| served.resource.kind == text(owner, "kind"))?;
    // The owner of a namespaced kind is in the namespace of the object.
    let namespace = if served.resource.namespaced { attributes.namespace } else { "" };
    Some(ResourcePath {
        namespace: namespace.to_owned(),
        resource: served.resource.plural.clone(),
        name: text(owner, "name").to_owned(),
        subresource: "finalizers".to_owned(),
        group: version.group,
        version: version.version,
        ..ResourcePath::default()
    })
}

/// Returns an error that ends with the reason and the error of the authorizers, as upstream's does.
async fn authorize(
    attributes: &Attributes<'_>,
    object: &Object,
    verb: Verb,
    path: &ResourcePath,
    why: &str,
) -> Result<(), Status> {
    let (user, resource) = (&attributes.scope.user, ResourceAttributes::from(path));
    let authorization_attributes =
        authorization::Attributes::of_resource(user, verb.as_str(), resource);
    let decision = attributes.admission.authorizers.decide(&authorization_attributes).await;
    if decision.is_allowed() {
        return Ok(());
    }
    let error = decision.evaluation_error().unwrap_or("<nil>");
    Err(attributes.forbidden(object, &format!("{why}: {}, {error}", decision.reason())))
}
