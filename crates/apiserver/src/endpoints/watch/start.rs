//! Where a watch begins, and what a client may not ask of it.

use crate::context::Cx;
use crate::endpoints::list::refuse_list_options;
use crate::options::parse_revision;
use machinery::{Faults, Path, Status};
use store::Revision;

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
    pub(super) fn parse(cx: &Cx) -> Result<Self, Status> {
        let text = cx.query.text("resourceVersion");
        let revision = match text {
            "" => 0,
            text => parse_revision(text).map_err(|why| {
                let text = machinery::field_path::quote(text);
                Status::unclassified(format!("resourceVersion: Invalid value: {text}: {why}"))
            })?,
        };
        let asked = cx.query.flag("sendInitialEvents");
        let refused = cx.query.get("sendInitialEvents").is_some() && !asked;
        let bookmarks = cx.query.flag("allowWatchBookmarks");
        Ok(Self {
            revision,
            initial: asked || (revision == 0 && !refused),
            consistent: text.is_empty(),
            initial_bookmark: bookmarks && (asked || text.is_empty()),
        })
    }
}

/// Upstream: apis/meta/internalversion/validation, for watches.
pub(super) fn validate_options(cx: &Cx) -> Result<(), Status> {
    let matching = cx.query.text("resourceVersionMatch");
    let path = Path::root("resourceVersionMatch");
    let mut faults = Faults::new();
    if !matching.is_empty() && !cx.query.text("continue").is_empty() {
        faults.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
    }
    if cx.query.get("sendInitialEvents").is_some() {
        if matching != "NotOlderThan" {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            faults.forbidden(&path, detail);
        }
        if !matches!(matching, "" | "NotOlderThan") {
            faults.not_supported(&path, matching, &["NotOlderThan"]);
        }
    } else if !matching.is_empty() && faults.is_empty() {
        let detail =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        faults.forbidden(&path, detail);
    }
    refuse_list_options(&faults)
}
