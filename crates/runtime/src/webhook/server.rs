//! [`WebhookServer`]: an HTTPS server with one handler per path and limits for all resources.
//!
//! | limit | when it is reached |
//! |---|---|
//! | connections | a new one evicts an idle one, first of those on which no review was answered |
//! | time for the handshake, until the first request, and from each review to the next | the connection is closed |
//! | requests in progress, in all and on one connection | the next one waits; 503 after 2 s |
//! | time for the body and the handler | 504 |
//! | time for each 32 KiB of a body | 408 |
//! | time for the client to read the response | the connection is closed |
//! | time until the caches of the handler are complete, by the timeout in the URL | 500 |
//! | size of a body, more for conversion than for admission | 413 |
//! | sum of all bodies, but for the first 32 KiB of each | bodies without progress are dropped; others wait; 503 after 2 s |
//! | bodies larger than allowed for admission, at one time | the next one waits |
//! | bodies that handlers of admission decode, in bytes | the next one waits |
//!
//! ```
//! use runtime::webhook::{BadReview, Handler, ServerOptions, WebhookServer};
//!
//! // `admission` and `conversion` create typed handlers; this one gets the bytes of the body.
//! let echo = Handler::new(async |body| {
//!     if body.is_empty() { Err(BadReview("there is no body".to_owned())) } else { Ok(body) }
//! });
//! let options = ServerOptions { max_connections: 50, ..ServerOptions::default() };
//! let server = WebhookServer::new(options).at("/echo", echo.clone());
//! # drop(server);
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! assert!(echo.respond("{}".into()).await.is_ok()); // in a unit test, without a server
//! # });
//! ```
//!
//! `GET /healthz` and `/readyz` return 200 while the server accepts reviews.

mod connection;
mod connections;
mod request_limits;
mod review_body;
mod review_metrics;
mod handler;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Method, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::serving::ServingCertificate;
use connections::PendingRequest;
use keel::{Clock, Tasks};
use request_limits::{RequestLimits, Reservation};
use review_body::ReviewBody;

pub use handler::{BadReview, Handler};
pub(crate) use review_metrics::ReviewMetrics;

/// The timeout of an API server that does not say which it has.
const DEFAULT_CALLER_TIMEOUT: Duration = Duration::from_secs(10);

/// The options of a [`WebhookServer`].
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address to listen on; port 0 selects a free one.
    pub listen: SocketAddr,
    /// The largest body, unless a handler accepts more, as those for conversion do. An object has
    /// at most 1.5 MiB, and an admission review contains two of them.
    pub max_body: usize,
    /// The number of connections at a time.
    pub max_connections: usize,
    /// The number of reviews in progress, over all connections.
    pub max_requests: usize,
    /// The sum of the bytes of all bodies in memory, without the first 32 KiB of each. The largest
    /// body of a handler must fit.
    pub max_buffered: usize,
    /// The timeout of the handshake, and of the head of the first request.
    pub first_request_timeout: Duration,
    /// The timeout between a review and the head of the next request. A kube-apiserver closes its
    /// connections after 90 seconds.
    pub idle_timeout: Duration,
    /// The timeout of each 32 KiB of a body, and of its end.
    pub body_timeout: Duration,
    /// The timeout of the body and the handler of a request. The API server waits 10 seconds by
    /// default.
    pub handler_timeout: Duration,
    /// The time for pending requests when the server stops.
    pub drain_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 9443)),
            max_body: 7 << 20,
            max_connections: 1000,
            max_requests: 500,
            max_buffered: 192 << 20,
            first_request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(2),
            body_timeout: Duration::from_secs(5),
            handler_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// See the [module documentation](self).
#[derive(Debug)]
pub struct WebhookServer {
    options: ServerOptions,
    /// The begin of all paths; empty if there is none.
    prefix: String,
    handlers: BTreeMap<String, Handler>,
    metrics: ReviewMetrics,
    limits: RequestLimits,
}

impl WebhookServer {
    /// A server without handlers.
    pub fn new(options: ServerOptions) -> Self {
        let limits = RequestLimits::new(&options);
        let metrics = ReviewMetrics::default();
        Self { options, prefix: String::new(), handlers: BTreeMap::new(), metrics, limits }
    }

    /// The metrics of this server.
    pub(crate) fn metrics(&self) -> ReviewMetrics {
        self.metrics.clone()
    }

    /// The address to listen on.
    pub(crate) fn listens_on(&self) -> SocketAddr {
        self.options.listen
    }

    /// Adds a handler at `path`, or replaces the earlier one.
    #[must_use]
    pub fn at(mut self, path: &str, handler: Handler) -> Self {
        self.metrics.add(path);
        self.handlers.insert(path.to_owned(), handler);
        self
    }

    /// Serves all handlers at paths under `prefix`, such as `/4f9c…`. If it is a secret of this server
    /// and of the API server's configuration, other clients can only ask for the health: their bodies
    /// are not read.
    #[must_use]
    pub fn under(self, prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..self }
    }

    /// Starts to listen as one of `tasks`, and returns the address.
    pub async fn start(
        self,
        certificate: &ServingCertificate,
        clock: &Clock,
        tasks: &Tasks,
    ) -> io::Result<SocketAddr> {
        let tls = TlsAcceptor::from(certificate.tls().map_err(io::Error::other)?);
        let listener = TcpListener::bind(self.options.listen).await?;
        let address = listener.local_addr()?;
        let tasks = tasks.child("webhook server");
        let accepting =
            connection::accept(Arc::new(self), listener, tls, clock.clone(), tasks.clone());
        tasks.spawn("listen", accepting);
        Ok(address)
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        mut pending: PendingRequest,
    ) -> Response<ReviewBody> {
        let mut reservation = None;
        let answer = self.answer(request, &mut pending, &mut reservation).await;
        answer.map(|bytes| ReviewBody::new(bytes, reservation, pending))
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        pending: &mut PendingRequest,
        reservation: &mut Option<Reservation>,
    ) -> Response<Bytes> {
        let path = request.uri().path();
        if matches!(path, "/healthz" | "/readyz") && request.method() == Method::GET {
            return text(StatusCode::OK, "ok");
        }
        let path = path.strip_prefix(&*self.prefix);
        let Some((path, handler)) = path.and_then(|it| self.handlers.get_key_value(it)) else {
            return text(StatusCode::NOT_FOUND, "there is no webhook at this path");
        };
        let in_flight = self.metrics.begin(path);
        let response = if request.method() == Method::POST {
            let cache_limit = cache_limit(request.uri(), self.options.handler_timeout);
            let work = self.review(handler, cache_limit, request.into_body(), reservation);
            timeout(self.options.handler_timeout, work)
                .await
                .unwrap_or_else(|_| text(StatusCode::GATEWAY_TIMEOUT, "the webhook took too long"))
        } else {
            text(StatusCode::METHOD_NOT_ALLOWED, "a review must be sent with POST")
        };
        if response.status() == StatusCode::OK {
            pending.answer_review();
        }
        in_flight.responded(response.status());
        response
    }

    /// Responds to a review. What its body has reserved is written to `reservation`.
    async fn review(
        &self,
        handler: &Handler,
        cache_limit: Duration,
        body: Incoming,
        reservation: &mut Option<Reservation>,
    ) -> Response<Bytes> {
        let max_small = self.options.max_body;
        let max_body = handler.max_body().unwrap_or(max_small);
        let body = match self.limits.read(body, max_body, max_small).await {
            Ok((body, reserved)) => {
                *reservation = Some(reserved);
                body
            }
            Err(error) => return text(error.code(), &error.to_string()),
        };
        if timeout(cache_limit, handler.wait_for_caches()).await != Ok(true) {
            // Not 503: client-go replaces the message of a 503 with a general one.
            let message = "a cache of the webhook is not complete yet, try again";
            return text(StatusCode::INTERNAL_SERVER_ERROR, message);
        }
        let _permit = match handler.max_body() {
            // Its large bodies are limited already, and conversion decodes an object at a time.
            Some(_) => None,
            None => self.limits.handle(body.len()).await,
        };
        // The response to a panic is 500; the failure policy of the webhook decides what follows.
        match AssertUnwindSafe(handler.respond(body)).catch_unwind().await {
            Ok(Ok(response)) => json(response),
            Ok(Err(bad)) => text(StatusCode::BAD_REQUEST, &bad.to_string()),
            Err(_) => {
                tracing::error!("a webhook panicked");
                text(StatusCode::INTERNAL_SERVER_ERROR, "the webhook panicked")
            }
        }
    }
}

/// The longest time for the caches of a handler: less than that of the caller, which is in the URL, as
/// in `/validate?timeout=5s`, and rounded up to a second.
fn cache_limit(url: &Uri, handler_timeout: Duration) -> Duration {
    let seconds_of = |parameter: &str| {
        parameter.strip_prefix("timeout=")?.strip_suffix('s')?.parse::<u64>().ok()
    };
    let seconds = url.query().unwrap_or_default().split('&').find_map(seconds_of);
    let caller_timeout = seconds.map_or(DEFAULT_CALLER_TIMEOUT, Duration::from_secs);
    caller_timeout.min(handler_timeout) * 3 / 4
}

fn text(code: StatusCode, message: &str) -> Response<Bytes> {
    response(code, "text/plain; charset=utf-8", Bytes::from(message.to_owned()))
}

fn json(body: Bytes) -> Response<Bytes> {
    response(StatusCode::OK, "application/json", body)
}

fn response(code: StatusCode, media_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let media_type = header::HeaderValue::from_static(media_type);
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}
