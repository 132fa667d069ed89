//! [`HttpClient`]: HTTP requests with limits of time and size, and the errors that responses mean.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::options::{NeutronOptions, OptionsError};
use crate::backend::BackendError;

/// The longest time for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time for a request with its response.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// The largest response.
const MAX_BODY: usize = 4 << 20;

/// The longest text of an error.
const MAX_ERROR: usize = 300;

/// Sends requests with limits of time and size.
pub(super) struct HttpClient(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

impl HttpClient {
    pub(super) fn new(options: &NeutronOptions) -> Result<Self, OptionsError> {
        let invalid = |error: Box<dyn std::error::Error + Send + Sync>| {
            OptionsError::Authorities(options.os_cacert.clone(), error)
        };
        let certificates = match &options.os_cacert {
            Some(file) => CertificateDer::pem_file_iter(file)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| invalid(error.into()))?,
            // Some of them may not be readable; those that are may suffice.
            None => rustls_native_certs::load_native_certs().certs,
        };
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(certificates);
        let provider = rustls::crypto::ring::default_provider();
        let config = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(error.into()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.enforce_http(false);
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        Ok(Self(Client::builder(TokioExecutor::new()).build(connector)))
    }

    /// Sends a request, and receives its response.
    pub(super) async fn send(
        &self,
        service: Service,
        method: Method,
        url: &str,
        headers: &[(&'static str, String)],
        body: Option<&Value>,
    ) -> Result<Response, BackendError> {
        // Without the query: errors that differ only in it are one Event.
        let request_line = format!("{method} {}", url.split('?').next().unwrap_or(url));
        let unavailable = |why: String| BackendError::Unavailable(format!("{request_line}: {why}"));
        let mut request = http::Request::builder().method(method.clone()).uri(url);
        for (name, value) in headers {
            let mut value =
                HeaderValue::try_from(value).map_err(|error| unavailable(error.to_string()))?;
            value.set_sensitive(true);
            request = request.header(*name, value);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .map_err(|error| unavailable(error.to_string()))?;
        let exchange = async {
            let response = self.0.request(request).await;
            let (parts, body) = response.map_err(|error| unavailable(causes(&error)))?.into_parts();
            let body = Limited::new(body, MAX_BODY).collect().await;
            let body = body.map_err(|error| unavailable(causes(&*error)))?.to_bytes();
            Ok::<_, BackendError>(http::Response::from_parts(parts, body))
        };
        let timed_out = |_| unavailable(format!("no response in {} s", REQUEST_TIMEOUT.as_secs()));
        let received = timeout(REQUEST_TIMEOUT, exchange).await.map_err(timed_out)??;
        Ok(Response { service, method, request_line, received })
    }
}

/// The service that a request is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Neutron,
    Keystone,
}

/// A response, with the request for the text of an error.
#[derive(Debug)]
pub(super) struct Response {
    service: Service,
    method: Method,
    /// The method and the URL.
    request_line: String,
    received: http::Response<Bytes>,
}

impl Response {
    pub(super) fn status(&self) -> StatusCode {
        self.received.status()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.received.headers().get(name)?.to_str().ok()
    }

    /// The length of the body.
    pub(super) fn size(&self) -> usize {
        self.received.body().len()
    }

    /// An error, unless the response is a success.
    pub(super) fn check(self) -> Result<Self, BackendError> {
        if self.status().is_success() { Ok(self) } else { Err(self.error()) }
    }

    /// The object in the body of a success.
    pub(super) fn decode<T: DeserializeOwned>(self) -> Result<T, BackendError> {
        let response = self.check()?;
        serde_json::from_slice(response.received.body()).map_err(|error| {
            let request = &response.request_line;
            BackendError::Unavailable(format!("the response to {request} is not valid: {error}"))
        })
    }

    fn error(&self) -> BackendError {
        let Self { service, request_line, .. } = self;
        let status = self.status();
        let mut why = format!("{service:?} responded to {request_line} with {status}");
        let message = message(self.received.body());
        if !message.is_empty() {
            why += &format!(": {message}");
        }
        let is_from_keystone = *service == Service::Keystone;
        match status {
            // A list and a login exist at every right URL.
            StatusCode::NOT_FOUND if is_from_keystone || self.method == Method::GET => {
                BackendError::Refused(why)
            }
            StatusCode::PRECONDITION_FAILED | StatusCode::NOT_FOUND => BackendError::Conflict(why),
            // A token that was valid a moment ago; wrong credentials are refused by Keystone.
            StatusCode::UNAUTHORIZED if !is_from_keystone => BackendError::Unavailable(why),
            // Of a port, for example. A stale revision is a failed precondition.
            StatusCode::CONFLICT if matches!(self.method, Method::DELETE | Method::PUT) => {
                BackendError::InUse(why)
            }
            // Over quota, which may end.
            StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS => BackendError::Unavailable(why),
            _ if status.is_client_error() => BackendError::Refused(why),
            _ => BackendError::Unavailable(why),
        }
    }
}

/// An absolute URL without its last slash.
pub(super) fn base_of(url: &Uri) -> Result<String, OptionsError> {
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    if !is_http || url.authority().is_none() || url.query().is_some() {
        return Err(OptionsError::Url(url.clone()));
    }
    Ok(url.to_string().trim_end_matches('/').to_owned())
}

/// The message in the body of an error, without control characters and not longer than
/// [`MAX_ERROR`].
fn message(body: &[u8]) -> String {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = ["/NeutronError/message", "/error/message"];
    let message = message.iter().find_map(|path| json.pointer(path)?.as_str());
    let text = String::from_utf8_lossy(body);
    let text = message.unwrap_or(&text).chars().filter(|character| !character.is_control());
    text.take(MAX_ERROR).collect()
}

fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_error_is_cut_and_has_no_control_characters() {
        assert_eq!(message(br#"{"NeutronError": {"message": "in use"}}"#), "in use");
        assert_eq!(message(b"<h1>\x1b[31mbad\n</h1>"), "<h1>[31mbad</h1>");
        assert_eq!(message(&[b'a'; 9999]).len(), MAX_ERROR);
    }
}
