//! The connections of a webhook server, with limits of their number and of idle time.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{ServerOptions, WebhookServer};
use keel::{Clock, Tasks};

/// The interval of HTTP/2 pings.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Accepts connections until `tasks` are stopped.
pub(super) async fn accept(
    server: Arc<WebhookServer>,
    listener: TcpListener,
    tls: TlsAcceptor,
    clock: Clock,
    tasks: Tasks,
) {
    let stop = tasks.shutdown();
    tokio::pin!(stop);
    let permits = Arc::new(Semaphore::new(server.options.max_connections));
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener, &permits) => accepted,
            () = &mut stop => return,
        };
        match accepted {
            Ok((stream, permit)) => {
                let (server, tls, stop) = (Arc::clone(&server), tls.clone(), tasks.shutdown());
                tasks.spawn("connection", async move {
                    handshake_and_serve(server, stream, tls, stop).await;
                    drop(permit);
                });
            }
            // The usual cause is too many open files: other connections must be closed first.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                clock.sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// The next connection, with a permit. The permit is acquired first, so that further connections wait in
/// the kernel's queue.
async fn next(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

async fn handshake_and_serve(
    server: Arc<WebhookServer>,
    stream: TcpStream,
    tls: TlsAcceptor,
    stop: impl Future<Output = ()>,
) {
    let _ = stream.set_nodelay(true);
    match timeout(server.options.first_request_timeout, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(server, stream, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn serve(
    server: Arc<WebhookServer>,
    stream: TlsStream<TcpStream>,
    stop: impl Future<Output = ()>,
) {
    let ServerOptions { first_request_timeout, idle_timeout, drain_timeout, .. } = server.options;
    let counts = Arc::new(watch::Sender::new(RequestCounts::default()));
    let mut observed = counts.subscribe();
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| {
        let (server, guard) = (Arc::clone(&server), RequestGuard::begin(&counts));
        async move {
            let response = server.respond(request).await;
            drop(guard);
            Ok::<_, Infallible>(response)
        }
    });
    let builder = Builder::new(TokioExecutor::new());
    // The protocol of the TLS handshake; detecting it from the first bytes has no timeout.
    let mut builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    // hyper's timeout for heads would also end connections between two requests.
    builder.http1().header_read_timeout(None);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(KEEP_ALIVE));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = until_idle(&mut observed, first_request_timeout, idle_timeout) => None,
        () = stop => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        connection.as_mut().graceful_shutdown();
        // A client that does not close the TLS session is not waited for.
        timeout(drain_timeout, connection).await.unwrap_or(Ok(()))
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The number of requests on a connection.
#[derive(Default)]
struct RequestCounts {
    begun: u64,
    under_way: usize,
}

/// Counts a request as under way until it has a response or is abandoned.
struct RequestGuard(Arc<watch::Sender<RequestCounts>>);

impl RequestGuard {
    fn begin(counts: &Arc<watch::Sender<RequestCounts>>) -> Self {
        counts.send_modify(|counts| {
            counts.begun += 1;
            counts.under_way += 1;
        });
        Self(Arc::clone(counts))
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.send_modify(|counts| counts.under_way -= 1);
    }
}

/// Ends when the first request does not arrive within `first_request_timeout`, or a later one within
/// `idle_timeout`.
async fn until_idle(
    counts: &mut watch::Receiver<RequestCounts>,
    first_request_timeout: Duration,
    idle_timeout: Duration,
) {
    let (mut begun, mut limit) = (0, first_request_timeout);
    // An error means that no further request can arrive.
    while matches!(timeout(limit, counts.wait_for(|counts| counts.begun > begun)).await, Ok(Ok(_)))
    {
        let Ok(counts) = counts.wait_for(|counts| counts.under_way == 0).await else { return };
        (begun, limit) = (counts.begun, idle_timeout);
    }
}
