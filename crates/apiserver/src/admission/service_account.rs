//! `ServiceAccount`: sets the service account of pods, and mounts its token.
//!
//! Whether the account must exist is a setting: see [`Plugins`](super::plugins::Plugins).

use super::{Attributes, Operation};
use kinds::core::pod::service_account as account;
use machinery::{GroupResource, Object, Status};

/// Sets the service account of a new pod, and adds its token and image pull secrets.
pub(super) fn mutate(attributes: &Attributes<'_>, pod: &mut Object) -> Result<(), Status> {
    if attributes.operation != Operation::Create || !attributes.is_of("", "pods") {
        return Ok(());
    }
    if !account::is_mirror(pod) {
        let name = account::default_account(pod).to_owned();
        let found = find(attributes, pod, &name)?.unwrap_or_else(|| missing_account(&name));
        let suffix = attributes.scope.storage.entropy.suffix(5);
        account::inject_service_account(pod, &found, &suffix);
    }
    validate(attributes, pod)
}

/// Validates the account and the secrets of a new pod, or of ephemeral containers that are added to
/// a pod.
pub(super) fn validate(attributes: &Attributes<'_>, pod: &Object) -> Result<(), Status> {
    let is_new = attributes.operation == Operation::Create && attributes.is_of("", "pods");
    let is_addition = attributes.is_subresource_of("", "pods", "ephemeralcontainers");
    if !is_new && !is_addition {
        return Ok(());
    }
    let forbid = |why: &str| Err(attributes.forbidden(pod, why));
    if is_new && account::is_mirror(pod) {
        return account::mirror_refusal(pod).map_or(Ok(()), forbid);
    }
    let name = pod.str_at(&["spec", "serviceAccountName"]);
    if name.is_empty() && !attributes.admission.plugins.require_service_account {
        return Ok(());
    }
    if name.is_empty() {
        let namespace = attributes.namespace;
        return forbid(&format!("no service account specified for pod {namespace}/{}", pod.name()));
    }
    let found = find(attributes, pod, name)?;
    let Some(service_account) = found.filter(account::enforces_mountable_secrets) else {
        return Ok(());
    };
    let why = if is_addition {
        account::ephemeral_secret_refusal(pod, &service_account)
    } else {
        account::secret_refusal(pod, &service_account)
    };
    why.map_or(Ok(()), |why| forbid(&why))
}

/// The stored service account.
fn find(attributes: &Attributes<'_>, pod: &Object, name: &str) -> Result<Option<Object>, Status> {
    let namespace = attributes.namespace;
    let catalog = attributes.scope.storage.catalog.load();
    let found = catalog
        .resource("", "serviceaccounts")
        .and_then(|it| it.cache.get(&it.key(namespace, name)))
        .map(|it| it.object_as_stored());
    if found.is_none() && attributes.admission.plugins.require_service_account {
        // Upstream: the resource is in the singular here, and nowhere else.
        let missing = Status::not_found(&GroupResource::new("", "serviceaccount"), name).message;
        let why = format!("error looking up service account {namespace}/{name}: {missing}");
        return Err(attributes.forbidden(pod, &why));
    }
    Ok(found)
}

/// A service account with default settings, for a pod whose account does not exist.
fn missing_account(name: &str) -> Object {
    let mut account = Object::default();
    account.set_meta("name", name);
    account
}
