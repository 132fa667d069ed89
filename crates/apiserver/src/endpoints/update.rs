//! PUT of an object or of its status.

use http::Response;

use super::create::{check_namespace, create_decoded, respond};
use crate::endpoints::context::RequestContext;
use crate::endpoints::decode;
use crate::http::body::Body;
use crate::registry;
use crate::registry::{ManagedFields, UpdateRequest, UpdateStrategy};
use crate::request::options::WriteOptions;
use machinery::{Object, Status};

/// Replaces the named object and responds with it.
pub(crate) async fn update(
    cx: &RequestContext,
    body: &[u8],
    strategy: UpdateStrategy,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&cx.query, "UpdateOptions")?;
    let mut object = decode::object(cx, body, options.field_validation())?;
    check_namespace(cx, &object)?;
    check_name(cx, &object)?;
    if matches!(strategy, UpdateStrategy::Main)
        && cx.scope.resource().strategy.create_on_update
        && is_missing(cx).await
    {
        registry::check_uid(&cx.scope, &object, None, options.dry_run)?;
        // Upstream: the resourceVersion of an update is ignored when the object is created.
        object.remove_meta("resourceVersion");
        return create_decoded(cx, object, &options).await;
    }
    if !cx.scope.namespace().is_empty() {
        object.set_meta("namespace", cx.scope.namespace());
    }
    let transform = |_: &Object| Ok(object.clone());
    let request = UpdateRequest {
        transform: &transform,
        strategy,
        admission: &cx.plane.admission.of_write(&cx.scope, &options),
        dry_run: options.dry_run,
        managed_fields: ManagedFields::Track,
    };
    let outcome = registry::update(&cx.scope, request).await?;
    respond(cx, 200, outcome).await
}

async fn is_missing(cx: &RequestContext) -> bool {
    cx.scope.storage.cache.catch_up().await.is_ok()
        && !cx.scope.served.cache.contains(&cx.scope.key())
}

/// Fails unless the name in the body is the name in the path.
pub(super) fn check_name(cx: &RequestContext, object: &Object) -> Result<(), Status> {
    let (found, expected) = (object.name(), cx.scope.path.name.as_str());
    if found.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
        )));
    }
    if found != expected {
        return Err(Status::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({expected})"
        )));
    }
    Ok(())
}
