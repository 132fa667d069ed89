//! Requests whose bodies are JSON and not Rust types of their kind.

use http::header::CONTENT_TYPE;
use http::{Method, Request};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;

use runtime::Client;
use runtime::kube_client;

/// The result of a request.
pub(crate) type Result<T> = kube_client::Result<T>;

/// The media type of strategic merge patches.
pub(crate) const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";
/// The media type of JSON merge patches.
pub(crate) const MERGE: &str = "application/merge-patch+json";
/// The media type of JSON patches.
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";

/// Creates an object in the collection at `path`.
pub(crate) async fn create(client: &Client, path: &str, object: &impl Serialize) -> Result<()> {
    send(client, Method::POST, path, "application/json", object).await
}

/// Patches the object or the subresource at `path`.
pub(crate) async fn patch(
    client: &Client,
    path: &str,
    patch_type: &str,
    patch: &impl Serialize,
) -> Result<()> {
    send(client, Method::PATCH, path, patch_type, patch).await
}

/// Deletes the object at `path` if it still has this uid, without a grace period.
pub(crate) async fn delete_now(client: &Client, path: &str, uid: &str) -> Result<()> {
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
    send(client, Method::DELETE, path, "application/json", &options).await
}

/// Whether the server has refused a request with this code.
pub(crate) fn has_code(error: &kube_client::Error, code: u16) -> bool {
    matches!(error, kube_client::Error::Api(status) if status.code == code)
}

/// Success if the object was changed or deleted by others meanwhile: another event is under way.
pub(crate) fn unless_outdated(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if !has_code(&error, 404) && !has_code(&error, 409) => Err(error),
        _ => Ok(()),
    }
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: &impl Serialize,
) -> Result<()> {
    let body = serde_json::to_vec(body).map_err(kube_client::Error::SerdeError)?;
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, content_type);
    let request = request.body(body).map_err(kube_client::Error::HttpError)?;
    // The caches have the object of the response; it is not decoded again here.
    client.request::<IgnoredAny>(request).await.map(drop)
}
