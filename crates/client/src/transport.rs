//! [`Transport`]: HTTP/2 over TLS, so that any number of watches share a few connections.
//!
//! A server lets so many streams open on one connection (kube-apiserver: 100), and a watch keeps
//! its stream for minutes. So streams are counted, and a request for which no connection has a
//! place opens the next one, instead of waiting for somebody's watch to end.
//!
//! ```text
//! request ─▶ line 0: 90 of 90 streams ┐
//!         └▶ line 1: 17 of 90 streams ┴─▶ one connection each (HTTP/1.1 if that is all there is: many)
//! ```
//!
//! Any other service that answers requests, such as a server in the same process, needs no
//! transport: `kube_client::Client::new` takes it as it is.

use std::{
    error::Error as StdError,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube_client::{
    Config,
    client::{Body, ConfigExt, RustlsTlsError},
};
use rustls_pki_types::ServerName;
use tower_service::Service;

/// Whatever went wrong below HTTP.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Some room is left for short requests, below the 100 streams that servers allow.
const STREAMS_PER_CONNECTION: usize = 90;
/// How long a server may take until it begins to answer; kube-apiserver gives up after a minute.
const PATIENCE: Duration = Duration::from_secs(75);
/// A connection on which nothing comes for so long is asked whether it is still there.
const PING_AFTER: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(15);

/// See the [module documentation](self). Clones share the connections.
#[derive(Clone)]
pub struct Transport(Arc<Shared>);

struct Shared {
    connector: HttpsConnector<HttpConnector>,
    lines: Mutex<Vec<Line>>,
}

/// A connection, and how many requests use it: one for each clone of `seat` beside this one.
struct Line {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    seat: Arc<()>,
}

/// The server did not begin to answer in time: try again.
#[derive(Debug, thiserror::Error)]
#[error("the server did not begin to answer within {} s", PATIENCE.as_secs())]
pub struct NoAnswer;

impl Transport {
    /// Connections to the server of `config`, with its certificates.
    pub fn new(config: &Config) -> Result<Self, kube_client::Error> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(config.connect_timeout);
        let mut builder = HttpsConnectorBuilder::new()
            .with_tls_config(config.rustls_client_config()?)
            .https_or_http();
        if let Some(name) = &config.tls_server_name {
            let name = ServerName::try_from(name.clone()).map_err(|error| {
                kube_client::Error::RustlsTls(RustlsTlsError::InvalidServerName(error))
            })?;
            builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let connector = builder.enable_all_versions().wrap_connector(http);
        Ok(Self(Arc::new(Shared { connector, lines: Mutex::default() })))
    }

    /// The first line with a free place, and that place.
    fn take_seat(&self) -> (Client<HttpsConnector<HttpConnector>, Body>, Arc<()>) {
        let mut lines = self.0.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let has_place = |line: &&Line| Arc::strong_count(&line.seat) <= STREAMS_PER_CONNECTION;
        if let Some(line) = lines.iter().find(has_place) {
            return (line.client.clone(), Arc::clone(&line.seat));
        }
        let line = Line { client: self.0.connect(), seat: Arc::new(()) };
        let taken = (line.client.clone(), Arc::clone(&line.seat));
        lines.push(line);
        taken
    }
}

impl Shared {
    fn connect(&self) -> Client<HttpsConnector<HttpConnector>, Body> {
        Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(PING_AFTER)
            .http2_keep_alive_timeout(PONG_WITHIN)
            .http2_adaptive_window(true)
            .build(self.connector.clone())
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<Streamed>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, seat) = self.take_seat();
        Box::pin(async move {
            let answered = tokio::time::timeout(PATIENCE, client.request(request));
            let response = answered.await.map_err(|_| NoAnswer)??;
            Ok(response.map(|body| Streamed { body, _seat: seat }))
        })
    }
}

/// The body of an answer, which has its place on the connection until it is dropped.
pub struct Streamed {
    body: Incoming,
    _seat: Arc<()>,
}

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
