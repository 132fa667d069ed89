//! Where a watch begins, and what a client may not ask of it.

use crate::endpoints::context::RequestContext;
use crate::endpoints::list::refuse_list_options;
use crate::endpoints::selection::Selection;
use crate::flow_control::{Charge, check_room};
use crate::request::options::parse_revision;
use machinery::{ErrorList, Path, Status};
use store::Revision;

/// A watch keeps this many bytes of its request without a charge: [`STREAM_OVERHEAD`] covers them.
///
/// [`STREAM_OVERHEAD`]: crate::flow_control::STREAM_OVERHEAD
const UNCHARGED: usize = 2 << 10;

/// Charges the user for what a watch keeps of its request: the query, and the selectors that are in
/// it. Fails if the user has no room for it.
pub(super) fn charge(cx: &RequestContext, selection: &Selection) -> Result<Option<Charge>, Status> {
    let bytes = cx.scope.query.heap_size() + selection.heap_size();
    if bytes <= UNCHARGED {
        return Ok(None);
    }
    check_room(cx.account.as_deref(), bytes)?;
    Ok(cx.account.as_ref().map(|account| account.charge(bytes)))
}

/// Where a watch begins.
pub(super) struct Start {
    /// After this, or with what there is at this.
    pub revision: Revision,
    /// With what there is.
    pub initial: bool,
    /// Which must be current.
    pub consistent: bool,
    /// And a bookmark behind it.
    pub initial_bookmark: bool,
}

impl Start {
    /// Reads it off a request.
    pub(super) fn parse(cx: &RequestContext) -> Result<Self, Status> {
        let text = cx.scope.query.text("resourceVersion");
        let revision = match text {
            "" => 0,
            text => parse_revision(text).map_err(|why| {
                let text = machinery::field_path::quote(text);
                Status::unclassified(format!("resourceVersion: Invalid value: {text}: {why}"))
            })?,
        };
        let initial = match cx.scope.query.get("sendInitialEvents") {
            Some(_) => cx.scope.query.flag("sendInitialEvents"),
            None => revision == 0,
        };
        let bookmarks = cx.scope.query.flag("allowWatchBookmarks");
        Ok(Self {
            revision,
            initial,
            consistent: text.is_empty(),
            initial_bookmark: bookmarks && initial,
        })
    }
}

/// Upstream: apis/meta/internalversion/validation, for watches.
pub(super) fn validate_options(cx: &RequestContext) -> Result<(), Status> {
    let mut matching = cx.scope.query.text("resourceVersionMatch");
    let path = Path::root("resourceVersionMatch");
    let mut errors = ErrorList::new();
    let mut initial = cx.scope.query.get("sendInitialEvents").is_some();
    // Upstream: who has nothing yet gets what there is, and that is a matter of these two.
    if !initial && matching.is_empty() && matches!(cx.scope.query.text("resourceVersion"), "" | "0")
    {
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
    if !matching.is_empty() && !cx.scope.query.text("continue").is_empty() {
        errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
    }
    refuse_list_options(&errors)
}
