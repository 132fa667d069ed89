//! The order of everything that happens to a request before it reaches an endpoint.
//!
//! It is one function, read from top to bottom. What must also see the answer (panics, the
//! deadline, the count of requests) wraps it in [`serve`].

use crate::answer;
use crate::authentication::User;
use crate::authorization::authorize;
use crate::body::Body;
use crate::compression;
use crate::context::Parts;
use crate::impersonation::impersonate;
use crate::metrics::Metrics;
use crate::mux;
use crate::negotiation::{Accepted, Form, negotiate};
use crate::plane::Plane;
use crate::request::{Query, RequestInfo, Verb};
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Limited};
use machinery::Status;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

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
}

/// How long a request other than a watch may take.
const DEADLINE: Duration = Duration::from_mins(1);

/// Answers a request, whatever happens.
pub(crate) async fn serve(
    plane: Arc<Plane>,
    peer: Peer,
    request: Request<RequestBody>,
) -> Response<Body> {
    let started = tokio::time::Instant::now();
    let query = Query::parse(request.uri().query());
    let Some(info) = RequestInfo::parse(request.method(), request.uri().path(), &query) else {
        return answer::failure(&Status::bad_request("the path is not UTF-8"), Accepted::JSON);
    };
    let (verb, label) = (info.verb, Metrics::label(&info));
    let deadline = deadline(&query);
    let compress = peer.remote && compression::accepts_gzip(request.headers());
    let work = AssertUnwindSafe(handle(Arc::clone(&plane), peer.user, request, info, query));
    let response = match tokio::time::timeout(deadline, work.catch_unwind()).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => {
            tracing::error!(?verb, ?label, "a request panicked");
            let message = "This request caused apiserver to panic. Look in the logs for details.";
            answer::text(500, message)
        }
        Err(_) => {
            let why = "request did not complete within the allotted timeout";
            answer::failure(&Status::timeout(why, 0), Accepted::JSON)
        }
    };
    plane.metrics.observe(label, response.status().as_u16(), started.elapsed());
    if compress { compression::compress(response) } else { response }
}

/// The client may ask for less time than it would get, never for more.
fn deadline(query: &Query) -> Duration {
    let asked = query.text("timeout");
    let seconds = asked.strip_suffix('s').and_then(|it| it.parse::<f64>().ok());
    match seconds.filter(|it| *it > 0.0 && !query.flag("watch")) {
        Some(seconds) => DEADLINE.min(Duration::try_from_secs_f64(seconds).unwrap_or(DEADLINE)),
        None => DEADLINE,
    }
}

async fn handle(
    plane: Arc<Plane>,
    peer: Option<Arc<User>>,
    request: Request<RequestBody>,
    info: RequestInfo,
    query: Query,
) -> Response<Body> {
    let accepted = negotiate(request.headers(), &query);
    // Errors are written as the client wants its answers, where we can.
    let errors_as =
        accepted.as_ref().map_or(Accepted::JSON, |it| Accepted { form: Form::Whole, ..*it });
    match stages(plane, peer, request, info, query, accepted).await {
        Ok(response) => response,
        Err(status) => answer::failure(&status, errors_as),
    }
}

/// Who asks, as whom, whether there is room, whether they may, and on to the endpoint.
async fn stages(
    plane: Arc<Plane>,
    peer: Option<Arc<User>>,
    request: Request<RequestBody>,
    info: RequestInfo,
    query: Query,
    accepted: Result<Accepted, Status>,
) -> Result<Response<Body>, Status> {
    let (head, body) = request.into_parts();
    let user = plane.authenticator.authenticate(peer.as_deref(), &head.headers)?;
    let user = impersonate(user, &head.headers)?;
    // Before authorization, so that a flood of forbidden requests cannot starve the others.
    let _seat = plane.flow.take_seat(info.verb)?;
    authorize(&user, &info)?;
    let Some(target) = info.target else {
        return mux::path(&plane, &info.path, &head, &query);
    };
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let parts = Parts {
        content_type: content_type.unwrap_or_default().to_owned(),
        plane,
        user,
        verb: info.verb,
        target,
        query,
        accepted: Accepted::JSON,
    };
    let body = read(info.verb, body).await?;
    mux::resource(parts, accepted, head, body).await
}

/// Reads the body of a request that may have one, up to the limit.
async fn read(verb: Verb, body: RequestBody) -> Result<Bytes, Status> {
    if verb.reads() {
        return Ok(Bytes::new());
    }
    let limit = crate::decode::MAX_BODY;
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Status::too_large(&format!("limit is {limit}")))
        }
        Err(error) => Err(Status::bad_request(format!("cannot read the body: {error}"))),
    }
}
