//! [`WebhookServer`]: HTTPS, one handler per path, and limits on everything a caller could use up.
//!
//! | what | when it is used up |
//! |---|---|
//! | connections | the next one waits to be accepted |
//! | time for the handshake, the head, the handler | the connection is closed; a handler that is late is answered for with 504 |
//! | size of a body | 413 |
//!
//! ```
//! use runtime::webhook::{BadReview, Handler, ServerOptions, WebhookServer};
//!
//! // `admission` and `conversion` make handlers; this is what they are made of.
//! let echo = Handler::new(async |body| {
//!     if body.is_empty() { Err(BadReview("there is no body".to_owned())) } else { Ok(body) }
//! });
//! let options = ServerOptions { max_connections: 50, ..ServerOptions::default() };
//! let server = WebhookServer::new(options).at("/echo", echo.clone());
//! # drop(server);
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! assert!(echo.answer("{}".into()).await.is_ok()); // in a unit test, without a server
//! # });
//! ```
//!
//! `GET /healthz` and `/readyz` answer 200 while the server accepts reviews.

use std::{
    collections::BTreeMap, convert::Infallible, fmt, io, net::SocketAddr, panic::AssertUnwindSafe,
    sync::Arc, time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto::Builder,
        graceful::{GracefulShutdown, Watcher},
    },
};
use keel::{Clock, Tasks};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::serving::ServingCertificate;

/// How much and how long.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// The largest body. Upstream's objects have at most 1.5 MiB, and a review holds two of them.
    pub max_body: usize,
    /// At one time.
    pub max_connections: usize,
    /// For the handshake, and for the head of a request.
    pub patience: Duration,
    /// For a handler. The API server waits 10 seconds unless its configuration says otherwise.
    pub handler_timeout: Duration,
    /// For requests under way when the server stops.
    pub drain: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 9443)),
            max_body: 7 << 20,
            max_connections: 1000,
            patience: Duration::from_secs(10),
            handler_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(10),
        }
    }
}

/// Answers reviews: a body in, a body out. [`admission`](super::admission) and
/// [`conversion`](super::conversion) make them.
#[derive(Clone)]
pub struct Handler(Arc<Answering>);

type Answering = dyn Fn(Bytes) -> BoxFuture<'static, Result<Bytes, BadReview>> + Send + Sync;

/// What was sent is no review.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the review: {0}")]
pub struct BadReview(pub String);

impl Handler {
    /// One that answers a body with a body.
    pub fn new<F, A>(answer: F) -> Self
    where
        F: Fn(Bytes) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Bytes, BadReview>> + Send + 'static,
    {
        Self(Arc::new(move |body| answer(body).boxed()))
    }

    /// The answer to a body, for tests that need no server.
    pub async fn answer(&self, body: Bytes) -> Result<Bytes, BadReview> {
        (self.0)(body).await
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

/// See the [module documentation](self).
#[derive(Debug)]
pub struct WebhookServer {
    options: ServerOptions,
    handlers: BTreeMap<String, Handler>,
}

impl WebhookServer {
    /// One that answers nothing yet.
    pub fn new(options: ServerOptions) -> Self {
        Self { options, handlers: BTreeMap::new() }
    }

    /// Where it is to listen.
    pub(crate) fn listens_on(&self) -> SocketAddr {
        self.options.listen
    }

    /// The same with a handler at `path`, which takes the place of an earlier one.
    #[must_use]
    pub fn at(mut self, path: &str, handler: Handler) -> Self {
        self.handlers.insert(path.to_owned(), handler);
        self
    }

    /// Listens from now on, as one of `tasks`; where, is the answer.
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
        let accepting = accept(Arc::new(self), listener, tls, clock.clone(), tasks.clone());
        tasks.spawn("listen", accepting);
        Ok(address)
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if matches!(path, "/healthz" | "/readyz") && request.method() == Method::GET {
            return text(StatusCode::OK, "ok");
        }
        let Some(handler) = self.handlers.get(path) else {
            return text(StatusCode::NOT_FOUND, "there is no webhook at this path");
        };
        if request.method() != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "a review is posted");
        }
        let handler = handler.clone();
        let work = self.review(&handler, request.into_body());
        match timeout(self.options.handler_timeout, work).await {
            Ok(response) => response,
            Err(_) => text(StatusCode::GATEWAY_TIMEOUT, "the webhook took too long"),
        }
    }

    async fn review(&self, handler: &Handler, body: Incoming) -> Response<Full<Bytes>> {
        let body = match Limited::new(body, self.options.max_body).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return text(StatusCode::PAYLOAD_TOO_LARGE, "the review is too large");
            }
            Err(error) => return text(StatusCode::BAD_REQUEST, &error.to_string()),
        };
        // A panic is answered for here: the API server's failure policy decides what it means.
        match AssertUnwindSafe(handler.answer(body)).catch_unwind().await {
            Ok(Ok(answer)) => json(answer),
            Ok(Err(bad)) => text(StatusCode::BAD_REQUEST, &bad.to_string()),
            Err(_) => {
                tracing::error!("a webhook panicked");
                text(StatusCode::INTERNAL_SERVER_ERROR, "the webhook panicked")
            }
        }
    }
}

async fn accept(
    server: Arc<WebhookServer>,
    listener: TcpListener,
    tls: TlsAcceptor,
    clock: Clock,
    tasks: Tasks,
) {
    let stop = tasks.shutdown();
    tokio::pin!(stop);
    let draining = GracefulShutdown::new();
    let seats = Arc::new(Semaphore::new(server.options.max_connections));
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener, &seats) => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, seat)) => {
                let server = Arc::clone(&server);
                let connection = serve(server, stream, tls.clone(), draining.watcher(), seat);
                tasks.spawn("connection", connection);
            }
            // Out of file descriptors, most likely: let some connections end first.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                clock.sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    let _ = timeout(server.options.drain, draining.shutdown()).await;
}

/// A seat first: who has none must wait in the kernel's queue.
async fn next(
    listener: &TcpListener,
    seats: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let seat = Arc::clone(seats).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, seat))
}

async fn serve(
    server: Arc<WebhookServer>,
    stream: TcpStream,
    tls: TlsAcceptor,
    draining: Watcher,
    _seat: OwnedSemaphorePermit,
) {
    let patience = server.options.patience;
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(patience, tls.accept(stream)).await else {
        tracing::debug!("a TLS handshake failed");
        return;
    };
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(server.respond(request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(patience);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(Duration::from_secs(30)));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = draining.watch(connection.into_owned()).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn text(code: StatusCode, message: &str) -> Response<Full<Bytes>> {
    answer(code, "text/plain; charset=utf-8", Bytes::from(message.to_owned()))
}

fn json(body: Bytes) -> Response<Full<Bytes>> {
    answer(StatusCode::OK, "application/json", body)
}

fn answer(code: StatusCode, media_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = code;
    let media_type = header::HeaderValue::from_static(media_type);
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}
