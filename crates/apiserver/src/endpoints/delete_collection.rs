//! DELETE of a collection: deletes the selected objects one after the other.

use http::Response;

use super::list;
use crate::endpoints::context::RequestContext;
use crate::http::body::Body;
use crate::registry;
use machinery::{Reason, Status};

/// Deletes the selected objects and responds with a list of them in their last state.
pub(crate) async fn delete_collection(
    cx: &RequestContext,
    body: &[u8],
) -> Result<Response<Body>, Status> {
    let options = super::delete::options(cx, body)?.validated_for_collection()?;
    super::delete::warn_without_propagation_policy(cx, &options);
    let (metadata, selected) = list::select_page(cx).await?;
    let admission = cx.plane.admission.of_deletion(&cx.scope, &options);
    for entry in &selected {
        // No further deletions start after the client has disconnected.
        if cx.scope.writes.is_abandoned() {
            return Err(Status::timeout("the request was canceled", 0));
        }
        let (namespace, name) = (entry.namespace(), entry.name());
        match registry::delete(&cx.scope, namespace, name, &options, &admission).await {
            Ok(_) => {}
            // Another request has deleted the object in the meantime.
            Err(status) if status.reason == Reason::NotFound => {}
            Err(status) => return Err(status),
        }
    }
    list::encoding::write(cx, &metadata, selected)
}
