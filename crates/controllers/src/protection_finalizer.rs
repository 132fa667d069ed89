//! The finalizer that protects objects in use from their deletion.

use serde_json::{Value, json};

use crate::api_requests;
use crate::metadata::Metadata;
use runtime::Client;

/// Adds the finalizer to an object at `path`, or removes it from one that is being deleted and not
/// used. `is_used` runs only before a removal.
pub(crate) async fn protect(
    client: &Client,
    path: &str,
    metadata: &Metadata,
    finalizer: &str,
    is_used: impl Future<Output = api_requests::Result<bool>>,
) -> api_requests::Result<()> {
    let has_finalizer = metadata.finalizers.iter().any(|it| it == finalizer);
    let finalizers: Vec<&str> = if metadata.is_deleting() && has_finalizer && !is_used.await? {
        let others = metadata.finalizers.iter().map(String::as_str);
        others.filter(|it| *it != finalizer).collect()
    } else if !metadata.is_deleting() && !has_finalizer {
        metadata.finalizers.iter().map(String::as_str).chain([finalizer]).collect()
    } else {
        return Ok(());
    };
    let patch = json!({"metadata": {"uid": metadata.uid,
        "resourceVersion": metadata.resource_version, "finalizers": finalizers}});
    let patched = api_requests::merge::<Value>(client, path, &patch).await;
    api_requests::none_if_missing(patched)?;
    Ok(())
}
