//! GET of one object.

use http::Response;

use crate::endpoints::context::RequestContext;
use crate::endpoints::object_response;
use crate::http::body::Body;
use crate::registry::conversion;
use crate::request::options::parse_revision;
use machinery::Status;

/// Responds with the named object.
pub(crate) async fn get(cx: &RequestContext) -> Result<Response<Body>, Status> {
    if cx.query.flag("export") {
        let why = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(Status::bad_request(why));
    }
    wait_for_revision(cx).await?;
    let entry = cx.find()?;
    if cx.query.text("resourceVersion").is_empty() {
        conversion::invalidate(&cx.scope, &entry);
    }
    object_response::entry(cx, 200, &entry).await
}

/// Waits until the cache is as new as the request requires. Without a resourceVersion, the response
/// is current; with one, it is not older than that. A resourceVersion of 0 accepts any state, and
/// is current while the store is in this process.
pub(super) async fn wait_for_revision(cx: &RequestContext) -> Result<(), Status> {
    match cx.query.text("resourceVersion") {
        "" | "0" => cx.scope.catch_up().await,
        text => {
            let revision = parse_revision(text).map_err(|why| {
                let text = machinery::field_path::quote(text);
                Status::unclassified(format!("resourceVersion: Invalid value: {text}: {why}"))
            })?;
            wait_until_not_older_than(cx, revision).await
        }
    }
}

/// Waits up to three seconds for a revision that the cache does not have yet.
pub(super) async fn wait_until_not_older_than(
    cx: &RequestContext,
    revision: u64,
) -> Result<(), Status> {
    /// Upstream: a request for a future revision fails after this time.
    const MAX_WAIT: std::time::Duration = std::time::Duration::from_secs(3);
    if cx.scope.storage.cache.applied() >= revision {
        return Ok(());
    }
    match tokio::time::timeout(MAX_WAIT, cx.scope.storage.cache.wait_for_revision(revision)).await {
        Ok(()) => Ok(()),
        Err(_) => {
            Err(Status::too_large_resource_version(revision, cx.scope.storage.cache.applied()))
        }
    }
}
