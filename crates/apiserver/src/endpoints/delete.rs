//! DELETE of one object.

use http::Response;

use super::create::respond;
use crate::endpoints::context::RequestContext;
use crate::endpoints::{decode, object_response};
use crate::http::body::Body;
use crate::registry;
use crate::registry::admit::AlreadyAdmitted;
use crate::registry::conversion;
use crate::registry::{Deleted, shape};
use crate::request::options::DeleteOptions;
use machinery::status::Details;
use machinery::{Object, Status, Value};
use types::resource::GarbageCollectionPolicy;

/// Deletes the named object, or marks it for deletion.
pub(crate) async fn delete(cx: &RequestContext, body: &[u8]) -> Result<Response<Body>, Status> {
    let options = options(cx, body)?;
    warn_without_propagation_policy(cx, &options);
    let (namespace, name) = (cx.scope.namespace(), &cx.scope.path.name);
    let admission = cx.plane.admission.of_deletion(&cx.scope, &options);
    match registry::delete(&cx.scope, namespace, name, &options, &admission).await? {
        Deleted::Terminating(outcome) => respond(cx, 200, outcome).await,
        Deleted::Removed(object) => {
            if cx.scope.resource().strategy.returns_deleted {
                return Ok(object_response::object(
                    cx,
                    200,
                    conversion::in_request_version(&cx.scope, object),
                ));
            }
            Ok(object_response::success(cx, 200, Some(details(cx, &object).to_value())))
        }
    }
}

/// Deletes an object whose CRD is being deleted, without admission.
pub(crate) async fn delete_instance(cx: &RequestContext) -> Result<Response<Body>, Status> {
    // Upstream: the finalizer of CRDs deletes from the storage, without admission.
    let options = DeleteOptions::default();
    let (namespace, name) = (cx.scope.namespace(), &cx.scope.path.name);
    registry::delete(&cx.scope, namespace, name, &options, &AlreadyAdmitted).await?;
    Ok(object_response::success(cx, 200, None))
}

/// The options of a deletion, from its body or its query.
pub(super) fn options(cx: &RequestContext, body: &[u8]) -> Result<DeleteOptions, Status> {
    if body.is_empty() {
        return DeleteOptions::from_query(&cx.query);
    }
    // Upstream: the options may be in protobuf even for a custom resource.
    let ty = types::find("meta/v1.DeleteOptions").expect("the table has all types of meta/v1");
    let decoded = decode::decode_body(&cx.content_type, body, Some(ty))
        .map_err(|error| error.plain_status())?;
    let literals = decoded.literals;
    let mut options = decode::into_object(decoded.value).map_err(Status::bad_request)?;
    if !matches!(options.kind(), "" | "DeleteOptions") {
        let (kind, found) = (options.kind(), options.api_version());
        let version = if found.is_empty() { "meta.k8s.io/v1" } else { found };
        let is_known = types::find(&format!("meta/v1.{kind}")).is_some();
        if is_known && matches!(version, "v1" | "meta.k8s.io/v1") {
            return Err(Status::bad_request(format!(
                "converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion"
            )));
        }
        return Err(Status::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
        )));
    }
    // An invalid option must not be ignored, since it may be the dry run.
    let mut value = Value::Object(std::mem::take(options.map_mut()));
    shape::fit_type(ty, &mut value, &literals, &mut Vec::new()).map_err(Status::bad_request)?;
    let options = Object::from_value(value).unwrap_or_default();
    // Upstream: the options are recorded in the version in which the server uses them.
    decode::note_typed_object(cx, &options, "meta.k8s.io/__internal", ty);
    DeleteOptions::from_body(&options)
}

/// Adds the warning of the kind, if it has one, that dependents are not guaranteed to survive without a
/// propagation policy.
pub(super) fn warn_without_propagation_policy(cx: &RequestContext, options: &DeleteOptions) {
    if let (None, GarbageCollectionPolicy::OrphanDependents(Some(warning))) =
        (options.propagation, cx.scope.resource().strategy.garbage_collection)
    {
        cx.scope.warn(warning.to_owned());
    }
}

fn details(cx: &RequestContext, object: &Object) -> Details {
    let what = cx.scope.group_resource();
    Details {
        name: object.name().to_owned(),
        group: what.group,
        kind: what.resource,
        uid: object.uid().to_owned(),
        ..Details::default()
    }
}
