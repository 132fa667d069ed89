//! Requests for objects that are sent as JSON and not as Rust types of their kind.

use http::header::CONTENT_TYPE;
use http::{Method, Request};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value, json};

use crate::metadata::Metadata;
use runtime::Client;
use runtime::kube_client;

/// The result of a request.
pub(crate) type Result<T> = kube_client::Result<T>;

/// Creates an object in the collection at `path`.
pub(crate) async fn create<R: DeserializeOwned>(
    client: &Client,
    path: &str,
    object: &impl Serialize,
) -> Result<R> {
    send(client, Method::POST, path, "application/json", object).await
}

/// Replaces the object or the subresource at `path`.
pub(crate) async fn replace<R: DeserializeOwned>(
    client: &Client,
    path: &str,
    object: &impl Serialize,
) -> Result<R> {
    send(client, Method::PUT, path, "application/json", object).await
}

/// Applies a JSON merge patch to the object or the subresource at `path`. A patch that contains
/// `metadata.resourceVersion` fails with 409 if the object has changed.
pub(crate) async fn merge<R: DeserializeOwned>(
    client: &Client,
    path: &str,
    patch: &impl Serialize,
) -> Result<R> {
    send(client, Method::PATCH, path, "application/merge-patch+json", patch).await
}

/// Applies a strategic merge patch.
pub(crate) async fn strategic_merge<R: DeserializeOwned>(
    client: &Client,
    path: &str,
    patch: &impl Serialize,
) -> Result<R> {
    send(client, Method::PATCH, path, "application/strategic-merge-patch+json", patch).await
}

/// Replaces the status of the object with this metadata by a merge patch, which removes the fields
/// that `new` does not have. Nothing changes if the object was replaced by another one.
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
    let patch = json!({"metadata": {"uid": metadata.uid}, "status": status});
    merge::<IgnoredAny>(client, path, &patch).await.map(|_| ())
}

/// Deletes the object at `path` if it still has this uid.
pub(crate) async fn delete(client: &Client, path: &str, uid: &str) -> Result<Value> {
    let options = json!({"preconditions": {"uid": uid}});
    send(client, Method::DELETE, path, "application/json", &options).await
}

/// Reads the object at `path`; `None` if it does not exist.
pub(crate) async fn get<R: DeserializeOwned>(client: &Client, path: &str) -> Result<Option<R>> {
    let request = Request::get(path).body(Vec::new()).map_err(kube_client::Error::HttpError)?;
    none_if_missing(client.request(request).await)
}

/// `None` instead of the error for an object that does not exist.
pub(crate) fn none_if_missing<R>(result: Result<R>) -> Result<Option<R>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if has_code(&error, 404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the server has refused a request with this code.
pub(crate) fn has_code(error: &kube_client::Error, code: u16) -> bool {
    matches!(error, kube_client::Error::Api(status) if status.code == code)
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

/// Sends a request with a JSON body.
pub(crate) async fn send<R: DeserializeOwned>(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: &impl Serialize,
) -> Result<R> {
    let body = serde_json::to_vec(body).map_err(kube_client::Error::SerdeError)?;
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, content_type);
    client.request(request.body(body).map_err(kube_client::Error::HttpError)?).await
}
