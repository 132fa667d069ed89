//! The requests of nodes. Most responses are not decoded, since the caches have the objects.

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use runtime::Client;
use runtime::client::json_requests;

pub(crate) use runtime::client::json_requests::{
    JSON_PATCH, MERGE_PATCH as MERGE, STRATEGIC_MERGE_PATCH as STRATEGIC_MERGE, has_code,
};
pub(crate) use runtime::kube_client::{Error, Result};

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

/// Patches the object or the subresource at `path`, and returns the object.
pub(crate) async fn patch_and_read(
    client: &Client,
    path: &str,
    media_type: &str,
    patch: &impl Serialize,
) -> Result<Value> {
    json_requests::patch(client, path, media_type, patch).await
}

/// Deletes the object at `path` if it still has this uid, without a grace period.
pub(crate) async fn delete_now(client: &Client, path: &str, uid: &str) -> Result<()> {
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
    json_requests::delete::<IgnoredAny>(client, path, &options).await.map(drop)
}

/// Whether a request was refused because the object was changed by others meanwhile, or replaced by
/// another one of its name, so that the uid in a patch is not that of the object.
pub(crate) fn is_conflict(error: &Error) -> bool {
    let has_other_uid = || match error {
        Error::Api(status) => {
            let mut causes = status.details.iter().flat_map(|details| &details.causes);
            causes.any(|cause| cause.field == "metadata.uid")
        }
        _ => false,
    };
    has_code(error, 409) || has_code(error, 422) && has_other_uid()
}

/// Success if the object does not exist.
pub(crate) fn unless_missing(result: Result<()>) -> Result<()> {
    json_requests::none_if_missing(result).map(|_| ())
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
