//! `/.well-known/openid-configuration` and `/openid/v1/jwks`: the documents with which other programs
//! verify service account tokens.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderValue};
use http::request::Parts as Head;
use http::{Method, Response};

use crate::http::body::Body;
use crate::http::negotiation::accepts_only;
use crate::http::response;
use crate::plane::Plane;
use machinery::Status;

/// Serves the configuration of the issuer.
pub(crate) fn configuration(plane: &Plane, head: &Head) -> Result<Response<Body>, Status> {
    let document = plane.issuer_discovery.as_ref().map(|it| &it.configuration);
    serve(document, head, "application/json")
}

/// Serves the public keys of the issuer.
pub(crate) fn key_set(plane: &Plane, head: &Head) -> Result<Response<Body>, Status> {
    let document = plane.issuer_discovery.as_ref().map(|it| &it.key_set);
    serve(document, head, "application/jwk-set+json")
}

fn serve(
    document: Option<&Bytes>,
    head: &Head,
    content_type: &'static str,
) -> Result<Response<Body>, Status> {
    let Some(document) = document else { return Ok(response::page_not_found()) };
    if head.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    accepts_only(&head.headers, content_type)?;
    let mut answer = response::bytes(200, content_type, document.clone());
    // Upstream: caches may store it for an hour, unlike other documents.
    let cacheable = HeaderValue::from_static("public, max-age=3600");
    answer.headers_mut().insert(CACHE_CONTROL, cacheable);
    Ok(answer)
}
