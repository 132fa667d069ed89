//! [`NeutronClient`]: the calls of Neutron's API, and [`HttpClient`], which limits each of them.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, IF_MATCH};
use http::{HeaderValue, Method, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::model::{Id, Network, Subnet};
use super::options::{NeutronOptions, OptionsError};
use super::session::{Authentication, Session};
use crate::backend::BackendError;

/// The longest time for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time for a request with its response.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// The largest response.
const MAX_BODY: usize = 4 << 20;

/// The number of objects in a page of a list. A page is far smaller than [`MAX_BODY`].
const PAGE: usize = 500;

/// The largest number of pages of a list.
const MAX_PAGES: usize = 1_000;

/// The longest text of an error.
const MAX_ERROR: usize = 300;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct NeutronClient {
    http: HttpClient,
    authentication: Authentication,
    /// Held while a session begins, so that there is one at a time.
    session: Mutex<Option<Session>>,
}

impl NeutronClient {
    pub(super) fn new(options: &NeutronOptions) -> Result<Self, OptionsError> {
        let authentication = Authentication::new(options)?;
        Ok(Self { http: HttpClient::new(options)?, authentication, session: Mutex::default() })
    }

    /// All networks that match the filters, page by page.
    pub(super) async fn networks(
        &self,
        filters: &[(&str, &str)],
    ) -> Result<Vec<Network>, BackendError> {
        #[derive(Deserialize)]
        struct Page {
            networks: Vec<Network>,
        }
        let mut found = Vec::<Network>::new();
        for _ in 0..MAX_PAGES {
            let query = network_query(filters, found.last().map(|last| &last.id));
            let page: Page = self.get(&format!("/v2.0/networks?{query}")).await?;
            let (last, is_last) =
                (found.last().map(|it| it.id.clone()), page.networks.len() < PAGE);
            // A server that repeats a page would never end.
            let is_progress = page.networks.first().is_some_and(|it| Some(&it.id) > last.as_ref());
            found.extend(page.networks);
            if is_last || !is_progress {
                return Ok(found);
            }
        }
        Err(BackendError::Unavailable(format!("Neutron lists more than {} networks", found.len())))
    }

    /// The subnets of a network.
    pub(super) async fn subnets(&self, network: &Id) -> Result<Vec<Subnet>, BackendError> {
        #[derive(Deserialize)]
        struct Page {
            subnets: Vec<Subnet>,
        }
        let page: Page = self.get(&format!("/v2.0/subnets?network_id={network}")).await?;
        Ok(page.subnets.into_iter().filter(|subnet| subnet.network_id == *network).collect())
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, BackendError> {
        let response = self.send(Method::GET, path, None, None).await?;
        if response.status().is_success() { decode(&response) } else { Err(refusal(&response)) }
    }

    pub(super) async fn create(&self, path: &str, body: &Value) -> Result<(), BackendError> {
        succeed(&self.send(Method::POST, path, None, Some(body)).await?)
    }

    /// Updates an object, unless its revision is another one.
    pub(super) async fn update(
        &self,
        path: &str,
        revision: u64,
        body: &Value,
    ) -> Result<(), BackendError> {
        succeed(&self.send(Method::PUT, path, Some(revision), Some(body)).await?)
    }

    /// Adds a tag.
    pub(super) async fn tag(&self, path: &str, tag: &str) -> Result<(), BackendError> {
        succeed(&self.send(Method::PUT, &format!("{path}/tags/{tag}"), None, None).await?)
    }

    /// Deletes an object, unless its revision is another one.
    pub(super) async fn delete(&self, path: &str, revision: u64) -> Result<(), BackendError> {
        let response = self.send(Method::DELETE, path, Some(revision), None).await?;
        if response.status() == StatusCode::NOT_FOUND { Ok(()) } else { succeed(&response) }
    }

    /// Sends a request; if its token has expired, again with a new one.
    async fn send(
        &self,
        method: Method,
        path: &str,
        revision: Option<u64>,
        body: Option<&Value>,
    ) -> Result<Response<Bytes>, BackendError> {
        let mut expired = None;
        loop {
            let session = self.session(expired.as_deref()).await?;
            let mut headers = Vec::new();
            if let Some(token) = &session.token {
                headers.push(("x-auth-token", token.clone()));
            }
            if let Some(revision) = revision {
                headers.push((IF_MATCH.as_str(), format!("revision_number={revision}")));
            }
            let url = format!("{}{path}", session.neutron);
            let response = self.http.send(&method, &url, &headers, body).await?;
            if response.status() != StatusCode::UNAUTHORIZED || expired.is_some() {
                return Ok(response);
            }
            let Some(token) = session.token else { return Ok(response) };
            expired = Some(token);
        }
    }

    /// The present session, or a new one if its token is `expired`.
    async fn session(&self, expired: Option<&str>) -> Result<Session, BackendError> {
        let mut session = self.session.lock().await;
        if let Some(session) =
            session.as_ref().filter(|it| it.token.as_deref() != expired || expired.is_none())
        {
            return Ok(session.clone());
        }
        let begun = self.authentication.begin(&self.http).await?;
        *session = Some(begun.clone());
        Ok(begun)
    }
}

/// The query of a page of networks, after that with the identifier `marker`.
fn network_query(filters: &[(&str, &str)], marker: Option<&Id>) -> String {
    let fields =
        ["id", "name", "description", "tags", "admin_state_up", "created_at", "revision_number"];
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(filters);
    query.extend_pairs(fields.map(|field| ("fields", field)));
    query.extend_pairs([("sort_key", "id"), ("sort_dir", "asc"), ("limit", &PAGE.to_string())]);
    if let Some(marker) = marker {
        query.append_pair("marker", &marker.to_string());
    }
    query.finish()
}

/// Sends requests with limits of time and size.
pub(super) struct HttpClient(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

impl HttpClient {
    fn new(options: &NeutronOptions) -> Result<Self, OptionsError> {
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

    pub(super) async fn send(
        &self,
        method: &Method,
        url: &str,
        headers: &[(&'static str, String)],
        body: Option<&Value>,
    ) -> Result<Response<Bytes>, BackendError> {
        let unavailable = |why: String| BackendError::Unavailable(format!("{method} {url}: {why}"));
        let mut request = http::Request::builder().method(method).uri(url);
        for (name, value) in headers {
            let mut value =
                HeaderValue::try_from(value).map_err(|it| unavailable(it.to_string()))?;
            value.set_sensitive(true);
            request = request.header(*name, value);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .map_err(|error| unavailable(error.to_string()))?;
        let exchange = async {
            let response = self.0.request(request).await.map_err(|it| unavailable(causes(&it)))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, MAX_BODY).collect().await;
            let body = body.map_err(|error| unavailable(causes(&*error)))?.to_bytes();
            Ok(Response::from_parts(parts, body))
        };
        let timed_out = |_| unavailable(format!("no response in {} s", REQUEST_TIMEOUT.as_secs()));
        timeout(REQUEST_TIMEOUT, exchange).await.map_err(timed_out)?
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

pub(super) fn decode<T: DeserializeOwned>(response: &Response<Bytes>) -> Result<T, BackendError> {
    serde_json::from_slice(response.body())
        .map_err(|error| BackendError::Unavailable(format!("a response is not valid: {error}")))
}

fn succeed(response: &Response<Bytes>) -> Result<(), BackendError> {
    if response.status().is_success() { Ok(()) } else { Err(refusal(response)) }
}

/// The error that a response other than a success means.
pub(super) fn refusal(response: &Response<Bytes>) -> BackendError {
    let status = response.status();
    let why = format!("Neutron responded with {status}: {}", message(response.body()));
    match status {
        StatusCode::PRECONDITION_FAILED | StatusCode::NOT_FOUND => BackendError::Conflict(why),
        // In use, or over quota; both may end.
        StatusCode::CONFLICT | StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS => {
            BackendError::Unavailable(why)
        }
        _ if status.is_client_error() => BackendError::Refused(why),
        _ => BackendError::Unavailable(why),
    }
}

/// The message in the body of an error, without control characters and not longer than
/// [`MAX_ERROR`].
fn message(body: &[u8]) -> String {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = ["/NeutronError/message", "/error/message"];
    let message = message.iter().find_map(|path| json.pointer(path)?.as_str());
    let text = String::from_utf8_lossy(body);
    let text = message.unwrap_or(&text).chars().filter(|it| !it.is_control());
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
