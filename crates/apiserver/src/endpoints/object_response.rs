//! Writes objects into responses: copies their stored bytes where possible, and encodes them
//! otherwise.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;

use crate::cache::watch_cache::{Entry, Head};
use crate::endpoints::context::RequestContext;
use crate::endpoints::protobuf;
use crate::endpoints::table;
use crate::http::body::Body;
use crate::http::negotiation::{Media, MediaTypeOptions, Representation, object_as_list};
use crate::http::response;
use crate::registry::conversion;
use crate::storage::catalog::ServedResource;
use crate::storage::conversion::convert_locally;
use informer::{BadItem, Item};
use machinery::{Object, Status, Value, json};
use store::Revision;
use types::Ordered;
use types::resource::Shape;

/// The size from which an object's bytes are shared with the cache instead of copied into the
/// response, so that an unread response uses little memory.
pub(crate) const LARGE_OBJECT: usize = 16 << 10;

/// A response with a stored object, in the requested version and representation.
pub(crate) async fn entry(
    cx: &RequestContext,
    code: u16,
    entry: &Arc<Entry>,
) -> Result<Response<Body>, Status> {
    if cx.accepted.representation == Representation::PartialObjectMetadataList {
        return Err(object_as_list(cx.scope.resource()));
    }
    let entry = &*conversion::entry(&cx.scope, entry).await?;
    cx.check_room(entry.len())?;
    if cx.accepted == MediaTypeOptions::JSON {
        if entry.len() >= LARGE_OBJECT
            && let Some(head) = head(&cx.scope.served, cx.scope.version, entry)
        {
            let [first, rest] = entry.pieces(head, entry.revision);
            let pieces = [first, rest, Bytes::from_static(b"\n")].into();
            return Ok(response::bytes(code, Media::Json.content_type(), Body::Chunks(pieces)));
        }
        // 64 bytes for the parts that are not stored, such as the resourceVersion, and a newline.
        let mut out = Vec::with_capacity(entry.len() + 65);
        write_entry(&cx.scope.served, cx.scope.version, entry, entry.revision, &mut out);
        return Ok(response::bytes(code, Media::Json.content_type(), response::with_newline(out)));
    }
    if cx.accepted.media == Media::Protobuf {
        let message = protobuf::entry(cx, entry, entry.revision);
        return Ok(response::bytes(code, Media::Protobuf.content_type(), message));
    }
    Ok(object(cx, code, conversion::in_request_version(&cx.scope, entry.object())))
}

/// A response with an object of the requested version, in the requested representation.
pub(crate) fn object(cx: &RequestContext, code: u16, object: Object) -> Response<Body> {
    let value = match cx.accepted.representation {
        Representation::Object => {
            let value = object.into_value();
            let whole = ordered(cx, &value);
            return response::encoded(code, cx.accepted, &whole, || {
                types::protobuf::encode(&value)
            });
        }
        Representation::PartialObjectMetadataList => {
            return response::failure(&object_as_list(cx.scope.resource()), cx.error_media_type);
        }
        Representation::PartialObjectMetadata => partial_object_metadata(object),
        Representation::Table => {
            let metadata = match object.resource_version() {
                "" => json!({}),
                revision => json!({"resourceVersion": revision}),
            };
            return match table::table(cx, &metadata, vec![object]) {
                Ok(table) => response::serialized(code, cx.accepted, &table),
                Err(status) => response::failure(&status, cx.error_media_type),
            };
        }
    };
    response::document(code, cx.accepted, &value)
}

/// Appends an object in the version `version`, with `revision` as its resourceVersion. If the kind
/// has a conversion webhook, `entry` is already in that version.
pub(crate) fn write_entry(
    served: &ServedResource,
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

/// The object as an item in the version of the request, with `revision` as its resourceVersion. It
/// shares the bytes of the entry, unless these are of another version.
pub(crate) fn item(
    cx: &RequestContext,
    entry: &Entry,
    revision: Revision,
    managed_fields: bool,
) -> Result<Item, BadItem> {
    let (served, version) = (&cx.scope.served, cx.scope.version);
    if is_served_as_stored(served, version, entry) {
        return entry.item(revision, managed_fields);
    }
    let mut json = Vec::new();
    write_entry(served, version, entry, revision, &mut json);
    Item::parse(json)
}

/// Whether the object is served in the version in which it is stored.
pub(crate) fn is_served_as_stored(served: &ServedResource, version: usize, entry: &Entry) -> bool {
    matches!(head(served, version, entry), Some(Head::Stored))
}

/// The head of an object that is copied in the version `version`; None if it has to be converted.
pub(crate) fn head<'a>(
    served: &'a ServedResource,
    version: usize,
    entry: &Entry,
) -> Option<Head<'a>> {
    let api_version = served.api_version(version);
    if entry.api_version() == api_version.as_bytes() {
        Some(Head::Stored)
    } else {
        served.resource.differs_in_api_version_only(version).then_some(Head::Version(api_version))
    }
}

/// An object of the requested version, or of the kind of a subresource, with its fields in output
/// order.
pub(crate) fn ordered<'a>(cx: &RequestContext, value: &'a Value) -> Ordered<'a> {
    let is_own = value["kind"] == cx.scope.resource().kind.as_str();
    match &cx.scope.version().shape {
        Shape::Structural(_) if is_own => Ordered::new(None, value),
        _ => Ordered::document(value),
    }
}

/// The `PartialObjectMetadata` of an object.
pub(crate) fn partial_object_metadata(mut object: Object) -> Value {
    let metadata = object.map_mut().remove("metadata").unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// A success Status, for a deletion or a subresource without a response object.
pub(crate) fn success(cx: &RequestContext, code: u16, details: Option<Value>) -> Response<Body> {
    let mut status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    match details {
        Some(details) => status["details"] = details,
        None => status["code"] = code.into(),
    }
    response::document(code, cx.accepted, &status)
}
