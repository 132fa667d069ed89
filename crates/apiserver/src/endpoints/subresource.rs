//! Subresources that are posted to and change their object: the answer is a Status.

use crate::admission;
use crate::admission::{Attributes, Operation};
use crate::endpoints::answer;
use crate::endpoints::context::RequestContext;
use crate::endpoints::decode;
use crate::http::body::Body;
use crate::registry;
use crate::registry::{Part, UpdateRequest};
use crate::request::options::{FieldValidation, WriteOptions};
use http::Response;
use kinds::resource::Subresource;
use kinds::types;
use machinery::{GroupVersionKind, Object, Status};

/// A function of the kind's that changes the stored object.
pub(crate) type Change = fn(&mut Object, &Object, &str) -> Result<(), Status>;

/// Changes the object as the kind says.
pub(crate) async fn post(
    cx: &RequestContext,
    body: &[u8],
    subresource: &Subresource,
    change: Change,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let mut body = posted(cx, body, subresource, options.field_validation)?;
    if body.name() != cx.target.name {
        let kind = subresource.kind;
        let why = format!("name in URL does not match name in {kind} object");
        return Err(Status::bad_request(why));
    }
    admit(cx, &mut body, subresource, options.dry_run).await?;
    apply(cx, &body, change, options.dry_run).await
}

/// Changes the object by what was posted and admitted.
pub(super) async fn apply(
    cx: &RequestContext,
    body: &Object,
    change: Change,
    dry_run: bool,
) -> Result<Response<Body>, Status> {
    let now = cx.plane.now();
    let transform = |old: &Object| {
        let mut new = old.clone();
        change(&mut new, body, &now)?;
        Ok(new)
    };
    registry::update(
        cx,
        UpdateRequest {
            transform: &transform,
            part: Part::Posted,
            dry_run,
            // Upstream: what the server does with it is nobody's.
            ownership_settled: true,
        },
    )
    .await?;
    Ok(answer::success(cx, 201, None))
}

/// Lets others change and judge what was posted.
pub(super) async fn admit(
    cx: &RequestContext,
    body: &mut Object,
    subresource: &Subresource,
    dry_run: bool,
) -> Result<(), Status> {
    let attributes = attributes(cx, body, subresource, dry_run).await?;
    admission::admit_sent(&attributes, body).await
}

/// The attributes to post something, which is told what it is and where it belongs.
pub(super) async fn attributes<'c>(
    cx: &'c RequestContext,
    body: &mut Object,
    subresource: &Subresource,
    dry_run: bool,
) -> Result<Attributes<'c>, Status> {
    // Who is to be asked may have been configured a moment ago.
    cx.catch_up().await?;
    let kind = kind_of(cx, subresource);
    body.set_type(&kind.group_version().to_string(), &kind.kind);
    if !cx.namespace().is_empty() {
        body.set_meta("namespace", cx.namespace());
    }
    Ok(Attributes::below(cx, Operation::Create, kind, dry_run))
}

/// The kind of what is sent to a subresource.
pub(super) fn kind_of(cx: &RequestContext, subresource: &Subresource) -> GroupVersionKind {
    let Subresource { group, version, kind, .. } = *subresource;
    match version {
        "" => {
            let version = cx.version();
            GroupVersionKind::new(cx.resource().group_of(version), &version.name, kind)
        }
        version => GroupVersionKind::new(group, version, kind),
    }
}

/// Reads a body that is to be of the subresource's kind, in the namespace of the path.
pub(super) fn posted(
    cx: &RequestContext,
    bytes: &[u8],
    subresource: &Subresource,
    validation: FieldValidation,
) -> Result<Object, Status> {
    let api_version = kind_of(cx, subresource).group_version().to_string();
    let ty = types::of_kind(&api_version, subresource.kind).ok_or_else(Status::no_such_resource)?;
    let object = decode::other(cx, bytes, ty, validation)?;
    super::create::check_namespace(cx, &object)?;
    Ok(object)
}
