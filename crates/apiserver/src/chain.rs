//! The request chain: [`chain`] is one function with everything that precedes an endpoint, in
//! order. The stages that also see the response (deadline, panic recovery, metrics, compression)
//! wrap it in [`serve`].

mod received_request;
pub(crate) mod mux;
mod response_filters;
mod request_labels;
mod work_estimate;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, UPGRADE, USER_AGENT};
use http::request::Parts as Head;
use http::{Request, Response};
use tokio::time::Instant;

use crate::audit;
use crate::audit::AuditContext;
use crate::audit::context::Client;
use crate::audit::policy::Level;
use crate::auth::authentication::{Notes, User};
use crate::auth::authorization::{Attributes, Decision, forbidden};
use crate::auth::impersonation::impersonate;
use crate::endpoints::context::ContextParts;
use crate::flow_control;
use crate::flow_control::{
    AnswerAccount, BodyMemory, FlowSchema, STREAM_OVERHEAD, SeatRequest, TooManyRequests,
};
use crate::http::body::Body;
use crate::http::deadline::Deadline;
use crate::http::negotiation;
use crate::http::negotiation::MediaTypeOptions;
use crate::http::request_body;
use crate::http::request_body::RequestBody;
use crate::http::{headers, response};
use crate::in_process::handler::{Handler, Peer, ResponseFuture};
use crate::plane::Plane;
use crate::rbac;
use crate::registry::pending_writes::PendingWrites;
use crate::registry::scope::{RequestScope, ScopeParts};
use crate::request::{RequestInfo, Verb};
use informer::shared_items::AcceptItems;
use machinery::Status;
use machinery::patch::apply;
use received_request::{ReceivedRequest, RefusedRequest};
use response_filters::ResponseFilters;

/// The request chain of one plane.
pub(crate) struct Chain {
    /// The plane that serves the requests.
    pub plane: Arc<Plane>,
}

impl Handler for Chain {
    fn handle(&self, peer: Peer, request: Request<RequestBody>) -> ResponseFuture {
        let plane = Arc::clone(&self.plane);
        Box::pin(async move { Ok(serve(plane, peer, request).await) })
    }
}

/// Serves a request; every outcome is a response. A response through a socket has an audit id.
async fn serve(plane: Arc<Plane>, peer: Peer, request: Request<RequestBody>) -> Response<Body> {
    let has_socket = peer.connection.is_some();
    let has_id = has_socket || plane.audit.is_some();
    let id = has_id.then(|| audit::id(&plane.storage.entropy, request.headers()));
    let audit = plane.audit.as_ref().zip(id.as_ref());
    let audit = audit.map(|(auditor, id)| AuditContext::new(auditor, id));
    let mut response = match ReceivedRequest::parse(&plane, &peer, &request) {
        Ok(received) => {
            let filters = ResponseFilters::begin(&plane, &peer, &request, &received, audit.clone());
            let writes = filters.writes();
            // The future is boxed, since a future that is passed by value is copied at every call.
            let work = Box::pin(respond(plane, peer, request, received, writes, audit));
            filters.run(work).await
        }
        Err(refused) => match audit {
            None => refused.response,
            Some(audit) => audited_refusal(&plane, &peer, request, *refused, &audit).await,
        },
    };
    if let Some(id) = id.filter(|_| has_socket) {
        response.headers_mut().entry(audit::ID).or_insert(id);
    }
    response
}

/// The response to a request that is refused before authentication, which is recorded unless the
/// request line cannot be read.
async fn audited_refusal(
    plane: &Plane,
    peer: &Peer,
    request: Request<RequestBody>,
    refused: RefusedRequest,
    audit: &Arc<AuditContext>,
) -> Response<Body> {
    let RefusedRequest { response, cause } = refused;
    let Some((info, status)) = cause else { return response };
    let (head, _) = request.into_parts();
    audit.begin_refused(&info, &client(peer, &head));
    audit.set_failure(&status);
    audit.finish(response, false, Instant::now() + plane.timeouts.request).await
}

/// Runs the chain, discards the rest of the request body, and turns a failure into a response.
async fn respond(
    plane: Arc<Plane>,
    peer: Peer,
    request: Request<RequestBody>,
    received: ReceivedRequest,
    writes: PendingWrites,
    audit: Option<Arc<AuditContext>>,
) -> Response<Body> {
    let (mut head, mut body) = request.into_parts();
    head.extensions.insert(Deadline(received.deadline));
    let error_media_type = negotiation::for_errors(&head.headers, &received.query);
    let filters = FilterState { writes, error_media_type, audit: audit.as_ref() };
    let mut notes = Notes::default();
    let result = chain(plane, peer, head, &mut body, received, filters, &mut notes).await;
    request_body::discard(body).await;
    let response = result.unwrap_or_else(|status| {
        recorded(response::failure, &status, error_media_type, audit.as_ref())
    });
    response::with_warnings(response, notes.warning_texts())
}

/// The state of a request that the response filters share with the chain.
struct FilterState<'a> {
    writes: PendingWrites,
    error_media_type: MediaTypeOptions,
    audit: Option<&'a Arc<AuditContext>>,
}

/// Everything that happens to a request before it reaches an endpoint, and the endpoint.
async fn chain(
    plane: Arc<Plane>,
    peer: Peer,
    mut head: Head,
    body: &mut RequestBody,
    received: ReceivedRequest,
    filters: FilterState<'_>,
    notes: &mut Notes,
) -> Result<Response<Body>, Status> {
    let FilterState { writes, error_media_type, audit } = filters;
    let info = &received.info;
    let user = plane.authenticate(&peer, &mut head.headers, &info.path, notes).await;
    let Some((user, audit)) = begin_audit(audit, user, &peer, info, &head, notes).await? else {
        return Ok(response::internal_error(&head.uri, "failed to store audit event"));
    };
    let account = account(&plane, &peer, &user, info)?;
    let size = STREAM_OVERHEAD.max(headers::size(&head.headers));
    let _charge = account.as_ref().map(|it| it.charge(size));
    let user = match effective_user(&plane, user, &head, info, audit).await {
        Ok(user) => user,
        Err(status) => return Ok(recorded(response::forbidden, &status, error_media_type, audit)),
    };
    // The components of the plane have seats of their own.
    let schema = peer.connection.as_ref().and_then(|_| plane.flow_control.classify(&user, info));
    let identified = IdentifiedRequest {
        user,
        account,
        schema: schema.clone(),
        received,
        writes,
        error_media_type,
        audit: audit.cloned(),
    };
    let result = identified.respond(plane, peer, head, body).await;
    let Some(schema) = schema else { return result };
    let mut response = result
        .unwrap_or_else(|status| recorded(response::failure, &status, error_media_type, audit));
    let headers = response.headers_mut();
    headers.insert(FLOW_SCHEMA_UID, schema.uid.clone());
    headers.insert(PRIORITY_LEVEL_UID, schema.level_uid.clone());
    Ok(response)
}

/// Marks the response to a request that the server does not serve in order to protect itself.
#[derive(Debug, Clone, Copy)]
struct Terminated;

/// The response header with the uid of the request's flow schema.
const FLOW_SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");

/// The response header with the uid of the request's priority level.
const PRIORITY_LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// A request whose user is known.
struct IdentifiedRequest {
    user: User,
    /// Counts the unread responses of the user; None if they are not limited.
    account: Option<Arc<AnswerAccount>>,
    /// The flow schema of the request; None if it is not limited by one.
    schema: Option<Arc<FlowSchema>>,
    received: ReceivedRequest,
    writes: PendingWrites,
    error_media_type: MediaTypeOptions,
    /// None if the request is not audited.
    audit: Option<Arc<AuditContext>>,
}

impl IdentifiedRequest {
    /// Authorizes the request, takes its seats and serves it.
    async fn respond(
        self,
        plane: Arc<Plane>,
        peer: Peer,
        head: Head,
        body: &mut RequestBody,
    ) -> Result<Response<Body>, Status> {
        let Self { user, account, schema, received, writes, error_media_type, audit } = self;
        let ReceivedRequest { info, query, deadline, started } = received;
        let attributes = Attributes::new(&user, &info);
        let decision = plane.authorize(&attributes).await;
        if let Some(audit) = &audit {
            audit.set_decision(&decision);
        }
        if !decision.is_allowed() {
            return Ok(refusal(&attributes, &decision, &head, error_media_type, audit.as_ref()));
        }
        if !flow_control::is_probe(&info) {
            // The size of the response is not known yet; endpoints check it again with its size.
            flow_control::check_room(account.as_deref(), 0)?;
        }
        // The body is read before a seat is taken, so that a client that sends its body slowly
        // occupies no seat.
        let (body, _memory) = read_body(&plane, &peer, &user, &info, body).await?;
        let seat = if peer.connection.is_some() {
            let request = SeatRequest { user: &user, info: &info, arrival: started, deadline };
            let estimate =
                |max| work_estimate::estimate(&plane, schema.as_deref(), &info, &query, max);
            match plane.flow_control.take_seat(schema.as_ref(), request, estimate).await {
                Ok(seat) => seat,
                Err(refused) => return Ok(too_many_requests(refused)),
            }
        } else {
            plane.flow_control.component_seat(&user, &info).await
        };
        if Instant::now() >= deadline {
            return Err(RequestScope::overdue());
        }
        let watches = &plane.flow_control.watches;
        let watch = (info.verb == Verb::Watch).then(|| watches.register(&info)).flatten();
        let Some(path) = info.resource else {
            return mux::non_resource(&plane, &user, &info.path, &head, &query).await;
        };
        let text = |name: HeaderName| headers::first(&head.headers, name).into_owned();
        let field_manager = if info.verb.is_read_only() {
            String::new()
        } else {
            apply::manager_name(query.text("fieldManager"), &text(USER_AGENT))
        };
        let scope = ScopeParts {
            storage: Arc::clone(&plane.storage),
            user,
            verb: info.verb,
            path,
            field_manager,
            deadline,
            writes,
            seat: seat.handle(),
            audit: audit.clone(),
        };
        let parts = ContextParts {
            content_type: text(CONTENT_TYPE),
            upgrade: head.headers.contains_key(UPGRADE),
            plane,
            scope,
            query,
            error_media_type,
            account,
            watch,
            accept_items: accepted_items(&peer, &head, audit.as_ref()),
        };
        // A request that follows the response is authorized by what was written.
        let changes_policy =
            parts.scope.path.group == rbac::GROUP && !parts.scope.verb.is_read_only();
        let storage = changes_policy.then(|| Arc::clone(&parts.plane.storage));
        let response = mux::resource(parts, head, body).await;
        if let Some(storage) = storage
            && let Err(error) = storage.cache.catch_up().await
        {
            tracing::warn!(%error, "a change of roles is not in effect yet");
        }
        response
    }
}

/// The body of a write, and the share of memory that it occupies; empty for a read.
async fn read_body(
    plane: &Plane,
    peer: &Peer,
    user: &User,
    info: &RequestInfo,
    body: &mut RequestBody,
) -> Result<(Bytes, Option<BodyMemory>), Status> {
    if info.verb.is_read_only() || info.resource.is_none() {
        return Ok((Bytes::new(), None));
    }
    let mut memory = match peer.connection {
        Some(_) => Some(plane.flow_control.body_memory(user)?),
        None => None,
    };
    let reserve = |bytes| memory.as_mut().map_or(Ok(()), |it| it.grow(bytes));
    let body = request_body::read(body, reserve).await?;
    Ok((body, memory))
}

/// Upstream: the filter `WithPriorityAndFairness` does not answer with a Status.
fn too_many_requests(refused: TooManyRequests) -> Response<Body> {
    let mut response = response::nosniff_text(429, "Too many requests, please try again later.\n");
    response.extensions_mut().insert(Terminated);
    response.headers_mut().insert(RETRY_AFTER, refused.retry_after.into());
    response
}

/// The response to a request that is not allowed. An authorizer that failed could have allowed it, so
/// that its failure is not the user's. Upstream: endpoints/filters `WithAuthorization`.
fn refusal(
    attributes: &Attributes<'_>,
    decision: &Decision,
    head: &Head,
    error_media_type: MediaTypeOptions,
    audit: Option<&Arc<AuditContext>>,
) -> Response<Body> {
    let Some(error) = decision.evaluation_error() else {
        let status = forbidden(attributes, decision.reason());
        return recorded(response::forbidden, &status, error_media_type, audit);
    };
    // The authorizer has logged it, if not too often.
    tracing::debug!(error, "authorization failed");
    response::internal_error(&head.uri, error)
}

/// The user for authorization: the impersonated user, which is also recorded, or `user`.
async fn effective_user(
    plane: &Plane,
    user: User,
    head: &Head,
    info: &RequestInfo,
    audit: Option<&Arc<AuditContext>>,
) -> Result<User, Status> {
    let (authorizers, modes) = (&plane.authorizers, &plane.impersonation_modes);
    let impersonation = impersonate(authorizers, modes, &user, &head.headers, info).await?;
    let Some(impersonation) = impersonation else { return Ok(user) };
    if let Some(audit) = audit {
        audit.set_impersonated(&impersonation.user, impersonation.constraint);
    }
    Ok(impersonation.user)
}

/// The items that a client in this process accepts; a client elsewhere has no such extension. A
/// response that is recorded must have bytes.
fn accepted_items(
    peer: &Peer,
    head: &Head,
    audit: Option<&Arc<AuditContext>>,
) -> Option<AcceptItems> {
    let is_recorded = audit.is_some_and(|it| it.level() == Level::RequestResponse);
    head.extensions.get().copied().filter(|_| peer.connection.is_none() && !is_recorded)
}

/// Records a failure, and makes its response with `respond`.
fn recorded(
    respond: fn(&Status, MediaTypeOptions) -> Response<Body>,
    status: &Status,
    error_media_type: MediaTypeOptions,
    audit: Option<&Arc<AuditContext>>,
) -> Response<Body> {
    if let Some(audit) = audit {
        audit.set_failure(status);
    }
    respond(status, error_media_type)
}

/// The sender of a request, for its audit event.
fn client<'a>(peer: &Peer, head: &'a Head) -> Client<'a> {
    let has_certificate = peer.user.is_some() || peer.has_foreign_certificate;
    Client { head, address: peer.address, has_certificate }
}

/// The user, and the audit context if the request is audited. None if the event of the request cannot
/// be stored, so that the request must fail.
async fn begin_audit<'a>(
    audit: Option<&'a Arc<AuditContext>>,
    user: Result<User, Status>,
    peer: &Peer,
    info: &RequestInfo,
    head: &Head,
    notes: &Notes,
) -> Result<Option<(User, Option<&'a Arc<AuditContext>>)>, Status> {
    let Some(audit) = audit else { return Ok(Some((user?, None))) };
    let client = client(peer, head);
    let user = match user {
        Ok(user) => user,
        Err(status) => {
            audit.begin_unauthenticated(info, &client);
            audit.annotate_all(&notes.annotations);
            return Err(status);
        }
    };
    if audit.begin(&user, info, &client).await.is_err() {
        return Ok(None);
    }
    audit.annotate_all(&notes.annotations);
    Ok(Some((user, Some(audit).filter(|it| it.level() > Level::None))))
}

/// The account that counts the unread responses of a user. A probe is served without one if the
/// user has too many connections.
fn account(
    plane: &Plane,
    peer: &Peer,
    user: &User,
    info: &RequestInfo,
) -> Result<Option<Arc<AnswerAccount>>, Status> {
    let Some(connection) = &peer.connection else { return Ok(None) };
    match connection.authenticated(&plane.flow_control, user) {
        Ok(account) => Ok(account.cloned()),
        Err(_) if flow_control::is_probe(info) => Ok(None),
        Err(status) => Err(status),
    }
}
