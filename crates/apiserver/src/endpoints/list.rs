//! LIST: the objects of a collection, all at once or in pages, as of one revision.

pub(super) mod encoding;

use super::get::not_older_than;
use super::page::Token;
use super::selection::{Pace, Selection};
use crate::cache::watch_cache::{Entry, Snapshot};
use crate::endpoints::context::RequestContext;
use crate::http::body::Body;
use crate::http::negotiation::Form;
use crate::registry::conversion;
use crate::request::options::{parse_i64, parse_revision};
use http::Response;
use machinery::{ErrorList, GroupKind, Path, Status, Value, json};
use std::sync::Arc;

/// Answers with the selected objects.
pub(crate) async fn list(cx: &RequestContext) -> Result<Response<Body>, Status> {
    let (metadata, entries) = asked(cx).await?;
    encoding::write(cx, &metadata, entries)
}

/// The metadata of the list that is asked for, and what is in it.
pub(super) async fn asked(cx: &RequestContext) -> Result<(Value, Vec<Arc<Entry>>), Status> {
    let selection = Selection::parse(cx)?;
    let number = |name| cx.scope.query.get(name).map_or(Ok(0), parse_i64);
    // A list does not wait, but what is no number is none here either.
    number("timeoutSeconds")?;
    let mut limit = usize::try_from(number("limit")?).unwrap_or(0);
    let view = view(cx, &selection, limit).await?;
    // Upstream: who takes whatever the cache has gets all of it.
    if cx.scope.query.text("resourceVersion") == "0" && cx.scope.query.text("continue").is_empty() {
        limit = 0;
    }
    let page = select(cx, &selection, &view, limit).await?;
    let mut metadata = json!({"resourceVersion": view.revision.to_string()});
    if let Some(start) = page.next {
        cx.scope.served.cache.pin(&view.snapshot, view.revision);
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        let token = Token { revision: Some(view.revision), start, remaining: page.remaining };
        metadata["continue"] = token.encode(&selection.prefix).into();
    } else if cx.scope.resource().conventions.unstructured_lists && cx.accepted.form == Form::Whole
    {
        // Upstream: lists without a Go type write the token even when it is empty.
        metadata["continue"] = "".into();
    }
    Ok((metadata, page.entries))
}

/// What is to be listed.
struct View {
    snapshot: Arc<Snapshot>,
    /// What the client is told, and every page of the list has.
    revision: u64,
    /// The key at which the page begins.
    start: Option<String>,
    /// How many objects there are from there on, if that is known.
    count: Option<usize>,
}

async fn view(cx: &RequestContext, selection: &Selection, limit: usize) -> Result<View, Status> {
    let version = cx.scope.query.text("resourceVersion");
    validate_options(cx, version)?;
    let token = cx.scope.query.text("continue");
    if !token.is_empty() {
        let token = Token::decode(token, &selection.prefix)?;
        if !matches!(version, "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(message));
        }
        return continued(cx, selection, &token);
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
    // Zero takes whatever is there; as long as the store is in this process, that is what is new.
    if asked == 0 {
        cx.scope.catch_up().await?;
    } else {
        not_older_than(cx, asked).await?;
    }
    // Upstream: who wants pages as of a revision means just that one, unless they say otherwise.
    let is_exact = match cx.scope.query.text("resourceVersionMatch") {
        "" => limit > 0 && asked > 0,
        matching => matching == "Exact",
    };
    if is_exact {
        let snapshot = cx.scope.served.cache.at(asked).map_err(|_| {
            Status::expired("The resourceVersion for the provided list is too old.")
        })?;
        return Ok(View { snapshot, revision: asked, start: None, count: None });
    }
    Ok(current(cx, None))
}

/// What there is now. Every change up to the revision is in it: the cache publishes a revision
/// after the changes.
fn current(cx: &RequestContext, start: Option<String>) -> View {
    let applied = cx.scope.storage.cache.applied();
    let snapshot = cx.scope.served.cache.snapshot();
    let revision = snapshot.revision.max(applied);
    View { snapshot, revision, start, count: None }
}

fn continued(cx: &RequestContext, selection: &Selection, token: &Token) -> Result<View, Status> {
    let start = Some(format!("{}{}", selection.prefix, token.start));
    let Some(revision) = token.revision else { return Ok(current(cx, start)) };
    let applied = cx.scope.storage.cache.applied();
    if revision > applied {
        return Err(Status::revision_too_large(revision, applied));
    }
    if let Ok(snapshot) = cx.scope.served.cache.at(revision) {
        let count = token.remaining.filter(|it| *it <= snapshot.entries.len());
        return Ok(View { snapshot, revision, start, count });
    }
    let mut status = Status::expired(TOO_OLD);
    let go_on = Token { revision: None, start: token.start.clone(), remaining: None };
    status.remainder = Some(go_on.encode(&selection.prefix));
    Err(status)
}

/// Upstream: the answer has a token in it, with which to go on regardless.
const TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Upstream: apis/meta/internalversion/validation, for lists.
fn validate_options(cx: &RequestContext, version: &str) -> Result<(), Status> {
    let matching = cx.scope.query.text("resourceVersionMatch");
    let mut errors = ErrorList::new();
    let path = Path::root("resourceVersionMatch");
    if !matching.is_empty() {
        if version.is_empty() {
            errors.forbidden(
                &path,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if !cx.scope.query.text("continue").is_empty() {
            errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            errors.not_supported(&path, matching, &["Exact", "NotOlderThan", ""]);
        }
        if matching == "Exact" && version == "0" {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.forbidden(&path, detail);
        }
    }
    if cx.scope.query.get("sendInitialEvents").is_some() {
        let detail = "sendInitialEvents is forbidden for list";
        errors.forbidden(&Path::root("sendInitialEvents"), detail);
    }
    refuse_list_options(&errors)
}

/// The refusal of options that do not go together.
pub(super) fn refuse_list_options(errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", errors))
}

struct Page {
    entries: Vec<Arc<Entry>>,
    /// Where the next page begins, without the prefix.
    next: Option<String>,
    /// How many objects are not on this page; not told when there is a selector.
    remaining: Option<usize>,
}

/// The page that is asked for, in the version of the request.
async fn select(
    cx: &RequestContext,
    selection: &Selection,
    view: &View,
    limit: usize,
) -> Result<Page, Status> {
    if let Some(key) = &selection.key {
        let found = view.snapshot.entries.get(key.as_str()).map(|it| Arc::clone(it));
        let mut entries = conversion::entries(&cx.scope, found.into_iter().collect()).await?;
        entries.retain(|it| selection.matches(cx, it));
        return Ok(Page { entries, next: None, remaining: None });
    }
    let start = view.start.as_deref();
    // What an object's labels are in another version is known only when it is converted.
    if selection.looks_inside() && !cx.scope.served.conversion.serves_stored_bytes() {
        let under = view.snapshot.under(&selection.prefix, start);
        let converted = conversion::entries(&cx.scope, under.cloned().collect()).await?;
        return Ok(page(cx, selection, view, converted.iter(), limit).await);
    }
    let under = view.snapshot.labeled(&selection.prefix, start, selection.label_mask);
    let mut page = page(cx, selection, view, under, limit).await;
    page.entries = conversion::entries(&cx.scope, page.entries).await?;
    Ok(page)
}

/// The first of `entries` that are selected.
async fn page<'a>(
    cx: &RequestContext,
    selection: &Selection,
    view: &View,
    mut entries: impl Iterator<Item = &'a Arc<Entry>> + Send,
    limit: usize,
) -> Page {
    let mut page = Page { entries: Vec::new(), next: None, remaining: None };
    let all = selection.is_all_of(&view.snapshot);
    let mut pace = Pace::default();
    for entry in entries.by_ref() {
        if pace.is_due(selection) {
            tokio::task::yield_now().await;
        }
        if !all && !selection.matches(cx, entry) {
            continue;
        }
        if limit > 0 && page.entries.len() == limit {
            page.next = Some(entry.key[selection.prefix.len()..].to_owned());
            break;
        }
        page.entries.push(Arc::clone(entry));
    }
    if page.next.is_some() && all {
        let everywhere = view.start.is_none() && cx.scope.namespace().is_empty();
        let count = view.count.or_else(|| everywhere.then(|| view.snapshot.entries.len()));
        page.remaining = Some(match count {
            Some(count) => count.saturating_sub(page.entries.len()),
            None => 1 + entries.count(),
        });
    }
    page
}
