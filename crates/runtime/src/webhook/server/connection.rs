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

use super::WebhookServer;
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
    let seats = Arc::new(Semaphore::new(server.options.max_connections));
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener, &seats) => accepted,
            () = &mut stop => return,
        };
        match accepted {
            Ok((stream, seat)) => {
                let (server, tls, stop) = (Arc::clone(&server), tls.clone(), tasks.shutdown());
                tasks.spawn("connection", async move {
                    greet(server, stream, tls, stop).await;
                    drop(seat);
                });
            }
            // Probably too many open files: some connections have to end first.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                clock.sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Takes a permit before accepting, so that further connections wait in the kernel's queue.
async fn next(
    listener: &TcpListener,
    seats: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let seat = Arc::clone(seats).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, seat))
}

async fn greet(
    server: Arc<WebhookServer>,
    stream: TcpStream,
    tls: TlsAcceptor,
    stop: impl Future<Output = ()>,
) {
    let _ = stream.set_nodelay(true);
    match timeout(server.options.patience, tls.accept(stream)).await {
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
    let (patience, idle, drain) =
        (server.options.patience, server.options.idle, server.options.drain);
    let load = Arc::new(watch::Sender::new(Load::default()));
    let mut observed = load.subscribe();
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| {
        let (server, under_way) = (Arc::clone(&server), UnderWay::begin(&load));
        async move {
            let response = server.respond(request).await;
            drop(under_way);
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
        () = uselessness(&mut observed, patience, idle) => None,
        () = stop => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        connection.as_mut().graceful_shutdown();
        // A client that does not close the TLS session is not waited for.
        timeout(drain, connection).await.unwrap_or(Ok(()))
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The use of a connection.
#[derive(Default)]
struct Load {
    begun: u64,
    under_way: usize,
}

/// A request, until it is answered or abandoned.
struct UnderWay(Arc<watch::Sender<Load>>);

impl UnderWay {
    fn begin(load: &Arc<watch::Sender<Load>>) -> Self {
        load.send_modify(|load| {
            load.begun += 1;
            load.under_way += 1;
        });
        Self(Arc::clone(load))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|load| load.under_way -= 1);
    }
}

/// Ends when the first request does not arrive within `patience`, or the next one within `idle`.
async fn uselessness(load: &mut watch::Receiver<Load>, patience: Duration, idle: Duration) {
    let (mut begun, mut limit) = (0, patience);
    // An error means that no further request can arrive.
    while matches!(timeout(limit, load.wait_for(|load| load.begun > begun)).await, Ok(Ok(_))) {
        let Ok(load) = load.wait_for(|load| load.under_way == 0).await else { return };
        (begun, limit) = (load.begun, idle);
    }
}
