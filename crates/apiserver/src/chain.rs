//! The order of everything that happens to a request before it reaches an endpoint.
//!
//! It is one function, read from top to bottom. What must also see the answer (panics, the
//! deadline, the count of requests) wraps it in [`serve`].

use crate::auth::audit;
use crate::auth::authentication::User;
use crate::auth::impersonation::impersonate;
use crate::endpoints::answer;
use crate::endpoints::context::Parts;
use crate::flow_control;
use crate::flow_control::connection::Connection;
use crate::flow_control::{AnswerAccount, STREAM};
use crate::http::body::Body;
use crate::http::compression;
use crate::http::headers;
use crate::http::negotiation;
use crate::http::negotiation::Accepted;
use crate::http::request_body::{self, RequestBody};
use crate::metrics::{Counted, RequestLabels};
use crate::mux;
use crate::plane::Plane;
use crate::registry::pending_writes::{FinishWrites, PendingWrites};
use crate::request::{Query, RequestInfo};
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{CONTENT_TYPE, HeaderName, UPGRADE, USER_AGENT};
use http::request::Parts as Head;
use http::{Request, Response};
use machinery::{Status, go_duration};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Who is at the other end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    /// Whom their certificate names, if they have shown one.
    pub user: Option<Arc<User>>,
    /// Whether there is a network between us.
    pub remote: bool,
    /// The connection, if there is at least a socket.
    pub connection: Option<Arc<Connection>>,
}

/// By when a request must be answered; it travels with the request.
#[derive(Clone, Copy)]
struct Deadline(Instant);

/// By when a request must be answered.
pub(crate) fn deadline_of(head: &Head) -> Option<Instant> {
    head.extensions.get().map(|Deadline(deadline)| *deadline)
}

/// Answers a request, whatever happens. Who asks through a socket gets the name of the request
/// back, which is of their choice.
pub(crate) async fn serve(
    plane: Arc<Plane>,
    peer: Peer,
    request: Request<RequestBody>,
) -> Response<Body> {
    let id = peer.connection.is_some().then(|| audit::id(&plane, request.headers()));
    let mut response = observed(plane, peer, request).await;
    if let Some(id) = id {
        response.headers_mut().entry(audit::ID).or_insert(id);
    }
    response
}

/// Answers a request, and counts it.
async fn observed(
    plane: Arc<Plane>,
    peer: Peer,
    mut request: Request<RequestBody>,
) -> Response<Body> {
    let started = Instant::now();
    if peer.connection.is_some()
        && let Some(why) = headers::host_error(request.version(), request.headers())
    {
        return answer::text(400, why);
    }
    let query = Query::parse(request.uri().query());
    let Some(info) = RequestInfo::parse(request.method(), request.uri().path(), &query) else {
        // Upstream: this is told by Go's own server.
        return answer::text(400, "400 Bad Request");
    };
    let labels = RequestLabels::new(
        &plane.catalog.load(),
        request.method(),
        request.headers(),
        &info,
        &query,
    );
    let deadline = match deadline(&query, &info, plane.timeouts.request) {
        Ok(deadline) => deadline,
        Err(why) => {
            plane.metrics.observe(&labels, 400, started.elapsed());
            let accepted = negotiation::for_errors(request.headers(), &query);
            return answer::failure(&Status::bad_request(why), accepted);
        }
    };
    let compress = peer.remote && compression::accepts_gzip(request.headers());
    request.extensions_mut().insert(Deadline(started + deadline));
    let (reads, writes) = (info.verb.reads(), PendingWrites::default());
    let in_flight = &plane.metrics.in_flight;
    let executing = match reads {
        _ if info.runs_long() => None,
        true => Some(in_flight.read()),
        false => Some(in_flight.write()),
    };
    request.extensions_mut().insert(writes.clone());
    // In a place of its own: what is passed on by value is copied at every step.
    let work = Box::pin(handle(Arc::clone(&plane), peer, request, info, query));
    let counting = Counting { plane: Arc::clone(&plane), labels, started, deadline, executing };
    let response = if reads {
        counted(counting, work).await
    } else {
        // One for a deadline that passes, which is inside, and one for a client that disconnects.
        let work = FinishWrites::new(work, &writes, &plane.tasks);
        let counted = Box::pin(counted(counting, work));
        FinishWrites::new(counted, &writes, &plane.tasks).await
    };
    if compress { compression::compress(response) } else { response }
}

/// What a request is counted with.
struct Counting {
    plane: Arc<Plane>,
    labels: RequestLabels,
    started: Instant,
    deadline: Duration,
    executing: Option<Counted>,
}

/// The answer to a request, and its count.
async fn counted(counting: Counting, work: impl Future<Output = Response<Body>>) -> Response<Body> {
    let Counting { plane, labels, started, deadline, executing } = counting;
    let response = guarded(deadline, work).await.unwrap_or_else(|response| {
        tracing::error!(?labels, "a request panicked");
        response
    });
    drop(executing);
    plane.metrics.observe_answer(&labels, response, started.elapsed())
}

/// The answer to a request, which there is even if the work takes too long. If it panics, the
/// answer is the error.
async fn guarded(
    deadline: Duration,
    work: impl Future<Output = Response<Body>>,
) -> Result<Response<Body>, Response<Body>> {
    match tokio::time::timeout(deadline, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(_)) => {
            let message = "This request caused apiserver to panic. Look in the logs for details.";
            Err(answer::text(500, message))
        }
        Err(_) => {
            let why = "request did not complete within the allotted timeout";
            Ok(answer::failure(&Status::timeout(why, 0), Accepted::JSON))
        }
    }
}

/// The client may ask for less time than it would get, never for more.
fn deadline(query: &Query, info: &RequestInfo, most: Duration) -> Result<Duration, String> {
    let asked = query.text("timeout");
    if asked.is_empty() || info.runs_long() {
        return Ok(most);
    }
    let seconds = go_duration::parse(asked)
        .map_err(|why| format!("invalid timeout specified in the request URL - {why}"))?;
    if seconds <= 0.0 {
        return Ok(most);
    }
    Ok(most.min(Duration::try_from_secs_f64(seconds).unwrap_or(most)))
}

async fn handle(
    plane: Arc<Plane>,
    peer: Peer,
    request: Request<RequestBody>,
    info: RequestInfo,
    query: Query,
) -> Response<Body> {
    let (head, mut body) = request.into_parts();
    let errors_as = negotiation::for_errors(&head.headers, &query);
    let answered = stages(plane, peer, head, &mut body, info, query, errors_as).await;
    request_body::discard(body).await;
    answered.unwrap_or_else(|status| answer::failure(&status, errors_as))
}

/// Who asks, as whom, whether they may, what they send, whether there is room, and on to the
/// endpoint.
async fn stages(
    plane: Arc<Plane>,
    peer: Peer,
    head: Head,
    body: &mut RequestBody,
    info: RequestInfo,
    query: Query,
    errors_as: Accepted,
) -> Result<Response<Body>, Status> {
    let user = plane.authenticate(peer.user.as_deref(), &head.headers)?;
    let account = account(&plane, &peer, &user, &info)?;
    let _stream = account.as_ref().map(|it| it.charge(STREAM));
    let user = match impersonate(user, &head.headers, &info) {
        Ok(user) => user,
        Err(status) => return Ok(answer::refusal(&status, errors_as)),
    };
    if let Err(status) = plane.authorizers.authorize(&user, &info) {
        return Ok(answer::refusal(&status, errors_as));
    }
    if !flow_control::is_probe(&info) {
        flow_control::check_room(account.as_deref(), 0)?;
    }
    // Before the seat, so that nobody has one who does not send what they announced.
    let mut memory = None;
    let body = if info.verb.reads() || info.target.is_none() {
        Bytes::new()
    } else {
        if peer.connection.is_some() {
            memory = Some(plane.flow.body_memory(&user)?);
        }
        request_body::read(body, memory.as_mut()).await?
    };
    let seat = plane.flow.take_seat(&user, &info)?;
    let Some(target) = info.target else {
        return mux::path(&plane, &user, &info.path, &head, &query).await;
    };
    let text = |name: HeaderName| headers::first(&head.headers, name).into_owned();
    let parts = Parts {
        content_type: text(CONTENT_TYPE),
        user_agent: text(USER_AGENT),
        upgrade: head.headers.contains_key(UPGRADE),
        plane,
        user,
        verb: info.verb,
        target,
        query,
        errors_as,
        deadline: deadline_of(&head).unwrap_or_else(Instant::now),
        writes: head.extensions.get().cloned().unwrap_or_default(),
        seat: seat.handle(),
        account,
    };
    mux::resource(parts, head, body).await
}

/// The account of what a user does not read. Probes are answered even if the user has too many
/// connections.
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

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    async fn text(response: Response<Body>) -> (u16, String) {
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_panic_is_answered() {
        let answer = guarded(Duration::from_mins(1), async { panic!("as if by a bug") }).await;
        let (code, body) = text(answer.unwrap_err()).await;
        assert_eq!(code, 500);
        assert_eq!(body, "This request caused apiserver to panic. Look in the logs for details.");
    }

    #[tokio::test]
    async fn work_without_end_is_answered() {
        let answer = guarded(Duration::ZERO, std::future::pending()).await;
        let (code, body) = text(answer.unwrap()).await;
        assert_eq!(code, 504);
        assert!(body.contains("request did not complete within the allotted timeout"), "{body}");
    }

    #[test]
    fn a_client_may_ask_for_less_time_but_not_for_more() {
        assert_eq!(ask("timeout=5s"), Ok(Duration::from_secs(5)));
        for no_less in ["", "timeout=", "timeout=0s", "timeout=-1s", "timeout=1h"] {
            assert_eq!(ask(no_less), Ok(Duration::from_mins(1)), "{no_less}");
        }
    }

    #[test]
    fn a_timeout_that_is_no_duration_is_refused_but_of_a_watch() {
        let why =
            "invalid timeout specified in the request URL - time: missing unit in duration \"5\"";
        assert_eq!(ask("timeout=5"), Err(why.to_owned()));
        assert_eq!(ask("timeout=5&watch=true"), Ok(Duration::from_mins(1)));
    }

    fn ask(query: &str) -> Result<Duration, String> {
        let query = Query::parse(Some(query));
        let info = RequestInfo::parse(&http::Method::GET, "/api/v1/pods", &query).unwrap();
        deadline(&query, &info, Duration::from_mins(1))
    }
}
