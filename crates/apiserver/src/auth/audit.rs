//! Who did what, and what came of it: one line a request in the log, under the target `audit`.
//!
//! `sampan up --log warn,audit=info` shows them; otherwise they cost next to nothing.

use crate::endpoints::context::RequestContext;
use crate::plane::Plane;
use http::header::{HeaderMap, HeaderName, HeaderValue};

/// The header that names a request, there and back.
pub(crate) const ID: HeaderName = HeaderName::from_static("audit-id");

/// The name of a request: what its sender calls it, or a new one.
pub(crate) fn id(plane: &Plane, headers: &HeaderMap) -> HeaderValue {
    let made = || HeaderValue::try_from(plane.entropy.uuid()).expect("a uid is plain text");
    headers.get(ID).filter(|it| !it.is_empty()).cloned().unwrap_or_else(made)
}

/// Notes an answered request.
pub(crate) fn record(cx: &RequestContext, code: u16) {
    tracing::info!(
        target: "audit",
        user = cx.user.name,
        verb = cx.verb.as_str(),
        group = cx.target.group,
        version = cx.target.version,
        resource = cx.target.resource,
        subresource = cx.target.subresource,
        namespace = cx.target.namespace,
        name = cx.target.name,
        code,
    );
}

/// Notes something about a request that is under way.
pub(crate) fn annotate(cx: &RequestContext, key: &str, value: &str) {
    tracing::info!(
        target: "audit",
        user = cx.user.name,
        verb = cx.verb.as_str(),
        resource = cx.target.resource,
        namespace = cx.target.namespace,
        name = cx.target.name,
        annotation = key,
        value,
    );
}
