//! Subresources that are posted to and change their object: the answer is a Status.

use crate::admission::{self, Attempt, Operation};
use crate::answer;
use crate::body::Body;
use crate::context::Cx;
use crate::decode;
use crate::options::WriteOptions;
use crate::registry::{self, Part, UpdateRequest};
use http::Response;
use kinds::resource::Subresource;
use kinds::types;
use machinery::{GroupVersionKind, Object, Status, Value};

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
    let mut body = posted(cx, body, subresource)?;
    if body.name() != cx.target.name {
        let kind = subresource.kind;
        let why = format!("name in URL does not match name in {kind} object");
        return Err(Status::bad_request(why));
    }
    admit(cx, &mut body, subresource, options.dry_run).await?;
    let now = cx.plane.now();
    let transform = |old: &Object| {
        let mut new = old.clone();
        change(&mut new, &body, &now)?;
        Ok(new)
    };
    let dry_run = options.dry_run;
    registry::update(
        cx,
        UpdateRequest {
            transform: &transform,
            part: Part::Posted,
            dry_run,
            ownership_settled: false,
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
    // Who is to be asked may have been configured a moment ago.
    cx.catch_up().await?;
    let kind = kind_of(cx, subresource);
    body.set_type(&kind.group_version().to_string(), &kind.kind);
    if !cx.namespace().is_empty() {
        body.set_meta("namespace", cx.namespace());
    }
    let attempt = Attempt::below(cx, Operation::Create, kind, dry_run);
    admission::admit_below(&attempt, body).await
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

/// Reads a body that is to be of the subresource's kind.
pub(super) fn posted(cx: &Cx, bytes: &[u8], subresource: &Subresource) -> Result<Object, Status> {
    let kind = subresource.kind;
    let api_version = kind_of(cx, subresource).group_version().to_string();
    let decoded = decode::read(&cx.content_type, bytes, types::of_kind(&api_version, kind))
        .map_err(|error| error.status(kind, cx.version().name.as_str(), bytes))?;
    let object = match decoded.value {
        Value::Object(map) => Object::new(map),
        _ => return Err(Status::bad_request(format!("the body must be a {kind}"))),
    };
    if !object.kind().is_empty() && object.kind() != kind {
        let found = object.kind();
        return Err(Status::bad_request(format!("the body must be a {kind}, not a {found}")));
    }
    Ok(object)
}

/// Fails if the body names another object than the path.
pub(super) fn check_name(cx: &Cx, body: &Object) -> Result<(), Status> {
    if body.name().is_empty() { Ok(()) } else { super::update::check_name(cx, body) }
}
