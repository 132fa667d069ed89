//! LIST: the objects of a collection, all at once or in pages, as of one revision.

use super::get::not_older_than;
use super::page::Token;
use super::selection::Selection;
use crate::answer;
use crate::body::Body;
use crate::context::Cx;
use crate::errors;
use crate::negotiation::{Accepted, Form, Media, list_as_one};
use crate::options::{parse_i64, parse_revision};
use crate::table;
use crate::watch_cache::{Entry, Head, Snapshot};
use bytes::Bytes;
use http::Response;
use machinery::{Faults, GroupKind, Path, Status, Value, json};
use std::collections::VecDeque;
use std::sync::Arc;

/// A list is sent in pieces of about this size.
const CHUNK: usize = 256 << 10;

/// Answers with the selected objects.
pub(crate) async fn list(cx: &Cx) -> Result<Response<Body>, Status> {
    if cx.accepted.form == Form::Partial {
        return Err(list_as_one(&cx.what(), &cx.resource().list_kind));
    }
    let selection = Selection::parse(cx)?;
    let limit = match cx.query.text("limit") {
        "" => 0,
        text => usize::try_from(parse_i64(text)?).unwrap_or(0),
    };
    let (snapshot, revision, start) = snapshot(cx, &selection).await?;
    let page = select(cx, &selection, &snapshot, start.as_deref(), limit);
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if let Some(next) = &page.next {
        cx.served.cache.pin(&snapshot, revision);
        let token = Token { revision: Some(revision), start: next.clone() };
        metadata["continue"] = token.encode().into();
        if selection.is_everything() {
            metadata["remainingItemCount"] = page.remaining.into();
        }
    } else if cx.resource().custom && cx.accepted.form == Form::Whole {
        // Upstream: lists without a Go type write the token even when it is empty.
        metadata["continue"] = "".into();
    }
    write(cx, &metadata, &page.entries)
}

/// The state to be listed, its revision, and the key at which the page begins.
async fn snapshot(
    cx: &Cx,
    selection: &Selection,
) -> Result<(Arc<Snapshot>, u64, Option<String>), Status> {
    let version = cx.query.text("resourceVersion");
    validate_options(cx, version)?;
    let token = cx.query.text("continue");
    if !token.is_empty() {
        if !matches!(version, "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(message));
        }
        return continued(cx, selection, &Token::decode(token)?).await;
    }
    let asked = match version {
        "" => 0,
        text => parse_revision(text).map_err(|why| {
            let text = machinery::field_path::quote(text);
            Status::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {text}: {why}"
            ))
        })?,
    };
    if version.is_empty() {
        cx.plane.cache.catch_up().await.map_err(|it| errors::of_store(&cx.what(), "", &it))?;
    } else if asked > 0 {
        not_older_than(cx, asked).await?;
    }
    if cx.query.text("resourceVersionMatch") == "Exact" {
        let snapshot = cx.served.cache.at(asked).map_err(|_| {
            Status::expired("The resourceVersion for the provided list is too old.")
        })?;
        return Ok((snapshot, asked, None));
    }
    Ok(current(cx, None))
}

/// What there is now. Every change up to the revision is in it: the cache publishes a revision
/// after the changes.
fn current(cx: &Cx, start: Option<String>) -> (Arc<Snapshot>, u64, Option<String>) {
    let applied = cx.plane.cache.applied();
    let snapshot = cx.served.cache.snapshot();
    let revision = snapshot.revision.max(applied);
    (snapshot, revision, start)
}

async fn continued(
    cx: &Cx,
    selection: &Selection,
    token: &Token,
) -> Result<(Arc<Snapshot>, u64, Option<String>), Status> {
    let start = Some(format!("{}{}", selection.prefix, token.start));
    let Some(revision) = token.revision else { return Ok(current(cx, start)) };
    if let Ok(snapshot) = cx.served.cache.at(revision) {
        return Ok((snapshot, revision, start));
    }
    let mut status = Status::expired(TOO_OLD);
    status.remainder = Some(Token { revision: None, start: token.start.clone() }.encode());
    Err(status)
}

/// Upstream: the answer has a token in it, with which to go on regardless.
const TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Upstream: apis/meta/internalversion/validation, for lists.
fn validate_options(cx: &Cx, version: &str) -> Result<(), Status> {
    let matching = cx.query.text("resourceVersionMatch");
    let mut faults = Faults::new();
    let path = Path::root("resourceVersionMatch");
    if !matching.is_empty() {
        if version.is_empty() {
            faults.forbidden(
                &path,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if !cx.query.text("continue").is_empty() {
            faults.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            faults.not_supported(&path, matching, &["Exact", "NotOlderThan", ""]);
        }
        if matching == "Exact" && version == "0" {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            faults.forbidden(&path, detail);
        }
    }
    if cx.query.get("sendInitialEvents").is_some() {
        let detail = "sendInitialEvents is forbidden for list";
        faults.forbidden(&Path::root("sendInitialEvents"), detail);
    }
    refuse_list_options(&faults)
}

/// The refusal of options that do not go together.
pub(super) fn refuse_list_options(faults: &Faults) -> Result<(), Status> {
    if faults.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", faults))
}

struct Page {
    entries: Vec<Arc<Entry>>,
    /// Where the next page begins, without the prefix.
    next: Option<String>,
    remaining: usize,
}

fn select(
    cx: &Cx,
    selection: &Selection,
    snapshot: &Snapshot,
    start: Option<&str>,
    limit: usize,
) -> Page {
    let mut page = Page { entries: Vec::new(), next: None, remaining: 0 };
    if let Some(key) = &selection.key {
        let found = snapshot.entries.get(key.as_str()).filter(|it| selection.matches(cx, it));
        page.entries.extend(found.cloned());
        return page;
    }
    let all = selection.is_everything();
    let mut entries = snapshot
        .under(&selection.prefix, start)
        .filter(|entry| all || selection.matches(cx, entry));
    for entry in entries.by_ref() {
        if limit > 0 && page.entries.len() == limit {
            page.next = Some(entry.key[selection.prefix.len()..].to_owned());
            page.remaining = 1;
            break;
        }
        page.entries.push(Arc::clone(entry));
    }
    if page.next.is_some() && all {
        page.remaining += entries.count();
    }
    page
}

/// Writes a list; its items are copied where they need not be changed.
pub(super) fn write(
    cx: &Cx,
    metadata: &Value,
    entries: &[Arc<Entry>],
) -> Result<Response<Body>, Status> {
    if cx.accepted == Accepted::JSON {
        let chunks = chunks(cx, metadata, entries);
        return Ok(answer::bytes(200, Media::Json.content_type(), Body::Chunks(chunks)));
    }
    let objects = entries.iter().map(|it| answer::converted(&cx.served, cx.version, it.object()));
    let value = match cx.accepted.form {
        Form::Table => table::table(cx, metadata, objects.collect())?,
        Form::Partial | Form::PartialList => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata, "items": objects.map(answer::partial).collect::<Vec<_>>(),
        }),
        Form::Whole => {
            let items: Vec<Value> = objects
                .map(|mut object| {
                    if !cx.resource().custom {
                        object.map_mut().remove("apiVersion");
                        object.map_mut().remove("kind");
                    }
                    object.into_value()
                })
                .collect();
            json!({
                "kind": cx.resource().list_kind,
                "apiVersion": cx.resource().api_version(cx.version()),
                "metadata": metadata, "items": items,
            })
        }
    };
    Ok(answer::document(200, cx.accepted, &value))
}

fn chunks(cx: &Cx, metadata: &Value, entries: &[Arc<Entry>]) -> VecDeque<Bytes> {
    let resource = cx.resource();
    let mut chunks = VecDeque::new();
    let total: usize = entries.iter().map(|it| it.len() + 64).sum();
    let mut out = Vec::with_capacity(total.min(CHUNK) + 4096);
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        resource.list_kind,
        resource.api_version(cx.version()),
    );
    out.extend_from_slice(head.as_bytes());
    let plain = resource.behavior.convert.is_none();
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if resource.custom || !plain {
            write_item(cx, entry, &mut out);
        } else {
            entry.write(&mut out, Head::Absent, entry.revision);
        }
        if out.len() >= CHUNK {
            let full = std::mem::replace(&mut out, Vec::with_capacity(CHUNK + 4096));
            chunks.push_back(full.into());
        }
    }
    out.extend_from_slice(b"]}\n");
    chunks.push_back(out.into());
    chunks
}

fn write_item(cx: &Cx, entry: &Entry, out: &mut Vec<u8>) {
    if cx.resource().custom {
        answer::write_entry(&cx.served, cx.version, entry, entry.revision, out);
        return;
    }
    if entry.stored_head() == cx.served.head(cx.version).as_bytes() {
        entry.write(out, Head::Absent, entry.revision);
        return;
    }
    let mut object = answer::converted(&cx.served, cx.version, entry.object());
    object.map_mut().remove("apiVersion");
    object.map_mut().remove("kind");
    object.write_to(out);
}
