//! `NamespaceLifecycle`: rejects creations in namespaces that do not exist or are being terminated,
//! and the deletion of namespaces that the server needs.

use std::borrow::Cow;

use super::{Attributes, Operation};
use crate::cache::watch_cache::Entry;
use crate::registry::scope::RequestScope;
use crate::storage::catalog::ServedResource;
use machinery::status::Cause;
use machinery::{GroupResource, Object, Status};

/// The namespaces that cannot be deleted.
pub(crate) const IMMORTAL_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Validates the namespace of a create request.
pub(super) fn mutate(attributes: &Attributes<'_>, object: &mut Object) -> Result<(), Status> {
    match attributes.operation {
        Operation::Create => create(attributes.scope, object),
        Operation::Update | Operation::Delete | Operation::Connect => Ok(()),
    }
}

/// Rejects a new object if its namespace does not exist or is being terminated.
pub(super) fn create(scope: &RequestScope, object: &Object) -> Result<(), Status> {
    let namespace = scope.namespace();
    if namespace.is_empty() {
        return Ok(());
    }
    let namespaces = GroupResource::new("", "namespaces");
    let catalog = scope.storage.catalog.load();
    let Some(served) = catalog.resource("", "namespaces") else { return Ok(()) };
    let found = served.cache.get(&served.key("", namespace));
    let Some(found) = found.filter(|it| !it.uninitialized) else {
        return Err(Status::not_found(&namespaces, namespace));
    };
    if phase(served, &found) != "Terminating" {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let mut status = Status::forbidden(&scope.group_resource(), object.name(), &why);
    status.details.get_or_insert_default().causes.push(Cause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    });
    Err(status)
}

/// The phase of a namespace. It is a selectable field, whose value is parsed once and shared
/// between requests.
fn phase<'a>(namespaces: &ServedResource, namespace: &'a Entry) -> Cow<'a, str> {
    let selectable = &namespaces.version(namespaces.resource.storage_index).selectable;
    let index = selectable.iter().position(|it| it.path == ["status", "phase"]);
    index.map_or(Cow::default(), |index| namespace.field(selectable, index))
}

/// Rejects the deletion of an immortal namespace.
pub(super) fn delete(attributes: &Attributes<'_>) -> Result<(), Status> {
    let resource = attributes.scope.group_resource();
    let is_namespace = resource.group.is_empty() && resource.resource == "namespaces";
    if is_namespace && IMMORTAL_NAMESPACES.contains(&attributes.name.as_str()) {
        let why = "this namespace may not be deleted";
        return Err(Status::forbidden(&resource, &attributes.name, why));
    }
    Ok(())
}
