//! Builds responses: documents in the negotiated media type, plain text, failures.

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{HeaderMap, Response, StatusCode, Uri};
use serde::Serialize;

use super::body::Body;
use super::negotiation::{Media, MediaTypeOptions};
use machinery::codec::{json, yaml};
use machinery::field_path::quote;
use machinery::{Status, Value};
use types::Ordered;

/// A response with a document; a document without a protobuf message is encoded in JSON.
pub(crate) fn document(code: u16, accepted: MediaTypeOptions, value: &Value) -> Response<Body> {
    encoded(code, accepted, &Ordered::document(value), || types::protobuf::encode(value))
}

/// A response with a document that is indented for every client, such as `/version`.
pub(crate) fn indented(document: &impl Serialize) -> Response<Body> {
    serialized(200, MediaTypeOptions { pretty: true, ..MediaTypeOptions::JSON }, document)
}

/// A response with a document that has no protobuf message, with the fields in serialization order.
pub(crate) fn serialized(
    code: u16,
    accepted: MediaTypeOptions,
    document: &impl Serialize,
) -> Response<Body> {
    encoded(code, accepted, document, || None)
}

/// A response with a document; `message` is its protobuf encoding, if it has one.
pub(crate) fn encoded(
    code: u16,
    accepted: MediaTypeOptions,
    document: &impl Serialize,
    message: impl FnOnce() -> Option<Vec<u8>>,
) -> Response<Body> {
    if accepted.media == Media::Protobuf
        && let Some(message) = message()
    {
        return bytes(code, Media::Protobuf.content_type(), message);
    }
    let media = if accepted.media == Media::Yaml { Media::Yaml } else { Media::Json };
    bytes(code, media.content_type(), encode(accepted, document))
}

/// Encodes a document in YAML or JSON.
pub(crate) fn encode(accepted: MediaTypeOptions, document: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::new();
    match accepted.media {
        Media::Yaml => {
            // Upstream: YAML is converted from JSON through a map, which sorts the keys.
            let value = serde_json::to_value(document).expect("documents serialize to JSON");
            return yaml::encode(&value).into_bytes();
        }
        // Upstream: indented JSON has no trailing newline.
        Media::Json if accepted.pretty => json::write_pretty(&mut text, document),
        Media::Json | Media::Protobuf => {
            json::write(&mut text, document);
            text = with_newline(text);
        }
    }
    text
}

/// Upstream: JSON that is not indented ends with a newline.
pub(crate) fn with_newline(mut text: Vec<u8>) -> Vec<u8> {
    text.push(b'\n');
    text
}

/// A response with an encoded body.
pub(crate) fn bytes(code: u16, content_type: &str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(code).expect("status codes are constants");
    let content_type = HeaderValue::from_str(content_type).expect("content types are constants");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    set_not_cacheable(response.headers_mut());
    response
}

/// Forbids caches to store the response.
pub(crate) fn set_not_cacheable(headers: &mut HeaderMap) {
    headers.insert("cache-control", HeaderValue::from_static("no-cache, private"));
}

/// A response with text, as Go's standard handlers send it.
pub(crate) fn text(code: u16, text: &str) -> Response<Body> {
    bytes(code, "text/plain; charset=utf-8", text.to_owned())
}

/// Go's response to a path without a handler.
pub(crate) fn page_not_found() -> Response<Body> {
    nosniff_text(404, "404 page not found\n")
}

/// Text with a header that disables content sniffing in browsers.
pub(crate) fn nosniff_text(code: u16, body: &str) -> Response<Body> {
    with_nosniff(text(code, body))
}

fn with_nosniff(mut response: Response<Body>) -> Response<Body> {
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert("x-content-type-options", nosniff);
    response
}

/// A response with a failure Status.
pub(crate) fn failure(status: &Status, accepted: MediaTypeOptions) -> Response<Body> {
    let mut response = document(status.code, accepted, &status.to_value());
    if let Some(details) = status.details.as_ref().filter(|it| it.retry_after_seconds > 0) {
        response.headers_mut().insert(RETRY_AFTER, details.retry_after_seconds.into());
    }
    response
}

/// The failure of a request that is not authorized. Its message contains names that the client
/// chose, so content sniffing in browsers is disabled.
pub(crate) fn forbidden(status: &Status, accepted: MediaTypeOptions) -> Response<Body> {
    with_nosniff(failure(status, accepted))
}

/// The failure of a filter before the endpoint. Upstream: responsewriters `InternalError`, which is
/// not a Status, and escapes HTML.
pub(crate) fn internal_error(uri: &Uri, error: &str) -> Response<Body> {
    let uri = uri.path_and_query().map_or("", |it| it.as_str());
    let text = format!("Internal Server Error: {}: {error}\n", quote(uri));
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    nosniff_text(500, &escaped)
}

/// Adds a `Warning` header for each warning.
pub(crate) fn with_warnings(mut response: Response<Body>, warnings: Vec<String>) -> Response<Body> {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        let printable: String =
            quoted.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{printable}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}
