//! LIST: the objects of a collection, all at once or in pages, as of one revision.

pub(super) mod chunks;
pub(super) mod encoding;
mod shared_items;

use std::sync::Arc;

use http::Response;

use super::continue_token::ContinueToken;
use super::get::wait_until_not_older_than;
use super::selection::{Selection, YieldBudget};
use crate::cache::watch_cache::{Entry, Snapshot};
use crate::endpoints::context::RequestContext;
use crate::http::body::Body;
use crate::http::negotiation::Representation;
use crate::registry::conversion;
use crate::request::options::{parse_i64, parse_revision};
use crate::storage::unreadable_error;
use machinery::{ErrorList, GroupKind, Path, Status, Value, json};

/// Responds with the selected objects.
pub(crate) async fn list(cx: &RequestContext) -> Result<Response<Body>, Status> {
    let (metadata, entries) = select_page(cx).await?;
    let items = cx.accept_items().map(|_| shared_items::list(cx, &metadata, &entries));
    let mut response = encoding::write(cx, &metadata, entries)?;
    if let Some(items) = items {
        response.extensions_mut().insert(items);
    }
    Ok(response)
}

/// The metadata and the entries of the requested page.
pub(super) async fn select_page(cx: &RequestContext) -> Result<(Value, Vec<Arc<Entry>>), Status> {
    let selection = Selection::parse(cx)?;
    let number = |name| cx.query.get(name).map_or(Ok(0), parse_i64);
    // A list has no timeout, but an invalid number is an error here too.
    number("timeoutSeconds")?;
    let mut limit = usize::try_from(number("limit")?).unwrap_or(0);
    let view = view(cx, &selection, limit).await?;
    unreadable_error::check_list(&view.snapshot, &selection.prefix)?;
    // Upstream: with resourceVersion 0 the list comes from the cache, and the limit is ignored.
    if cx.query.text("resourceVersion") == "0" && cx.query.text("continue").is_empty() {
        limit = 0;
    }
    let page = read_page(cx, &selection, &view, limit).await?;
    let mut metadata = json!({"resourceVersion": view.revision.to_string()});
    if let Some(start) = page.next {
        cx.scope.served.cache.retain_snapshot(&view.snapshot, view.revision);
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        let token =
            ContinueToken { revision: Some(view.revision), start, remaining: page.remaining };
        metadata["continue"] = token.encode(&selection.prefix).into();
    } else if cx.scope.resource().conventions.unstructured_lists
        && cx.accepted.representation == Representation::Object
    {
        // Upstream: lists without a Go type have the token even if it is empty.
        metadata["continue"] = "".into();
    }
    Ok((metadata, page.entries))
}

/// The state of the collection from which a page is taken.
struct ListView {
    snapshot: Arc<Snapshot>,
    /// The resourceVersion of the list, which is the same for every page.
    revision: u64,
    /// The key of the first object of the page.
    start: Option<String>,
    /// The number of objects from `start` on, if it is known.
    count: Option<usize>,
}

/// The state from which the requested page is taken.
async fn view(
    cx: &RequestContext,
    selection: &Selection,
    limit: usize,
) -> Result<ListView, Status> {
    let version = cx.query.text("resourceVersion");
    validate_options(cx, version)?;
    let token = cx.query.text("continue");
    if !token.is_empty() {
        let token = ContinueToken::decode(token, &selection.prefix)?;
        if !matches!(version, "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(message));
        }
        return continued(cx, selection, &token);
    }
    let revision = match version {
        "" => 0,
        text => parse_revision(text).map_err(|why| {
            let text = machinery::field_path::quote(text);
            Status::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {text}: {why}"
            ))
        })?,
    };
    // A resourceVersion of 0 accepts any state, and is current while the store is in this process.
    if revision == 0 {
        cx.scope.catch_up().await?;
    } else {
        wait_until_not_older_than(cx, revision).await?;
    }
    // Upstream: with a limit and a revision, the list is as of exactly that revision, unless
    // resourceVersionMatch says otherwise.
    let is_exact = match cx.query.text("resourceVersionMatch") {
        "" => limit > 0 && revision > 0,
        matching => matching == "Exact",
    };
    if is_exact {
        let snapshot = cx.scope.served.cache.at(revision).map_err(|_| {
            Status::expired("The resourceVersion for the provided list is too old.")
        })?;
        return Ok(ListView { snapshot, revision, start: None, count: None });
    }
    Ok(current(cx, None))
}

/// The current state. It includes every change up to its revision, since the cache publishes a
/// revision after its changes.
fn current(cx: &RequestContext, start: Option<String>) -> ListView {
    let applied = cx.scope.storage.cache.applied();
    let snapshot = cx.scope.served.cache.snapshot();
    let revision = snapshot.revision.max(applied);
    ListView { snapshot, revision, start, count: None }
}

/// The state of the list that `token` continues.
fn continued(
    cx: &RequestContext,
    selection: &Selection,
    token: &ContinueToken,
) -> Result<ListView, Status> {
    let start = Some(format!("{}{}", selection.prefix, token.start));
    let Some(revision) = token.revision else { return Ok(current(cx, start)) };
    let applied = cx.scope.storage.cache.applied();
    if revision > applied {
        return Err(Status::too_large_resource_version(revision, applied));
    }
    if let Ok(snapshot) = cx.scope.served.cache.at(revision) {
        let count = token.remaining.filter(|it| *it <= snapshot.entries.len());
        return Ok(ListView { snapshot, revision, start, count });
    }
    let mut status = Status::expired(CONTINUE_TOO_OLD);
    let inconsistent =
        ContinueToken { revision: None, start: token.start.clone(), remaining: None };
    status.continue_token = Some(inconsistent.encode(&selection.prefix));
    Err(status)
}

/// The message of an expired token. Upstream: the response has another token, for an inconsistent
/// continuation.
const CONTINUE_TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Validates the list options. Upstream: apis/meta/internalversion/validation, for lists.
fn validate_options(cx: &RequestContext, version: &str) -> Result<(), Status> {
    let matching = cx.query.text("resourceVersionMatch");
    let mut errors = ErrorList::new();
    let path = Path::root("resourceVersionMatch");
    if !matching.is_empty() {
        if version.is_empty() {
            errors.forbidden(
                &path,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if !cx.query.text("continue").is_empty() {
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
    if cx.query.get("sendInitialEvents").is_some() {
        let detail = "sendInitialEvents is forbidden for list";
        errors.forbidden(&Path::root("sendInitialEvents"), detail);
    }
    reject_invalid_list_options(&errors)
}

/// Fails if there are errors about list options.
pub(super) fn reject_invalid_list_options(errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", errors))
}

struct ListPage {
    entries: Vec<Arc<Entry>>,
    /// The key of the first object of the next page, without the prefix.
    next: Option<String>,
    /// The number of objects after this page; None if there is a selector.
    remaining: Option<usize>,
}

/// The requested page, in the version of the request.
async fn read_page(
    cx: &RequestContext,
    selection: &Selection,
    view: &ListView,
    limit: usize,
) -> Result<ListPage, Status> {
    if let Some(key) = &selection.key {
        let found = view.snapshot.entries.get(key.as_str()).map(|it| Arc::clone(it));
        let mut entries = conversion::entries(&cx.scope, found.into_iter().collect()).await?;
        entries.retain(|it| selection.matches(cx, it));
        return Ok(ListPage { entries, next: None, remaining: None });
    }
    let start = view.start.as_deref();
    // The labels of an object in another version are known only after its conversion.
    if selection.depends_on_version() && !cx.scope.served.conversion.serves_stored_bytes() {
        let candidates = view.snapshot.under(&selection.prefix, start);
        let converted = conversion::entries(&cx.scope, candidates.cloned().collect()).await?;
        return Ok(page(cx, selection, view, converted.iter(), limit).await);
    }
    let candidates = view.snapshot.labeled(&selection.prefix, start, selection.label_mask);
    let mut page = page(cx, selection, view, candidates, limit).await;
    page.entries = conversion::entries(&cx.scope, page.entries).await?;
    Ok(page)
}

/// The first `limit` selected entries.
async fn page<'a>(
    cx: &RequestContext,
    selection: &Selection,
    view: &ListView,
    mut entries: impl Iterator<Item = &'a Arc<Entry>> + Send,
    limit: usize,
) -> ListPage {
    let mut page = ListPage { entries: Vec::new(), next: None, remaining: None };
    let all = selection.selects_all(&view.snapshot);
    let mut yield_budget = YieldBudget::default();
    for entry in entries.by_ref() {
        if yield_budget.should_yield(selection) {
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
        let whole_resource = view.start.is_none() && cx.scope.namespace().is_empty();
        let count = view.count.or_else(|| whole_resource.then(|| view.snapshot.entries.len()));
        page.remaining = Some(match count {
            Some(count) => count.saturating_sub(page.entries.len()),
            None => 1 + entries.count(),
        });
    }
    page
}
