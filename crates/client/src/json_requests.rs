//! Requests for objects that are sent as JSON and not as Rust types of their kind.
//!
//! ```no_run
//! use client::json_requests::{self, MERGE_PATCH};
//! use machinery::{Value, json};
//!
//! async fn cordon(client: &kube_client::Client, node: &str) -> kube_client::Result<Value> {
//!     let (path, patch) = (format!("/api/v1/nodes/{node}"), json!({"spec": {"unschedulable": true}}));
//!     json_requests::patch(client, &path, MERGE_PATCH, &patch).await
//! }
//!
//! /// Deletes the node that was read, if it still exists, and not another one of its name.
//! async fn delete(client: &kube_client::Client, node: &str, uid: &str) -> kube_client::Result<bool> {
//!     let (path, options) = (format!("/api/v1/nodes/{node}"), json!({"preconditions": {"uid": uid}}));
//!     match json_requests::delete::<Value>(client, &path, &options).await {
//!         Err(error) if json_requests::has_code(&error, 409) => Ok(false),
//!         deleted => Ok(json_requests::none_if_missing(deleted)?.is_some()),
//!     }
//! }
//! ```

use http::header::CONTENT_TYPE;
use http::{Method, Request};
use kube_client::{Client, Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The media type of JSON.
pub const JSON: &str = "application/json";
/// The media type of JSON patches.
pub const JSON_PATCH: &str = "application/json-patch+json";
/// The media type of JSON merge patches.
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// The media type of server-side apply.
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";
/// The media type of strategic merge patches.
pub const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// Creates an object in the collection at `path`.
pub async fn create<R: DeserializeOwned>(
    client: &Client,
    path: &str,
    object: &impl Serialize,
) -> Result<R> {
    send(client, Method::POST, path, JSON, object).await
}

/// Replaces the object or the subresource at `path`.
pub async fn replace<R: DeserializeOwned>(
    client: &Client,
    path: &str,
    object: &impl Serialize,
) -> Result<R> {
    send(client, Method::PUT, path, JSON, object).await
}

/// Patches the object or the subresource at `path`. A patch that contains `metadata.resourceVersion`
/// fails with 409 if the object has changed.
pub async fn patch<R: DeserializeOwned>(
    client: &Client,
    path: &str,
    media_type: &str,
    patch: &impl Serialize,
) -> Result<R> {
    send(client, Method::PATCH, path, media_type, patch).await
}

/// Deletes the object or the collection at `path` with these `DeleteOptions`.
pub async fn delete<R: DeserializeOwned>(
    client: &Client,
    path: &str,
    options: &impl Serialize,
) -> Result<R> {
    send(client, Method::DELETE, path, JSON, options).await
}

/// Reads the object or the list at `path`; `None` if it does not exist.
pub async fn get<R: DeserializeOwned>(client: &Client, path: &str) -> Result<Option<R>> {
    let request = Request::get(path).body(Vec::new()).map_err(Error::HttpError)?;
    none_if_missing(client.request(request).await)
}

/// `None` instead of the error for an object that does not exist.
pub fn none_if_missing<R>(result: Result<R>) -> Result<Option<R>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if has_code(&error, 404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the server has refused a request with this code.
pub fn has_code(error: &Error, code: u16) -> bool {
    matches!(error, Error::Api(status) if status.code == code)
}

async fn send<R: DeserializeOwned>(
    client: &Client,
    method: Method,
    path: &str,
    media_type: &str,
    body: &impl Serialize,
) -> Result<R> {
    let body = serde_json::to_vec(body).map_err(Error::SerdeError)?;
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, media_type);
    client.request(request.body(body).map_err(Error::HttpError)?).await
}
