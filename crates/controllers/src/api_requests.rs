//! The requests of controllers, whose objects are sent as JSON and not as Rust types of their kind.

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value, json};

use crate::metadata::Metadata;
use runtime::client::json_requests::{self, APPLY_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH};
use runtime::{Action, Client, Failure, kube_client};

pub(crate) use runtime::client::json_requests::{
    create, delete as delete_with, get, has_code, none_if_missing, replace,
};
pub(crate) use runtime::kube_client::Result;

/// Applies a JSON merge patch to the object or the subresource at `path`. A patch that contains
/// `metadata.resourceVersion` fails with 409 if the object has changed.
pub(crate) async fn merge<R: DeserializeOwned>(
    client: &Client,
    path: &str,
    patch: &impl Serialize,
) -> Result<R> {
    json_requests::patch(client, path, MERGE_PATCH, patch).await
}

/// Applies a strategic merge patch.
pub(crate) async fn strategic_merge<R: DeserializeOwned>(
    client: &Client,
    path: &str,
    patch: &impl Serialize,
) -> Result<R> {
    json_requests::patch(client, path, STRATEGIC_MERGE_PATCH, patch).await
}

/// Applies a configuration to the object at `path`, also to fields of other managers.
pub(crate) async fn apply(
    client: &Client,
    path: &str,
    field_manager: &str,
    configuration: &impl Serialize,
) -> Result<()> {
    let path = format!("{path}?fieldManager={field_manager}&force=true");
    json_requests::patch::<IgnoredAny>(client, &path, APPLY_PATCH, configuration).await.map(|_| ())
}

/// Replaces the status of the object with this metadata by a merge patch, which removes the fields
/// that `new` does not have. Nothing changes if the object is gone. If the object has changed or was
/// replaced by another one, the server refuses the patch with 409, so that nothing that others have
/// written to the status is lost: see [`requeue_conflict`].
pub(crate) async fn patch_status(
    client: &Client,
    path: &str,
    metadata: &Metadata,
    old: &impl Serialize,
    new: &impl Serialize,
) -> Result<()> {
    let value = |status: Value| match status {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let old = value(serde_json::to_value(old).map_err(kube_client::Error::SerdeError)?);
    let mut status = value(serde_json::to_value(new).map_err(kube_client::Error::SerdeError)?);
    for field in old.into_iter().map(|(field, _)| field) {
        status.entry(field).or_insert(Value::Null);
    }
    let patch = json!({"metadata": metadata.precondition(), "status": status});
    none_if_missing(merge::<IgnoredAny>(client, path, &patch).await).map(|_| ())
}

/// Requeues a reconcile with a write that was refused since the object has changed: the next one
/// starts from the new state. This is part of normal operation, and not logged as an error.
pub(crate) fn requeue_conflict(result: Result<Action, Failure>) -> Result<Action, Failure> {
    let failure = match result {
        Ok(action) => return Ok(action),
        Err(failure) => failure,
    };
    match failure.cause().downcast_ref::<kube_client::Error>() {
        Some(error) if has_reason(error, "Conflict") => {
            tracing::debug!(%failure, "a reconcile is repeated");
            Ok(Action::Requeue)
        }
        _ => Err(failure),
    }
}

/// Deletes the object at `path` if it still has this uid.
pub(crate) async fn delete(client: &Client, path: &str, uid: &str) -> Result<Value> {
    let options = json!({"preconditions": {"uid": uid}});
    json_requests::delete(client, path, &options).await
}

/// Whether the server has refused a request with this reason.
pub(crate) fn has_reason(error: &kube_client::Error, reason: &str) -> bool {
    matches!(error, kube_client::Error::Api(status) if status.reason == reason)
}

/// Whether the server has refused a creation because the namespace is being deleted.
pub(crate) fn is_namespace_terminating(error: &kube_client::Error) -> bool {
    let kube_client::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// The message of the server, or of the connection to it.
pub(crate) fn message(error: &kube_client::Error) -> String {
    match error {
        kube_client::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}
