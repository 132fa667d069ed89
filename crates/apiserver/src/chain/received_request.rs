//! [`ReceivedRequest`]: the parsed request line and the deadline, before authentication.

use std::time::Duration;

use http::{Request, Response};
use tokio::time::Instant;

use crate::http::body::Body;
use crate::http::{headers, negotiation, response};
use crate::in_process::handler::Peer;
use crate::plane::Plane;
use crate::request::{Query, RequestInfo};
use machinery::{Status, go_duration};

/// See the [module documentation](self).
pub(super) struct ReceivedRequest {
    /// The verb and the resource.
    pub info: RequestInfo,
    /// The decoded query parameters.
    pub query: Query,
    /// The time at which the request was received.
    pub started: Instant,
    /// The time by which the request must be answered.
    pub deadline: Instant,
}

impl ReceivedRequest {
    /// Parses the request line.
    pub(super) fn parse<B>(
        plane: &Plane,
        peer: &Peer,
        request: &Request<B>,
    ) -> Result<Self, Box<RefusedRequest>> {
        let started = Instant::now();
        if peer.connection.is_some()
            && let Some(why) = headers::host_error(request.version(), request.headers())
        {
            return Err(RefusedRequest::unreadable(why));
        }
        let query = Query::parse(request.uri().query());
        let Some(info) = RequestInfo::parse(request.method(), request.uri().path(), &query) else {
            // Upstream: Go's HTTP server sends this response.
            return Err(RefusedRequest::unreadable("400 Bad Request"));
        };
        match timeout(&query, &info, plane.timeouts.request) {
            Ok(timeout) => Ok(Self { info, query, started, deadline: started + timeout }),
            Err(why) => {
                let labels = super::request_labels::of(plane, request, &info, &query);
                plane.metrics.observe(&labels, 400, started.elapsed());
                let accepted = negotiation::for_errors(request.headers(), &query);
                let status = Status::bad_request(why);
                let response = response::failure(&status, accepted);
                Err(Box::new(RefusedRequest { response, cause: Some((info, status)) }))
            }
        }
    }
}

/// A request that is refused before authentication.
pub(super) struct RefusedRequest {
    pub response: Response<Body>,
    /// The request line and why it is refused; None if it cannot be read.
    pub cause: Option<(RequestInfo, Status)>,
}

impl RefusedRequest {
    fn unreadable(text: &str) -> Box<Self> {
        Box::new(Self { response: response::text(400, text), cause: None })
    }
}

/// The timeout of a request. The client can request a shorter timeout than `default`, not a longer
/// one.
fn timeout(query: &Query, info: &RequestInfo, default: Duration) -> Result<Duration, String> {
    let requested = query.text("timeout");
    if requested.is_empty() || info.is_long_running() {
        return Ok(default);
    }
    let seconds = go_duration::parse(requested)
        .map_err(|why| format!("invalid timeout specified in the request URL - {why}"))?;
    if seconds <= 0.0 {
        return Ok(default);
    }
    Ok(default.min(Duration::try_from_secs_f64(seconds).unwrap_or(default)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requested_timeout_can_only_shorten_the_default() {
        assert_eq!(parse_timeout("timeout=5s"), Ok(Duration::from_secs(5)));
        for default in ["", "timeout=", "timeout=0s", "timeout=-1s", "timeout=1h"] {
            assert_eq!(parse_timeout(default), Ok(Duration::from_mins(1)), "{default}");
        }
    }

    #[test]
    fn an_invalid_timeout_is_rejected_except_for_a_watch() {
        let why =
            "invalid timeout specified in the request URL - time: missing unit in duration \"5\"";
        assert_eq!(parse_timeout("timeout=5"), Err(why.to_owned()));
        assert_eq!(parse_timeout("timeout=5&watch=true"), Ok(Duration::from_mins(1)));
    }

    fn parse_timeout(query: &str) -> Result<Duration, String> {
        let query = Query::parse(Some(query));
        let info = RequestInfo::parse(&http::Method::GET, "/api/v1/pods", &query).unwrap();
        timeout(&query, &info, Duration::from_mins(1))
    }
}
