//! [`WebhookEndpoint`]: the server of a webhook that is configured by a file in the format of a
//! kubeconfig, and the credentials for it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Request, Response, Uri};
use http_body_util::Full;
use tokio::time::{Instant, timeout_at};

use super::{Destination, Error, Outbound, request_url};
use machinery::codec::yaml;
use machinery::{Value, go_duration};
use tls::{Identity, Trust};

/// The maximum size of a response in bytes.
const MAX_RESPONSE: usize = 1 << 20;

/// The timeout in the URL of requests, unless another one is set. It is upstream's.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    /// Upstream: the message of Go.
    #[error("context deadline exceeded")]
    Timeout,
    /// The request cannot be made; the text says why.
    #[error("{0}")]
    Request(String),
    /// The server cannot be reached, or its response cannot be read.
    #[error(transparent)]
    Call(#[from] Error),
}

/// The reason why a kubeconfig cannot be used for a webhook.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// Name a file that can be read. It may be one that the kubeconfig names.
    #[error("cannot read {path}", path = .path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Correct the file.
    #[error("invalid configuration {path}: {reason}", path = .path.display())]
    Invalid {
        /// The path of the file.
        path: PathBuf,
        /// The error in its content, without credentials.
        reason: String,
    },
}

/// See the [module documentation](self).
#[derive(Clone)]
pub struct WebhookEndpoint {
    url: String,
    destination: Destination,
    credentials: Credentials,
}

#[derive(Clone)]
enum Credentials {
    None,
    Header(HeaderValue),
    /// The file is read for each request, since tokens are renewed.
    TokenFile(PathBuf),
}

impl WebhookEndpoint {
    /// Reads the current context of a kubeconfig. Paths in it are relative to its directory.
    pub fn read(path: &Path) -> Result<Self, KubeconfigError> {
        let text = read(path)?;
        let invalid = |reason| KubeconfigError::Invalid { path: path.to_owned(), reason };
        let decoded = yaml::decode(&text);
        // The message of the decoder may quote the file.
        let config = decoded.map_err(|_| invalid("it is not YAML or JSON".to_owned()))?.value;
        let context = named(&config, "contexts", "context", text_of(&config, "current-context"))
            .map_err(&invalid)?;
        let cluster =
            named(&config, "clusters", "cluster", text_of(context, "cluster")).map_err(&invalid)?;
        let user = match text_of(context, "user") {
            "" => &Value::Null,
            name => named(&config, "users", "user", name).map_err(&invalid)?,
        };
        let reader = Reader { path };
        let server = text_of(cluster, "server");
        let uri: Uri = server
            .parse()
            .map_err(|error| invalid(format!("the server {server:?} is not a URL: {error}")))?;
        if uri.scheme_str() != Some("https") || uri.host().is_none() {
            return Err(invalid(format!("the server {server:?} must be an https URL")));
        }
        if !text_of(cluster, "proxy-url").is_empty() {
            return Err(invalid("proxy-url is not supported".to_owned()));
        }
        let server_name = match text_of(cluster, "tls-server-name") {
            "" => uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned(),
            name => name.to_owned(),
        };
        let mut destination = Destination::of_url(server_name, reader.trust(cluster)?);
        destination.identity = reader.identity(user)?;
        let checked = tls::client_config(&destination.trust, destination.identity.as_ref());
        checked.map_err(|error| invalid(keel::message_with_causes(&error)))?;
        let url = request_url::of_server(server);
        let endpoint = Self { url, destination, credentials: reader.credentials(user)? };
        Ok(endpoint.with_timeout(DEFAULT_TIMEOUT))
    }

    /// The same endpoint with another timeout in the URL of requests.
    #[must_use]
    pub(crate) fn with_timeout(mut self, timeout: Duration) -> Self {
        let end = self.url.find('?').unwrap_or(self.url.len());
        self.url.truncate(end);
        self.url += &format!("?timeout={}", go_duration::format(timeout));
        self
    }

    /// The URL of requests to the webhook.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Posts JSON with the credentials, and returns the response, whatever its status is. `user_agent`
    /// is the value of that header, if there is one.
    pub(crate) async fn post(
        &self,
        outbound: &Outbound,
        user_agent: Option<&str>,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Response<Bytes>, PostError> {
        let mut request = Request::post(&self.url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*");
        if let Some(user_agent) = user_agent {
            request = request.header(USER_AGENT, user_agent);
        }
        if let Some(authorization) = self.authorization().map_err(PostError::Request)? {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::from(body));
        let request = request.map_err(|error| PostError::Request(error.to_string()))?;
        let call = outbound.call(&self.destination, request, MAX_RESPONSE, deadline);
        match timeout_at(deadline, call).await {
            Err(_) => Err(PostError::Timeout),
            Ok(response) => response.map_err(PostError::Call),
        }
    }

    /// The value of the header `Authorization`, if there is one. The error is a message.
    fn authorization(&self) -> Result<Option<HeaderValue>, String> {
        let value = match &self.credentials {
            Credentials::None => return Ok(None),
            Credentials::Header(value) => value.clone(),
            Credentials::TokenFile(path) => {
                let token = std::fs::read_to_string(path)
                    .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                bearer(token.trim())
                    .ok_or_else(|| format!("{} does not contain a token", path.display()))?
            }
        };
        Ok(Some(value))
    }
}

impl fmt::Debug for WebhookEndpoint {
    /// Without credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookEndpoint").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Reads the parts of a kubeconfig at a path.
struct Reader<'a> {
    path: &'a Path,
}

impl Reader<'_> {
    fn invalid(&self, reason: String) -> KubeconfigError {
        KubeconfigError::Invalid { path: self.path.to_owned(), reason }
    }

    fn trust(&self, cluster: &Value) -> Result<Trust, KubeconfigError> {
        if cluster["insecure-skip-tls-verify"].as_bool() == Some(true) {
            return Ok(Trust::Insecure);
        }
        let bundle = self.data_or_file(cluster, "certificate-authority")?;
        Ok(bundle.map_or(Trust::System, Trust::CaBundle))
    }

    fn identity(&self, user: &Value) -> Result<Option<Identity>, KubeconfigError> {
        let certificate = self.data_or_file(user, "client-certificate")?;
        let key = self.data_or_file(user, "client-key")?;
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(Identity { certificate, key })),
            (None, None) => Ok(None),
            _ => Err(self.invalid("client-certificate and client-key need each other".to_owned())),
        }
    }

    fn credentials(&self, user: &Value) -> Result<Credentials, KubeconfigError> {
        for unsupported in ["exec", "auth-provider", "as"] {
            if !user[unsupported].is_null() {
                return Err(self.invalid(format!("{unsupported} of a user is not supported")));
            }
        }
        let unusable = |field: &str| self.invalid(format!("{field} cannot be sent in a header"));
        match (text_of(user, "tokenFile"), text_of(user, "token"), text_of(user, "username")) {
            ("", "", "") => Ok(Credentials::None),
            ("", "", name) => {
                let pair = format!("{name}:{}", text_of(user, "password"));
                let value = format!("Basic {}", BASE64_STANDARD.encode(pair));
                sensitive(&value).map(Credentials::Header).ok_or_else(|| unusable("password"))
            }
            ("", token, _) => {
                bearer(token).map(Credentials::Header).ok_or_else(|| unusable("token"))
            }
            (file, _, _) => Ok(Credentials::TokenFile(self.relative(file))),
        }
    }

    /// The content of `FIELD-data`, which is in base64, or of the file `FIELD`.
    fn data_or_file(&self, of: &Value, field: &str) -> Result<Option<Arc<str>>, KubeconfigError> {
        let data = text_of(of, &format!("{field}-data"));
        let bytes = match (data, text_of(of, field)) {
            ("", "") => return Ok(None),
            ("", file) => read(&self.relative(file))?,
            (data, _) => BASE64_STANDARD
                .decode(data)
                .map_err(|_| self.invalid(format!("{field}-data is not base64")))?,
        };
        let text =
            String::from_utf8(bytes).map_err(|_| self.invalid(format!("{field} is not PEM")))?;
        Ok(Some(text.into()))
    }

    fn relative(&self, file: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(file)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, KubeconfigError> {
    std::fs::read(path).map_err(|source| KubeconfigError::Read { path: path.to_owned(), source })
}

fn text_of<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_default()
}

/// The entry of a list with this name.
fn named<'a>(config: &'a Value, list: &str, field: &str, name: &str) -> Result<&'a Value, String> {
    let entries = config[list].as_array().into_iter().flatten();
    let mut found = entries.filter(|it| text_of(it, "name") == name);
    found.next().map(|it| &it[field]).ok_or_else(|| format!("{field} {name:?} does not exist"))
}

fn bearer(token: &str) -> Option<HeaderValue> {
    if token.is_empty() { None } else { sensitive(&format!("Bearer {token}")) }
}

fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kubeconfig with these lines of its cluster and its user.
    fn endpoint(cluster: &str, user: &str) -> Result<WebhookEndpoint, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        let text = format!(
            "clusters:\n- name: c\n  cluster: {{{cluster}}}\nusers:\n- name: u\n  user: {{{user}}}\n\
             contexts:\n- name: x\n  context: {{cluster: c, user: u}}\ncurrent-context: x\n"
        );
        std::fs::write(&path, text).unwrap();
        std::fs::write(directory.path().join("ca.pem"), "authority").unwrap();
        WebhookEndpoint::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn the_server_and_its_authority_come_from_the_current_context() {
        let found = endpoint("server: 'https://a.b:8443', insecure-skip-tls-verify: true", "");
        let found = found.unwrap();
        assert_eq!(found.url(), "https://a.b:8443/?timeout=30s");
        let found = found.with_timeout(Duration::from_secs(3));
        assert_eq!(found.url(), "https://a.b:8443/?timeout=3s");
        assert_eq!(found.destination.server_name, "a.b");
        assert_eq!(found.destination.trust, Trust::Insecure);
        let found = endpoint("server: 'https://[::1]//x?y=z', tls-server-name: c", "").unwrap();
        assert_eq!(found.url(), "https://[::1]/x?timeout=30s");
        assert_eq!(found.destination.server_name, "c");
        assert_eq!(found.destination.trust, Trust::System);
    }

    #[test]
    fn credentials_are_sent_and_never_printed() {
        let header = |user: &str| {
            let found = endpoint("server: 'https://a'", user).unwrap();
            assert!(!format!("{found:?}").contains("secret"));
            found.authorization().unwrap().map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(header("token: secret").unwrap(), "Bearer secret");
        assert_eq!(header("username: a, password: b").unwrap(), "Basic YTpi");
        assert_eq!(header(""), None);
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        let error = |cluster: &str, user: &str| endpoint(cluster, user).unwrap_err();
        assert!(error("server: 'http://a'", "").contains("must be an https URL"));
        assert!(error("server: 'https://a', proxy-url: 'http://p'", "").contains("proxy-url"));
        assert!(error("server: 'https://a'", "exec: {command: c}").contains("exec"));
        assert!(error("server: 'https://a'", "client-certificate: ca.pem").contains("client-key"));
        assert!(
            error("server: 'https://a', certificate-authority: none", "").contains("cannot read")
        );
        assert!(
            error("server: 'https://a', certificate-authority-data: '*'", "").contains("base64")
        );
        assert!(
            error("server: 'https://a', certificate-authority: ca.pem", "")
                .contains("unable to load root certificates")
        );
    }

    #[test]
    fn a_context_that_does_not_exist_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        std::fs::write(&path, "current-context: x\n").unwrap();
        let error = WebhookEndpoint::read(&path).unwrap_err().to_string();
        assert!(error.ends_with("context \"x\" does not exist"), "{error}");
    }
}
