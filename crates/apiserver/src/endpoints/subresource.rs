//! Subresources that are posted to and change their object: the answer is a Status.

use crate::answer;
use crate::body::Body;
use crate::context::Cx;
use crate::decode;
use crate::options::WriteOptions;
use crate::registry::{self, Part, UpdateRequest};
use http::Response;
use kinds::resource::Subresource;
use kinds::types;
use machinery::{GroupVersion, Object, Status, Value};

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
    let body = posted(cx, body, subresource)?;
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

/// Reads a body that is to be of the subresource's kind.
pub(super) fn posted(cx: &Cx, bytes: &[u8], subresource: &Subresource) -> Result<Object, Status> {
    let Subresource { group, version, kind, .. } = *subresource;
    let api_version = match version {
        "" => cx.resource().api_version(cx.version()),
        version => GroupVersion::new(group, version).to_string(),
    };
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
    if !object.name().is_empty() {
        super::update::check_name(cx, &object)?;
    }
    Ok(object)
}
