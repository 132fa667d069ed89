//! Writes answers: objects by copying their bytes where that will do, anything else from values.

use crate::cache::catalog::Served;
use crate::cache::conversion::convert_locally;
use crate::cache::watch_cache::{Entry, Head};
use crate::endpoints::context::RequestContext;
use crate::endpoints::protobuf;
use crate::endpoints::table;
use crate::http::body::Body;
use crate::http::negotiation::{Accepted, Form, Media, one_as_list};
use crate::http::response;
use crate::registry::conversion;
use bytes::Bytes;
use http::Response;
use machinery::{Object, Status, Value, json};
use std::sync::Arc;
use store::Revision;
use types::Ordered;
use types::resource::Shape;

/// Objects of this size are not copied into an answer but shared with it, so that answers that are
/// not read take up little memory.
pub(crate) const LARGE: usize = 16 << 10;

/// One stored object, in the version and the form that were asked for.
pub(crate) async fn entry(
    cx: &RequestContext,
    code: u16,
    entry: &Arc<Entry>,
) -> Result<Response<Body>, Status> {
    if cx.accepted.form == Form::PartialList {
        return Err(one_as_list(cx.scope.resource()));
    }
    let entry = &*conversion::entry(&cx.scope, entry).await?;
    cx.check_room(entry.len())?;
    if cx.accepted == Accepted::JSON {
        if entry.len() >= LARGE
            && let Some(head) = head(&cx.scope.served, cx.scope.version, entry)
        {
            let [first, rest] = entry.pieces(head, entry.revision);
            let pieces = [first, rest, Bytes::from_static(b"\n")].into();
            return Ok(response::bytes(code, Media::Json.content_type(), Body::Chunks(pieces)));
        }
        let mut out = Vec::with_capacity(entry.len() + 65);
        write_entry(&cx.scope.served, cx.scope.version, entry, entry.revision, &mut out);
        return Ok(response::bytes(code, Media::Json.content_type(), response::line(out)));
    }
    if cx.accepted.media == Media::Protobuf {
        let message = protobuf::entry(cx, entry, entry.revision);
        return Ok(response::bytes(code, Media::Protobuf.content_type(), message));
    }
    Ok(object(cx, code, conversion::requested(&cx.scope, entry.object())))
}

/// One object in the asked-for version, in the asked-for form.
pub(crate) fn object(cx: &RequestContext, code: u16, object: Object) -> Response<Body> {
    let value = match cx.accepted.form {
        Form::Whole => {
            let value = object.into_value();
            let whole = ordered(cx, &value);
            return response::written(code, cx.accepted, &whole, || {
                types::protobuf::encode(&value)
            });
        }
        Form::PartialList => {
            return response::failure(&one_as_list(cx.scope.resource()), cx.errors_as);
        }
        Form::Partial => partial(object),
        Form::Table => {
            let metadata = match object.resource_version() {
                "" => json!({}),
                revision => json!({"resourceVersion": revision}),
            };
            return match table::table(cx, &metadata, vec![object]) {
                Ok(table) => response::serialized(code, cx.accepted, &table),
                Err(status) => response::failure(&status, cx.errors_as),
            };
        }
    };
    response::document(code, cx.accepted, &value)
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
    served.version(version).shape.write(&convert_locally(served, version, object), out);
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
pub(crate) fn ordered<'a>(cx: &RequestContext, value: &'a Value) -> Ordered<'a> {
    let is_own = value["kind"] == cx.scope.resource().kind.as_str();
    match &cx.scope.version().shape {
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
pub(crate) fn success(cx: &RequestContext, code: u16, details: Option<Value>) -> Response<Body> {
    let mut status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    match details {
        Some(details) => status["details"] = details,
        None => status["code"] = code.into(),
    }
    response::document(code, cx.accepted, &status)
}
