//! [`Transport`]: HTTP/2 over TLS, so that many watches share a few connections.
//!
//! A server limits the number of streams of a connection (kube-apiserver: 100), and a watch keeps
//! its stream for minutes. Therefore streams are counted, and a request opens another connection if
//! all have reached the limit, instead of waiting for a watch to end.
//!
//! ```text
//! request ─▶ line 0: 90 of 90 streams ┐
//!         └▶ line 1: 17 of 90 streams ┴─▶ one connection each (HTTP/1.1 if that is all there is: many)
//! ```
//!
//! Large answers are compressed with gzip, unless the configuration disables it
//! (`disable-compression` of a kubeconfig) or the server is on this machine, where compression
//! costs more time than it saves.
//!
//! [`connect`](crate::connect) adds the authentication of a configuration. The transport itself is
//! a service:
//!
//! ```no_run
//! use client::{Transport, config::Config, transport::{BoxError, NoAnswer, Streamed}};
//! use http::{Request, Response};
//! use tower_service::Service;
//!
//! async fn get(config: &Config, url: &str) -> Result<Option<Response<Streamed>>, BoxError> {
//!     let request = Request::get(url).body(Vec::new().into())?;
//!     match Transport::new(config)?.call(request).await {
//!         Err(error) if error.is::<NoAnswer>() => Ok(None),
//!         answered => answered.map(Some),
//!     }
//! }
//! ```
//!
//! Another service that answers requests, such as a server in the same process, needs no transport:
//! it is passed to `kube_client::Client::new`.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use http::uri::Authority;
use http::{HeaderValue, Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube_client::Config;
use kube_client::client::{Body, RustlsTlsError};
use rustls_pki_types::ServerName;
use tower_service::Service;

use crate::connector::Connector;
use crate::dialer::{Dialer, is_on_this_machine};
use crate::gzip::Unpacker;
use crate::tls_config::tls_config;

/// An error below HTTP.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The largest number of streams of a connection, below the 100 that servers allow.
const STREAMS_PER_CONNECTION: usize = 90;
/// The time until the first byte of an answer; kube-apiserver has a timeout of a minute.
const PATIENCE: Duration = Duration::from_secs(75);
/// The idle time after which a connection is checked with a ping.
const PING_AFTER: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(15);
/// The flow-control window of a stream: enough for a list over a long distance, and for a watch
/// without frequent window updates. Go's client has the same.
const STREAM_WINDOW: u32 = 4 << 20;
/// The flow-control window of a connection.
const CONNECTION_WINDOW: u32 = 64 << 20;

/// See the [module documentation](self). Clones share the connections.
#[derive(Clone)]
pub struct Transport(Arc<Shared>);

struct Shared {
    connector: Connector,
    reads_gzip: bool,
    lines: Mutex<Vec<Line>>,
}

/// A connection. The number of its requests is the number of clones of `seat` beside this one.
struct Line {
    client: Client<Connector, Body>,
    seat: Arc<()>,
}

/// The host that answered, as in the configuration: an extension of each answer, for metrics.
///
/// ```
/// use client::transport::Host;
///
/// fn host<B>(response: &http::Response<B>) -> Option<String> {
///     response.extensions().get().map(|Host(authority)| authority.to_string())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host(pub Authority);

/// The server did not begin to answer in time: try again.
#[derive(Debug, thiserror::Error)]
#[error("the server did not begin to answer within {} s", PATIENCE.as_secs())]
pub struct NoAnswer;

impl Transport {
    /// A transport to the server of `config`, with its certificates and its proxy.
    pub fn new(config: &Config) -> Result<Self, kube_client::Error> {
        let mut builder =
            HttpsConnectorBuilder::new().with_tls_config(tls_config(config)?).https_or_http();
        if let Some(name) = &config.tls_server_name {
            let name = ServerName::try_from(name.clone()).map_err(|error| {
                kube_client::Error::RustlsTls(RustlsTlsError::InvalidServerName(error))
            })?;
            builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let connector = builder.enable_all_versions().wrap_connector(Dialer::new(config)?);
        let connector = Connector::new(connector, config.connect_timeout);
        let reads_gzip = !config.disable_compression && !is_on_this_machine(&config.cluster_url);
        Ok(Self(Arc::new(Shared { connector, reads_gzip, lines: Mutex::default() })))
    }

    /// The first connection with a free stream, and a permit for the stream.
    fn take_seat(&self) -> (Client<Connector, Body>, Arc<()>) {
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
    fn connect(&self) -> Client<Connector, Body> {
        Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(PING_AFTER)
            .http2_keep_alive_timeout(PONG_WITHIN)
            .http2_keep_alive_while_idle(true)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
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

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (client, seat) = self.take_seat();
        if self.0.reads_gzip {
            // A request with its own `accept-encoding` gets the body as it is.
            let asked = request.headers_mut().entry(ACCEPT_ENCODING);
            asked.or_insert(HeaderValue::from_static("gzip"));
        }
        let unpacks = request.headers().get(ACCEPT_ENCODING).is_some_and(|it| it == "gzip");
        let host = request.uri().authority().cloned().map(Host);
        Box::pin(async move {
            let answered = tokio::time::timeout(PATIENCE, client.request(request));
            let mut response = answered.await.map_err(|_| NoAnswer)??;
            if let Some(host) = host {
                response.extensions_mut().insert(host);
            }
            let headers = response.headers_mut();
            let is_packed = headers.get(CONTENT_ENCODING).is_some_and(|it| it == "gzip");
            let unpacker = (unpacks && is_packed).then(Unpacker::default);
            if unpacker.is_some() {
                headers.remove(CONTENT_ENCODING);
                headers.remove(CONTENT_LENGTH);
            }
            Ok(response.map(|body| Streamed { body, unpacker, _seat: seat }))
        })
    }
}

/// The decompressed body of an answer, which occupies a stream until it is dropped.
pub struct Streamed {
    body: Incoming,
    /// `None` after the last byte was decompressed.
    unpacker: Option<Unpacker>,
    _seat: Arc<()>,
}

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context)).transpose()?;
            let Some(unpacker) = &mut self.unpacker else { return Poll::Ready(frame.map(Ok)) };
            let unpacked = match frame.map(Frame::into_data) {
                Some(Ok(packed)) => unpacker.feed(&packed)?,
                Some(Err(trailers)) => return Poll::Ready(Some(Ok(trailers))),
                None => {
                    let last = unpacker.finish()?;
                    self.unpacker = None;
                    last
                }
            };
            if !unpacked.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(unpacked))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.unpacker.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.unpacker {
            Some(_) => SizeHint::default(),
            None => self.body.size_hint(),
        }
    }
}
