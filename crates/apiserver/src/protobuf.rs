//! Answers in protobuf: objects, lists and events, each made of the stored JSON in one pass.
//!
//! Unlike JSON a message says its length before it begins, so the head of a list is written last.

use crate::answer;
use crate::context::Cx;
use crate::negotiation::Form;
use crate::watch_cache::Entry;
use bytes::Bytes;
use kinds::protobuf::{self, LIST_ITEMS, LIST_METADATA};
use kinds::resource::Shape;
use kinds::types::{self, Type};
use machinery::{Status, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use store::Revision;

/// What objects are written as: the message, and what the envelope says of it.
struct Written<'a> {
    ty: &'static Type,
    api_version: String,
    kind: &'a str,
    list_kind: &'a str,
}

impl<'a> Written<'a> {
    fn of(cx: &'a Cx) -> Self {
        match (&cx.version().shape, cx.accepted.form) {
            (Shape::Typed(ty), Form::Whole) => Self {
                ty,
                api_version: cx.resource().api_version(cx.version()),
                kind: &cx.resource().kind,
                list_kind: &cx.resource().list_kind,
            },
            _ => Self {
                ty: known("meta/v1.PartialObjectMetadata"),
                api_version: "meta.k8s.io/v1".to_owned(),
                kind: "PartialObjectMetadata",
                list_kind: "PartialObjectMetadataList",
            },
        }
    }
}

fn known(name: &str) -> &'static Type {
    types::find(name).expect("the table has the types of all metadata")
}

/// An object in its envelope; `json` is whole, whatever is written of it.
pub(crate) fn object(cx: &Cx, json: &[u8]) -> Vec<u8> {
    let Written { ty, api_version, kind, .. } = Written::of(cx);
    let mut message = Vec::with_capacity(json.len());
    write(&mut message, |out| protobuf::write_message(ty, json, out));
    let mut out = Vec::with_capacity(message.len() + 64);
    protobuf::write_envelope(&api_version, kind, message.len(), &mut out);
    out.extend_from_slice(&message);
    out
}

/// The same for a stored object, with `revision` as its resourceVersion.
pub(crate) fn entry(cx: &Cx, entry: &Entry, revision: Revision) -> Vec<u8> {
    let mut json = Vec::with_capacity(entry.len() + 64);
    answer::write_entry(&cx.served, cx.version, entry, revision, &mut json);
    object(cx, &json)
}

/// A list in pieces of about `chunk` bytes.
pub(crate) fn list(
    cx: &Cx,
    metadata: &Value,
    entries: &[Arc<Entry>],
    chunk: usize,
) -> VecDeque<Bytes> {
    let Written { ty, api_version, list_kind, .. } = Written::of(cx);
    let mut chunks = VecDeque::new();
    let mut length = 0;
    let mut out = Vec::new();
    let metadata = metadata.to_string();
    let list_meta = known("meta/v1.ListMeta");
    write(&mut out, |out| {
        protobuf::write_field(LIST_METADATA, list_meta, metadata.as_bytes(), out)
    });
    let mut json = Vec::new();
    for entry in entries {
        json.clear();
        answer::write_entry(&cx.served, cx.version, entry, entry.revision, &mut json);
        write(&mut out, |out| protobuf::write_field(LIST_ITEMS, ty, &json, out));
        if out.len() >= chunk {
            length += out.len();
            let full = std::mem::replace(&mut out, Vec::with_capacity(chunk + 4096));
            chunks.push_back(full.into());
        }
    }
    length += out.len();
    chunks.push_back(out.into());
    let mut head = Vec::new();
    protobuf::write_envelope(&api_version, list_kind, length, &mut head);
    chunks.push_front(head.into());
    chunks
}

/// Appends an event of a watch; `object` is in its envelope.
pub(crate) fn event(kind: &str, object: &[u8], out: &mut Vec<u8>) {
    protobuf::write_event(kind, object, out);
}

/// A failure in its envelope.
pub(crate) fn status(status: &Status) -> Vec<u8> {
    protobuf::encode(&status.to_value()).expect("the table has the type of all failures")
}

fn write(out: &mut Vec<u8>, into: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>) {
    into(out).expect("stored bytes were written as JSON");
}

#[cfg(test)]
mod tests;
