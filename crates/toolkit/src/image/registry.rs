//! [`Registry`]: the distribution protocol of OCI registries, as far as a push needs it.
//!
//! ```text
//! HEAD  /v2/NAME/blobs/DIGEST       is the blob there?
//! POST  /v2/NAME/blobs/uploads/     where does it go?
//! PUT   LOCATION?digest=DIGEST      the blob, at once
//! PUT   /v2/NAME/manifests/TAG      the manifest, when all blobs are there
//! ```
//!
//! A registry asks for a password or a token with its first 401. They are sent to the registry and to
//! the server that it names for tokens, and to no other host.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use form_urlencoded::Serializer;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use http::{Method, StatusCode, Uri};
use serde_json::Value;

use super::challenge::Challenge;
use super::credentials::Credentials;
use super::digest::Digest;
use super::http_client::{Answer, Call, HttpClient, HttpError, OnProgress};
use super::layout::Descriptor;
use keel::{Backoff, Clock, Entropy};
use tls::Trust;

/// How often a blob is sent if the connection is interrupted or the registry fails.
const TRIES: u32 = 4;
const DIGEST_HEADER: &str = "docker-content-digest";
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Why a registry did not do what was requested.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistryError {
    /// There is no response.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The status says what to do.
    #[error("{host} responded {status}{message}")]
    Refused { host: String, status: StatusCode, message: String },
    /// The registry does not follow the protocol.
    #[error("{host} does not respond as a registry: {reason}")]
    Protocol { host: String, reason: String },
}

impl RegistryError {
    /// Whether the same request may succeed a little later.
    fn is_transient(&self) -> bool {
        match self {
            Self::Http(error) => matches!(error, HttpError::Interrupted { .. }),
            Self::Refused { status, .. } => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            Self::Protocol { .. } => false,
        }
    }
}

/// See the [module documentation](self).
pub(crate) struct Registry {
    http: HttpClient,
    host: String,
    scheme: &'static str,
    credentials: Option<Credentials>,
    /// The repository that a token is for.
    scope: Option<String>,
    /// What the registry has accepted.
    authorization: Option<HeaderValue>,
}

impl Registry {
    /// A registry, to which nothing is sent yet.
    pub(crate) fn new(
        host: &str,
        scheme: &'static str,
        trust: &Trust,
        credentials: Option<Credentials>,
    ) -> Result<Self, RegistryError> {
        let http = HttpClient::new(trust)?;
        let host = host.to_owned();
        Ok(Self { http, host, scheme, credentials, scope: None, authorization: None })
    }

    /// Asks for tokens with which a repository can be written.
    pub(super) fn for_push(mut self, repository: &str) -> Self {
        self.scope = Some(format!("repository:{repository}:pull,push"));
        self
    }

    /// Checks that the registry is there, and accepts the credentials.
    pub(crate) async fn ping(&mut self) -> Result<(), RegistryError> {
        let answer = self.send(Call::new(Method::GET, self.url(""))).await?;
        self.expect(&answer, &[StatusCode::OK])
    }

    /// Whether a repository has a blob. A redirection is no answer, and the blob is sent.
    pub(super) async fn has_blob(
        &mut self,
        repository: &str,
        digest: &Digest,
    ) -> Result<bool, RegistryError> {
        let url = self.url(&format!("{repository}/blobs/{digest}"));
        let answer = self.send(Call::new(Method::HEAD, url)).await?;
        if answer.status.is_redirection() || answer.status == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        self.expect(&answer, &[StatusCode::OK])?;
        Ok(true)
    }

    /// Sends a blob, from its beginning after an interruption. `on_start` is called for each try.
    pub(super) async fn push_blob(
        &mut self,
        repository: &str,
        digest: &Digest,
        content: &Bytes,
        on_progress: &OnProgress,
        on_start: impl Fn(),
    ) -> Result<(), RegistryError> {
        let mut backoff =
            Backoff::new(Duration::from_millis(500), Duration::from_secs(5), Entropy::system());
        loop {
            on_start();
            match self.push_blob_once(repository, digest, content, on_progress).await {
                Err(error) if error.is_transient() && backoff.failures() + 1 < TRIES => {
                    Clock::system().sleep(backoff.next_delay()).await;
                }
                done => return done,
            }
        }
    }

    async fn push_blob_once(
        &mut self,
        repository: &str,
        digest: &Digest,
        content: &Bytes,
        on_progress: &OnProgress,
    ) -> Result<(), RegistryError> {
        let url = self.url(&format!("{repository}/blobs/uploads/"));
        let answer = self.send(Call::new(Method::POST, url)).await?;
        self.expect(&answer, &[StatusCode::ACCEPTED])?;
        let location = self.location(&answer)?;
        let separator = if location.contains('?') { '&' } else { '?' };
        let digest: String =
            Serializer::new(String::new()).append_pair("digest", digest.as_str()).finish();
        let mut call = Call::new(Method::PUT, format!("{location}{separator}{digest}"))
            .header(CONTENT_TYPE, OCTETS)
            .body(content.clone());
        call.on_progress = Some(OnProgress::clone(on_progress));
        let answer = self.send(call).await?;
        self.expect(&answer, &[StatusCode::CREATED, StatusCode::NO_CONTENT])
    }

    /// Where an upload goes: a URL, or a path of the registry.
    fn location(&self, answer: &Answer) -> Result<String, RegistryError> {
        let location = answer.headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let location = location.ok_or_else(|| self.protocol("it names no place for a blob"))?;
        if location.starts_with('/') {
            return Ok(format!("{}://{}{location}", self.scheme, self.host));
        }
        // A registry behind a proxy for TLS may not know its own scheme.
        match location.split_once("://") {
            Some((_, rest)) if rest.split('/').next() == Some(&self.host) => {
                Ok(format!("{}://{rest}", self.scheme))
            }
            Some(("http", _)) if self.scheme == "https" => {
                Err(self.protocol("it wants a blob to be sent without encryption"))
            }
            Some(("http" | "https", _)) => Ok(location.to_owned()),
            _ => Err(self.protocol(&format!("{location:?} is no place for a blob"))),
        }
    }

    /// Gives a manifest a tag.
    pub(super) async fn push_manifest(
        &mut self,
        repository: &str,
        tag: &str,
        manifest: &Descriptor,
        content: Vec<u8>,
    ) -> Result<(), RegistryError> {
        let media_type = HeaderValue::from_str(&manifest.media_type);
        let media_type = media_type.map_err(|_| self.protocol("the manifest has no media type"))?;
        let call = Call::new(Method::PUT, self.url(&format!("{repository}/manifests/{tag}")))
            .header(CONTENT_TYPE, media_type)
            .body(content.into());
        let answer = self.send(call).await?;
        self.expect(&answer, &[StatusCode::CREATED])?;
        let stored = answer.headers.get(DIGEST_HEADER).and_then(|value| value.to_str().ok());
        match stored {
            Some(stored) if stored != manifest.digest.as_str() => {
                Err(self
                    .protocol(&format!("it has stored {stored} instead of {}", manifest.digest)))
            }
            _ => Ok(()),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}://{}/v2/{path}", self.scheme, self.host)
    }

    /// Sends a request; after the first 401 again, with what the registry asks for.
    async fn send(&mut self, call: Call) -> Result<Answer, RegistryError> {
        let own = format!("{}://{}/", self.scheme, self.host);
        if !call.url.starts_with(&own) {
            return Ok(self.http.send(&call).await?);
        }
        let answer = self.http.send(&authorized(&call, self.authorization.as_ref())).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let Some(challenge) = Challenge::of(&answer.headers) else { return Ok(answer) };
        let Some(authorization) = self.authenticate(&challenge).await? else { return Ok(answer) };
        let answer = self.http.send(&authorized(&call, Some(&authorization))).await?;
        self.authorization = Some(authorization);
        Ok(answer)
    }

    /// The header that responds to a challenge; none without the credentials for it.
    async fn authenticate(
        &self,
        challenge: &Challenge,
    ) -> Result<Option<HeaderValue>, RegistryError> {
        match (challenge, &self.credentials) {
            (Challenge::Basic, Some(Credentials::Password { user, password })) => {
                Ok(Some(self.header(&basic(user, password))?))
            }
            (Challenge::Basic, _) => Ok(None),
            (Challenge::Bearer { realm, service }, _) => {
                let token = self.token(realm, service.as_deref()).await?;
                Ok(Some(self.header(&format!("Bearer {token}"))?))
            }
        }
    }

    /// A token of the server `realm`, for nobody if there are no credentials.
    async fn token(&self, realm: &str, service: Option<&str>) -> Result<String, RegistryError> {
        let uri: Option<Uri> = realm.parse().ok();
        let scheme = uri.as_ref().and_then(Uri::scheme_str);
        let host = uri.as_ref().and_then(Uri::authority).map(ToString::to_string);
        let Some((host, scheme)) = host.zip(scheme) else {
            return Err(self.protocol(&format!("{realm:?} is not the URL of a server for tokens")));
        };
        if scheme != "https" && self.scheme == "https" {
            return Err(self.protocol("it wants a password to be sent without encryption"));
        }
        let mut parameters = Serializer::new(String::new());
        parameters.extend_pairs(service.map(|service| ("service", service)));
        parameters.extend_pairs(self.scope.as_ref().map(|scope| ("scope", scope)));
        let call = match &self.credentials {
            Some(Credentials::IdentityToken(token)) => {
                parameters.append_pair("grant_type", "refresh_token");
                parameters.append_pair("refresh_token", token).append_pair("client_id", "sampan");
                let form = HeaderValue::from_static("application/x-www-form-urlencoded");
                let call = Call::new(Method::POST, realm.to_owned()).header(CONTENT_TYPE, form);
                call.body(parameters.finish().into())
            }
            credentials => {
                let separator = if realm.contains('?') { '&' } else { '?' };
                let url = format!("{realm}{separator}{}", parameters.finish());
                let call = Call::new(Method::GET, url);
                match credentials {
                    Some(Credentials::Password { user, password }) => {
                        call.header(AUTHORIZATION, self.header(&basic(user, password))?)
                    }
                    _ => call,
                }
            }
        };
        let json = HeaderValue::from_static("application/json");
        let answer = self.http.send(&call.header(ACCEPT, json)).await?;
        expect(&host, &answer, &[StatusCode::OK])?;
        let document: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let token = document["token"].as_str().or_else(|| document["access_token"].as_str());
        token.map(str::to_owned).ok_or_else(|| self.protocol(&format!("{host} issued no token")))
    }

    fn header(&self, text: &str) -> Result<HeaderValue, RegistryError> {
        let value = HeaderValue::from_str(text);
        let mut value =
            value.map_err(|_| self.protocol("a token or a password has line breaks"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn expect(&self, answer: &Answer, expected: &[StatusCode]) -> Result<(), RegistryError> {
        expect(&self.host, answer, expected)
    }

    fn protocol(&self, reason: &str) -> RegistryError {
        RegistryError::Protocol { host: self.host.clone(), reason: reason.to_owned() }
    }
}

fn authorized(call: &Call, authorization: Option<&HeaderValue>) -> Call {
    match authorization {
        Some(value) => call.clone().header(AUTHORIZATION, value.clone()),
        None => call.clone(),
    }
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// An error with the registry's message if the response has another status.
fn expect(host: &str, answer: &Answer, expected: &[StatusCode]) -> Result<(), RegistryError> {
    if expected.contains(&answer.status) {
        return Ok(());
    }
    if answer.status.is_success() {
        let reason = format!("the status of its response is {}", answer.status);
        return Err(RegistryError::Protocol { host: host.to_owned(), reason });
    }
    let document: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let errors = document["errors"].as_array().cloned().unwrap_or_default();
    let text = |error: &Value| {
        let message = error["message"].as_str().filter(|message| !message.is_empty());
        message.or_else(|| error["code"].as_str()).map(str::to_owned)
    };
    let messages: Vec<String> = errors.iter().filter_map(text).collect();
    let mut message = String::new();
    if !messages.is_empty() {
        message = format!(": {}", messages.join("; "));
    }
    Err(RegistryError::Refused { host: host.to_owned(), status: answer.status, message })
}
