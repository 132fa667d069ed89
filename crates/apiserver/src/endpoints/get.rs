//! GET of one object.

use crate::endpoints::answer;
use crate::endpoints::context::RequestContext;
use crate::http::body::Body;
use crate::registry::conversion;
use crate::request::options::parse_revision;
use http::Response;
use machinery::Status;

/// Answers with the named object, as new as the client wants it.
pub(crate) async fn get(cx: &RequestContext) -> Result<Response<Body>, Status> {
    if cx.scope.query.flag("export") {
        let why = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(Status::bad_request(why));
    }
    wait_for_revision(cx).await?;
    let entry = cx.found()?;
    if cx.scope.query.text("resourceVersion").is_empty() {
        conversion::invalidate(&cx.scope, &entry);
    }
    answer::entry(cx, 200, &entry).await
}

/// Without a resourceVersion the answer is current; with one it is not older than that. 0 takes
/// whatever is there, and as long as the store is in this process, that is what is new.
pub(super) async fn wait_for_revision(cx: &RequestContext) -> Result<(), Status> {
    match cx.scope.query.text("resourceVersion") {
        "" | "0" => cx.scope.catch_up().await,
        text => {
            let asked = parse_revision(text).map_err(|why| {
                let text = machinery::field_path::quote(text);
                Status::unclassified(format!("resourceVersion: Invalid value: {text}: {why}"))
            })?;
            not_older_than(cx, asked).await
        }
    }
}

/// Waits a moment for a revision that is not there yet.
pub(super) async fn not_older_than(cx: &RequestContext, asked: u64) -> Result<(), Status> {
    /// Upstream: a reader with a revision of the future is told so after this time.
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);
    if cx.scope.storage.cache.applied() >= asked {
        return Ok(());
    }
    match tokio::time::timeout(PATIENCE, cx.scope.storage.cache.reach(asked)).await {
        Ok(()) => Ok(()),
        Err(_) => Err(Status::revision_too_large(asked, cx.scope.storage.cache.applied())),
    }
}
