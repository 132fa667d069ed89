//! POST to a collection: creates an object.

use http::Response;

use super::context::RequestContext;
use super::decode;
use super::object_response;
use crate::http::body::Body;
use crate::registry;
use crate::registry::{CreateRequest, InitializationWait, ManagedFields, WriteOutcome, conversion};
use crate::request::options::{WriteOptions, parse_initialization_timeout};
use crate::storage::creations::Creation;
use informer::shared_items::WrittenItem;
use machinery::{Object, Status};

/// Creates an object and responds with it, in the version of the request.
pub(crate) async fn create(cx: &RequestContext, body: &[u8]) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let object = decode::object(cx, body, options.field_validation())?;
    check_namespace(cx, &object)?;
    create_decoded(cx, object, &options).await
}

/// Creates an object on behalf of any verb, and responds with it.
pub(super) async fn create_decoded(
    cx: &RequestContext,
    mut object: Object,
    options: &WriteOptions,
) -> Result<Response<Body>, Status> {
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        object.remove_meta(field);
    }
    store(cx, object, ManagedFields::Track, options).await
}

/// Creates an object, waits for its initializers, and responds with it.
pub(super) async fn store(
    cx: &RequestContext,
    object: Object,
    managed_fields: ManagedFields,
    options: &WriteOptions,
) -> Result<Response<Body>, Status> {
    let _creation = begin_creation(cx, &object)?;
    let wait = if cx.includes_uninitialized() {
        InitializationWait::NONE
    } else {
        InitializationWait::start(&cx.scope, parse_initialization_timeout(&cx.query)?)
    };
    let admission = &cx.plane.admission.of_write(&cx.scope, options);
    let request = CreateRequest { object, admission, managed_fields, dry_run: options.dry_run };
    let outcome = registry::create(&cx.scope, request).await?;
    let outcome = wait.until_initialized(&cx.scope, outcome).await?;
    respond(cx, 201, outcome).await
}

/// A response with the outcome, in the version of the request. For a client in this process it
/// carries the stored object, too.
pub(super) async fn respond(
    cx: &RequestContext,
    code: u16,
    outcome: WriteOutcome,
) -> Result<Response<Body>, Status> {
    match outcome {
        WriteOutcome::Stored(entry) => {
            let mut response = object_response::entry(cx, code, &entry).await?;
            if cx.accept_items().is_some()
                && let Ok(item) = object_response::item(cx, &entry, entry.revision, true)
            {
                response.extensions_mut().insert(WrittenItem(item));
            }
            Ok(response)
        }
        WriteOutcome::NotStored(object) => {
            let object = conversion::object(&cx.scope, cx.scope.version, object).await?;
            Ok(object_response::object(cx, code, object))
        }
    }
}

/// Rejects a body whose namespace differs from that of the path. The body may omit its namespace.
pub(super) fn check_namespace(cx: &RequestContext, object: &Object) -> Result<(), Status> {
    let (found, expected) = (object.namespace(), cx.scope.namespace());
    if found.is_empty() || found == expected || !cx.scope.resource().namespaced {
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Counts the creation until the returned value is dropped. Fails while the resource's CRD is being
/// deleted.
fn begin_creation(cx: &RequestContext, object: &Object) -> Result<Creation, Status> {
    cx.scope.served.begin_creation().ok_or_else(|| {
        let why = "create not allowed while custom resource definition is terminating";
        Status::forbidden(&cx.scope.group_resource(), object.name(), why)
    })
}
