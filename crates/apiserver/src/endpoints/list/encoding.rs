//! Lists as text or messages, in every form in which they can be asked for.
//!
//! A list of more than one chunk is encoded chunk by chunk while the client reads it: until then it
//! is only a list of entries, which the cache has as well.
//!
//! ```text
//! head  {"kind":"PodList","apiVersion":"v1","metadata":{…},"items":[
//! items {…},{…},{…}                                           as many as make a chunk
//! tail  ]}
//! ```

use crate::cache::catalog::Served;
use crate::cache::conversion::convert_locally;
use crate::cache::watch_cache::{Entry, Head};
use crate::endpoints::answer;
use crate::endpoints::context::RequestContext;
use crate::endpoints::protobuf;
use crate::endpoints::table;
use crate::endpoints::table::RowWriter;
use crate::http::body::Body;
use crate::http::negotiation::{Accepted, Form, Media, list_as_one};
use crate::http::response;
use bytes::Bytes;
use http::Response;
use machinery::{Object, Status, Value, codec, json};
use serde::Serialize;
use std::sync::Arc;
use std::vec;
use types::Ordered;
use types::resource::Shape;

/// A list is sent in pieces of about this size.
pub(crate) const CHUNK: usize = 64 << 10;

/// A piece is made of objects of about this size together: rows and metadata are much smaller than
/// the objects that have to be read for them.
const READ_AT_ONCE: usize = 256 << 10;

/// Most last items of a piece exceed it by less than this.
pub(crate) const MARGIN: usize = 4 << 10;

/// Writes a list, whose entries are in the version of the request as far as others convert them.
pub(in crate::endpoints) fn write(
    cx: &RequestContext,
    metadata: &Value,
    entries: Vec<Arc<Entry>>,
) -> Result<Response<Body>, Status> {
    if cx.accepted.form == Form::Partial {
        return Err(list_as_one(cx.scope.resource()));
    }
    let estimate = entries.iter().map(|it| it.len() + 64).sum();
    let mut memory = None;
    if estimate > CHUNK {
        memory = cx.plane.flow.list_memory(&cx.scope.user, estimate)?;
    }
    if cx.accepted.media == Media::Protobuf {
        let body = protobuf::list(cx, metadata, entries, estimate).holding(memory);
        return Ok(response::bytes(200, Media::Protobuf.content_type(), body));
    }
    let mut text = if cx.accepted == Accepted::JSON {
        copied(cx, metadata, entries)
    } else {
        framed(cx, metadata, entries)?
    };
    text.capacity = estimate.min(CHUNK) + MARGIN;
    let body =
        if estimate > CHUNK { Body::made(estimate, text) } else { Body::Chunks(text.collect()) };
    Ok(response::bytes(200, cx.accepted.media.content_type(), body.holding(memory)))
}

/// Appends an item, or the beginning of one whose rest is shared with the cache and returned.
type Append = Box<dyn Fn(&Entry, &mut Vec<u8>) -> Option<Bytes> + Send>;

/// The text of a list, chunk by chunk.
struct Text {
    /// What comes before the items; None when it was written.
    head: Option<Vec<u8>>,
    entries: vec::IntoIter<Arc<Entry>>,
    append: Append,
    /// The rest of the item that was begun last.
    rest: Option<Bytes>,
    /// What comes before the first item, and before every other.
    separators: [&'static str; 2],
    /// What most pieces need.
    capacity: usize,
    /// What comes after the items; None at the end.
    tail: Option<Vec<u8>>,
}

impl Iterator for Text {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(rest) = self.rest.take() {
            return Some(rest);
        }
        self.tail.as_ref()?;
        let mut out = Vec::with_capacity(self.capacity);
        let [mut separator, others] = self.separators;
        match self.head.take() {
            Some(head) => out.extend(head),
            None => separator = others,
        }
        let mut read = 0;
        for entry in self.entries.by_ref() {
            read += entry.len();
            out.extend_from_slice(separator.as_bytes());
            separator = others;
            self.rest = (self.append)(&entry, &mut out);
            if self.rest.is_some() || out.len() >= CHUNK || read >= READ_AT_ONCE {
                return Some(out.into());
            }
        }
        out.extend(self.tail.take()?);
        Some(out.into())
    }
}

/// A list whose items are copied where they need not be changed.
fn copied(cx: &RequestContext, metadata: &Value, entries: Vec<Arc<Entry>>) -> Text {
    let (served, version) = (Arc::clone(&cx.scope.served), cx.scope.version);
    let append: Append = Box::new(move |entry, out| write_item(&served, version, entry, out));
    let (head, tail) = around(cx, metadata);
    Text {
        head: Some(head),
        entries: entries.into_iter(),
        append,
        rest: None,
        separators: ["", ","],
        capacity: 0,
        tail: Some(tail),
    }
}

/// What is before the items of a list, and what is after them. A list of custom resources is sorted
/// as these are.
fn around(cx: &RequestContext, metadata: &Value) -> (Vec<u8>, Vec<u8>) {
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

fn write_item(served: &Served, version: usize, entry: &Entry, out: &mut Vec<u8>) -> Option<Bytes> {
    let head = match answer::head(served, version, entry) {
        Some(_) if !served.resource.conventions.unstructured_lists => Head::Absent,
        Some(head) => head,
        None => {
            let object = convert_locally(served, version, entry.object());
            served.version(version).shape.write(&nameless(served, object), out);
            return None;
        }
    };
    if entry.len() < answer::LARGE {
        entry.write(out, head, entry.revision);
        return None;
    }
    let [first, rest] = entry.pieces(head, entry.revision);
    out.extend_from_slice(&first);
    Some(rest)
}

/// An item of a built-in list does not say its type.
fn nameless(served: &Served, mut object: Object) -> Object {
    if !served.resource.conventions.unstructured_lists {
        object.map_mut().remove("apiVersion");
        object.map_mut().remove("kind");
    }
    object
}

/// Appends one item of a framed list.
type AppendObject = Box<dyn Fn(Object, Style, &mut Vec<u8>) + Send>;

/// A list of values in a document that is written around them.
fn framed(cx: &RequestContext, metadata: &Value, entries: Vec<Arc<Entry>>) -> Result<Text, Status> {
    let (served, version) = (Arc::clone(&cx.scope.served), cx.scope.version);
    let is_empty = entries.is_empty();
    // Upstream: nothing was ever put into some empty lists.
    let none = if is_empty { Value::Null } else { json!([]) };
    let (member, document, append): (_, _, AppendObject) = match cx.accepted.form {
        Form::Table => {
            let writer = RowWriter::new(cx)?;
            let mut table = table::around(cx, metadata, Vec::new());
            if !is_empty {
                table = table.with_rows();
            }
            let row =
                move |object, style: Style, out: &mut _| style.append(&writer.row(object), out);
            ("rows", response::encode(cx.accepted, &table), Box::new(row))
        }
        Form::Partial | Form::PartialList => {
            let list = json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata, "items": none,
            });
            let item = |object, style: Style, out: &mut _| {
                style.append(&Ordered::document(&answer::partial(object)), out);
            };
            ("items", response::encode(cx.accepted, &Ordered::document(&list)), Box::new(item))
        }
        Form::Whole => {
            let list = json!({
                "kind": cx.scope.resource().list_kind,
                "apiVersion": cx.scope.resource().api_version(cx.scope.version()),
                "metadata": metadata, "items": [],
            });
            let served = Arc::clone(&served);
            let item = move |object, style: Style, out: &mut _| {
                let value = nameless(&served, object).into_value();
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
    let (head, tail) = style.split(member, document, is_empty);
    let append: Append = Box::new(move |entry, out| {
        append(convert_locally(&served, version, entry.object()), style, out);
        None
    });
    let separators = style.separators();
    Ok(Text {
        head: Some(head),
        entries: entries.into_iter(),
        append,
        rest: None,
        separators,
        capacity: 0,
        tail: Some(tail),
    })
}

/// How a document is written, as far as it matters for what is in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Json,
    Pretty,
    Yaml,
}

impl Style {
    fn of(accepted: Accepted) -> Self {
        match accepted.media {
            Media::Yaml => Self::Yaml,
            Media::Json | Media::Protobuf if accepted.pretty => Self::Pretty,
            Media::Json | Media::Protobuf => Self::Json,
        }
    }

    /// What comes before the items of `member` in the text of a document in which it is empty, and
    /// what comes after.
    fn split(self, member: &str, text: Vec<u8>, is_empty: bool) -> (Vec<u8>, Vec<u8>) {
        if is_empty {
            return (text, Vec::new());
        }
        // No other member begins so: within a string, quotes are escaped, and text is indented.
        let (empty, before, after) = match self {
            Self::Json => (format!("\"{member}\":[]"), format!("\"{member}\":["), "]"),
            Self::Pretty => {
                (format!("\n  \"{member}\": []"), format!("\n  \"{member}\": ["), "\n  ]")
            }
            Self::Yaml => (format!("\n{member}: []\n"), format!("\n{member}:\n"), ""),
        };
        let at = text.windows(empty.len()).rposition(|it| it == empty.as_bytes());
        let at = at.expect("the document has the member");
        let head = [&text[..at], before.as_bytes()].concat();
        let tail = [after.as_bytes(), &text[at + empty.len()..]].concat();
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
                // Strings have no line breaks in them: each is one of the document's own.
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
                let item = serde_json::to_value(item).expect("items are JSON");
                out.extend(codec::yaml::encode(&Value::Array(vec![item])).into_bytes());
            }
        }
    }
}
