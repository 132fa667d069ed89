//! Writes answers: objects by copying their bytes where that will do, anything else from values.

use crate::body::Body;
use crate::catalog::Served;
use crate::context::Cx;
use crate::conversion;
use crate::negotiation::{Accepted, Form, Media, one_as_list};
use crate::protobuf;
use crate::table;
use crate::watch_cache::{Entry, Head};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use machinery::codec::{json, yaml};
use machinery::{Object, Status, Value, json};
use serde::Serialize;
use std::sync::Arc;
use store::Revision;
use types::Ordered;
use types::resource::Shape;

/// Objects of this size are not copied into an answer but shared with it, so that answers that are
/// not read take up little memory.
pub(crate) const LARGE: usize = 16 << 10;

/// An answer with a document; one that has no protobuf message is written in JSON.
pub(crate) fn document(code: u16, accepted: Accepted, value: &Value) -> Response<Body> {
    written(code, accepted, &Ordered::document(value), || types::protobuf::encode(value))
}

/// An answer with a document that is indented whatever the client accepts, such as `/version`.
pub(crate) fn indented(document: &impl Serialize) -> Response<Body> {
    serialized(200, Accepted { pretty: true, ..Accepted::JSON }, document)
}

/// An answer with a document that has no protobuf message, its fields as they are serialized.
pub(crate) fn serialized(
    code: u16,
    accepted: Accepted,
    document: &impl Serialize,
) -> Response<Body> {
    written(code, accepted, document, || None)
}

fn written(
    code: u16,
    accepted: Accepted,
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

/// A document as YAML or JSON.
pub(crate) fn encode(accepted: Accepted, document: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::new();
    match accepted.media {
        Media::Yaml => {
            // Upstream: YAML is made of JSON, by way of a map, which sorts it.
            let value = serde_json::to_value(document).expect("documents are JSON");
            return yaml::encode(&value).into_bytes();
        }
        // Upstream: only what is not indented ends as a line does.
        Media::Json if accepted.pretty => json::write_pretty(&mut text, document),
        Media::Json | Media::Protobuf => {
            json::write(&mut text, document);
            text = line(text);
        }
    }
    text
}

/// Upstream: a document in JSON that is not indented ends as a line does.
fn line(mut text: Vec<u8>) -> Vec<u8> {
    text.push(b'\n');
    text
}

/// An answer with bytes that are there already.
pub(crate) fn bytes(code: u16, content_type: &str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(code).expect("codes are ours");
    let content_type = HeaderValue::from_str(content_type).expect("content types are ours");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response.headers_mut().insert("cache-control", HeaderValue::from_static("no-cache, private"));
    response
}

/// A line of text, as Go's own handlers give it.
pub(crate) fn text(code: u16, text: &str) -> Response<Body> {
    bytes(code, "text/plain; charset=utf-8", text.to_owned())
}

/// Go's answer to a path that nobody serves.
pub(crate) fn page_not_found() -> Response<Body> {
    plain(404, "404 page not found\n")
}

/// Text that a browser must not take for anything else.
pub(crate) fn plain(code: u16, words: &str) -> Response<Body> {
    not_to_be_guessed(text(code, words))
}

fn not_to_be_guessed(mut response: Response<Body>) -> Response<Body> {
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert("x-content-type-options", nosniff);
    response
}

/// A failure.
pub(crate) fn failure(status: &Status, accepted: Accepted) -> Response<Body> {
    let mut response = document(status.code, accepted, &status.to_value());
    if let Some(details) = status.details.as_ref().filter(|it| it.retry_after_seconds > 0) {
        response.headers_mut().insert(RETRY_AFTER, details.retry_after_seconds.into());
    }
    response
}

/// The failure of somebody who may not do what they ask for. Names in it are of their choice, so
/// that a browser must not take it for anything else.
pub(crate) fn refusal(status: &Status, accepted: Accepted) -> Response<Body> {
    not_to_be_guessed(failure(status, accepted))
}

/// One stored object, in the version and the form that were asked for.
pub(crate) async fn entry(
    cx: &Cx,
    code: u16,
    entry: &Arc<Entry>,
) -> Result<Response<Body>, Status> {
    if cx.accepted.form == Form::PartialList {
        return Err(one_as_list(cx.resource()));
    }
    let entry = &*conversion::entry(cx, entry).await?;
    cx.check_room(entry.len())?;
    if cx.accepted == Accepted::JSON {
        if entry.len() >= LARGE
            && let Some(head) = head(&cx.served, cx.version, entry)
        {
            let [first, rest] = entry.pieces(head, entry.revision);
            let pieces = [first, rest, Bytes::from_static(b"\n")].into();
            return Ok(bytes(code, Media::Json.content_type(), Body::Chunks(pieces)));
        }
        let mut out = Vec::with_capacity(entry.len() + 65);
        write_entry(&cx.served, cx.version, entry, entry.revision, &mut out);
        return Ok(bytes(code, Media::Json.content_type(), line(out)));
    }
    if cx.accepted.media == Media::Protobuf {
        let message = protobuf::entry(cx, entry, entry.revision);
        return Ok(bytes(code, Media::Protobuf.content_type(), message));
    }
    Ok(object(cx, code, conversion::requested(cx, entry.object())))
}

/// One object in the asked-for version, in the asked-for form.
pub(crate) fn object(cx: &Cx, code: u16, object: Object) -> Response<Body> {
    let value = match cx.accepted.form {
        Form::Whole => {
            let value = object.into_value();
            let whole = ordered(cx, &value);
            return written(code, cx.accepted, &whole, || types::protobuf::encode(&value));
        }
        Form::PartialList => return failure(&one_as_list(cx.resource()), cx.errors_as),
        Form::Partial => partial(object),
        Form::Table => {
            let metadata = match object.resource_version() {
                "" => json!({}),
                revision => json!({"resourceVersion": revision}),
            };
            return match table::table(cx, &metadata, vec![object]) {
                Ok(table) => serialized(code, cx.accepted, &table),
                Err(status) => failure(&status, cx.errors_as),
            };
        }
    };
    document(code, cx.accepted, &value)
}

/// Appends an object in the version `version`, with `revision` as its resourceVersion. Others were
/// asked for that version before, if that is how the kind is converted.
pub(crate) fn write_entry(
    served: &Served,
    version: usize,
    entry: &Entry,
    revision: Revision,
    out: &mut Vec<u8>,
) {
    if let Some(head) = head(served, version, entry) {
        entry.write(out, head, revision);
        return;
    }
    let mut object = entry.object();
    object.set_meta("resourceVersion", revision.to_string());
    served.version(version).shape.write(&conversion::local(served, version, object), out);
}

/// How an object that is copied into the version `version` begins; None if it has to be converted.
pub(crate) fn head<'a>(served: &'a Served, version: usize, entry: &Entry) -> Option<Head<'a>> {
    let api_version = served.api_version(version);
    if entry.api_version() == api_version.as_bytes() {
        Some(Head::Stored)
    } else {
        served.resource.differ_in_name_only(version).then_some(Head::Version(api_version))
    }
}

/// An object of the asked-for version, or of the kind of a subresource, in the order of its fields.
pub(crate) fn ordered<'a>(cx: &Cx, value: &'a Value) -> Ordered<'a> {
    let is_own = value["kind"] == cx.resource().kind.as_str();
    match &cx.version().shape {
        Shape::Structural(_) if is_own => Ordered::new(None, value),
        _ => Ordered::document(value),
    }
}

/// An object's metadata alone.
pub(crate) fn partial(mut object: Object) -> Value {
    let metadata = object.map_mut().remove("metadata").unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// The success of a deletion, or of a subresource that has nothing else to say.
pub(crate) fn success(cx: &Cx, code: u16, details: Option<Value>) -> Response<Body> {
    let mut status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    match details {
        Some(details) => status["details"] = details,
        None => status["code"] = code.into(),
    }
    document(code, cx.accepted, &status)
}

/// Adds what the client should be told besides the answer.
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
