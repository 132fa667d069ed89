//! `ServiceAccount`: a pod runs as an account of its namespace, and gets its token.
//!
//! Whether the account must exist is a setting: see [`Plugins`](super::plugins::Plugins).

use super::{Attributes, Operation};
use kinds::core::pod::service_account as account;
use machinery::{GroupResource, Object, Status};

/// Names the account of a new pod, and gives the pod what comes with it.
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

/// Judges the account and the secrets of a new pod, or of the containers that are added to one.
pub(super) fn validate(attributes: &Attributes<'_>, pod: &Object) -> Result<(), Status> {
    let is_new = attributes.operation == Operation::Create && attributes.is_of("", "pods");
    let is_addition = attributes.is_subresource_of("", "pods", "ephemeralcontainers");
    if !is_new && !is_addition {
        return Ok(());
    }
    let refuse = |why: &str| Err(attributes.forbidden(pod, why));
    if is_new && account::is_mirror(pod) {
        return account::mirror_refusal(pod).map_or(Ok(()), refuse);
    }
    let name = pod.str_at(&["spec", "serviceAccountName"]);
    if name.is_empty() && !attributes.admission.plugins.require_service_account {
        return Ok(());
    }
    if name.is_empty() {
        let namespace = attributes.namespace;
        return refuse(&format!("no service account specified for pod {namespace}/{}", pod.name()));
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
    why.map_or(Ok(()), |why| refuse(&why))
}

/// The account as it is stored.
fn find(attributes: &Attributes<'_>, pod: &Object, name: &str) -> Result<Option<Object>, Status> {
    let namespace = attributes.namespace;
    let catalog = attributes.scope.storage.catalog.load();
    let found = catalog
        .resource("", "serviceaccounts")
        .and_then(|it| it.cache.get(&it.key(namespace, name)))
        .map(|it| it.object_as_stored());
    if found.is_none() && attributes.admission.plugins.require_service_account {
        // Upstream: the singular, which no other message uses.
        let missing = Status::not_found(&GroupResource::new("", "serviceaccount"), name).message;
        let why = format!("error looking up service account {namespace}/{name}: {missing}");
        return Err(attributes.forbidden(pod, &why));
    }
    Ok(found)
}

/// An account that is not there has no wishes of its own.
fn missing_account(name: &str) -> Object {
    let mut account = Object::default();
    account.set_meta("name", name);
    account
}
