//! `/openapi`: the schemas and operations of all kinds, for clients that validate or explain
//! objects.
//!
//! Version 3 is an index and a document per group and version. The index has the hash of each
//! document, and a request with that hash has an immutable response. Version 2 is one document for
//! all groups, in JSON or, for kubectl, in protobuf.

mod document;
mod documents;
mod remote;

use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
    IF_NONE_MATCH, LOCATION, VARY,
};
use http::{HeaderMap, Response, StatusCode};

use crate::http::body::Body;
use crate::http::{compression, headers, response};
use crate::plane::Plane;
use crate::request::Query;
use crate::storage::catalog::Catalog;
use crate::storage::documents::{Compressed, Format};
use documents::OpenApiDocuments;
use machinery::codec::media::parse_accept;

const JSON: &str = "application/json";

/// The protobuf encoding of version 2 has two media types: the newer one, which responses have, and
/// the deprecated one, which all versions of kubectl request although it is not a valid media type.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const PROTOBUF_DEPRECATED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The `Cache-Control` header of a URL that contains the hash of the content.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// Serves a path under `/openapi`.
pub(crate) fn openapi(
    plane: &Plane,
    rest: &[&str],
    headers: &HeaderMap,
    query: &Query,
) -> Response<Body> {
    let catalog = plane.storage.catalog.load();
    let remotes = plane.aggregation.remotes();
    match rest {
        ["v3"] if !remotes.is_empty() => remote::index(plane, &catalog, headers),
        ["v2"] if !remotes.is_empty() => remote::version_2(plane, &catalog, headers),
        rest => serve_local(&catalog, rest, headers, query),
    }
}

/// Serves a path under `/openapi` from the documents of this server alone.
fn serve_local(
    catalog: &Catalog,
    rest: &[&str],
    headers: &HeaderMap,
    query: &Query,
) -> Response<Body> {
    match rest {
        ["v3"] => index(catalog, headers),
        ["v3", "api", version] => group_version(catalog, "", version, headers, query),
        ["v3", "apis", group, version] => group_version(catalog, group, version, headers, query),
        ["v3", "version"] => {
            let documents = OpenApiDocuments(catalog);
            index_document(catalog, documents::VERSION, headers, query, || {
                documents.version_document()
            })
        }
        ["v2"] => version_2(catalog, headers),
        _ => response::page_not_found(),
    }
}

/// Serves `/openapi/v3`.
fn index(catalog: &Catalog, headers: &HeaderMap) -> Response<Body> {
    let (document, etag) = OpenApiDocuments(catalog).index();
    // Upstream: the index is JSON, but its content type is text.
    let mut response =
        unless_not_modified(headers, &etag, "text/plain; charset=utf-8", || document.into());
    set_header(&mut response, VARY, HeaderValue::from_static("Accept"));
    response
}

/// Serves `/openapi/v3/apis/<group>/<version>`.
fn group_version(
    catalog: &Catalog,
    group: &str,
    version: &str,
    headers: &HeaderMap,
    query: &Query,
) -> Response<Body> {
    if !catalog.has_version(group, version) {
        return empty_response(StatusCode::NOT_FOUND);
    }
    let make = || OpenApiDocuments(catalog).version_3(group, version);
    index_document(catalog, &documents::index_path(group, version), headers, query, make)
}

/// Serves the document at a path of the index.
fn index_document(
    catalog: &Catalog,
    index_path: &str,
    headers: &HeaderMap,
    query: &Query,
    make: impl FnOnce() -> Compressed,
) -> Response<Body> {
    if accepted(headers, &[(JSON, Format::Json)]).is_none() {
        return empty_response(StatusCode::NOT_ACCEPTABLE);
    }
    let hash = OpenApiDocuments(catalog).hash(index_path);
    let requested_hash = query.text("hash");
    if !requested_hash.is_empty() && requested_hash != hash {
        let mut response = empty_response(StatusCode::MOVED_PERMANENTLY);
        let url = HeaderValue::from_str(&documents::relative_url(index_path, hash));
        set_header(&mut response, LOCATION, url.expect("groups, versions and hashes are ASCII"));
        return response;
    }
    let mut response = compressed(headers, hash, JSON, make);
    if !requested_hash.is_empty() {
        set_header(&mut response, CACHE_CONTROL, IMMUTABLE);
    }
    response
}

/// Serves `/openapi/v2`.
fn version_2(catalog: &Catalog, headers: &HeaderMap) -> Response<Body> {
    let Some((format, content_type)) = accepted_version_2_format(headers) else {
        return empty_response(StatusCode::NOT_ACCEPTABLE);
    };
    let documents = OpenApiDocuments(catalog);
    compressed(headers, &documents.version_2_hash(), content_type, || documents.version_2(format))
}

/// The format of version 2 that the client prefers, and its media type.
fn accepted_version_2_format(headers: &HeaderMap) -> Option<(Format, &'static str)> {
    let formats = [
        (JSON, Format::Json),
        (PROTOBUF, Format::Protobuf),
        (PROTOBUF_DEPRECATED, Format::Protobuf),
    ];
    let format = accepted(headers, &formats)?;
    Some((format, if format == Format::Json { JSON } else { PROTOBUF }))
}

/// The first media range in `Accept` that matches one of `formats`.
fn accepted(headers: &HeaderMap, formats: &[(&str, Format)]) -> Option<Format> {
    let accept = headers::first(headers, ACCEPT);
    let accept = if accept.is_empty() { "*/*" } else { &*accept };
    parse_accept(accept).iter().find_map(|range| {
        formats.iter().find(|(essence, _)| range.accepts(essence)).map(|(_, format)| *format)
    })
}

/// A response with a document that is cached in compressed form, and sent in that form if the
/// client accepts gzip.
fn compressed(
    headers: &HeaderMap,
    hash: &str,
    content_type: &str,
    make: impl FnOnce() -> Compressed,
) -> Response<Body> {
    let gzip = compression::accepts_gzip(headers);
    let etag = format!("\"{hash}\"");
    let mut response = unless_not_modified(headers, &etag, content_type, || {
        let document = make();
        Body::Shared(if gzip { document.gzip } else { document.decompress() })
    });
    if gzip && response.status() == StatusCode::OK {
        set_header(&mut response, CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    set_header(&mut response, VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    response
}

/// A response with the body, or 304 if the client has the same `ETag`.
fn unless_not_modified(
    headers: &HeaderMap,
    etag: &str,
    content_type: &str,
    body: impl FnOnce() -> Body,
) -> Response<Body> {
    let not_modified = headers.get_all(IF_NONE_MATCH).iter().any(|it| {
        let tags = it.to_str().unwrap_or_default().split(',');
        tags.map(|it| it.trim().trim_start_matches("W/")).any(|it| it == etag || it == "*")
    });
    let mut response = if not_modified {
        empty_response(StatusCode::NOT_MODIFIED)
    } else {
        response::bytes(200, content_type, body())
    };
    let etag = HeaderValue::from_str(etag).expect("hexadecimal digits are a valid header value");
    set_header(&mut response, ETAG, etag);
    response
}

/// A response without a body.
fn empty_response(code: StatusCode) -> Response<Body> {
    let mut response = response::bytes(code.as_u16(), JSON, Body::empty());
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

fn set_header(response: &mut Response<Body>, name: HeaderName, value: HeaderValue) {
    response.headers_mut().insert(name, value);
}

#[cfg(test)]
mod tests;
