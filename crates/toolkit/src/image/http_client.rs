//! [`HttpClient`]: requests to registries and to the servers that issue their tokens.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_LENGTH, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::Frame;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;

use keel::{Clock, message_with_causes};
use tls::{HttpsConnector, Trust, pool_builder};

/// The maximum length of a response: tokens, errors, and small documents.
const RESPONSE_LIMIT: usize = 1 << 20;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The longest time of a request, without that of its body.
const LIMIT: Duration = Duration::from_mins(1);
/// The lowest speed, in bytes a second, at which a body is sent before the request fails.
const LOWEST_SPEED: u64 = 32 << 10;
/// The length of the pieces of a body, which are counted for the progress.
const PIECE: usize = 64 << 10;

type Body = BoxBody<Bytes, std::convert::Infallible>;

/// Called with the length of each piece of a body that is sent.
pub(super) type OnProgress = std::sync::Arc<dyn Fn(u64) + Send + Sync>;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// The registry is not there, or is another one: trying again is useless.
    #[error("cannot connect to {host}: {reason}")]
    Connect { host: String, reason: String },
    /// The connection ended during a request: try again.
    #[error("the connection to {host} was interrupted: {reason}")]
    Interrupted { host: String, reason: String },
    /// Try again.
    #[error("{host} did not answer within {} s", limit.as_secs())]
    Timeout { host: String, limit: Duration },
    /// The address is not one of HTTP.
    #[error("{0:?} is not the URL of a server")]
    Url(String),
    /// The TLS settings of this machine cannot be used.
    #[error("cannot use TLS")]
    Tls(#[source] tls::ConfigError),
}

/// A request.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) on_progress: Option<OnProgress>,
}

impl Call {
    pub(super) fn new(method: Method, url: String) -> Self {
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Self { method, url, headers, body, on_progress: None }
    }

    pub(super) fn header(mut self, name: http::HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub(super) fn body(self, body: Bytes) -> Self {
        Self { body, ..self }
    }

    /// The body in pieces, which are not copied.
    fn pieces(&self) -> Body {
        let (body, on_progress) = (self.body.clone(), self.on_progress.clone());
        let starts = (0..body.len()).step_by(PIECE);
        let frames = starts.map(move |start| {
            let piece = body.slice(start..body.len().min(start + PIECE));
            if let Some(on_progress) = &on_progress {
                on_progress(piece.len() as u64);
            }
            Ok(Frame::data(piece))
        });
        BodyExt::boxed(StreamBody::new(stream::iter(frames)))
    }
}

/// A response with its whole body.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// See the [module documentation](self).
pub(super) struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Body>,
}

impl HttpClient {
    /// A client that verifies certificates by `trust`.
    pub(super) fn new(trust: &Trust) -> Result<Self, HttpError> {
        let settings = tls::client_config(trust, None).map_err(HttpError::Tls)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_LIMIT));
        let connector = HttpsConnector::new(tcp, settings);
        Ok(Self { client: pool_builder(LIMIT, LIMIT).build(connector) })
    }

    /// Sends a request and reads the response.
    pub(super) async fn send(&self, call: &Call) -> Result<Answer, HttpError> {
        let invalid = || HttpError::Url(call.url.clone());
        let url: Uri = call.url.parse().map_err(|_| invalid())?;
        let host = url.authority().ok_or_else(invalid)?.to_string();
        let mut request = Request::builder()
            .method(&call.method)
            .uri(url)
            .body(call.pieces())
            .map_err(|_| invalid())?;
        *request.headers_mut() = call.headers.clone();
        let agent = concat!("sampan/", env!("CARGO_PKG_VERSION"));
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(agent));
        if !matches!(call.method, Method::GET | Method::HEAD) {
            request.headers_mut().insert(CONTENT_LENGTH, call.body.len().into());
        }
        let limit = LIMIT + Duration::from_secs(call.body.len() as u64 / LOWEST_SPEED);
        let response = async {
            let response = self.client.request(request).await.map_err(|error| {
                let reason = reason(&error);
                let host = host.clone();
                if error.is_connect() {
                    HttpError::Connect { host, reason }
                } else {
                    HttpError::Interrupted { host, reason }
                }
            })?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, RESPONSE_LIMIT).collect().await.map_err(|error| {
                HttpError::Interrupted { host: host.clone(), reason: reason(&*error) }
            })?;
            Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
        };
        tokio::select! {
            answer = response => answer,
            () = Clock::system().sleep(limit) => Err(HttpError::Timeout { host: host.clone(), limit }),
        }
    }
}

/// The last cause, which is that of the operating system or of TLS.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    message_with_causes(last)
}
