//! What the client wants to read: the media type, and the form (the object itself, a Table, or its
//! metadata alone).

use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};
use machinery::codec::media::{MediaType, parse_accept};
use machinery::{GroupResource, Reason, Status};

use crate::request::Query;

/// A way to write JSON down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
}

impl Media {
    /// The `Content-Type`.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// The shape in which objects are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Whole,
    /// Rows of cells, for people.
    Table,
    /// Metadata of one object.
    Partial,
    /// Metadata of each object in a list.
    PartialList,
}

/// The outcome of a negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// How it is written.
    pub media: Media,
    /// What is written.
    pub form: Form,
    /// With line breaks and indentation.
    pub pretty: bool,
}

impl Accepted {
    /// What errors are written in when it is not known what else could be understood.
    pub(crate) const JSON: Self = Self { media: Media::Json, form: Form::Whole, pretty: false };
}

const AVAILABLE: &str = "application/json, application/yaml, application/json;stream=watch";

/// Finds the first thing in `Accept` that we can write.
pub(crate) fn negotiate(headers: &HeaderMap, query: &Query) -> Result<Accepted, Status> {
    let pretty = wants_pretty(headers, query);
    let Some(accept) = headers.get(ACCEPT).and_then(|it| it.to_str().ok()) else {
        return Ok(Accepted { pretty, ..Accepted::JSON });
    };
    let ranges = parse_accept(accept);
    if ranges.is_empty() {
        return Ok(Accepted { pretty, ..Accepted::JSON });
    }
    ranges
        .iter()
        .find_map(|it| Some(Accepted { media: media(it)?, form: form(it)?, pretty }))
        .ok_or_else(not_acceptable)
}

fn media(range: &MediaType) -> Option<Media> {
    match (range.type_.as_str(), range.subtype.as_str()) {
        ("application" | "*", "json" | "*") => Some(Media::Json),
        ("application", "yaml") => Some(Media::Yaml),
        _ => None,
    }
}

/// Only what this server can make: an unknown transformation makes the whole range unacceptable.
fn form(range: &MediaType) -> Option<Form> {
    let Some(wanted) = range.param("as") else { return Some(Form::Whole) };
    let known = range.param("g") == Some("meta.k8s.io")
        && matches!(range.param("v"), Some("v1" | "v1beta1"));
    match wanted {
        "Table" if known => Some(Form::Table),
        "PartialObjectMetadata" if known => Some(Form::Partial),
        "PartialObjectMetadataList" if known => Some(Form::PartialList),
        _ => None,
    }
}

/// Upstream: people at a terminal or a browser get their JSON indented without asking.
fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    match query.get("pretty") {
        Some(_) => query.flag("pretty"),
        None => headers.get(USER_AGENT).and_then(|it| it.to_str().ok()).is_some_and(|it| {
            it.starts_with("curl") || it.starts_with("Wget") || it.starts_with("Mozilla/5.0")
        }),
    }
}

/// We cannot write anything that the client would read.
pub(crate) fn not_acceptable() -> Status {
    let message = format!("406: Not Acceptable\n\nAvailable representations: {AVAILABLE}");
    let mut status = Status::new(406, Reason::NotAcceptable, message);
    status.details = Some(Box::default());
    status
}

/// A list was asked for in the form of one object.
pub(crate) fn list_as_one(what: &GroupResource, list_kind: &str) -> Status {
    let package = match what.group.split('.').next() {
        None | Some("") => "core",
        Some(group) => group,
    };
    let message = format!(
        "you requested PartialObjectMetadata, but the requested object is a list (*{package}.{list_kind})"
    );
    Status::new(406, Reason::NotAcceptable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, expect: Option<(Media, Form)>) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        let found = negotiate(&headers, &Query::default()).ok().map(|it| (it.media, it.form));
        assert_eq!(found, expect, "{accept}");
    }

    #[test]
    fn the_first_acceptable_range_is_taken() {
        check("*/*", Some((Media::Json, Form::Whole)));
        check("text/csv, application/json;q=0.5", Some((Media::Json, Form::Whole)));
        check("application/yaml", Some((Media::Yaml, Form::Whole)));
        check("text/csv", None);
        check(
            "application/vnd.kubernetes.protobuf,application/json",
            Some((Media::Json, Form::Whole)),
        );
    }

    #[test]
    fn tables_are_made_in_known_versions_only() {
        check("application/json;as=Table;g=meta.k8s.io;v=v1", Some((Media::Json, Form::Table)));
        check(
            "application/json;as=Table;g=meta.k8s.io;v=v9,application/json",
            Some((Media::Json, Form::Whole)),
        );
    }
}
