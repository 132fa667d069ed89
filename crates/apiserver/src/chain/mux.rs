//! Routes a request to the function that serves it. Resources are looked up in the catalog, so that
//! an established CRD has routes without a registration.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts as Head;

use crate::audit::AuditContext;
use crate::auth::authentication::User;
use crate::endpoints::context::{ContextParts, RequestContext};
use crate::endpoints::{
    connect, create, delete, delete_collection, eviction, get, list, patch, scale, subresource,
    token_request, unstored, update, watch,
};
use crate::extensions::crd;
use crate::flow_control;
use crate::http::body::Body;
use crate::http::negotiation::{EndpointRestrictions, MediaTypeOptions, negotiate};
use crate::http::response;
use crate::in_process::loopback;
use crate::in_process::loopback::DeletedCrdInstance;
use crate::plane::Plane;
use crate::registry::UpdateStrategy;
use crate::registry::large_objects::{
    MAX_INLINE_OBJECT, has_large_object, has_large_objects, offload_if,
};
use crate::request::{Query, ResourcePath, Verb};
use crate::routes::{
    discovery, flow_control_dump, health, issuer_discovery, metrics, openapi, version,
};
use crate::storage::catalog::ServedResource;
use machinery::field_path::quote;
use machinery::{Status, names};
use types::resource::{Action, Scale, Subresource};

/// The first segments of the paths for which a trailing slash is significant.
const EXACT_PATHS: [&str; 5] = ["healthz", "livez", "readyz", "metrics", "openapi"];

/// Serves a path that does not belong to an API resource.
pub(crate) async fn non_resource(
    plane: &Arc<Plane>,
    user: &User,
    path: &str,
    head: &Head,
    query: &Query,
) -> Result<Response<Body>, Status> {
    let all: Vec<&str> = path.split('/').skip(1).collect();
    let segments = match all.as_slice() {
        // A trailing slash is ignored for all other paths.
        [first, before @ .., ""] if !first.is_empty() && !EXACT_PATHS.contains(first) => {
            let last = before.iter().rposition(|it| !it.is_empty()).map_or(0, |it| it + 1);
            &all[..=last]
        }
        all => all,
    };
    let is_read = matches!(head.method, http::Method::GET | http::Method::HEAD);
    if let ["" | "apis" | "openapi" | "index.html", ..] = segments {
        crd::catch_up(&plane.storage).await;
    }
    match segments {
        // Upstream: the handlers of other documents accept every method.
        ["version" | "api"] if head.method != http::Method::GET => {
            Err(Status::method_not_allowed())
        }
        ["metrics"] if !is_read => Err(Status::method_not_allowed()),
        ["" | "index.html"] => Ok(discovery::paths(plane)),
        ["version"] => version::version(head, query),
        ["healthz" | "livez" | "readyz", .., ""] => Ok(response::page_not_found()),
        [check @ ("healthz" | "livez" | "readyz"), rest @ ..] => {
            Ok(health::health(plane, check, rest, query).await)
        }
        ["metrics"] => Ok(metrics::metrics(plane)),
        ["debug", "api_priority_and_fairness", dump] => {
            Ok(flow_control_dump::dump(plane, dump, query))
        }
        [".well-known", "openid-configuration"] => issuer_discovery::configuration(plane, head),
        ["openid", "v1", "jwks"] => issuer_discovery::key_set(plane, head),
        ["api"] => discovery::core(plane, head, query),
        ["apis"] => discovery::groups(plane, head, query),
        ["apis", group] if !group.is_empty() => discovery::group(plane, group, head, query),
        // A path of a served resource reaches this point only if it contains an empty segment.
        ["version" | "api", ..] => Err(Status::no_such_resource()),
        ["apis", group, _, ..] if !group.is_empty() => {
            let catalog = plane.storage.catalog.load();
            not_found(catalog.group(group).is_none_or(|it| it.conventions.plain_not_found))
        }
        ["openapi", "v3", "apis", group, version]
            if let Some(remote) = plane.aggregation.find(group, version) =>
        {
            let forwarded = plane.aggregation.forward(&remote, user, head, Bytes::new());
            Ok(Box::pin(forwarded).await)
        }
        ["openapi", rest @ ..] => {
            let document = async { openapi::openapi(plane, rest, &head.headers, query) };
            Ok(plane
                .storage
                .offload
                .run(flow_control::large_request_flow(user).as_deref(), document)
                .await)
        }
        _ => Ok(response::page_not_found()),
    }
}

/// Serves a request for an API resource.
pub(crate) async fn resource(
    parts: ContextParts,
    head: Head,
    body: Bytes,
) -> Result<Response<Body>, Status> {
    // The CRD controller deletes an object of a CRD that is being deleted.
    if let Some(DeletedCrdInstance(served)) = head.extensions.get() {
        let version = served.resource.storage_index;
        let cx = RequestContext::new(parts, MediaTypeOptions::JSON, Arc::clone(served), version);
        return Box::pin(delete::delete_instance(&cx)).await;
    }
    let ResourcePath { group, version, resource, .. } = &parts.scope.path;
    if let Some(remote) = parts.plane.aggregation.find(group, version)
        && !loopback::is_loopback(&head)
    {
        let forwarded = parts.plane.aggregation.forward(&remote, &parts.scope.user, &head, body);
        return Ok(Box::pin(forwarded).await);
    }
    if resource.is_empty() {
        crd::catch_up(&parts.plane.storage).await;
        let catalog = parts.plane.storage.catalog.load();
        let is_restricted =
            catalog.group(group).is_some_and(|it| it.conventions.restricts_discovery_methods);
        let is_read = parts.scope.verb.is_read_only() && head.method != http::Method::HEAD;
        if !is_read && is_restricted && catalog.has_version(group, version) {
            return Err(Status::method_not_allowed());
        }
        return discovery::resources(&parts.plane, group, version, &head, &parts.query);
    }
    let (catalog, found) = crd::find(&parts.plane.storage, &parts.scope.path).await;
    let Some((served, version)) = found else {
        // A built-in group exists by itself; a custom group exists only through its resources.
        return not_found(catalog.group(group).is_none_or(|it| it.conventions.plain_not_found));
    };
    if !is_in_scope(&served, &parts.scope.path, parts.scope.verb) {
        return not_found(served.resource.conventions.plain_not_found);
    }
    let subresource = parts.scope.path.subresource.as_str();
    // Upstream: each subresource of a built-in resource has a route.
    if served.resource.conventions.routes_subresources
        && !subresource.is_empty()
        && find_subresource(&served, version, subresource).is_none()
    {
        return Err(Status::no_such_resource());
    }
    // Upstream: each method has a route, HEAD has none, and the paths of watches have GET only. The
    // routes of custom resources are by verb.
    let is_watch_by_other_method =
        parts.scope.verb == Verb::Watch && head.method != http::Method::GET;
    if !served.resource.conventions.serves_head
        && (head.method == http::Method::HEAD || is_watch_by_other_method)
    {
        return Err(Status::method_not_allowed());
    }
    let restrictions = EndpointRestrictions::of(&served.resource, parts.scope.verb);
    let accepted = negotiate(&head.headers, &parts.query, restrictions)?;
    let requested = served.version(version);
    if requested.deprecation.is_some() {
        parts.plane.metrics.request_deprecated(&parts.scope.path, requested.removed_release());
    }
    let cx = RequestContext::new(parts, accepted, served, version);
    dispatch(cx, &body).await
}

/// The response for an unknown resource. Upstream: it is a Status in a built-in group, and plain text
/// in a custom group.
fn not_found(is_plain_text: bool) -> Result<Response<Body>, Status> {
    if is_plain_text { Ok(response::page_not_found()) } else { Err(Status::no_such_resource()) }
}

/// Whether the path matches the scope of its resource: a namespace for a namespaced resource, none
/// for a cluster-scoped one.
fn is_in_scope(served: &ServedResource, path: &ResourcePath, verb: Verb) -> bool {
    let has_no_namespace = path.namespace.is_empty();
    if !served.resource.namespaced {
        return has_no_namespace || path.is_namespace() && path.name == path.namespace;
    }
    let may_span_namespaces =
        !served.resource.conventions.hides_writes_to_all_namespaces || verb.is_read_only();
    !has_no_namespace || path.name.is_empty() && may_span_namespaces
}

/// Calls the endpoint of the verb. The future of each verb is boxed separately, so that a request
/// allocates the memory of its own verb and not that of the largest.
async fn dispatch(cx: RequestContext, body: &[u8]) -> Result<Response<Body>, Status> {
    if cx.scope.verb == Verb::Watch {
        let audit = cx.scope.audit.clone();
        let (warnings, error_media_type) = (cx.scope.take_warnings(), cx.error_media_type);
        let result = if is_expensive(&cx, body) {
            let plane = Arc::clone(&cx.plane);
            let flow = flow_control::large_request_flow(&cx.scope.user).map(Cow::into_owned);
            plane.storage.offload.run(flow.as_deref(), Box::pin(watch::watch(cx))).await
        } else {
            Box::pin(watch::watch(cx)).await
        };
        let response =
            result.unwrap_or_else(|status| failure(&status, error_media_type, audit.as_deref()));
        return Ok(response::with_warnings(response, warnings));
    }
    let result = offload_if(is_expensive(&cx, body), &cx.scope, serve(&cx, body)).await;
    let response = result
        .unwrap_or_else(|status| failure(&status, cx.error_media_type, cx.scope.audit.as_deref()));
    Ok(response::with_warnings(response, cx.scope.take_warnings()))
}

/// The response with a failure, which is also recorded.
fn failure(
    status: &Status,
    accepted: MediaTypeOptions,
    audit: Option<&AuditContext>,
) -> Response<Body> {
    if let Some(audit) = audit {
        audit.set_failure(status);
    }
    response::failure(status, accepted)
}

async fn serve(cx: &RequestContext, body: &[u8]) -> Result<Response<Body>, Status> {
    match cx.scope.path.subresource.as_str() {
        "" => serve_object_or_collection(cx, body).await,
        name => serve_subresource(cx, body, name).await,
    }
}

/// The maximum length of a selector that is cheap to compare with each object of a large list.
const CHEAP_SELECTOR: usize = 256;

/// The maximum length of a selector that is parsed on the calling worker.
const MAX_INLINE_SELECTOR: usize = 4 << 10;

/// Whether a request needs so much CPU time that it would delay other requests. Objects that are
/// served as stored are only copied.
fn is_expensive(cx: &RequestContext, body: &[u8]) -> bool {
    let is_expensive_write = cx.scope.resource().strategy.expensive_writes
        && !cx.scope.verb.is_read_only()
        && cx.scope.path.subresource.is_empty();
    if body.len() > MAX_INLINE_OBJECT || is_expensive_write {
        return true;
    }
    match cx.scope.verb {
        Verb::List | Verb::Watch | Verb::DeleteCollection => {
            let selectors =
                cx.query.text("labelSelector").len() + cx.query.text("fieldSelector").len();
            // A watch encodes objects later, one event at a time.
            let encodes = cx.accepted != MediaTypeOptions::JSON && cx.scope.verb != Verb::Watch;
            // A deletion decodes each object.
            let decodes = encodes || cx.scope.verb == Verb::DeleteCollection;
            selectors > MAX_INLINE_SELECTOR
                || (decodes || selectors > CHEAP_SELECTOR)
                    && has_large_objects(&cx.scope.served, cx.scope.namespace())
        }
        Verb::Get if cx.accepted == MediaTypeOptions::JSON && serves_stored_object(cx) => false,
        Verb::Get | Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {
            has_large_object(&cx.scope)
        }
        Verb::Other => false,
    }
}

/// Whether a read returns the stored object: neither `scale` nor the subresources that connect to a
/// node do.
fn serves_stored_object(cx: &RequestContext) -> bool {
    match find_subresource(&cx.scope.served, cx.scope.version, &cx.scope.path.subresource) {
        Some(SubresourceRoute::Scale(_)) => false,
        Some(SubresourceRoute::Other(it)) => matches!(it.action, Action::Replace { .. }),
        Some(SubresourceRoute::Status) | None => true,
    }
}

async fn serve_object_or_collection(
    cx: &RequestContext,
    body: &[u8],
) -> Result<Response<Body>, Status> {
    let named = !cx.scope.path.name.is_empty();
    // Only requests for an existing object check the name here; a create or an update validates it
    // later.
    if !matches!(cx.scope.verb, Verb::Create | Verb::Update | Verb::Other) {
        validate_name_in_path(&cx.scope.path.name)?;
    }
    if let Some(kind) = cx.scope.resource().strategy.unstored {
        if kind.verbs().contains(&cx.scope.verb.as_str()) {
            return Box::pin(unstored::serve(cx, body, kind)).await;
        }
        return Err(Status::method_not_allowed());
    }
    let all_namespaces = cx.scope.resource().namespaced && cx.scope.path.namespace.is_empty();
    match cx.scope.verb {
        Verb::Get => Box::pin(get::get(cx)).await,
        Verb::List => Box::pin(list::list(cx)).await,
        // Upstream: custom resources have no router that rejects a name in the path of a create.
        Verb::Create
            if !all_namespaces && (!named || !cx.scope.resource().conventions.routes_names) =>
        {
            Box::pin(create::create(cx, body)).await
        }
        Verb::Update if named => Box::pin(update::update(cx, body, UpdateStrategy::Main)).await,
        Verb::Patch if named => Box::pin(patch::patch(cx, body, UpdateStrategy::Main)).await,
        Verb::Update | Verb::Patch if !cx.scope.resource().conventions.routes_names => {
            Err(Status::bad_request("name must be provided"))
        }
        Verb::Delete => Box::pin(delete::delete(cx, body)).await,
        // Upstream: the collection of namespaces cannot be deleted.
        Verb::DeleteCollection if !all_namespaces && !cx.scope.path.is_namespace() => {
            Box::pin(delete_collection::delete_collection(cx, body)).await
        }
        _ => Err(method_not_allowed(cx)),
    }
}

fn method_not_allowed(cx: &RequestContext) -> Status {
    if cx.scope.resource().conventions.names_refused_verb {
        return Status::method_not_supported(&cx.scope.group_resource(), cx.scope.verb.as_str());
    }
    Status::method_not_allowed()
}

/// Rejects a name that cannot be a path segment.
fn validate_name_in_path(name: &str) -> Result<(), Status> {
    match names::path_segment(name).as_slice() {
        [] => Ok(()),
        why => {
            let (name, why) = (quote(name), why.join(";"));
            Err(Status::bad_request(format!("Name parameter invalid: {name}: {why}")))
        }
    }
}

/// A subresource and what serves it.
enum SubresourceRoute<'a> {
    Status,
    Scale(&'a Scale),
    Other(&'static Subresource),
}

fn find_subresource<'a>(
    served: &'a ServedResource,
    version: usize,
    name: &str,
) -> Option<SubresourceRoute<'a>> {
    let version = served.version(version);
    match (name, &version.scale) {
        ("status", _) if version.status => Some(SubresourceRoute::Status),
        ("scale", Some(scale)) => Some(SubresourceRoute::Scale(scale)),
        _ => {
            let subresources = served.resource.strategy.subresources;
            subresources.iter().find(|it| it.name == name).map(SubresourceRoute::Other)
        }
    }
}

/// Whether a version has the subresource.
pub(crate) fn has_subresource(served: &ServedResource, version: usize, name: &str) -> bool {
    find_subresource(served, version, name).is_some()
}

async fn serve_subresource(
    cx: &RequestContext,
    body: &[u8],
    name: &str,
) -> Result<Response<Body>, Status> {
    // Upstream: an unknown subresource of a custom resource results in the error for a missing
    // object.
    let subresource = find_subresource(&cx.scope.served, cx.scope.version, name)
        .ok_or_else(|| cx.scope.not_found())?;
    validate_name_in_path(&cx.scope.path.name)?;
    match (subresource, cx.scope.verb) {
        (SubresourceRoute::Status, Verb::Get) => Box::pin(get::get(cx)).await,
        (SubresourceRoute::Status, Verb::Update) => {
            Box::pin(update::update(cx, body, UpdateStrategy::Status)).await
        }
        (SubresourceRoute::Status, Verb::Patch) => {
            Box::pin(patch::patch(cx, body, UpdateStrategy::Status)).await
        }
        (SubresourceRoute::Scale(it), Verb::Get) => Box::pin(scale::get(cx, it)).await,
        (SubresourceRoute::Scale(it), Verb::Update) => Box::pin(scale::update(cx, body, it)).await,
        (SubresourceRoute::Scale(it), Verb::Patch) => Box::pin(scale::patch(cx, body, it)).await,
        (SubresourceRoute::Other(it), verb) => match (&it.action, verb) {
            (Action::Replace { verbs, .. }, verb) if !verbs.contains(&verb.as_str()) => {
                Err(Status::method_not_allowed())
            }
            (Action::Replace { .. }, Verb::Get) => Box::pin(get::get(cx)).await,
            (&Action::Replace { prepare, validate, .. }, Verb::Update) => {
                let strategy = UpdateStrategy::Subresource { prepare, validate };
                Box::pin(update::update(cx, body, strategy)).await
            }
            (&Action::Replace { prepare, validate, .. }, Verb::Patch) => {
                let strategy = UpdateStrategy::Subresource { prepare, validate };
                Box::pin(patch::patch(cx, body, strategy)).await
            }
            (Action::Post(change), Verb::Create) => {
                Box::pin(subresource::post(cx, body, it, *change)).await
            }
            (Action::Evict, Verb::Create) => Box::pin(eviction::evict(cx, body, it)).await,
            (Action::Token, Verb::Create) => Box::pin(token_request::create(cx, body, it)).await,
            (Action::Connect(verbs), verb) if verbs.contains(&verb.as_str()) => {
                Box::pin(connect::connect(cx, it)).await
            }
            _ => Err(Status::method_not_allowed()),
        },
        _ => Err(method_not_allowed(cx)),
    }
}
