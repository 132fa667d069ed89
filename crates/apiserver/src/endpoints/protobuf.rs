//! Responses in protobuf: objects, lists and events, each encoded from the stored JSON in one pass.
//!
//! Unlike JSON, a message is preceded by its length, so the head of a list is encoded last.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::cache::watch_cache::Entry;
use crate::endpoints::context::RequestContext;
use crate::endpoints::list::chunks::{CHUNK, ListChunks, MARGIN, WriteItem};
use crate::endpoints::object_response;
use crate::flow_control::AnswerMemory;
use crate::http::body::Body;
use crate::http::negotiation::Representation;
use crate::storage::catalog::ServedResource;
use machinery::{Status, Value};
use store::Revision;
use types::Type;
use types::protobuf::{self, LIST_ITEMS, LIST_METADATA};
use types::resource::Shape;

/// The message type of objects, and the type metadata of the envelope.
struct MessageType<'a> {
    ty: &'static Type,
    api_version: String,
    kind: &'a str,
    list_kind: &'a str,
}

impl<'a> MessageType<'a> {
    fn of(cx: &'a RequestContext) -> Self {
        match (&cx.scope.version().shape, cx.accepted.representation) {
            (Shape::Typed(ty), Representation::Object) => Self {
                ty,
                api_version: cx.scope.resource().api_version(cx.scope.version()),
                kind: &cx.scope.resource().kind,
                list_kind: &cx.scope.resource().list_kind,
            },
            _ => Self {
                ty: find_type("meta/v1.PartialObjectMetadata"),
                api_version: "meta.k8s.io/v1".to_owned(),
                kind: "PartialObjectMetadata",
                list_kind: "PartialObjectMetadataList",
            },
        }
    }
}

fn find_type(name: &str) -> &'static Type {
    types::find(name).expect("the table has all types of meta/v1")
}

/// An object in its envelope. `json` is the whole object, even if only its metadata is encoded.
pub(crate) fn object(cx: &RequestContext, json: &[u8]) -> Vec<u8> {
    let MessageType { ty, api_version, kind, .. } = MessageType::of(cx);
    let mut message = Vec::with_capacity(json.len());
    write(&mut message, |out| protobuf::write_message(ty, json, out));
    let mut out = Vec::with_capacity(message.len() + 64);
    protobuf::write_envelope(&api_version, kind, message.len(), &mut out);
    out.extend_from_slice(&message);
    out
}

/// A stored object in its envelope, with `revision` as its resourceVersion.
pub(crate) fn entry(cx: &RequestContext, entry: &Entry, revision: Revision) -> Vec<u8> {
    let mut json = Vec::with_capacity(entry.len() + 64);
    object_response::write_entry(&cx.scope.served, cx.scope.version, entry, revision, &mut json);
    object(cx, &json)
}

/// A list of about `estimate` bytes.
///
/// The length is needed first. The list is therefore encoded before it is sent, as long as the user
/// does not have too many unread lists of this kind. Otherwise it is encoded twice: once for the
/// length, and once while the client reads it.
pub(crate) fn list(
    cx: &RequestContext,
    metadata: &Value,
    entries: Vec<Arc<Entry>>,
    estimate: usize,
) -> Body {
    let MessageType { ty, api_version, list_kind, .. } = MessageType::of(cx);
    let mut list_metadata = Vec::new();
    let metadata = metadata.to_string();
    let list_meta = find_type("meta/v1.ListMeta");
    write(&mut list_metadata, |out| {
        protobuf::write_field(LIST_METADATA, list_meta, metadata.as_bytes(), out)
    });
    let envelope = |length: usize| {
        let mut head = Vec::new();
        protobuf::write_envelope(&api_version, list_kind, list_metadata.len() + length, &mut head);
        head.extend_from_slice(&list_metadata);
        head
    };
    let mut write_item = item_writer(Arc::clone(&cx.scope.served), cx.scope.version, ty);
    let capacity = estimate.min(CHUNK + MARGIN);
    let Some(memory) = cx.plane.flow_control.answer_memory(&cx.scope.user, estimate) else {
        let mut out = Vec::new();
        let length = entries.iter().map(|entry| {
            out.clear();
            write_item(entry, &mut out);
            out.len()
        });
        let head = envelope(length.sum());
        let mut chunks = ListChunks::new((head, Vec::new()), entries, write_item);
        chunks.capacity = capacity;
        chunks.encoded_items = Some(Arc::clone(&cx.plane.flow_control.encoded_items));
        return Body::lazy(estimate, chunks);
    };
    let mut chunks = ListChunks::new(<(Vec<u8>, Vec<u8>)>::default(), entries, write_item);
    chunks.capacity = capacity;
    let mut chunks: VecDeque<Bytes> = chunks.collect();
    chunks.push_front(envelope(chunks.iter().map(Bytes::len).sum()).into());
    if estimate <= CHUNK {
        return Body::Chunks(chunks);
    }
    Body::lazy(estimate, AccountedChunks { chunks, _memory: memory })
}

/// Writes items of the type `ty`.
fn item_writer(served: Arc<ServedResource>, version: usize, ty: &'static Type) -> WriteItem {
    // The JSON of the item that is being encoded.
    let mut json = Vec::new();
    Box::new(move |entry, out| {
        object_response::write_entry(&served, version, entry, entry.revision, &mut json);
        // A message is usually shorter than its JSON.
        out.reserve(json.len());
        write(out, |out| protobuf::write_field(LIST_ITEMS, ty, &json, out));
        json.clear();
        // The JSON of a large item must not stay in memory until the list is read.
        json.shrink_to(CHUNK);
        None
    })
}

/// Chunks whose memory is accounted for until the last of them is sent.
struct AccountedChunks {
    chunks: VecDeque<Bytes>,
    _memory: AnswerMemory,
}

impl Iterator for AccountedChunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.chunks.pop_front()
    }
}

/// Appends a watch event; `object` is in its envelope.
pub(crate) fn event(event_type: &str, object: &[u8], out: &mut Vec<u8>) {
    protobuf::write_event(event_type, object, out);
}

/// A failure Status in its envelope.
pub(crate) fn status(status: &Status) -> Vec<u8> {
    protobuf::encode(&status.to_value()).expect("the table has the type Status")
}

/// Runs `encode`, which fails only for invalid JSON.
fn write(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>) {
    encode(out).expect("stored objects are valid JSON");
}

#[cfg(test)]
mod tests;
