//! The connections of a webhook server.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connections::{Connection, Connections, End};
use super::{ServerOptions, WebhookServer};
use keel::{Clock, Tasks};

/// The interval of HTTP/2 pings.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// The number of requests of one HTTP/2 connection at a time, as in kube-apiserver.
const MAX_STREAMS: u32 = 100;
/// The size of the head of a request, and the bytes of a connection that are read before its requests
/// ask for them.
const MAX_HEAD: usize = 32 << 10;
/// The bytes that an HTTP/2 client may send before the server has read them.
const WINDOW: u32 = 256 << 10;

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
    let connections = Arc::new(Connections::new(&server.options));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let (server, tls, stop) = (Arc::clone(&server), tls.clone(), tasks.shutdown());
                let connection = connections.open();
                tasks.spawn("connection", async move {
                    tokio::select! {
                        () = handshake_and_serve(server, stream, &connection, tls, stop) => {}
                        () = connection.evicted() => {
                            tracing::debug!("a connection was evicted by a newer one");
                        }
                    }
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

async fn handshake_and_serve(
    server: Arc<WebhookServer>,
    stream: TcpStream,
    connection: &Connection,
    tls: TlsAcceptor,
    stop: impl Future<Output = ()>,
) {
    let _ = stream.set_nodelay(true);
    match timeout(server.options.first_request_timeout, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(server, stream, connection, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn serve(
    server: Arc<WebhookServer>,
    stream: TlsStream<TcpStream>,
    usage: &Connection,
    stop: impl Future<Output = ()>,
) {
    let ServerOptions { drain_timeout, .. } = server.options;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let requests = usage.requests();
    let service = service_fn(move |request| {
        let (server, pending) = (Arc::clone(&server), requests.begin());
        async move { Ok::<_, Infallible>(server.respond(request, pending).await) }
    });
    let builder = Builder::new(TokioExecutor::new());
    // The protocol of the TLS handshake; detecting it from the first bytes has no timeout.
    let mut builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    // hyper's timeout for heads would also end connections between two requests.
    builder.http1().header_read_timeout(None).max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        end = usage.unused() => match end {
            End::Idle => None,
            End::Stuck => return tracing::debug!("a client did not read a response"),
        },
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
