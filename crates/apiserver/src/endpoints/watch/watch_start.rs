//! [`WatchStart`]: the revision and the initial events of a watch, and the validation of its
//! options.

use crate::endpoints::context::RequestContext;
use crate::endpoints::list::reject_invalid_list_options;
use crate::endpoints::selection::Selection;
use crate::flow_control::{Charge, check_room};
use crate::request::options::parse_revision;
use machinery::{ErrorList, Path, Status};
use store::Revision;

/// The size of the request that a watch may keep without a charge: [`STREAM_OVERHEAD`] covers it.
///
/// [`STREAM_OVERHEAD`]: crate::flow_control::STREAM_OVERHEAD
const UNCHARGED_BYTES: usize = 2 << 10;

/// Charges the user for the parts of the request that a watch keeps: the query and its selectors.
/// Fails if the user has too many unread responses.
pub(super) fn charge(cx: &RequestContext, selection: &Selection) -> Result<Option<Charge>, Status> {
    let bytes = cx.query.heap_size() + selection.heap_size();
    if bytes <= UNCHARGED_BYTES {
        return Ok(None);
    }
    check_room(cx.account.as_deref(), bytes)?;
    Ok(cx.account.as_ref().map(|account| account.charge(bytes)))
}

/// The revision and the initial events of a watch.
pub(super) struct WatchStart {
    /// The revision after which changes are sent, or the minimum revision of the initial events.
    pub revision: Revision,
    /// Whether the watch starts with events for all existing objects.
    pub initial: bool,
    /// Whether the initial events must be current.
    pub consistent: bool,
    /// Whether a bookmark follows the initial events.
    pub initial_bookmark: bool,
}

impl WatchStart {
    /// Parses the parameters of a request.
    pub(super) fn parse(cx: &RequestContext) -> Result<Self, Status> {
        let text = cx.query.text("resourceVersion");
        let revision = match text {
            "" => 0,
            text => parse_revision(text).map_err(|why| {
                let text = machinery::field_path::quote(text);
                Status::unclassified(format!("resourceVersion: Invalid value: {text}: {why}"))
            })?,
        };
        let initial = match cx.query.get("sendInitialEvents") {
            Some(_) => cx.query.flag("sendInitialEvents"),
            None => revision == 0,
        };
        let bookmarks = cx.query.flag("allowWatchBookmarks");
        Ok(Self {
            revision,
            initial,
            consistent: text.is_empty(),
            initial_bookmark: bookmarks && initial,
        })
    }
}

/// Validates the options of a watch. Upstream: apis/meta/internalversion/validation, for watches.
pub(super) fn validate_options(cx: &RequestContext) -> Result<(), Status> {
    let mut matching = cx.query.text("resourceVersionMatch");
    let path = Path::root("resourceVersionMatch");
    let mut errors = ErrorList::new();
    let mut initial = cx.query.get("sendInitialEvents").is_some();
    // Upstream: a watch without a revision has initial events, and is validated as if it had
    // requested them.
    if !initial && matching.is_empty() && matches!(cx.query.text("resourceVersion"), "" | "0") {
        (initial, matching) = (true, "NotOlderThan");
    }
    if initial && matching != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.forbidden(&path, detail);
    }
    if !matching.is_empty() && !initial {
        let detail =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        errors.forbidden(&path, detail);
    }
    if !matches!(matching, "" | "NotOlderThan") {
        errors.not_supported(&path, matching, &["NotOlderThan"]);
    }
    if !matching.is_empty() && !cx.query.text("continue").is_empty() {
        errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
    }
    reject_invalid_list_options(&errors)
}
