//! [`Pool`]: a few HTTP/2 connections to one server, used in turn; bytes in, bytes out.
//!
//! The bench shares the machine with the server that it measures, so a request costs as little
//! here as it can: no parsing of what nobody reads, no copy of a body that only its length is
//! wanted of.

use super::endpoint::Endpoint;
use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::{Executor, Read, Write};
use hyper_util::rt::TokioIo;
use keel::Tasks;
use machinery::Value;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long an answer may take. Far more than any server needs: it bounds a bench that hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Requests that one connection carries at once; what kube-apiserver allows.
const STREAMS: usize = 100;

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

/// See the [module documentation](self).
pub(crate) struct Pool {
    endpoint: Endpoint,
    connections: Vec<SendRequest<Full<Bytes>>>,
    /// Counts requests; each goes to the connection after the last one's.
    turn: AtomicUsize,
}

impl Pool {
    /// Connects at least `connections` times, and often enough for so many requests at once.
    pub(crate) async fn connect(
        endpoint: &Endpoint,
        connections: usize,
        at_once: usize,
        tasks: &Tasks,
    ) -> Result<Self> {
        let count = connections.max(at_once.div_ceil(STREAMS)).max(1);
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            let connected = timeout(PATIENCE, connect(endpoint, tasks)).await;
            let connected = connected.unwrap_or_else(|_| Err(anyhow!("no answer in time")));
            all.push(connected.map_err(|error| explain(&endpoint.url, error))?);
        }
        Ok(Self { endpoint: endpoint.clone(), connections: all, turn: AtomicUsize::new(0) })
    }

    /// The server's URL.
    pub(crate) fn url(&self) -> &str {
        &self.endpoint.url
    }

    /// Sends a request and returns once the head of a successful answer is in.
    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: String,
    ) -> Result<Response<Incoming>> {
        let answer = self.answer(&method, path, content_type, body).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let body = timeout(PATIENCE, answer.into_body().collect()).await??.to_bytes();
        Err(Refused { status, message: format!("{method} {path}: {}", reason(status, &body)) }
            .into())
    }

    /// Sends a request and returns the body of its answer.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: String,
    ) -> Result<Bytes> {
        let answer = self.open(method, path, content_type, body).await?;
        Ok(timeout(PATIENCE, answer.into_body().collect()).await??.to_bytes())
    }

    /// Creates an object.
    pub(crate) async fn post(&self, path: &str, body: String) -> Result<Bytes> {
        self.call(Method::POST, path, JSON, body).await
    }

    /// Reads an object, or a list.
    pub(crate) async fn get(&self, path: &str) -> Result<Bytes> {
        self.call(Method::GET, path, JSON, String::new()).await
    }

    /// Deletes an object, or a whole collection.
    pub(crate) async fn delete(&self, path: &str) -> Result<Bytes> {
        self.call(Method::DELETE, path, JSON, String::new()).await
    }

    /// Reads an answer to its end and keeps only its length.
    pub(crate) async fn drain(&self, path: &str) -> Result<u64> {
        let answer = self.open(Method::GET, path, JSON, String::new()).await?;
        timeout(PATIENCE, length(answer.into_body())).await?
    }

    async fn answer(
        &self,
        method: &Method,
        path: &str,
        content_type: &'static str,
        body: String,
    ) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.endpoint.url))
            .header(header::ACCEPT, JSON)
            .header(header::USER_AGENT, "sampan-bench");
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        if let Some(value) = &self.endpoint.authorization {
            request = request.header(header::AUTHORIZATION, value.clone());
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut connection = self.connections[turn % self.connections.len()].clone();
        let request = request.body(Full::new(Bytes::from(body)))?;
        let sent = async {
            connection.ready().await?;
            connection.send_request(request).await
        };
        let answer = timeout(PATIENCE, sent).await;
        answer
            .with_context(|| format!("{method} {path}: no answer within {PATIENCE:?}"))?
            .with_context(|| format!("{method} {path}"))
    }
}

/// Adds to a failure to connect what can be done about it.
fn explain(url: &str, error: anyhow::Error) -> anyhow::Error {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let tls = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let tls = tls.and_then(|it| it.downcast_ref::<rustls::Error>());
    if kind == Some(io::ErrorKind::ConnectionRefused) {
        return error.context(format!(
            "no server listens at {url}: start one with `sampan up`, or choose another one with \
             --context or --kubeconfig"
        ));
    }
    if matches!(tls, Some(rustls::Error::InvalidCertificate(_))) {
        return error.context(format!(
            "the server at {url} is not the one that the kubeconfig describes: `sampan up` writes \
             its own description there when it starts"
        ));
    }
    error.context(format!("cannot connect to {url}"))
}

/// An answer that is not a success.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refused {
    /// What the server said.
    pub status: StatusCode,
    message: String,
}

/// Whether the server said that there is no such thing.
pub(crate) fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|it| it.status == StatusCode::NOT_FOUND)
}

/// The message of a Status, or the beginning of whatever came in its place.
fn reason(status: StatusCode, body: &[u8]) -> String {
    let parsed = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let message = parsed["message"].as_str().map_or_else(
        || String::from_utf8_lossy(body).trim().chars().take(200).collect(),
        str::to_owned,
    );
    format!("{status}: {message}")
}

async fn length(mut body: Incoming) -> Result<u64> {
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            length += data.len() as u64;
        }
    }
    Ok(length)
}

async fn connect(endpoint: &Endpoint, tasks: &Tasks) -> Result<SendRequest<Full<Bytes>>> {
    let tcp = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
    tcp.set_nodelay(true)?;
    let Some((config, name)) = &endpoint.tls else {
        return handshake(TokioIo::new(tcp), tasks).await;
    };
    let stream = TlsConnector::from(Arc::clone(config)).connect(name.clone(), tcp).await?;
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        bail!("the server does not speak HTTP/2");
    }
    handshake(TokioIo::new(stream), tasks).await
}

async fn handshake<T>(io: T, tasks: &Tasks) -> Result<SendRequest<Full<Bytes>>>
where
    T: Read + Write + Unpin + Send + 'static,
{
    // Windows as large as those of Go's client, so that a list does not wait for permission.
    let (sender, connection) = Builder::new(Spawner(tasks.clone()))
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(1 << 30)
        .handshake(io)
        .await?;
    tasks.spawn("connection", async move {
        // Whoever has a request under way is told as well.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended");
        }
    });
    Ok(sender)
}

/// Starts hyper's tasks among ours.
#[derive(Clone)]
struct Spawner(Tasks);

impl<F> Executor<F> for Spawner
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn("stream", future);
    }
}
