//! The requests of nodes. Their responses are not decoded, since the caches have the objects.

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;

use runtime::Client;
use runtime::client::json_requests;

pub(crate) use runtime::client::json_requests::{
    JSON_PATCH, MERGE_PATCH as MERGE, STRATEGIC_MERGE_PATCH as STRATEGIC_MERGE, has_code,
};
pub(crate) use runtime::kube_client::Result;

/// Creates an object in the collection at `path`.
pub(crate) async fn create(client: &Client, path: &str, object: &impl Serialize) -> Result<()> {
    json_requests::create::<IgnoredAny>(client, path, object).await.map(drop)
}

/// Patches the object or the subresource at `path`.
pub(crate) async fn patch(
    client: &Client,
    path: &str,
    media_type: &str,
    patch: &impl Serialize,
) -> Result<()> {
    json_requests::patch::<IgnoredAny>(client, path, media_type, patch).await.map(drop)
}

/// Deletes the object at `path` if it still has this uid, without a grace period.
pub(crate) async fn delete_now(client: &Client, path: &str, uid: &str) -> Result<()> {
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
    json_requests::delete::<IgnoredAny>(client, path, &options).await.map(drop)
}

/// Success if the object was changed or deleted by others meanwhile: another event is under way.
pub(crate) fn unless_outdated(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if has_code(&error, 404) || has_code(&error, 409) => {
            tracing::debug!(%error, "an object was changed or deleted by others meanwhile");
            Ok(())
        }
        result => result,
    }
}
