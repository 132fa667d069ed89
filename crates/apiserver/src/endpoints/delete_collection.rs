//! DELETE of a collection: every selected object, one after the other.

use super::selection::Selection;
use crate::body::Body;
use crate::context::Cx;
use crate::registry;
use http::Response;
use machinery::{Reason, Status, json};

/// Deletes the selected objects and answers with the list of them as they were.
pub(crate) async fn delete_collection(cx: &Cx, body: &[u8]) -> Result<Response<Body>, Status> {
    let options = super::delete::options(cx, body)?;
    super::delete::warn_of_orphans(cx, &options);
    let selection = Selection::parse(cx)?;
    cx.catch_up().await?;
    let snapshot = cx.served.cache.snapshot();
    let revision = snapshot.revision.max(cx.plane.cache.applied());
    let selected = selection.selected(cx, &snapshot).await?;
    for entry in &selected {
        match registry::delete(cx, entry.namespace(), entry.name(), &options).await {
            Ok(_) => {}
            // Somebody else deleted it meanwhile, which is all that was wanted.
            Err(status) if status.reason == Reason::NotFound => {}
            Err(status) => return Err(status),
        }
    }
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if cx.resource().custom {
        metadata["continue"] = "".into();
    }
    super::list::write(cx, &metadata, &selected)
}
