//! Content negotiation: the media type of a response, and its representation (the object itself, a
//! Table, or only its metadata).

use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};

use crate::http::headers;
use crate::request::{Query, Verb};
use machinery::codec::media::{MediaType, parse_accept};
use machinery::{Reason, Status};
use types::resource::UnstoredKind;
use types::{Resource, protobuf};

/// A media type in which objects are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

impl Media {
    /// All media types, in order of preference for a client that accepts any.
    const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    /// The `Content-Type`.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => protobuf::MEDIA_TYPE,
        }
    }

    /// The `Content-Type` of a watch; None for YAML, whose documents cannot be streamed.
    pub(crate) fn stream_type(self) -> Option<&'static str> {
        match self {
            Self::Json => Some("application/json"),
            Self::Yaml => None,
            Self::Protobuf => Some("application/vnd.kubernetes.protobuf;stream=watch"),
        }
    }
}

/// The kind that a response has: that of the object, or one that Kubernetes converts it to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Representation {
    /// The object or the list itself.
    Object,
    /// A Table, for display.
    Table,
    /// The metadata of one object.
    PartialObjectMetadata,
    /// The metadata of each object in a list.
    PartialObjectMetadataList,
}

/// The result of content negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MediaTypeOptions {
    /// The media type.
    pub media: Media,
    /// The representation.
    pub representation: Representation,
    /// Whether JSON is indented.
    pub pretty: bool,
}

impl MediaTypeOptions {
    /// The encoding of errors for a client whose `Accept` header cannot be satisfied.
    pub(crate) const JSON: Self =
        Self { media: Media::Json, representation: Representation::Object, pretty: false };
}

/// The upstream handler whose rules and error messages apply to the negotiation of the media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Negotiator {
    /// The go-restful router of built-in resources. It accepts neither wildcard subtypes nor
    /// parameters, and has its own error message.
    GoRestful,
    /// The handlers of discovery.
    Discovery,
    /// The handler of custom resources, whose metadata has a protobuf message and whose objects have
    /// none.
    Crd,
}

/// The media types and representations that an endpoint offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndpointRestrictions {
    negotiator: Negotiator,
    /// Whether the path of the endpoint can be watched.
    allows_watch: bool,
    /// Whether objects can be converted to metadata.
    allows_transform: bool,
    /// Whether objects can be converted to a Table.
    allows_table: bool,
}

impl EndpointRestrictions {
    /// The restrictions of a document that is not an API object.
    pub(crate) const DOCUMENT: Self = Self {
        negotiator: Negotiator::GoRestful,
        allows_watch: false,
        allows_transform: false,
        allows_table: false,
    };

    /// The restrictions of `/apis` and `/apis/<group>`.
    pub(crate) const GROUPS: Self = Self { negotiator: Negotiator::Discovery, ..Self::DOCUMENT };

    /// The restrictions of a resource.
    pub(crate) fn of(resource: &Resource, verb: Verb) -> Self {
        let allows_watch = matches!(verb, Verb::List | Verb::Watch);
        let negotiator = if resource.conventions.negotiated_by_router {
            Negotiator::GoRestful
        } else {
            Negotiator::Crd
        };
        // Upstream: reviews and bindings have no columns.
        let unstored = resource.strategy.unstored;
        let allows_table = unstored.is_none_or(|kind| kind == UnstoredKind::ComponentStatus);
        Self { negotiator, allows_watch, allows_transform: true, allows_table }
    }
}

/// Finds the first media range in the `Accept` header that the endpoint can serve.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    query: &Query,
    restrictions: EndpointRestrictions,
) -> Result<MediaTypeOptions, Status> {
    let pretty = is_pretty_print(headers, query);
    let accept = &*headers::first(headers, ACCEPT);
    if accept.is_empty() {
        return Ok(MediaTypeOptions { pretty, ..MediaTypeOptions::JSON });
    }
    if restrictions.negotiator == Negotiator::GoRestful && !has_route(accept) {
        return Err(not_acceptable_to_go_restful(restrictions));
    }
    let ranges = parse_accept(accept);
    let found = ranges.iter().find_map(|range| {
        Media::ALL.into_iter().find_map(|media| {
            let representation = representation(range, media, restrictions)?;
            Some(MediaTypeOptions { media, representation, pretty })
        })
    });
    found.ok_or_else(|| not_acceptable(&Media::ALL.map(Media::content_type)))
}

/// Fails if the client does not accept the only media type of a document.
pub(crate) fn accepts_only(headers: &HeaderMap, content_type: &str) -> Result<(), Status> {
    let accept = &*headers::first(headers, ACCEPT);
    if accept.is_empty() || has_route_to(accept, &[content_type]) {
        return Ok(());
    }
    Err(no_route_to(&[content_type]))
}

/// Whether go-restful finds a route for the `Accept` header.
fn has_route(accept: &str) -> bool {
    has_route_to(accept, &Media::ALL.map(Media::content_type))
}

/// Whether go-restful finds a route to one of these media types.
fn has_route_to(accept: &str, media: &[&str]) -> bool {
    accept.split(',').any(|range| {
        let range = range.split(';').next().unwrap_or_default().trim();
        range == "*/*" || media.contains(&range)
    })
}

/// The encoding of an error: the first media range in `Accept` that requests no conversion.
pub(crate) fn for_errors(headers: &HeaderMap, query: &Query) -> MediaTypeOptions {
    negotiate(headers, query, EndpointRestrictions::GROUPS).unwrap_or(MediaTypeOptions::JSON)
}

/// Whether an error can be encoded in a media type that the client accepts.
pub(crate) fn accepts_errors(headers: &HeaderMap) -> bool {
    negotiate(headers, &Query::default(), EndpointRestrictions::GROUPS).is_ok()
}

/// The representation that a media range requests; None if the range does not include `media` or
/// the representation does not exist in it.
fn representation(
    range: &MediaType,
    media: Media,
    restrictions: EndpointRestrictions,
) -> Option<Representation> {
    let is_stream = |it: &str| it == "watch" && media.stream_type().is_some();
    if !range.accepts(media.content_type())
        || range.param("stream").is_some_and(|it| !it.is_empty() && !is_stream(it))
    {
        return None;
    }
    if ["as", "g", "v"].iter().all(|it| range.param(it).is_none()) {
        return (media != Media::Protobuf || restrictions.negotiator != Negotiator::Crd)
            .then_some(Representation::Object);
    }
    let known = restrictions.allows_transform
        && range.param("g") == Some("meta.k8s.io")
        && matches!(range.param("v"), Some("v1" | "v1beta1"));
    match range.param("as").filter(|_| known)? {
        // A cell can have any type, for which protobuf has no message.
        "Table" => {
            (restrictions.allows_table && media != Media::Protobuf).then_some(Representation::Table)
        }
        "PartialObjectMetadata" => Some(Representation::PartialObjectMetadata),
        "PartialObjectMetadataList" => Some(Representation::PartialObjectMetadataList),
        _ => None,
    }
}

/// Upstream: JSON is indented for curl, wget and browsers unless the query says otherwise.
fn is_pretty_print(headers: &HeaderMap, query: &Query) -> bool {
    if query.get("pretty").is_some() {
        return query.flag("pretty");
    }
    let agent = headers::first(headers, USER_AGENT);
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|it| agent.starts_with(it))
}

/// The error of go-restful for an `Accept` header without a route.
fn not_acceptable_to_go_restful(restrictions: EndpointRestrictions) -> Status {
    let mut all = Media::ALL.map(Media::content_type).to_vec();
    if restrictions.allows_watch {
        all.extend(STREAMS);
    }
    no_route_to(&all)
}

fn no_route_to(media: &[&str]) -> Status {
    let all = media.join(", ");
    let message = format!("406: Not Acceptable\n\nAvailable representations: {all}");
    let mut status = Status::new(406, Reason::NotAcceptable, message);
    status.details = Some(Box::default());
    status
}

const STREAMS: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// The error for a watch in a media type that cannot be streamed.
pub(crate) fn stream_not_acceptable() -> Status {
    not_acceptable(&STREAMS)
}

fn not_acceptable(media: &[&str]) -> Status {
    let message = format!("only the following media types are accepted: {}", media.join(", "));
    Status::new(406, Reason::NotAcceptable, message)
}

/// The error for a list that is requested as `PartialObjectMetadata`.
pub(crate) fn list_as_object(resource: &Resource) -> Status {
    let requested = "PartialObjectMetadata, but the requested object is a list";
    wrong_representation(requested, resource, &resource.list_kind)
}

/// The error for an object that is requested as `PartialObjectMetadataList`.
pub(crate) fn object_as_list(resource: &Resource) -> Status {
    if resource.conventions.unstructured_lists {
        return Status::unclassified("content is not a list");
    }
    let requested = "PartialObjectMetadataList, but the requested object is not a list";
    wrong_representation(requested, resource, &resource.kind)
}

/// Upstream names the Go type of the object; lists of custom resources share one Go type.
fn wrong_representation(requested: &str, resource: &Resource, kind: &str) -> Status {
    let (package, kind) = match resource.group.split('.').next() {
        _ if resource.conventions.unstructured_lists => ("unstructured", "UnstructuredList"),
        None | Some("") => ("core", kind),
        Some(group) => (group, kind),
    };
    let message = format!("you requested {requested} (*{package}.{kind})");
    Status::new(406, Reason::NotAcceptable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT_IN: EndpointRestrictions = EndpointRestrictions {
        negotiator: Negotiator::GoRestful,
        allows_watch: true,
        allows_transform: true,
        allows_table: true,
    };
    const CUSTOM: EndpointRestrictions =
        EndpointRestrictions { negotiator: Negotiator::Crd, ..BUILT_IN };

    fn negotiated(
        accept: &str,
        restrictions: EndpointRestrictions,
    ) -> Result<MediaTypeOptions, Status> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        negotiate(&headers, &Query::default(), restrictions)
    }

    fn check(
        accept: &str,
        restrictions: EndpointRestrictions,
        expect: Option<(Media, Representation)>,
    ) {
        let found = negotiated(accept, restrictions).ok().map(|it| (it.media, it.representation));
        assert_eq!(found, expect, "{accept}");
    }

    #[test]
    fn the_first_acceptable_media_range_is_used() {
        check("*/*", BUILT_IN, Some((Media::Json, Representation::Object)));
        check(
            "text/csv, application/json;q=0.5",
            BUILT_IN,
            Some((Media::Json, Representation::Object)),
        );
        check("application/yaml", BUILT_IN, Some((Media::Yaml, Representation::Object)));
        check("text/csv", BUILT_IN, None);
        check("nonsense", CUSTOM, None);
        check("", CUSTOM, Some((Media::Json, Representation::Object)));
    }

    #[test]
    fn a_wildcard_subtype_is_accepted_except_by_go_restful() {
        check("application/*", BUILT_IN, None);
        check(
            "application/*",
            EndpointRestrictions::GROUPS,
            Some((Media::Json, Representation::Object)),
        );
        check("application/*", CUSTOM, Some((Media::Json, Representation::Object)));
    }

    #[test]
    fn custom_resources_have_no_protobuf_encoding() {
        let either = "application/vnd.kubernetes.protobuf,application/json";
        check(either, BUILT_IN, Some((Media::Protobuf, Representation::Object)));
        check(either, CUSTOM, Some((Media::Json, Representation::Object)));
        check("application/vnd.kubernetes.protobuf", CUSTOM, None);
    }

    #[test]
    fn metadata_can_be_protobuf_for_every_resource_and_a_table_never() {
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        check(
            metadata,
            BUILT_IN,
            Some((Media::Protobuf, Representation::PartialObjectMetadataList)),
        );
        check(metadata, CUSTOM, Some((Media::Protobuf, Representation::PartialObjectMetadataList)));
        let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
        check(table, BUILT_IN, None);
    }

    #[test]
    fn a_table_is_offered_in_known_versions_only() {
        check(
            "application/json;as=Table;g=meta.k8s.io;v=v1",
            BUILT_IN,
            Some((Media::Json, Representation::Table)),
        );
        check(
            "application/json;as=Table;g=meta.k8s.io;v=v9,application/json",
            BUILT_IN,
            Some((Media::Json, Representation::Object)),
        );
        check("application/json;as=Table;g=meta.k8s.io;v=v1", EndpointRestrictions::DOCUMENT, None);
    }

    #[test]
    fn a_watch_cannot_be_yaml() {
        check("application/yaml;stream=watch", BUILT_IN, None);
        check(
            "application/json;stream=watch",
            BUILT_IN,
            Some((Media::Json, Representation::Object)),
        );
    }

    #[test]
    fn a_not_acceptable_error_lists_the_media_types() {
        let message = |accept: &str, restrictions: EndpointRestrictions| {
            negotiated(accept, restrictions).unwrap_err().message
        };
        let three = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        assert_eq!(
            message("text/csv", BUILT_IN),
            format!(
                "406: Not Acceptable\n\nAvailable representations: {three}, {}",
                STREAMS.join(", ")
            )
        );
        let only = format!("only the following media types are accepted: {three}");
        assert_eq!(message("application/vnd.kubernetes.protobuf", CUSTOM), only);
        assert_eq!(message("application/json;as=Something", BUILT_IN), only);
    }
}
