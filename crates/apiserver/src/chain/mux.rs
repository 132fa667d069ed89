//! From a path to the function that answers it. Resources come from the catalog, so a definition
//! adds routes by being there.

use crate::auth::audit;
use crate::auth::authentication::User;
use crate::cache::catalog::Served;
use crate::cache::watch_cache::Snapshot;
use crate::endpoints::context::{Parts, RequestContext};
use crate::endpoints::{
    connect, create, delete, delete_collection, eviction, get, list, patch, question, scale,
    subresource, token, update, watch,
};
use crate::extensions::crd;
use crate::flow_control;
use crate::http::body::Body;
use crate::http::negotiation::{Accepted, Offer, negotiate};
use crate::http::response;
use crate::in_process::loopback;
use crate::in_process::loopback::DeletedCrdInstance;
use crate::plane::Plane;
use crate::registry::Part;
use crate::request::{Query, ResourcePath, Verb};
use crate::routes::{discovery, health, metrics, openapi, version};
use bytes::Bytes;
use http::Response;
use http::request::Parts as Head;
use machinery::field_path::quote;
use machinery::{Status, names};
use std::borrow::Cow;
use std::sync::Arc;
use types::resource::{Action, Scale, Subresource};

/// Below these, a slash at the end leads elsewhere.
const EXACT: [&str; 5] = ["healthz", "livez", "readyz", "metrics", "openapi"];

/// Answers a path that is not one of the API's resources.
pub(crate) async fn path(
    plane: &Arc<Plane>,
    user: &User,
    path: &str,
    head: &Head,
    query: &Query,
) -> Result<Response<Body>, Status> {
    let all: Vec<&str> = path.split('/').skip(1).collect();
    let segments = match all.as_slice() {
        // A slash at the end means nothing, but where it does.
        [first, before @ .., ""] if !first.is_empty() && !EXACT.contains(first) => {
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
        // Upstream: the other documents do not look at the method.
        ["version" | "api"] if head.method != http::Method::GET => {
            Err(Status::method_not_allowed())
        }
        ["metrics"] if !is_read => Err(Status::method_not_allowed()),
        ["" | "index.html"] => Ok(discovery::paths(plane)),
        ["version"] => version::version(head, query),
        ["healthz" | "livez" | "readyz", .., ""] => Ok(response::page_not_found()),
        [check @ ("healthz" | "livez" | "readyz"), rest @ ..] => {
            Ok(health::health(plane, check, rest, query))
        }
        ["metrics"] => Ok(metrics::metrics(plane)),
        ["api"] => discovery::core(plane, head, query),
        ["apis"] => discovery::groups(plane, head, query),
        ["apis", group] if !group.is_empty() => discovery::group(plane, group, head, query),
        // A path of a resource that is here has an empty segment.
        ["version" | "api", ..] => Err(Status::no_such_resource()),
        ["apis", group, _, ..] if !group.is_empty() => {
            let catalog = plane.storage.catalog.load();
            not_here(catalog.group(group).is_none_or(|it| it.custom))
        }
        ["openapi", "v3", "apis", group, version]
            if let Some(remote) = plane.aggregation.find(group, version) =>
        {
            let forwarded = plane.aggregation.forward(&remote, user, head, Bytes::new());
            Ok(Box::pin(forwarded).await)
        }
        ["openapi", rest @ ..] => {
            let made = async { openapi::openapi(plane, rest, &head.headers, query) };
            Ok(plane
                .storage
                .offload
                .run(flow_control::large_request_flow(user).as_deref(), made)
                .await)
        }
        _ => Ok(response::page_not_found()),
    }
}

/// Answers a request about a resource of the API.
pub(crate) async fn resource(
    parts: Parts,
    head: Head,
    body: Bytes,
) -> Result<Response<Body>, Status> {
    if let Some(DeletedCrdInstance(served)) = head.extensions.get() {
        let version = served.resource.storage;
        let cx = RequestContext::new(parts, Accepted::JSON, Arc::clone(served), version);
        let response = Box::pin(delete::delete_instance(&cx)).await?;
        audit::record(&cx.scope.user, cx.scope.verb, &cx.scope.path, response.status().as_u16());
        return Ok(response);
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
        let is_custom = catalog.group(group).is_some_and(|it| it.custom);
        let is_read = parts.scope.verb.reads() && head.method != http::Method::HEAD;
        if !is_read && !is_custom && catalog.has_version(group, version) {
            return Err(Status::method_not_allowed());
        }
        return discovery::resources(&parts.plane, group, version, &head, &parts.scope.query);
    }
    let (catalog, found) = crd::find(&parts.plane.storage, &parts.scope.path).await;
    let Some((served, version)) = found else {
        // Built-in groups are known to exist; a custom one exists only through its resources.
        return not_here(catalog.group(group).is_none_or(|it| it.custom));
    };
    if !is_in_scope(&served, &parts.scope.path, parts.scope.verb) {
        return not_here(served.resource.conventions.plain_not_found);
    }
    let subresource = parts.scope.path.subresource.as_str();
    // Upstream: what is below a built-in resource is a route of its own.
    if served.resource.conventions.routes_subresources
        && !subresource.is_empty()
        && find(&served, version, subresource).is_none()
    {
        return Err(Status::no_such_resource());
    }
    // Upstream: so is each method, and there is none for this one.
    if !served.resource.conventions.serves_head && head.method == http::Method::HEAD {
        return Err(Status::method_not_allowed());
    }
    let offer = Offer::of(&served.resource, parts.scope.verb);
    let accepted = negotiate(&head.headers, &parts.scope.query, offer)?;
    let cx = RequestContext::new(parts, accepted, served, version);
    dispatch(cx, &body).await
}

/// Upstream: who looks for a built-in resource is told in a Status, who looks for a custom one in
/// plain text.
fn not_here(custom: bool) -> Result<Response<Body>, Status> {
    if custom { Ok(response::page_not_found()) } else { Err(Status::no_such_resource()) }
}

/// Whether the path has a namespace if its resource is in one, and none if it is not.
fn is_in_scope(served: &Served, target: &ResourcePath, verb: Verb) -> bool {
    let is_everywhere = target.namespace.is_empty();
    if !served.resource.namespaced {
        return is_everywhere || is_namespace(target) && target.name == target.namespace;
    }
    let is_read = !served.resource.conventions.hides_writes_to_all_namespaces || verb.reads();
    !is_everywhere || target.name.is_empty() && is_read
}

/// The path of a namespace has a namespace in it, though a namespace is in none.
fn is_namespace(target: &ResourcePath) -> bool {
    target.group.is_empty() && target.resource == "namespaces"
}

/// Each verb has its own place in memory, so that a request takes up what its verb needs, not what
/// the largest does.
async fn dispatch(cx: RequestContext, body: &[u8]) -> Result<Response<Body>, Status> {
    if cx.scope.verb == Verb::Watch {
        audit::record(&cx.scope.user, cx.scope.verb, &cx.scope.path, 200);
        let (warnings, errors_as) = (cx.scope.take_warnings(), cx.errors_as);
        let answered = if computes_for_long(&cx, body) {
            let plane = Arc::clone(&cx.plane);
            let flow = flow_control::large_request_flow(&cx.scope.user).map(Cow::into_owned);
            plane.storage.offload.run(flow.as_deref(), Box::pin(watch::watch(cx))).await
        } else {
            Box::pin(watch::watch(cx)).await
        };
        let response = answered.unwrap_or_else(|status| response::failure(&status, errors_as));
        return Ok(response::with_warnings(response, warnings));
    }
    let answered = if computes_for_long(&cx, body) {
        let flow = flow_control::large_request_flow(&cx.scope.user);
        cx.scope.storage.offload.run(flow.as_deref(), answer(&cx, body)).await
    } else {
        answer(&cx, body).await
    };
    let response = answered.unwrap_or_else(|status| response::failure(&status, cx.errors_as));
    audit::record(&cx.scope.user, cx.scope.verb, &cx.scope.path, response.status().as_u16());
    Ok(response::with_warnings(response, cx.scope.take_warnings()))
}

async fn answer(cx: &RequestContext, body: &[u8]) -> Result<Response<Body>, Status> {
    match cx.scope.path.subresource.as_str() {
        "" => Box::pin(object_or_collection(cx, body)).await,
        name => Box::pin(below(cx, body, name)).await,
    }
}

/// Bodies and stored objects up to this size take less than a millisecond.
const SMALL: usize = 32 << 10;

/// And so do lists of this many bytes, even if each object is decoded.
const SMALL_LIST: usize = 256 << 10;

/// A selector of this many bytes is quickly compared with an object.
const SHORT: usize = 256;

/// And one of this many bytes is quickly parsed.
const QUICKLY_PARSED: usize = 4 << 10;

/// Whether a request needs so much of a processor that it would hold up others. What is shown as it
/// is stored is only copied.
fn computes_for_long(cx: &RequestContext, body: &[u8]) -> bool {
    // A short definition may have patterns that are slow to compile. Its status has none.
    let is_definition = cx.scope.resource().group == "apiextensions.k8s.io"
        && !cx.scope.verb.reads()
        && cx.scope.path.subresource.is_empty();
    if body.len() > SMALL || is_definition {
        return true;
    }
    match cx.scope.verb {
        Verb::List | Verb::Watch | Verb::DeleteCollection => {
            let selectors = cx.scope.query.text("labelSelector").len()
                + cx.scope.query.text("fieldSelector").len();
            // A watch encodes objects later.
            let encodes = cx.accepted != Accepted::JSON && cx.scope.verb != Verb::Watch;
            selectors > QUICKLY_PARSED
                || (encodes || selectors > SHORT) && is_large(&cx.scope.served.cache.snapshot())
        }
        Verb::Get if cx.accepted == Accepted::JSON => false,
        Verb::Get | Verb::Update | Verb::Patch | Verb::Delete => {
            cx.scope.served.cache.get(&cx.scope.key()).is_some_and(|it| it.len() > SMALL)
        }
        Verb::Create | Verb::Other => false,
    }
}

/// Whether all objects together are more than a small list.
fn is_large(snapshot: &Snapshot) -> bool {
    let mut bytes = 0;
    snapshot.entries.values().any(|it| {
        bytes += it.len();
        bytes > SMALL_LIST
    })
}

async fn object_or_collection(cx: &RequestContext, body: &[u8]) -> Result<Response<Body>, Status> {
    let named = !cx.scope.path.name.is_empty();
    // A name that could not be one is told only to those who come to ask for it.
    if !matches!(cx.scope.verb, Verb::Create | Verb::Update | Verb::Other) {
        refuse_odd_name(&cx.scope.path.name)?;
    }
    if let Some(question) = cx.scope.resource().behavior.unstored {
        if question.verbs().contains(&cx.scope.verb.as_str()) {
            return question::ask(cx, body, question).await;
        }
        return Err(Status::method_not_allowed());
    }
    let everywhere = cx.scope.resource().namespaced && cx.scope.path.namespace.is_empty();
    match cx.scope.verb {
        Verb::Get => get::get(cx).await,
        Verb::List => list::list(cx).await,
        // Upstream: where no router looks at it, the name in the path means nothing.
        Verb::Create
            if !everywhere && (!named || !cx.scope.resource().conventions.routes_names) =>
        {
            create::create(cx, body).await
        }
        Verb::Update if named => update::update(cx, body, Part::Main).await,
        Verb::Patch if named => patch::patch(cx, body, Part::Main).await,
        Verb::Update | Verb::Patch if !cx.scope.resource().conventions.routes_names => {
            Err(Status::bad_request("name must be provided"))
        }
        Verb::Delete => delete::delete(cx, body).await,
        // Upstream: namespaces cannot be deleted by the dozen.
        Verb::DeleteCollection if !everywhere && !is_namespace(&cx.scope.path) => {
            delete_collection::delete_collection(cx, body).await
        }
        _ => Err(not_allowed(cx)),
    }
}

fn not_allowed(cx: &RequestContext) -> Status {
    if cx.scope.resource().conventions.names_refused_verb {
        return Status::method_not_supported(&cx.scope.what(), cx.scope.verb.as_str());
    }
    Status::method_not_allowed()
}

/// A name that could not be part of a path is refused even where it only asks for what is there.
fn refuse_odd_name(name: &str) -> Result<(), Status> {
    match names::path_segment(name).as_slice() {
        [] => Ok(()),
        why => {
            let (name, why) = (quote(name), why.join(";"));
            Err(Status::bad_request(format!("Name parameter invalid: {name}: {why}")))
        }
    }
}

/// What there is below an object.
enum Below<'a> {
    Status,
    Scale(&'a Scale),
    Other(&'static Subresource),
}

fn find<'a>(served: &'a Served, version: usize, name: &str) -> Option<Below<'a>> {
    let version = served.version(version);
    match (name, &version.scale) {
        ("status", _) if version.status => Some(Below::Status),
        ("scale", Some(scale)) => Some(Below::Scale(scale)),
        _ => {
            let subresources = served.resource.behavior.subresources;
            subresources.iter().find(|it| it.name == name).map(Below::Other)
        }
    }
}

/// Whether there is something with this name below objects of a version.
pub(crate) fn has_subresource(served: &Served, version: usize, name: &str) -> bool {
    find(served, version, name).is_some()
}

async fn below(cx: &RequestContext, body: &[u8], name: &str) -> Result<Response<Body>, Status> {
    // Upstream: a custom resource's missing subresource is told as a missing object.
    let below =
        find(&cx.scope.served, cx.scope.version, name).ok_or_else(|| cx.scope.not_found())?;
    refuse_odd_name(&cx.scope.path.name)?;
    match (below, cx.scope.verb) {
        (Below::Status, Verb::Get) => get::get(cx).await,
        (Below::Status, Verb::Update) => update::update(cx, body, Part::Status).await,
        (Below::Status, Verb::Patch) => patch::patch(cx, body, Part::Status).await,
        (Below::Scale(it), Verb::Get) => scale::get(cx, it).await,
        (Below::Scale(it), Verb::Update) => scale::update(cx, body, it).await,
        (Below::Scale(it), Verb::Patch) => scale::patch(cx, body, it).await,
        (Below::Other(it), verb) => match (&it.action, verb) {
            (Action::Replace { verbs, .. }, verb) if !verbs.contains(&verb.as_str()) => {
                Err(Status::method_not_allowed())
            }
            (Action::Replace { .. }, Verb::Get) => get::get(cx).await,
            (Action::Replace { prepare, validate, .. }, Verb::Update) => {
                update::update(cx, body, Part::Own(*prepare, *validate)).await
            }
            (Action::Replace { prepare, validate, .. }, Verb::Patch) => {
                patch::patch(cx, body, Part::Own(*prepare, *validate)).await
            }
            (Action::Post(change), Verb::Create) => subresource::post(cx, body, it, *change).await,
            (Action::Evict, Verb::Create) => eviction::evict(cx, body, it).await,
            (Action::Token, Verb::Create) => token::create(cx, body, it).await,
            (Action::Connect(verbs), verb) if verbs.contains(&verb.as_str()) => {
                connect::connect(cx, it).await
            }
            _ => Err(Status::method_not_allowed()),
        },
        _ => Err(not_allowed(cx)),
    }
}
