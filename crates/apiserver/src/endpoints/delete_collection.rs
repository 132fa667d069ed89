//! DELETE of a collection: every selected object, one after the other.

use super::list;
use crate::endpoints::context::RequestContext;
use crate::http::body::Body;
use crate::registry;
use http::Response;
use machinery::{Reason, Status};

/// Deletes the selected objects and answers with the list of them as they were.
pub(crate) async fn delete_collection(
    cx: &RequestContext,
    body: &[u8],
) -> Result<Response<Body>, Status> {
    let options = super::delete::options(cx, body)?.validated_for_collection()?;
    super::delete::warn_of_orphans(cx, &options);
    let (metadata, selected) = list::select_page(cx).await?;
    let admission = cx.plane.admission.of_deletion(&cx.scope, &options);
    for entry in &selected {
        // A client that has disconnected does not start further deletions.
        if cx.scope.writes.is_abandoned() {
            return Err(Status::timeout("the request was canceled", 0));
        }
        let (namespace, name) = (entry.namespace(), entry.name());
        match registry::delete(&cx.scope, namespace, name, &options, &admission).await {
            Ok(_) => {}
            // Somebody else deleted it meanwhile, which is all that was wanted.
            Err(status) if status.reason == Reason::NotFound => {}
            Err(status) => return Err(status),
        }
    }
    list::encoding::write(cx, &metadata, selected)
}
