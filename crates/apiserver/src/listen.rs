//! Accepts connections: TCP, TLS, HTTP/1.1 and HTTP/2.

mod certificate_roles;
mod plain_http;
mod progress;
mod sender;
pub(crate) mod tls_config;
mod tracked_body;
mod connection_task;
mod write_buffer;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower_service::Service;

use crate::auth::metrics::TlsMetrics;
use crate::config::Timeouts;
use crate::flow_control::FlowControl;
use crate::flow_control::connection::{Connection, Connections};
use crate::http::body::Body;
use crate::in_process::handler::{Handler, Peer};
use connection_task::{Checker, ConnectionTask, NewStreams};
use keel::{Clock, Tasks, ThreadShare, WithinShare};
use progress::Progress;
use sender::Sender;
use tls::ServingKeyError;
use tls_config::TlsConfig;
use tracked_body::TrackedBody;

/// The time that requests in progress have when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of concurrent streams of one connection, as upstream.
const MAX_STREAMS: u32 = 100;

/// The maximum size of the head of a request: the longest path, and as much for its headers. Memory is
/// allocated as it arrives.
const MAX_HEAD: u32 = 128 << 10;

/// The maximum number of headers of a request. A proxy that names the user of a request sends one for
/// each group. While it parses a head, HTTP/1.1 has 64 bytes for each of them.
const MAX_HEADERS: u32 = 2000;

/// The size that HTTP/2 adds to that of each header: RFC 9113, section 6.5.2.
const HEADER_OVERHEAD: u32 = 32;

/// The maximum size of a TLS record. Each record is encrypted in a new allocation. The allocator
/// reuses blocks of this size while they are still in the processor's cache, but those of a full
/// record (16 KiB) only after half a megabyte of others, and writing into them is then most of the
/// work.
const MAX_RECORD: usize = 7680;

/// The idle time after which TCP keepalive probes are sent to a client.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// The interval of TCP keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// The number of unanswered keepalive probes after which the connection is closed.
const KEEPALIVE_RETRIES: u32 = 3;

/// The reason why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Accept other versions or cipher suites.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// Use another certificate.
    #[error("cannot use the serving certificate")]
    Certificate(#[source] ServingKeyError),
    /// Use another authority.
    #[error("cannot use an authority of client certificates")]
    Authority(#[source] rustls::Error),
    /// Use another bundle of authorities.
    #[error("cannot read the authorities of client certificates")]
    Pem(#[source] rustls::pki_types::pem::Error),
    /// Use another bundle of authorities.
    #[error("cannot verify client certificates")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}

/// A verifier of client certificates that are signed by an authority of the bundle.
pub(crate) fn verifier(authorities: &str) -> Result<Arc<tls::ClientVerifier>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority.map_err(Error::Pem)?).map_err(Error::Authority)?;
    }
    let inner = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(Error::Verifier)?;
    let roots = tls::Roots::from_pem(authorities.as_bytes());
    Ok(Arc::new(tls::ClientVerifier::new(inner, roots, provider)))
}

/// The state shared by all connections of a listener.
#[derive(Clone)]
pub(crate) struct ListenerState {
    /// Answers the requests.
    pub handler: Arc<dyn Handler>,
    /// Counts unread responses.
    pub flow_control: Arc<FlowControl>,
    /// The certificates and the authorities of new connections.
    pub tls: Arc<ArcSwap<TlsConfig>>,
    /// Counts the requests of users with client certificates, and failed handshakes.
    pub tls_metrics: Arc<TlsMetrics>,
    /// The timeouts of connections.
    pub timeouts: Timeouts,
    /// The plane's clock.
    pub clock: Clock,
    /// The tasks of the connections.
    pub tasks: Tasks,
}

/// Accepts connections until the plane stops, then waits for requests in progress.
pub(crate) async fn serve(listener_state: ListenerState, listener: TcpListener) {
    let stop = listener_state.tasks.shutdown();
    tokio::pin!(stop);
    let draining = GracefulShutdown::new();
    let connections = Arc::<Connections>::default();
    let checkers = Arc::<Checkers>::default();
    let mut checks =
        tokio::time::interval(progress::check_interval(listener_state.timeouts.answer));
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = checks.tick() => {
                checkers.check();
                continue;
            }
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let checkers = Arc::clone(&checkers);
                let draining = draining.watcher();
                let state = connections.open();
                let shared = listener_state.clone();
                listener_state.tasks.spawn("connection", async move {
                    let evictable = Arc::clone(&state);
                    let share = thread_share(&shared.flow_control, &state);
                    let connection = connection(shared, stream, draining, checkers, state);
                    tokio::select! {
                        () = WithinShare::new(Box::pin(connection), share) => {}
                        () = evictable.evicted() => {
                            tracing::debug!("an unauthenticated connection was closed in favor of a newer one");
                        }
                    }
                });
            }
            // Most likely there are no free file descriptors. Wait until some connections have ended.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                listener_state.clock.sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, draining.shutdown()).await;
}

/// Returns the share of the threads in which a connection is polled.
fn thread_share(
    flow_control: &Arc<FlowControl>,
    connection: &Arc<Connection>,
) -> impl Fn() -> Arc<ThreadShare> + Unpin + Send + use<> {
    let (flow_control, connection) = (Arc::clone(flow_control), Arc::clone(connection));
    move || connection.threads(&flow_control)
}

/// The checkers of all connections, which detect clients that do not read.
#[derive(Default)]
struct Checkers(Mutex<Vec<Checker>>);

impl Checkers {
    fn add(&self, checker: Checker) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(checker);
    }

    /// Starts a check on each connection, and removes those that have ended.
    fn check(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(Checker::check);
    }
}

async fn connection(
    listener_state: ListenerState,
    stream: TcpStream,
    draining: Watcher,
    checkers: Arc<Checkers>,
    state: Arc<Connection>,
) {
    let timeouts = listener_state.timeouts;
    let _ = stream.set_nodelay(true);
    set_keepalive(&stream);
    let address = stream.peer_addr().ok().map(|it| it.ip().to_canonical());
    let remote = address.is_some_and(|it| !it.is_loopback());
    // Boxed, so that its memory is released afterwards: a future keeps the space of everything that
    // lives across an await, and a connection lives long.
    let tls = listener_state.tls.load_full();
    let local = stream.local_addr().ok().map(|it| it.ip());
    let handshake = Box::pin(handshake(stream, tls.acceptor(local)));
    let Ok(Some(stream)) = tokio::time::timeout(timeouts.handshake, handshake).await else {
        listener_state.tls_metrics.handshake_errors.inc();
        return;
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let base = Peer { remote, address, connection: Some(Arc::clone(&state)), ..Peer::default() };
    let sender = match Sender::new(certificates, base, tls, &listener_state) {
        Ok(sender) => sender,
        Err(error) => {
            tracing::debug!(%error, "a connection was refused");
            return;
        }
    };
    let flow_control = Arc::clone(&listener_state.flow_control);
    let request_begun = Arc::new(Notify::new());
    let notify_begun = Arc::clone(&request_begun);
    let task = ConnectionTask::new(stream, |transport, streams| {
        let new_streams = streams.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            notify_begun.notify_one();
            let progress = new_streams.begin_request();
            let response = sender.client().call(request);
            let share = thread_share(&flow_control, &state);
            let (flow_control, state) = (Arc::clone(&flow_control), Arc::clone(&state));
            let response = count_response(response, flow_control, state, progress);
            in_own_task(WithinShare::new(Box::pin(response), share))
        });
        let connection = protocols(streams, timeouts)
            .serve_connection_with_upgrades(TokioIo::new(transport), service)
            .into_owned();
        draining.watch(connection)
    });
    checkers.add(task.checker());
    tokio::select! {
        ended = task => match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a connection ended early"),
            Err(stalled) => tracing::debug!(%stalled, "a connection was closed"),
        },
        () = no_request_within(timeouts.head, &request_begun) => {
            tracing::debug!("a connection was never used");
        }
    }
}

/// The TLS stream of a client. Failures are logged at debug level, since port scanners and health
/// probes cause many.
async fn handshake(mut stream: TcpStream, tls: TlsAcceptor) -> Option<Box<TlsStream<TcpStream>>> {
    if plain_http::refuse_plain_http(&mut stream).await {
        return None;
    }
    match tls.accept(stream).await {
        Ok(stream) => Some(Box::new(stream)),
        Err(error) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
    }
}

/// Enables TCP keepalive. A machine that loses its power or its network does not close its
/// connections, and a watch over HTTP/1.1 would otherwise be sent events until its timeout.
fn set_keepalive(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_RETRIES);
    if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&keepalive) {
        tracing::debug!(%error, "cannot enable TCP keepalive");
    }
}

/// The settings of HTTP/1.1 and HTTP/2. The window of a stream is that of upstream: the size of most
/// request bodies.
fn protocols(streams: NewStreams, timeouts: Timeouts) -> Builder<NewStreams> {
    let mut builder = Builder::new(streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(timeouts.head)
        .max_headers(MAX_HEADERS as usize)
        .max_buf_size(MAX_HEAD as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD + MAX_HEADERS * HEADER_OVERHEAD)
        .initial_stream_window_size(256 << 10)
        .initial_connection_window_size(1 << 20)
        .max_send_buf_size(64 << 10)
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(Duration::from_secs(15));
    builder
}

/// The reason why a request gets no response.
#[derive(Debug, thiserror::Error)]
enum ResponseError {
    /// Not expected: the chain responds to panics.
    #[error("the task of a request ended early")]
    Ended(#[source] JoinError),
    /// The stream is reset: the client must first read its other responses.
    #[error("the user has too many unread responses")]
    Overdrawn,
}

/// Counts a response for the user of its connection until it is read.
async fn count_response(
    response: impl Future<Output = Result<Response<Body>, Infallible>>,
    flow_control: Arc<FlowControl>,
    connection: Arc<Connection>,
    progress: Arc<Progress>,
) -> Result<Response<TrackedBody>, ResponseError> {
    let Ok(response) = response.await;
    let account = connection.account(&flow_control);
    if account.as_ref().is_some_and(|it| it.is_overdrawn()) {
        return Err(ResponseError::Overdrawn);
    }
    Ok(response.map(|body| TrackedBody::new(body, account, progress)))
}

/// Runs `work` in a separate task, so that it does not delay the other streams of its connection. The
/// task is aborted when this future is dropped.
#[allow(clippy::disallowed_methods, reason = "it is joined by its stream, or ends with it")]
async fn in_own_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, ResponseError>> + Send + 'static,
) -> Result<T, ResponseError> {
    struct AbortOnDrop<T>(JoinHandle<T>);
    impl<T> Drop for AbortOnDrop<T> {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let mut task = AbortOnDrop(tokio::spawn(work));
    (&mut task.0).await.map_err(ResponseError::Ended)?
}

/// Completes if no request begins within `timeout`. The timer of the HTTP library starts only when it
/// has detected the version of HTTP.
async fn no_request_within(timeout: Duration, request_begun: &Notify) {
    if tokio::time::timeout(timeout, request_begun.notified()).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
