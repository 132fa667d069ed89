//! POST to a collection.

use crate::admission;
use crate::admission::Attributes;
use crate::cache::conversion;
use crate::cache::creations::Creation;
use crate::endpoints::context::RequestContext;
use crate::endpoints::{answer, decode};
use crate::http::body::Body;
use crate::registry;
use crate::registry::field_manager;
use crate::registry::{Outcome, Patience};
use crate::request::options::WriteOptions;
use http::Response;
use machinery::{Object, Status};

/// Stores a new object and answers with it, in the version in which it was sent.
pub(crate) async fn create(cx: &RequestContext, body: &[u8]) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let object = decode::object(cx, body, options.field_validation)?;
    check_namespace(cx, &object)?;
    create_decoded(cx, object, options.dry_run).await
}

/// Stores a new object, whatever verb sent it, and answers with it.
pub(super) async fn create_decoded(
    cx: &RequestContext,
    mut object: Object,
    dry_run: bool,
) -> Result<Response<Body>, Status> {
    let _creation = begin_creation(cx, &object)?;
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        object.remove_meta(field);
    }
    field_manager::track(cx, None, &mut object).await;
    let outcome = admitted(cx, object, dry_run).await?;
    shown(cx, 201, outcome).await
}

/// Stores a new object, if admission lets it in, and waits for those who have to work on it before
/// others may see it.
pub(super) async fn admitted(
    cx: &RequestContext,
    mut object: Object,
    dry_run: bool,
) -> Result<Outcome, Status> {
    let patience = Patience::of(cx)?;
    // Admission looks at other objects, which may have been written a moment ago.
    cx.catch_up().await?;
    if !cx.namespace().is_empty() {
        object.set_meta("namespace", cx.namespace());
    }
    let attributes = Attributes::create(cx, &object, dry_run);
    admission::mutate(&attributes, &mut object).await?;
    let outcome = registry::create(cx, object, dry_run).await?;
    patience.until_initialized(cx, outcome).await
}

/// An outcome in the version that the client asked for.
pub(super) async fn shown(
    cx: &RequestContext,
    code: u16,
    outcome: Outcome,
) -> Result<Response<Body>, Status> {
    match outcome {
        Outcome::Stored(entry) => answer::entry(cx, code, &entry).await,
        Outcome::Shown(object) => {
            let object = conversion::object(&cx.plane, &cx.served, cx.version, object).await?;
            Ok(answer::object(cx, code, object))
        }
    }
}

/// The body may leave its namespace out, but not contradict the path.
pub(super) fn check_namespace(cx: &RequestContext, object: &Object) -> Result<(), Status> {
    let (found, expected) = (object.namespace(), cx.namespace());
    if found.is_empty() || found == expected || !cx.resource().namespaced {
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Counts the creation until the returned value is dropped; refused while the resource's definition
/// is being deleted.
pub(super) fn begin_creation(cx: &RequestContext, object: &Object) -> Result<Creation, Status> {
    cx.served.begin_creation().ok_or_else(|| {
        let why = "create not allowed while custom resource definition is terminating";
        Status::forbidden(&cx.what(), object.name(), why)
    })
}
