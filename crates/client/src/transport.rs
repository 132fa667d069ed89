//! [`Transport`]: HTTP/2 over TLS, so that many watches share a few connections.
//!
//! A server limits the number of streams of a connection (kube-apiserver: 100), and a watch keeps
//! its stream for minutes. Therefore streams are counted, and a request opens another connection if
//! all have reached the limit, instead of waiting for a watch to end.
//!
//! ```text
//! request ─▶ connection 0: 90 of 90 streams
//!         └▶ connection 1: 17 of 90 streams     (a pool of connections, if the server has HTTP/1.1 only)
//! ```
//!
//! Large responses are compressed with gzip, unless the configuration disables it
//! (`disable-compression` of a kubeconfig) or the server is on this machine, where compression
//! costs more time than it saves.
//!
//! [`connect`](crate::connect) adds the authentication of a configuration. The transport itself is
//! a service:
//!
//! ```no_run
//! use client::{Transport, config::Config, transport::{BoxError, ResponseTimeout, ResponseBody}};
//! use http::{Request, Response};
//! use tower_service::Service;
//!
//! async fn get(config: &Config, url: &str) -> Result<Option<Response<ResponseBody>>, BoxError> {
//!     let request = Request::get(url).body(Vec::new().into())?;
//!     match Transport::new(config)?.call(request).await {
//!         Err(error) if error.is::<ResponseTimeout>() => Ok(None),
//!         result => result.map(Some),
//!     }
//! }
//! ```
//!
//! Another service that serves requests, such as a server in the same process, needs no transport:
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
use hyper_util::client::legacy::Client;
use kube_client::Config;
use kube_client::client::{Body, RustlsTlsError};
use rustls_pki_types::ServerName;
use tower_service::Service;

use crate::connector::Connector;
use crate::dialer::{Dialer, is_on_this_machine};
use crate::gzip::GzipDecoder;
use crate::tls_config::tls_config;
use tls::{HttpsConnector, pool_builder};

/// An error below HTTP.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The maximum number of streams of a connection, below the 100 that servers allow.
const STREAMS_PER_CONNECTION: usize = 90;
/// The time until the first byte of a response; kube-apiserver has a timeout of a minute.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(75);
/// The idle time after which a connection is checked with a ping.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// The time within which the response to a ping must arrive.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// The flow-control window of a stream: enough for a list over a long distance, and for a watch
/// without frequent window updates. Go's client has the same.
const STREAM_WINDOW: u32 = 4 << 20;
/// The flow-control window of a connection.
const CONNECTION_WINDOW: u32 = 64 << 20;

/// See the [module documentation](self). Clones share the connections.
#[derive(Clone)]
pub struct Transport(Arc<ConnectionPool>);

struct ConnectionPool {
    connector: Connector,
    accepts_gzip: bool,
    connections: Mutex<Vec<PooledConnection>>,
}

/// A connection. The number of its requests is the number of clones of `permit` beside this one.
struct PooledConnection {
    client: Client<Connector, Body>,
    permit: Arc<()>,
}

/// The host that responded, as in the configuration: an extension of each response, for metrics.
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

/// The server did not send the head of a response in time: try again.
#[derive(Debug, thiserror::Error)]
#[error("the server did not begin to respond within {} s", RESPONSE_TIMEOUT.as_secs())]
pub struct ResponseTimeout;

impl Transport {
    /// A transport to the server of `config`, with its certificates and its proxy.
    pub fn new(config: &Config) -> Result<Self, kube_client::Error> {
        let mut settings = tls_config(config)?;
        settings.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut connector = HttpsConnector::new(Dialer::new(config)?, settings);
        if let Some(name) = &config.tls_server_name {
            let name = ServerName::try_from(name.clone()).map_err(|error| {
                kube_client::Error::RustlsTls(RustlsTlsError::InvalidServerName(error))
            })?;
            connector = connector.with_server_name(name);
        }
        let connector = Connector::new(connector, config.connect_timeout);
        let accepts_gzip = !config.disable_compression && !is_on_this_machine(&config.cluster_url);
        Ok(Self(Arc::new(ConnectionPool {
            connector,
            accepts_gzip,
            connections: Mutex::default(),
        })))
    }

    /// The first connection with a free stream, and a permit for the stream.
    fn take_stream(&self) -> (Client<Connector, Body>, Arc<()>) {
        let mut connections = self.0.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let has_free_stream =
            |it: &&PooledConnection| Arc::strong_count(&it.permit) <= STREAMS_PER_CONNECTION;
        if let Some(connection) = connections.iter().find(has_free_stream) {
            return (connection.client.clone(), Arc::clone(&connection.permit));
        }
        let connection = PooledConnection { client: self.0.connect(), permit: Arc::new(()) };
        let taken = (connection.client.clone(), Arc::clone(&connection.permit));
        connections.push(connection);
        taken
    }
}

impl ConnectionPool {
    fn connect(&self) -> Client<Connector, Body> {
        pool_builder(PING_INTERVAL, PING_TIMEOUT)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .build(self.connector.clone())
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (client, permit) = self.take_stream();
        if self.0.accepts_gzip {
            // A request with its own `accept-encoding` gets the body as it is.
            let accept_encoding = request.headers_mut().entry(ACCEPT_ENCODING);
            accept_encoding.or_insert(HeaderValue::from_static("gzip"));
        }
        let decompresses = request.headers().get(ACCEPT_ENCODING).is_some_and(|it| it == "gzip");
        let host = request.uri().authority().cloned().map(Host);
        Box::pin(async move {
            let response = tokio::time::timeout(RESPONSE_TIMEOUT, client.request(request));
            let mut response = response.await.map_err(|_| ResponseTimeout)??;
            if let Some(host) = host {
                response.extensions_mut().insert(host);
            }
            let headers = response.headers_mut();
            let is_compressed = headers.get(CONTENT_ENCODING).is_some_and(|it| it == "gzip");
            let decoder = (decompresses && is_compressed).then(GzipDecoder::default);
            if decoder.is_some() {
                headers.remove(CONTENT_ENCODING);
                headers.remove(CONTENT_LENGTH);
            }
            Ok(response.map(|body| ResponseBody { body, decoder, _permit: permit }))
        })
    }
}

/// The decompressed body of a response, which occupies a stream until it is dropped.
pub struct ResponseBody {
    body: Incoming,
    /// `None` if the body is not compressed, and after its last byte.
    decoder: Option<GzipDecoder>,
    _permit: Arc<()>,
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context)).transpose()?;
            let Some(decoder) = &mut self.decoder else { return Poll::Ready(frame.map(Ok)) };
            let decompressed = match frame.map(Frame::into_data) {
                Some(Ok(compressed)) => decoder.decode(&compressed)?,
                Some(Err(trailers)) => return Poll::Ready(Some(Ok(trailers))),
                None => {
                    let last = decoder.finish()?;
                    self.decoder = None;
                    last
                }
            };
            if !decompressed.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(decompressed))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.decoder.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.decoder {
            Some(_) => SizeHint::default(),
            None => self.body.size_hint(),
        }
    }
}
