//! Encodes watch events: `{"type":"ADDED","object":{…}}`, one per line, or protobuf with length
//! prefixes.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::Bookmark;
use crate::cache::watch_cache::{Change, EncodingKey, Entry};
use crate::endpoints::context::RequestContext;
use crate::endpoints::object_response;
use crate::endpoints::protobuf;
use crate::endpoints::table;
use crate::http::negotiation::{Media, Representation};
use crate::registry::conversion;
use machinery::{Object, Status, codec, json};
use store::Revision;
use types::Ordered;
use types::resource::Shape;

/// Encodes events in the requested version and representation.
pub(super) struct Encoder {
    /// The watchers that share their encoded events with this one.
    group: EncodingGroup,
    /// Whether the columns of a Table have been sent, which happens once in a watch.
    columns_sent: bool,
}

/// The watchers whose events have the same encoding.
#[derive(Clone, Copy)]
struct EncodingGroup {
    /// The revision of the CRD; 0 for a built-in kind.
    crd_revision: Revision,
    /// The index of the version.
    version: usize,
    /// The number of the media type and representation.
    form: u8,
}

impl Encoder {
    /// Fails if events cannot be encoded in the requested representation.
    pub(super) fn new(cx: &RequestContext) -> Result<Self, Status> {
        if cx.accepted.representation == Representation::Table {
            table::table(cx, &json!({}), Vec::new())?;
        }
        Ok(Self { group: encoding_group(cx), columns_sent: false })
    }

    /// The event of a change: an object was added to the selection, modified, or removed from it.
    /// `old` and `new` are the object before and after the change, in the version of the request,
    /// or None if it is not selected. Returns the event and the key under which the change caches
    /// it for all watchers.
    pub(super) fn change(
        &mut self,
        cx: &RequestContext,
        change: &Change,
        (old, new): (Option<&Arc<Entry>>, Option<&Arc<Entry>>),
    ) -> Option<(Bytes, EncodingKey)> {
        let (event_type, entry) = match (old, new) {
            (None, None) => return None,
            (None, Some(new)) => ("ADDED", new),
            (Some(_), Some(new)) => ("MODIFIED", new),
            // Upstream: the event has the last selected state, with the revision of the deletion.
            (Some(old), None) => ("DELETED", old),
        };
        let EncodingGroup { crd_revision, version, form } = self.group;
        let with_columns = self.sends_columns(cx);
        // The rows of a Table have ages in seconds.
        let second = match cx.accepted.representation {
            Representation::Table => cx.scope.storage.clock.now().seconds(),
            Representation::Object
            | Representation::PartialObjectMetadata
            | Representation::PartialObjectMetadataList => 0,
        };
        let form = form + u8::from(with_columns);
        let key = EncodingKey { event: event_type, crd_revision, version, form, second };
        let event = change.encoded(key, || {
            let mut out = Vec::new();
            write(cx, event_type, entry, change.revision, with_columns, &mut out);
            out
        });
        Some((event, key))
    }

    /// Appends an event for an object that existed before the watch.
    pub(super) fn added(&mut self, cx: &RequestContext, entry: &Entry, out: &mut Vec<u8>) {
        let with_columns = self.sends_columns(cx);
        write(cx, "ADDED", entry, entry.revision, with_columns, out);
    }

    /// Whether the next event has the columns of a Table.
    fn sends_columns(&mut self, cx: &RequestContext) -> bool {
        cx.accepted.representation == Representation::Table
            && !std::mem::replace(&mut self.columns_sent, true)
    }

    /// A bookmark event with the revision that the watch has reached.
    pub(super) fn bookmark(
        &mut self,
        cx: &RequestContext,
        revision: Revision,
        bookmark: Bookmark,
    ) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if bookmark == Bookmark::AfterInitial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = empty(cx);
        object.map_mut().insert("metadata".to_owned(), metadata);
        if cx.accepted.media == Media::Protobuf {
            let object = object.into_value().to_string();
            return frame("BOOKMARK", &protobuf::object(cx, object.as_bytes()));
        }
        let mut out = Vec::new();
        let with_columns = self.sends_columns(cx);
        write_object(cx, "BOOKMARK", object, with_columns, &mut out);
        out.into()
    }
}

/// The encoding group of a request. Upstream: events are never indented, so `pretty` has no effect.
/// The number of a Table with columns is one higher than that of the same Table without columns.
fn encoding_group(cx: &RequestContext) -> EncodingGroup {
    let form = match (cx.accepted.media, cx.accepted.representation) {
        (Media::Protobuf, Representation::Object) => 1,
        (Media::Protobuf, _) => 2,
        (_, Representation::Object) => 0,
        (_, Representation::PartialObjectMetadata | Representation::PartialObjectMetadataList) => 3,
        (_, Representation::Table) => match cx.query.text("includeObject") {
            "Object" => 4,
            "None" => 6,
            _ => 8,
        },
    };
    EncodingGroup { crd_revision: cx.scope.served.crd_revision, version: cx.scope.version, form }
}

/// Appends an event with a stored object in the requested representation.
fn write(
    cx: &RequestContext,
    event_type: &str,
    entry: &Entry,
    revision: Revision,
    with_columns: bool,
    out: &mut Vec<u8>,
) {
    if cx.accepted.media == Media::Protobuf {
        protobuf::event(event_type, &protobuf::entry(cx, entry, revision), out);
        return;
    }
    if cx.accepted.representation == Representation::Object {
        out.reserve(entry.len() + 96);
        begin(event_type, out);
        object_response::write_entry(&cx.scope.served, cx.scope.version, entry, revision, out);
        out.extend_from_slice(b"}\n");
        return;
    }
    let mut object = conversion::in_request_version(&cx.scope, entry.object());
    object.set_meta("resourceVersion", revision.to_string());
    write_object(cx, event_type, object, with_columns, out);
}

/// Appends an event with an object in the requested representation.
fn write_object(
    cx: &RequestContext,
    event_type: &str,
    object: Object,
    with_columns: bool,
    out: &mut Vec<u8>,
) {
    match cx.accepted.representation {
        Representation::Object => {
            let value = object.into_value();
            line(event_type, &object_response::ordered(cx, &value), out);
        }
        Representation::PartialObjectMetadata | Representation::PartialObjectMetadataList => {
            line(
                event_type,
                &Ordered::document(&object_response::partial_object_metadata(object)),
                out,
            );
        }
        Representation::Table => match table::event_table(cx, object, with_columns) {
            Ok(table) => line(event_type, &table, out),
            Err(status) => line(event_type, &Ordered::document(&status.to_value()), out),
        },
    }
}

/// A protobuf event with its length prefix.
fn frame(event_type: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 32);
    protobuf::event(event_type, object, &mut out);
    out.into()
}

/// Appends a JSON event with its newline.
fn line(event_type: &str, object: &impl Serialize, out: &mut Vec<u8>) {
    begin(event_type, out);
    codec::json::write(out, object);
    out.extend_from_slice(b"}\n");
}

/// Appends the beginning of a JSON event, up to its object.
fn begin(event_type: &str, out: &mut Vec<u8>) {
    write!(out, "{{\"type\":\"{event_type}\",\"object\":")
        .expect("a write to memory does not fail");
}

/// An object without any field set; Go encodes some fields even then.
fn empty(cx: &RequestContext) -> Object {
    let mut object = Object::default();
    if let Shape::Typed(ty) = &cx.scope.version().shape {
        let mut value = json!({});
        if types::normalize(ty, &mut value, &mut |_| {}).is_ok() {
            object = Object::from_value(value).unwrap_or_default();
        }
    }
    object
        .set_type(&cx.scope.resource().api_version(cx.scope.version()), &cx.scope.resource().kind);
    object
}

/// Concatenates events. A single event is not copied, but shared with all other watchers.
pub(super) fn concatenated(mut events: Vec<Bytes>) -> Option<Bytes> {
    match events.len() {
        0 | 1 => events.pop(),
        _ => Some(events.concat().into()),
    }
}

/// The error event that ends a watch.
pub(super) fn error(cx: &RequestContext, status: &Status) -> Bytes {
    if cx.accepted.media == Media::Protobuf {
        return frame("ERROR", &protobuf::status(status));
    }
    let mut out = Vec::new();
    line("ERROR", &Ordered::document(&status.to_value()), &mut out);
    out.into()
}
