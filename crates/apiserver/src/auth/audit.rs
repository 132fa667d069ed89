//! Who did what, and what came of it: one line a request in the log, under the target `audit`.
//!
//! `sampan up --log warn,audit=info` shows them; otherwise they cost next to nothing.

use crate::auth::authentication::User;
use crate::request::{ResourcePath, Verb};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use keel::Entropy;

/// The header that names a request, there and back.
pub(crate) const ID: HeaderName = HeaderName::from_static("audit-id");

/// The name of a request: what its sender calls it, or a new one.
pub(crate) fn id(entropy: &Entropy, headers: &HeaderMap) -> HeaderValue {
    let made = || HeaderValue::try_from(entropy.uuid()).expect("a uid is plain text");
    headers.get(ID).filter(|it| !it.is_empty()).cloned().unwrap_or_else(made)
}

/// Notes an answered request.
pub(crate) fn record(user: &User, verb: Verb, path: &ResourcePath, code: u16) {
    tracing::info!(
        target: "audit",
        user = user.name,
        verb = verb.as_str(),
        group = path.group,
        version = path.version,
        resource = path.resource,
        subresource = path.subresource,
        namespace = path.namespace,
        name = path.name,
        code,
    );
}

/// Notes something about a request that is under way.
pub(crate) fn annotate(user: &User, verb: Verb, path: &ResourcePath, key: &str, value: &str) {
    tracing::info!(
        target: "audit",
        user = user.name,
        verb = verb.as_str(),
        resource = path.resource,
        namespace = path.namespace,
        name = path.name,
        annotation = key,
        value,
    );
}
