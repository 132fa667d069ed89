//! Subresources that change their object by a POST: the response is a Status.

use http::Response;

use crate::admission;
use crate::admission::{Attributes, Operation, OperationOptions};
use crate::endpoints::context::RequestContext;
use crate::endpoints::decode;
use crate::endpoints::object_response;
use crate::http::body::Body;
use crate::registry;
use crate::registry::admit::AlreadyAdmitted;
use crate::registry::large_objects::{has_large_object, offload_if};
use crate::registry::scope::RequestScope;
use crate::registry::{ManagedFields, UpdateRequest, UpdateStrategy};
use crate::request::options::{FieldValidation, WriteOptions};
use machinery::{GroupVersionKind, Object, Status};
use types::resource::Subresource;

/// A function of the kind that changes the stored object. Its arguments are the object, the posted
/// object and the current time.
pub(crate) type SubresourceChange = fn(&mut Object, &Object, &str) -> Result<(), Status>;

/// Changes the object by the function of the kind.
pub(crate) async fn post(
    cx: &RequestContext,
    body: &[u8],
    subresource: &Subresource,
    change: SubresourceChange,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let mut body = decode_body(cx, body, subresource, options.field_validation())?;
    if body.name() != cx.scope.path.name {
        let kind = subresource.kind;
        let why = format!("name in URL does not match name in {kind} object");
        return Err(Status::bad_request(why));
    }
    admit(cx, &mut body, subresource, &options).await?;
    update_object(cx, &cx.scope, &body, change, options.dry_run).await
}

/// Changes the object of `scope` by the posted and admitted object.
pub(super) async fn update_object(
    cx: &RequestContext,
    scope: &RequestScope,
    body: &Object,
    change: SubresourceChange,
    dry_run: bool,
) -> Result<Response<Body>, Status> {
    let now = scope.storage.now();
    let transform = |old: &Object| {
        let mut new = old.clone();
        change(&mut new, body, &now)?;
        Ok(new)
    };
    let update = registry::update(
        scope,
        UpdateRequest {
            transform: &transform,
            strategy: UpdateStrategy::Posted,
            admission: &AlreadyAdmitted,
            dry_run,
            // Upstream: fields that the server changes have no manager.
            managed_fields: ManagedFields::Keep,
        },
    );
    offload_if(has_large_object(scope), scope, update).await?;
    Ok(object_response::success(cx, 201, None))
}

/// Runs mutating and validating admission of a posted object.
pub(super) async fn admit(
    cx: &RequestContext,
    body: &mut Object,
    subresource: &Subresource,
    options: &WriteOptions,
) -> Result<(), Status> {
    let attributes = attributes(cx, body, subresource, options).await?;
    admission::admit_subresource(&attributes, body).await
}

/// The admission attributes of a posted object. Sets the kind and the namespace of the object.
pub(super) async fn attributes<'c>(
    cx: &'c RequestContext,
    body: &mut Object,
    subresource: &Subresource,
    options: &'c WriteOptions,
) -> Result<Attributes<'c>, Status> {
    // The cache must include webhook configurations that were created just before this request.
    cx.scope.catch_up().await?;
    let kind = kind_of(cx, subresource);
    body.set_type(&kind.group_version().to_string(), &kind.kind);
    if !cx.scope.namespace().is_empty() {
        body.set_meta("namespace", cx.scope.namespace());
    }
    let (admission, options) = (&cx.plane.admission, OperationOptions::Write(options));
    Ok(Attributes::of_subresource(admission, &cx.scope, Operation::Create, kind, options))
}

/// The kind of the objects that are posted to a subresource.
pub(super) fn kind_of(cx: &RequestContext, subresource: &Subresource) -> GroupVersionKind {
    let Subresource { group, version, kind, .. } = *subresource;
    match version {
        "" => {
            let version = cx.scope.version();
            GroupVersionKind::new(cx.scope.resource().group_of(version), &version.name, kind)
        }
        version => GroupVersionKind::new(group, version, kind),
    }
}

/// Decodes a body of the subresource's kind; its namespace must match the path.
pub(super) fn decode_body(
    cx: &RequestContext,
    bytes: &[u8],
    subresource: &Subresource,
    validation: FieldValidation,
) -> Result<Object, Status> {
    decode_with_defaults(cx, bytes, subresource, validation, |_| {})
}

/// Like [`decode_body`]; `set_defaults` sets the defaults of the kind.
pub(super) fn decode_with_defaults(
    cx: &RequestContext,
    bytes: &[u8],
    subresource: &Subresource,
    validation: FieldValidation,
    set_defaults: fn(&mut Object),
) -> Result<Object, Status> {
    let api_version = kind_of(cx, subresource).group_version().to_string();
    let ty = types::of_kind(&api_version, subresource.kind).ok_or_else(Status::no_such_resource)?;
    let mut object = decode::of_type(cx, bytes, ty, validation)?;
    set_defaults(&mut object);
    decode::note_typed_object(cx, &object, &api_version, ty);
    super::create::check_namespace(cx, &object)?;
    Ok(object)
}
