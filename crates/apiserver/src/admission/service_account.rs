//! `ServiceAccount`: sets the service account of pods, and mounts its token.
//!
//! Whether the account must exist is a setting: see [`Plugins`](super::plugins::Plugins). A request
//! waits a moment for an account that does not exist yet, since a controller creates the account
//! `default` shortly after its namespace.

use std::time::Duration;

use super::{Attributes, Operation};
use crate::registry::admit::AdmissionFuture;
use crate::storage::catalog::ServedResource;
use kinds::core::pod::service_account as account;
use machinery::{GroupResource, Object, Status};

/// The time for which a request waits for the account of its pod. Upstream: it is looked up three
/// times, at an interval of 100 to 200 ms.
const MAX_WAIT: Duration = Duration::from_millis(300);

/// Sets the service account of a new pod, and adds its token and image pull secrets.
pub(super) fn mutate<'a>(
    attributes: &'a Attributes<'a>,
    pod: &'a mut Object,
) -> AdmissionFuture<'a, ()> {
    if attributes.operation != Operation::Create || !attributes.is_of("", "pods") {
        return Box::pin(std::future::ready(Ok(())));
    }
    Box::pin(mutate_pod(attributes, pod))
}

async fn mutate_pod(attributes: &Attributes<'_>, pod: &mut Object) -> Result<(), Status> {
    if !account::is_mirror(pod) {
        let name = account::default_account(pod).to_owned();
        if attributes.admission.plugins.require_service_account {
            wait_for_account(attributes, &name).await;
        }
        let found = find(attributes, pod, &name)?.unwrap_or_else(|| missing_account(&name));
        let suffix = attributes.scope.storage.entropy.suffix(5);
        account::inject_service_account(pod, &found, &suffix);
    }
    validate(attributes, pod)
}

/// Waits until the account exists, at most for [`MAX_WAIT`].
async fn wait_for_account(attributes: &Attributes<'_>, name: &str) {
    let catalog = attributes.scope.storage.catalog.load();
    let Some(accounts) = catalog.resource("", "serviceaccounts").cloned() else { return };
    drop(catalog);
    let key = accounts.key(attributes.namespace, name);
    if accounts.cache.get(&key).is_some() {
        return;
    }
    let _loan = attributes.scope.seat.lend();
    // A request that ends without the account is rejected by the caller.
    let _ = tokio::time::timeout(MAX_WAIT, until_exists(&accounts, &key)).await;
}

async fn until_exists(accounts: &ServedResource, key: &str) {
    let mut changed = accounts.cache.subscribe();
    while accounts.cache.get(key).is_none() {
        changed.changed().await;
        changed.mark_seen();
    }
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
