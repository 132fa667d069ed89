//! The audit log: one line for each request in the server's log, with the target `audit`.
//!
//! `sampan up --log warn,audit=info` enables it; otherwise it costs almost nothing.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::auth::authentication::User;
use crate::request::{ResourcePath, Verb};
use keel::Entropy;

/// The header with the audit ID, of the request and of the response.
pub(crate) const ID: HeaderName = HeaderName::from_static("audit-id");

/// The audit ID of a request: that of its header, or a new one.
pub(crate) fn id(entropy: &Entropy, headers: &HeaderMap) -> HeaderValue {
    let new_id = || HeaderValue::try_from(entropy.uuid()).expect("a UUID is ASCII");
    headers.get(ID).filter(|it| !it.is_empty()).cloned().unwrap_or_else(new_id)
}

/// Records an answered request.
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

/// Records an audit annotation of a request in progress.
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
