//! The order of everything that happens to a request before it reaches an endpoint.
//!
//! It is one function, read from top to bottom. What must also see the answer (panics, the
//! deadline, the count of requests) wraps it in [`serve`].

use crate::answer;
use crate::audit;
use crate::authentication::User;
use crate::authorization::authorize;
use crate::body::Body;
use crate::compression;
use crate::context::Parts;
use crate::impersonation::impersonate;
use crate::metrics::Metrics;
use crate::mux;
use crate::negotiation::{self, Accepted};
use crate::plane::Plane;
use crate::request::{Query, RequestInfo, Verb};
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{CONTENT_TYPE, HeaderName, UPGRADE, USER_AGENT};
use http::request::Parts as Head;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use machinery::{Status, go_duration};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A request's body, from a socket or from within the process.
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, BodyError>;

/// A body that broke off, for whatever reason its bearer has.
#[derive(Debug, thiserror::Error)]
#[error("the body broke off: {0}")]
pub(crate) struct BodyError(pub Box<dyn std::error::Error + Send + Sync>);

/// Who is at the other end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    /// Whom their certificate names, if they have shown one.
    pub user: Option<Arc<User>>,
    /// Whether there is a network between us.
    pub remote: bool,
    /// Whether there is at least a socket.
    pub wired: bool,
}

/// By when a request must be answered; it travels with the request.
#[derive(Clone, Copy)]
struct Deadline(Instant);

/// Of a body that nobody wants, or that is over the limit, so much is read and thrown away: most
/// clients read no answer before they have sent everything, and would see a broken connection in
/// its place.
const DISCARD_MAX: usize = 16 << 20;

/// And for so long.
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// Answers a request, whatever happens. Who asks through a socket gets the name of the request
/// back, which is of their choice.
pub(crate) async fn serve(
    plane: Arc<Plane>,
    peer: Peer,
    request: Request<RequestBody>,
) -> Response<Body> {
    let id = peer.wired.then(|| audit::id(&plane, request.headers()));
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
    let query = Query::parse(request.uri().query());
    let Some(info) = RequestInfo::parse(request.method(), request.uri().path(), &query) else {
        // Upstream: this is told by Go's own server.
        return answer::text(400, "400 Bad Request");
    };
    let (verb, label) = (info.verb, Metrics::label(&info));
    let deadline = match deadline(&query, &info, plane.timeouts.request) {
        Ok(deadline) => deadline,
        Err(why) => {
            let accepted = negotiation::for_errors(request.headers(), &query);
            return answer::failure(&Status::bad_request(why), accepted);
        }
    };
    let compress = peer.remote && compression::accepts_gzip(request.headers());
    request.extensions_mut().insert(Deadline(started + deadline));
    // In a place of its own: what is passed on by value is copied at every step.
    let work = Box::pin(handle(Arc::clone(&plane), peer.user, request, info, query));
    let response = guarded(deadline, work).await.unwrap_or_else(|response| {
        tracing::error!(?verb, ?label, "a request panicked");
        response
    });
    plane.metrics.observe(label, response.status().as_u16(), started.elapsed());
    if compress { compression::compress(response) } else { response }
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
    peer: Option<Arc<User>>,
    request: Request<RequestBody>,
    info: RequestInfo,
    query: Query,
) -> Response<Body> {
    let (head, mut body) = request.into_parts();
    let errors_as = negotiation::for_errors(&head.headers, &query);
    let answered = stages(plane, peer, head, &mut body, info, query, errors_as).await;
    let _ = tokio::time::timeout(DISCARD_TIME, discard(body)).await;
    answered.unwrap_or_else(|status| answer::failure(&status, errors_as))
}

/// Who asks, as whom, whether there is room, whether they may, and on to the endpoint.
async fn stages(
    plane: Arc<Plane>,
    peer: Option<Arc<User>>,
    head: Head,
    body: &mut RequestBody,
    info: RequestInfo,
    query: Query,
    errors_as: Accepted,
) -> Result<Response<Body>, Status> {
    let user = plane.authenticate(peer.as_deref(), &head.headers)?;
    let user = match impersonate(user, &head.headers, &info) {
        Ok(user) => user,
        Err(status) => return Ok(answer::refusal(&status, errors_as)),
    };
    // Before authorization, so that a flood of forbidden requests cannot starve the others.
    let _seat = plane.flow.take_seat(info.verb)?;
    if let Err(status) = authorize(&user, &info) {
        return Ok(answer::refusal(&status, errors_as));
    }
    let Some(target) = info.target else {
        return mux::path(&plane, &user, &info.path, &head, &query).await;
    };
    let text = |name: HeaderName| {
        head.headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned()
    };
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
        deadline: head.extensions.get().map_or_else(Instant::now, |Deadline(it)| *it),
    };
    let body = read(info.verb, body).await?;
    mux::resource(parts, head, body).await
}

/// Reads the body of a request that may have one, up to the limit.
async fn read(verb: Verb, body: &mut RequestBody) -> Result<Bytes, Status> {
    if verb.reads() {
        return Ok(Bytes::new());
    }
    let limit = crate::decode::MAX_BODY;
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Status::too_large(&format!("limit is {limit}")))
        }
        Err(error) => Err(Status::bad_request(format!("cannot read the body: {error}"))),
    }
}

/// Reads what is left of a body without keeping it, up to a point.
async fn discard(mut body: RequestBody) {
    let mut discarded = 0;
    while !body.is_end_stream()
        && let Some(Ok(frame)) = body.frame().await
    {
        discarded += frame.data_ref().map_or(0, Bytes::len);
        if discarded > DISCARD_MAX {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
