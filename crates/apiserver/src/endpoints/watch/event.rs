//! How the events of a watch are written: `{"type":"ADDED","object":{…}}`, one a line, or in
//! protobuf with their lengths between them.

use crate::cache::watch_cache::{Change, EncodingKey, Entry};
use crate::endpoints::answer;
use crate::endpoints::context::RequestContext;
use crate::endpoints::protobuf;
use crate::endpoints::table;
use crate::http::negotiation::{Form, Media};
use crate::registry::conversion;
use bytes::Bytes;
use machinery::{Object, Status, codec, json};
use serde::Serialize;
use std::io::Write;
use std::sync::Arc;
use store::Revision;
use types::Ordered;
use types::resource::Shape;

/// Writes events in the version and the form that were asked for.
pub(super) struct Encoder {
    /// What all watchers have in common that share their events with this one.
    shared: Shared,
    /// A Table names its columns once in a watch.
    columns_sent: bool,
}

/// The edition of the kind, its version, and the number of the form.
type Shared = (Revision, usize, u8);

impl Encoder {
    /// Fails at once if events could not be written as asked.
    pub(super) fn new(cx: &RequestContext) -> Result<Self, Status> {
        if cx.accepted.form == Form::Table {
            table::table(cx, &json!({}), Vec::new())?;
        }
        Ok(Self { shared: shared(cx), columns_sent: false })
    }

    /// What a change means to a watcher: something came into view, changed, or went out of it.
    /// `old` and `new` are the object before and after it, in the version of the request, as far as
    /// it is selected. With the event comes the key under which the change has it for all watchers.
    pub(super) fn change(
        &mut self,
        cx: &RequestContext,
        change: &Change,
        (old, new): (Option<&Arc<Entry>>, Option<&Arc<Entry>>),
    ) -> Option<(Bytes, EncodingKey)> {
        let (kind, entry) = match (old, new) {
            (None, None) => return None,
            (None, Some(new)) => ("ADDED", new),
            (Some(_), Some(new)) => ("MODIFIED", new),
            // Upstream: what is shown is the last state that was seen, with the time of its end.
            (Some(old), None) => ("DELETED", old),
        };
        let (edition, version, form) = self.shared;
        let with_columns = self.sends_columns(cx);
        let second = match cx.accepted.form {
            Form::Table => cx.scope.storage.clock.now().seconds(),
            Form::Whole | Form::Partial | Form::PartialList => 0,
        };
        let form = form + u8::from(with_columns);
        let key = EncodingKey { event: kind, edition, version, form, second };
        let event = change.encoded(key, || {
            let mut out = Vec::new();
            write(cx, kind, entry, change.revision, with_columns, &mut out);
            out
        });
        Some((event, key))
    }

    /// An object that was there before the watch.
    pub(super) fn added(&mut self, cx: &RequestContext, entry: &Entry, out: &mut Vec<u8>) {
        let with_columns = self.sends_columns(cx);
        write(cx, "ADDED", entry, entry.revision, with_columns, out);
    }

    /// Whether the next event names the columns of a Table.
    fn sends_columns(&mut self, cx: &RequestContext) -> bool {
        cx.accepted.form == Form::Table && !std::mem::replace(&mut self.columns_sent, true)
    }

    /// How far the watch is.
    pub(super) fn bookmark(
        &mut self,
        cx: &RequestContext,
        revision: Revision,
        initial_end: bool,
    ) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
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

/// Upstream: events are never indented, so that `pretty` makes no other form. That of a Table with
/// columns has the next number.
fn shared(cx: &RequestContext) -> Shared {
    let form = match (cx.accepted.media, cx.accepted.form) {
        (Media::Protobuf, Form::Whole) => 1,
        (Media::Protobuf, _) => 2,
        (_, Form::Whole) => 0,
        (_, Form::Partial | Form::PartialList) => 3,
        (_, Form::Table) => match cx.scope.query.text("includeObject") {
            "Object" => 4,
            "None" => 6,
            _ => 8,
        },
    };
    (cx.scope.served.crd_revision, cx.scope.version, form)
}

/// Appends an event with a stored object in the form that was asked for.
fn write(
    cx: &RequestContext,
    kind: &str,
    entry: &Entry,
    revision: Revision,
    with_columns: bool,
    out: &mut Vec<u8>,
) {
    if cx.accepted.media == Media::Protobuf {
        protobuf::event(kind, &protobuf::entry(cx, entry, revision), out);
        return;
    }
    if cx.accepted.form == Form::Whole {
        out.reserve(entry.len() + 96);
        begin(kind, out);
        answer::write_entry(&cx.scope.served, cx.scope.version, entry, revision, out);
        out.extend_from_slice(b"}\n");
        return;
    }
    let mut object = conversion::requested(&cx.scope, entry.object());
    object.set_meta("resourceVersion", revision.to_string());
    write_object(cx, kind, object, with_columns, out);
}

/// Appends an event with an object in the form that was asked for.
fn write_object(
    cx: &RequestContext,
    kind: &str,
    object: Object,
    with_columns: bool,
    out: &mut Vec<u8>,
) {
    match cx.accepted.form {
        Form::Whole => {
            let value = object.into_value();
            line(kind, &answer::ordered(cx, &value), out);
        }
        Form::Partial | Form::PartialList => {
            line(kind, &Ordered::document(&answer::partial(object)), out);
        }
        Form::Table => match table::event(cx, object, with_columns) {
            Ok(table) => line(kind, &table, out),
            Err(status) => line(kind, &Ordered::document(&status.to_value()), out),
        },
    }
}

fn frame(kind: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 32);
    protobuf::event(kind, object, &mut out);
    out.into()
}

fn line(kind: &str, object: &impl Serialize, out: &mut Vec<u8>) {
    begin(kind, out);
    codec::json::write(out, object);
    out.extend_from_slice(b"}\n");
}

fn begin(kind: &str, out: &mut Vec<u8>) {
    write!(out, "{{\"type\":\"{kind}\",\"object\":").expect("memory takes every write");
}

/// An object of which nothing is set; Go writes some fields even then.
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

/// One event is passed on as it is, shared with all other watchers; several are joined.
pub(super) fn joined(mut events: Vec<Bytes>) -> Option<Bytes> {
    match events.len() {
        0 | 1 => events.pop(),
        _ => Some(events.concat().into()),
    }
}

/// The event that ends a watch which cannot go on.
pub(super) fn error(cx: &RequestContext, status: &Status) -> Bytes {
    if cx.accepted.media == Media::Protobuf {
        return frame("ERROR", &protobuf::status(status));
    }
    let mut out = Vec::new();
    line("ERROR", &Ordered::document(&status.to_value()), &mut out);
    out.into()
}
