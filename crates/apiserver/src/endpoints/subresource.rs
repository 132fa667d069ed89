//! Subresources that are posted to and change their object: the answer is a Status.

use crate::admission::{self, Attempt, Operation};
use crate::answer;
use crate::body::Body;
use crate::context::Cx;
use crate::decode;
use crate::options::{FieldValidation, WriteOptions};
use crate::registry::{self, Part, UpdateRequest};
use http::Response;
use machinery::{GroupVersionKind, Object, Status};
use types::resource::Subresource;

/// A function of the kind's that changes the stored object.
pub(crate) type Change = fn(&mut Object, &Object, &str) -> Result<(), Status>;

/// Changes the object as the kind says.
pub(crate) async fn post(
    cx: &Cx,
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
    cx: &Cx,
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
    cx: &Cx,
    body: &mut Object,
    subresource: &Subresource,
    dry_run: bool,
) -> Result<(), Status> {
    let attempt = attempt(cx, body, subresource, dry_run).await?;
    admission::admit_sent(&attempt, body).await
}

/// The attempt to post something, which is told what it is and where it belongs.
pub(super) async fn attempt<'c>(
    cx: &'c Cx,
    body: &mut Object,
    subresource: &Subresource,
    dry_run: bool,
) -> Result<Attempt<'c>, Status> {
    // Who is to be asked may have been configured a moment ago.
    cx.catch_up().await?;
    let kind = kind_of(cx, subresource);
    body.set_type(&kind.group_version().to_string(), &kind.kind);
    if !cx.namespace().is_empty() {
        body.set_meta("namespace", cx.namespace());
    }
    Ok(Attempt::below(cx, Operation::Create, kind, dry_run))
}

/// The kind of what is sent to a subresource.
pub(super) fn kind_of(cx: &Cx, subresource: &Subresource) -> GroupVersionKind {
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
    cx: &Cx,
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
