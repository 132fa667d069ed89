//! Encodes lists in every media type and representation.
//!
//! A list of more than one chunk is encoded chunk by chunk while the client reads it: until then it
//! is only a list of entries, which the cache holds as well.
//!
//! ```text
//! head  {"kind":"PodList","apiVersion":"v1","metadata":{…},"items":[
//! items {…},{…},{…}                                           as many as make a chunk
//! tail  ]}
//! ```

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use serde::Serialize;

use super::chunks::{CHUNK, ListChunks, MARGIN, WriteItem};
use crate::cache::watch_cache::{Entry, Head};
use crate::endpoints::context::RequestContext;
use crate::endpoints::object_response;
use crate::endpoints::protobuf;
use crate::endpoints::table;
use crate::endpoints::table::RowWriter;
use crate::http::body::Body;
use crate::http::negotiation::{Media, MediaTypeOptions, Representation, list_as_object};
use crate::http::response;
use crate::storage::catalog::ServedResource;
use crate::storage::conversion::convert_locally;
use machinery::{Object, Status, Value, codec, json};
use types::Ordered;
use types::resource::Shape;

/// Responds with a list. Entries of a kind with a conversion webhook are already in the version of
/// the request.
pub(in crate::endpoints) fn write(
    cx: &RequestContext,
    metadata: &Value,
    entries: Vec<Arc<Entry>>,
) -> Result<Response<Body>, Status> {
    if cx.accepted.representation == Representation::PartialObjectMetadata {
        return Err(list_as_object(cx.scope.resource()));
    }
    // 64 bytes for the parts that are not stored, such as the resourceVersion.
    let estimate = entries.iter().map(|it| it.len() + 64).sum();
    let mut memory = None;
    if estimate > CHUNK {
        memory = cx.plane.flow_control.list_memory(&cx.scope.user, estimate)?;
    }
    if cx.accepted.media == Media::Protobuf {
        let body = protobuf::list(cx, metadata, entries, estimate).with_guard(memory);
        return Ok(response::bytes(200, Media::Protobuf.content_type(), body));
    }
    let mut text = if cx.accepted == MediaTypeOptions::JSON {
        copied_items(cx, metadata, entries)
    } else {
        encoded_items(cx, metadata, entries)?
    };
    text.capacity = estimate.min(CHUNK) + MARGIN;
    text.encoded_items = Some(Arc::clone(&cx.plane.flow_control.encoded_items));
    let body =
        if estimate > CHUNK { Body::lazy(estimate, text) } else { Body::Chunks(text.collect()) };
    Ok(response::bytes(200, cx.accepted.media.content_type(), body.with_guard(memory)))
}

/// A list in JSON whose items are copied where they need no conversion.
fn copied_items(cx: &RequestContext, metadata: &Value, entries: Vec<Arc<Entry>>) -> ListChunks {
    let (served, version) = (Arc::clone(&cx.scope.served), cx.scope.version);
    let append: WriteItem = Box::new(move |entry, out| write_item(&served, version, entry, out));
    let mut chunks = ListChunks::new(head_and_tail(cx, metadata), entries, append);
    chunks.separators = Style::Json.separators();
    chunks
}

/// The text before and after the items of a list. The members of a list of custom resources are
/// sorted, as those of its items.
fn head_and_tail(cx: &RequestContext, metadata: &Value) -> (Vec<u8>, Vec<u8>) {
    let (kind, api_version) =
        (&cx.scope.resource().list_kind, cx.scope.served.api_version(cx.scope.version));
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    if cx.scope.resource().conventions.unstructured_lists {
        head.extend_from_slice(format!(r#"{{"apiVersion":"{api_version}","items":["#).as_bytes());
        tail.extend_from_slice(format!(r#"],"kind":"{kind}","metadata":"#).as_bytes());
        codec::json::write(&mut tail, metadata);
        tail.extend_from_slice(b"}\n");
    } else {
        let first = format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":"#);
        head.extend_from_slice(first.as_bytes());
        codec::json::write(&mut head, &Ordered::new(types::find("meta/v1.ListMeta"), metadata));
        head.extend_from_slice(br#","items":["#);
        tail.extend_from_slice(b"]}\n");
    }
    (head, tail)
}

fn write_item(
    served: &ServedResource,
    version: usize,
    entry: &Entry,
    out: &mut Vec<u8>,
) -> Option<Bytes> {
    let head = match object_response::head(served, version, entry) {
        Some(_) if !served.resource.conventions.unstructured_lists => Head::Absent,
        Some(head) => head,
        None => {
            let object = convert_locally(served, version, entry.object());
            served.version(version).shape.write(&without_type_meta(served, object), out);
            return None;
        }
    };
    if entry.len() < object_response::LARGE_OBJECT {
        entry.write(out, head, entry.revision);
        return None;
    }
    let [first, rest] = entry.pieces(head, entry.revision);
    out.extend_from_slice(&first);
    Some(rest)
}

/// Removes the type metadata from an item of a built-in list, as upstream does.
fn without_type_meta(served: &ServedResource, mut object: Object) -> Object {
    if !served.resource.conventions.unstructured_lists {
        object.map_mut().remove("apiVersion");
        object.map_mut().remove("kind");
    }
    object
}

/// Appends one encoded item.
type WriteObject = Box<dyn Fn(Object, Style, &mut Vec<u8>) + Send>;

/// A list whose items are decoded, converted to the representation, and encoded again.
fn encoded_items(
    cx: &RequestContext,
    metadata: &Value,
    mut entries: Vec<Arc<Entry>>,
) -> Result<ListChunks, Status> {
    let (served, version) = (Arc::clone(&cx.scope.served), cx.scope.version);
    let is_empty = entries.is_empty();
    // Upstream: the items of an empty list of metadata are null.
    let metadata_items = if is_empty { Value::Null } else { json!([]) };
    let (member, document, append): (_, _, WriteObject) = match cx.accepted.representation {
        Representation::Table => {
            if let Some(number) = served.resource.strategy.row_order {
                entries.sort_by_cached_key(|it| number(&it.object()));
            }
            let writer = RowWriter::new(cx)?;
            let mut table = table::from_rows(cx, metadata, Vec::new());
            if !is_empty {
                table = table.with_rows();
            }
            let row =
                move |object, style: Style, out: &mut _| style.append(&writer.row(object), out);
            ("rows", response::encode(cx.accepted, &table), Box::new(row))
        }
        Representation::PartialObjectMetadata | Representation::PartialObjectMetadataList => {
            let list = json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata, "items": metadata_items,
            });
            let item = |object, style: Style, out: &mut _| {
                style.append(
                    &Ordered::document(&object_response::partial_object_metadata(object)),
                    out,
                );
            };
            ("items", response::encode(cx.accepted, &Ordered::document(&list)), Box::new(item))
        }
        Representation::Object => {
            let list = json!({
                "kind": cx.scope.resource().list_kind,
                "apiVersion": cx.scope.resource().api_version(cx.scope.version()),
                "metadata": metadata, "items": [],
            });
            let served = Arc::clone(&served);
            let item = move |object, style: Style, out: &mut _| {
                let value = without_type_meta(&served, object).into_value();
                let ty = match &served.version(version).shape {
                    Shape::Typed(ty) => Some(*ty),
                    Shape::Structural(_) => None,
                };
                style.append(&Ordered::new(ty, &value), out);
            };
            ("items", response::encode(cx.accepted, &Ordered::document(&list)), Box::new(item))
        }
    };
    let style = Style::of(cx.accepted);
    let head_and_tail = style.split(member, document, is_empty);
    let append: WriteItem = Box::new(move |entry, out| {
        append(convert_locally(&served, version, entry.object()), style, out);
        None
    });
    let mut chunks = ListChunks::new(head_and_tail, entries, append);
    chunks.separators = style.separators();
    Ok(chunks)
}

/// The text format of a document, with the layout of list items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Json,
    Pretty,
    Yaml,
}

impl Style {
    fn of(accepted: MediaTypeOptions) -> Self {
        match accepted.media {
            Media::Yaml => Self::Yaml,
            Media::Json | Media::Protobuf if accepted.pretty => Self::Pretty,
            Media::Json | Media::Protobuf => Self::Json,
        }
    }

    /// Splits the text of a document whose `member` is an empty list into the text before and after
    /// the items of that list. The document of a list that stays empty is not split.
    fn split(self, member: &str, text: Vec<u8>, is_empty: bool) -> (Vec<u8>, Vec<u8>) {
        if is_empty {
            return (text, Vec::new());
        }
        // The pattern is unique: quotes within strings are escaped, and members of other levels
        // have another indentation.
        let (empty, before, after) = match self {
            Self::Json => (format!("\"{member}\":[]"), format!("\"{member}\":["), "]"),
            Self::Pretty => {
                (format!("\n  \"{member}\": []"), format!("\n  \"{member}\": ["), "\n  ]")
            }
            Self::Yaml => (format!("\n{member}: []\n"), format!("\n{member}:\n"), ""),
        };
        let index = text.windows(empty.len()).rposition(|it| it == empty.as_bytes());
        let index = index.expect("the document has the member");
        let head = [&text[..index], before.as_bytes()].concat();
        let tail = [after.as_bytes(), &text[index + empty.len()..]].concat();
        (head, tail)
    }

    fn separators(self) -> [&'static str; 2] {
        match self {
            Self::Json => ["", ","],
            Self::Pretty => ["\n    ", ",\n    "],
            Self::Yaml => ["", ""],
        }
    }

    fn append(self, item: &impl Serialize, out: &mut Vec<u8>) {
        match self {
            Self::Json => codec::json::write(out, item),
            Self::Pretty => {
                // JSON strings contain no raw line breaks: each belongs to the layout.
                let mut text = Vec::new();
                codec::json::write_pretty(&mut text, item);
                for line in text.split_inclusive(|it| *it == b'\n') {
                    out.extend_from_slice(line);
                    if line.ends_with(b"\n") {
                        out.extend_from_slice(b"    ");
                    }
                }
            }
            Self::Yaml => {
                let item = serde_json::to_value(item).expect("items serialize to JSON");
                out.extend(codec::yaml::encode(&Value::Array(vec![item])).into_bytes());
            }
        }
    }
}
