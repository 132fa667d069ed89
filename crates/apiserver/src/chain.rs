//! The order of everything that happens to a request before it reaches an endpoint: [`chain`], one
//! function, read from top to bottom. What must also see the answer (the deadline, panics, metrics,
//! compression) wraps it in [`serve`].

mod arrival;
pub(crate) mod mux;
mod observation;
mod request_labels;

use crate::auth::audit;
use crate::auth::authentication::User;
use crate::auth::impersonation::impersonate;
use crate::endpoints::context::Parts;
use crate::flow_control;
use crate::flow_control::{AnswerAccount, STREAM_OVERHEAD};
use crate::http::body::Body;
use crate::http::deadline::Deadline;
use crate::http::negotiation;
use crate::http::negotiation::Accepted;
use crate::http::request_body;
use crate::http::request_body::RequestBody;
use crate::http::{headers, response};
use crate::in_process::handler::{Handler, Peer, ResponseFuture};
use crate::plane::Plane;
use crate::registry::pending_writes::PendingWrites;
use crate::registry::scope::ScopeParts;
use crate::request::RequestInfo;
use arrival::Arrival;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, UPGRADE, USER_AGENT};
use http::request::Parts as Head;
use http::{Request, Response};
use machinery::Status;
use machinery::patch::apply;
use observation::Observation;
use std::sync::Arc;

/// The chain of one plane.
pub(crate) struct Chain {
    /// The plane whose requests it answers.
    pub plane: Arc<Plane>,
}

impl Handler for Chain {
    fn handle(&self, peer: Peer, request: Request<RequestBody>) -> ResponseFuture {
        let plane = Arc::clone(&self.plane);
        Box::pin(async move { Ok(serve(plane, peer, request).await) })
    }
}

/// Answers a request, whatever happens to it. An answer through a socket has the audit id of its
/// request.
async fn serve(plane: Arc<Plane>, peer: Peer, request: Request<RequestBody>) -> Response<Body> {
    let has_socket = peer.connection.is_some();
    let id = has_socket.then(|| audit::id(&plane.storage.entropy, request.headers()));
    let mut response = match Arrival::parse(&plane, &peer, &request) {
        Ok(arrival) => {
            let observation = Observation::begin(&plane, &peer, &request, &arrival);
            // Boxed: futures that are passed on by value are copied at every step.
            let work = Box::pin(respond(plane, peer, request, arrival, observation.writes()));
            observation.run(work).await
        }
        Err(response) => response,
    };
    if let Some(id) = id {
        response.headers_mut().entry(audit::ID).or_insert(id);
    }
    response
}

/// Answers a request with what the chain or the endpoint says, and reads the rest of its body.
async fn respond(
    plane: Arc<Plane>,
    peer: Peer,
    request: Request<RequestBody>,
    arrival: Arrival,
    writes: PendingWrites,
) -> Response<Body> {
    let (mut head, mut body) = request.into_parts();
    head.extensions.insert(Deadline(arrival.deadline));
    let errors_as = negotiation::for_errors(&head.headers, &arrival.query);
    let answered = chain(plane, peer, head, &mut body, arrival, writes, errors_as).await;
    request_body::discard(body).await;
    answered.unwrap_or_else(|status| response::failure(&status, errors_as))
}

/// Everything that happens to a request before it reaches an endpoint.
async fn chain(
    plane: Arc<Plane>,
    peer: Peer,
    head: Head,
    body: &mut RequestBody,
    arrival: Arrival,
    writes: PendingWrites,
    errors_as: Accepted,
) -> Result<Response<Body>, Status> {
    let Arrival { info, query, deadline, .. } = arrival;
    let user = plane.authenticate(peer.user.as_deref(), &head.headers)?;
    let account = account(&plane, &peer, &user, &info)?;
    let _stream = account.as_ref().map(|it| it.charge(STREAM_OVERHEAD));
    let user = match impersonate(&plane.authorizers, user, &head.headers, &info) {
        Ok(user) => user,
        Err(status) => return Ok(response::refusal(&status, errors_as)),
    };
    if let Err(status) = plane.authorizers.authorize(&user, &info) {
        return Ok(response::refusal(&status, errors_as));
    }
    if !flow_control::is_probe(&info) {
        flow_control::check_room(account.as_deref(), 0)?;
    }
    // Before the seat, so that a client that does not send its body has none.
    let mut memory = None;
    let body = if info.verb.reads() || info.resource.is_none() {
        Bytes::new()
    } else {
        if peer.connection.is_some() {
            memory = Some(plane.flow.body_memory(&user)?);
        }
        let account = |bytes| memory.as_mut().map_or(Ok(()), |it| it.grow(bytes));
        request_body::read(body, account).await?
    };
    let seat = plane.flow.take_seat(&user, &info)?;
    let Some(path) = info.resource else {
        return mux::path(&plane, &user, &info.path, &head, &query).await;
    };
    let text = |name: HeaderName| headers::first(&head.headers, name).into_owned();
    let field_manager = match info.verb.reads() {
        true => String::new(),
        false => apply::manager_name(query.text("fieldManager"), &text(USER_AGENT)),
    };
    let scope = ScopeParts {
        storage: Arc::clone(&plane.storage),
        user,
        verb: info.verb,
        path,
        field_manager,
        query,
        deadline,
        writes,
        seat: seat.handle(),
    };
    let parts = Parts {
        content_type: text(CONTENT_TYPE),
        upgrade: head.headers.contains_key(UPGRADE),
        plane,
        scope,
        errors_as,
        account,
    };
    mux::resource(parts, head, body).await
}

/// The account of the answers that a user does not read. Probes are answered even if the user has
/// too many connections.
fn account(
    plane: &Plane,
    peer: &Peer,
    user: &User,
    info: &RequestInfo,
) -> Result<Option<Arc<AnswerAccount>>, Status> {
    let Some(connection) = &peer.connection else { return Ok(None) };
    match connection.authenticated(&plane.flow, user) {
        Ok(account) => Ok(account.cloned()),
        Err(_) if flow_control::is_probe(info) => Ok(None),
        Err(status) => Err(status),
    }
}
