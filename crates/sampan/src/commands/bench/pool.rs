//! [`Pool`]: several HTTP/2 connections to one server, used in rotation.
//!
//! The bench shares the machine with the measured server, so a request costs as little as possible:
//! unused responses are not parsed, and bodies are not copied if only their length is needed.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::Executor;
use tokio::time::timeout;

use super::endpoint::Endpoint;
use keel::Tasks;
use machinery::Value;
use tls::Stream;

/// The limit of waiting for a response, far above the usual latency: it ends a bench that hangs.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of concurrent requests on a connection, which is kube-apiserver's limit.
const STREAMS_PER_CONNECTION: usize = 100;

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

/// See the [module documentation](self).
pub(crate) struct Pool {
    endpoint: Endpoint,
    connections: Vec<SendRequest<Full<Bytes>>>,
    /// The number of requests, which selects the connection of the next one.
    requests: AtomicUsize,
}

impl Pool {
    /// Opens at least `connections` connections, and enough for `concurrency` concurrent requests.
    pub(crate) async fn connect(
        endpoint: &Endpoint,
        connections: usize,
        concurrency: usize,
        tasks: &Tasks,
    ) -> Result<Self> {
        let count = connections.max(concurrency.div_ceil(STREAMS_PER_CONNECTION)).max(1);
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            let connected = timeout(RESPONSE_TIMEOUT, connect(endpoint, tasks)).await;
            let connected = connected.unwrap_or_else(|_| Err(anyhow!("no response in time")));
            all.push(connected.map_err(|error| explain(&endpoint.url, error))?);
        }
        Ok(Self { endpoint: endpoint.clone(), connections: all, requests: AtomicUsize::new(0) })
    }

    /// The server's URL.
    pub(crate) fn url(&self) -> &str {
        &self.endpoint.url
    }

    /// Sends a request and returns when the head of a successful response has arrived.
    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: String,
    ) -> Result<Response<Incoming>> {
        let response = self.send(&method, path, content_type, body).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = timeout(RESPONSE_TIMEOUT, response.into_body().collect()).await??.to_bytes();
        Err(ErrorResponse {
            status,
            message: format!("{method} {path}: {}", reason(status, &body)),
        }
        .into())
    }

    /// Sends a request and returns the body of the response.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: String,
    ) -> Result<Bytes> {
        let response = self.open(method, path, content_type, body).await?;
        Ok(timeout(RESPONSE_TIMEOUT, response.into_body().collect()).await??.to_bytes())
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

    /// Reads a response to its end and returns its length.
    pub(crate) async fn drain(&self, path: &str) -> Result<u64> {
        let response = self.open(Method::GET, path, JSON, String::new()).await?;
        timeout(RESPONSE_TIMEOUT, length(response.into_body())).await?
    }

    async fn send(
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
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let mut connection = self.connections[number % self.connections.len()].clone();
        let request = request.body(Full::new(Bytes::from(body)))?;
        let sent = async {
            connection.ready().await?;
            connection.send_request(request).await
        };
        let response = timeout(RESPONSE_TIMEOUT, sent).await;
        response
            .with_context(|| format!("{method} {path}: no response within {RESPONSE_TIMEOUT:?}"))?
            .with_context(|| format!("{method} {path}"))
    }
}

/// Adds a remedy to the error of a connection attempt.
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
            "the server at {url} is not the one that the kubeconfig describes: `sampan up` updates \
             the kubeconfig when it starts"
        ));
    }
    error.context(format!("cannot connect to {url}"))
}

/// A response with an error status.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ErrorResponse {
    /// The status code of the response.
    pub status: StatusCode,
    message: String,
}

/// Returns whether the error is a response with code 404.
pub(crate) fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ErrorResponse>().is_some_and(|it| it.status == StatusCode::NOT_FOUND)
}

/// The message of a Status, or the beginning of any other body.
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
    let tcp = tls::dial((endpoint.host.as_str(), endpoint.port)).await?;
    let stream = match &endpoint.tls {
        Some((config, name)) => tls::handshake(config, name.clone(), tcp).await?,
        None => Stream::plain(tcp),
    };
    if endpoint.tls.is_some() && !stream.is_http2() {
        bail!("the server does not speak HTTP/2");
    }
    // Windows of the size that Go's client has, so that a list does not wait for flow control.
    let (sender, connection) = Builder::new(Spawner(tasks.clone()))
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(1 << 30)
        .handshake(stream)
        .await?;
    tasks.spawn("connection", async move {
        // Requests in progress fail with the same error.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended");
        }
    });
    Ok(sender)
}

/// Starts hyper's tasks as children of [`Tasks`].
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
