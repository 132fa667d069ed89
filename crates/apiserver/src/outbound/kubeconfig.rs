//! [`KubeconfigTarget`]: the server that a kubeconfig file names, for webhooks that are configured with
//! such a file.
//!
//! The file is read once. What this client cannot do (plugins, proxies, plain HTTP) is an error, not
//! ignored.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderValue, Uri};

use super::Destination;
use machinery::Value;
use machinery::codec::yaml;
use tls::{Identity, Trust};

/// See the [module documentation](self).
#[derive(Clone)]
pub struct KubeconfigTarget {
    /// The URL of the server, to which requests are sent as it is.
    pub(crate) url: Uri,
    /// Where it is, and how its certificate is verified.
    pub(crate) destination: Destination,
    /// The value of the header `Authorization`, if the file has a token or a password.
    pub(crate) authorization: Option<HeaderValue>,
}

/// The reason why a kubeconfig file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// Check the path.
    #[error("cannot read {path}")]
    Read {
        /// The path of the file, or of one that it names.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Correct the file.
    #[error("cannot use the kubeconfig {path}: {why}")]
    Invalid {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// The file, and its directory, to which the paths in it are relative.
struct File<'a> {
    path: &'a Path,
}

impl KubeconfigTarget {
    /// Reads a file: the server and the credentials of its current context.
    pub fn read(path: &Path) -> Result<Self, KubeconfigError> {
        let file = File { path };
        let text = read_file(path)?;
        let config = yaml::decode(&text).map_err(|error| file.invalid(&error.to_string()))?.value;
        let context = config["current-context"].as_str().unwrap_or_default();
        if context.is_empty() {
            return Err(file.invalid("it has no current-context"));
        }
        let context = file.named(&config, "contexts", "context", context)?;
        let name = |field: &str| context[field].as_str().unwrap_or_default();
        let cluster = file.named(&config, "clusters", "cluster", name("cluster"))?;
        let user = match name("user") {
            "" => &Value::Null,
            user => file.named(&config, "users", "user", user)?,
        };
        file.target(cluster, user)
    }
}

impl File<'_> {
    fn target(&self, cluster: &Value, user: &Value) -> Result<KubeconfigTarget, KubeconfigError> {
        let server = cluster["server"].as_str().unwrap_or_default();
        let url: Uri = server.parse().map_err(|error| {
            self.invalid(&format!("the server {server:?} is not a URL: {error}"))
        })?;
        if url.scheme_str() != Some("https") {
            return Err(self.invalid(&format!("the server {server:?} is not an https URL")));
        }
        for (of, field) in [(cluster, "proxy-url"), (user, "exec"), (user, "auth-provider")] {
            if !matches!(&of[field], Value::Null) && of[field] != "" {
                return Err(self.invalid(&format!("{field} is not supported")));
            }
        }
        let authority = self.pem(cluster, "certificate-authority")?;
        let trust = match authority {
            _ if cluster["insecure-skip-tls-verify"] == true => Trust::Insecure,
            Some(authority) => Trust::CaBundle(authority.into()),
            None => Trust::System,
        };
        let identity = match (self.pem(user, "client-certificate")?, self.pem(user, "client-key")?)
        {
            (Some(certificate), Some(key)) => {
                Some(Identity { certificate: certificate.into(), key: key.into() })
            }
            (None, None) => None,
            _ => return Err(self.invalid("a client certificate needs its key")),
        };
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
        let server_name = cluster["tls-server-name"].as_str().filter(|it| !it.is_empty());
        let mut destination = Destination::of_url(server_name.unwrap_or(host).to_owned(), trust);
        destination.identity = identity;
        let checked = tls::client_config(&destination.trust, destination.identity.as_ref());
        checked.map_err(|error| self.invalid(&keel::message_with_causes(&error)))?;
        Ok(KubeconfigTarget { url, destination, authorization: self.authorization(user)? })
    }

    fn authorization(&self, user: &Value) -> Result<Option<HeaderValue>, KubeconfigError> {
        let text = |field: &str| user[field].as_str().unwrap_or_default();
        let token = match (text("token"), text("tokenFile")) {
            // Upstream: the file takes precedence.
            (_, file) if !file.is_empty() => {
                String::from_utf8_lossy(&read_file(&self.relative(file))?).trim().to_owned()
            }
            (token, _) => token.to_owned(),
        };
        let value = if !token.is_empty() {
            format!("Bearer {token}")
        } else if !text("username").is_empty() {
            let pair = format!("{}:{}", text("username"), text("password"));
            format!("Basic {}", BASE64_STANDARD.encode(pair))
        } else {
            return Ok(None);
        };
        let value = HeaderValue::from_str(&value);
        let mut value = value.map_err(|_| self.invalid("the token is not a text for a header"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// PEM in base64 in the field `NAME-data`, or in the file of the field `NAME`.
    fn pem(&self, of: &Value, name: &str) -> Result<Option<String>, KubeconfigError> {
        let text = |field: &str| of[field].as_str().unwrap_or_default();
        let (data, file) = (text(&format!("{name}-data")), text(name));
        let bytes = if !data.is_empty() {
            let decoded = BASE64_STANDARD.decode(data);
            decoded.map_err(|_| self.invalid(&format!("{name}-data is not base64")))?
        } else if !file.is_empty() {
            read_file(&self.relative(file))?
        } else {
            return Ok(None);
        };
        let pem = String::from_utf8(bytes);
        pem.map(Some).map_err(|_| self.invalid(&format!("{name} is not PEM")))
    }

    /// The element of a list with this name.
    fn named<'a>(
        &self,
        config: &'a Value,
        list: &str,
        field: &str,
        name: &str,
    ) -> Result<&'a Value, KubeconfigError> {
        let mut elements = config[list].as_array().into_iter().flatten();
        let found = elements.find(|it| it["name"] == name).map(|it| &it[field]);
        found.ok_or_else(|| self.invalid(&format!("{field} {name:?} does not exist")))
    }

    fn relative(&self, file: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(file)
    }

    fn invalid(&self, why: &str) -> KubeconfigError {
        KubeconfigError::Invalid { path: self.path.to_owned(), why: why.to_owned() }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, KubeconfigError> {
    std::fs::read(path).map_err(|source| KubeconfigError::Read { path: path.to_owned(), source })
}

impl fmt::Debug for KubeconfigTarget {
    /// Omits the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeconfigTarget").field("url", &self.url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file with these clusters and users.
    fn read(cluster: &str, user: &str) -> Result<KubeconfigTarget, String> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("token"), "from-file\n").unwrap();
        let path = directory.path().join("config");
        let text = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
             clusters: [{{name: k, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
        );
        std::fs::write(&path, text).unwrap();
        KubeconfigTarget::read(&path).map_err(|error| keel::message_with_causes(&error))
    }

    #[test]
    fn the_current_context_names_server_and_credentials() {
        let cluster = "server: \"https://hook.example:8443/review\", tls-server-name: other";
        let target = read(cluster, "token: t").unwrap();
        assert_eq!(target.url, "https://hook.example:8443/review");
        assert_eq!(target.destination.server_name, "other");
        assert_eq!(target.authorization.as_ref().unwrap(), "Bearer t");
        assert!(!format!("{target:?}").contains("Bearer"));
        assert!(!format!("{:?}", target.authorization).contains("Bearer"));
        let target = read(cluster, "token: t, tokenFile: token").unwrap();
        assert_eq!(target.authorization.unwrap(), "Bearer from-file");
        let target = read(cluster, "username: a, password: b").unwrap();
        assert_eq!(target.authorization.unwrap(), "Basic YTpi");
        assert_eq!(read(cluster, "").unwrap().authorization, None);
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        let refused = |cluster: &str, user: &str| read(cluster, user).unwrap_err();
        let server = "server: \"https://a\"";
        assert!(refused("server: \"http://a\"", "").contains("is not an https URL"));
        assert!(refused(&format!("{server}, proxy-url: \"http://b\""), "").contains("proxy-url"));
        assert!(refused(server, "exec: {command: x}").contains("exec is not supported"));
        assert!(refused(server, "client-key-data: eA==").contains("needs its key"));
        assert!(refused(server, "tokenFile: absent").contains("absent"));
        let authority = format!("{server}, certificate-authority-data: eA==");
        assert!(refused(&authority, "").contains("unable to load root certificates"));
        assert!(refused(server, "token: \"a\\nb\"").ends_with("is not a text for a header"));
    }
}
