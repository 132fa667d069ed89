//! Makes a [`Client`] from a kubeconfig, or from the service account that is mounted into a pod.
//!
//! Files are read by kube's own [`Config`], so that everything that kubectl supports (exec plugins,
//! impersonation, several files in `KUBECONFIG`) is supported. The transport is that of this crate,
//! and a token file is read again when the server refuses the token.

use std::env;

use http::{Request, Response};
use http_body::Body as HttpBody;
use kube_client::Client;
use kube_client::client::{Body, ClientBuilder, ConfigExt};
use kube_client::config::{InferConfigError, KubeConfigOptions, KubeconfigError};
use tower_service::Service;

use crate::dialer::bypasses_proxy;
use crate::token_file::{Authorized, FileTokenSource};
use crate::transport::{BoxError, Transport};
use keel::Clock;

pub use kube_client::Config;
pub use kube_client::config::Kubeconfig;

/// The reason why no client can be created.
///
/// ```no_run
/// use client::{ConfigError, config::Config};
/// use keel::Clock;
///
/// # async fn example() -> Result<(), ConfigError> {
/// let config = match client::infer().await {
///     // The address of `kubectl proxy`.
///     Err(ConfigError::NotFound(_)) => Config::new("http://127.0.0.1:8001".parse().unwrap()),
///     inferred => inferred?,
/// };
/// let client = client::connect(config, &Clock::system())?;
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Neither a kubeconfig nor a mounted service account exists.
    #[error(
        "found neither a kubeconfig nor a service account: set KUBECONFIG, or start `sampan up`, which \
         writes ~/.kube/config"
    )]
    NotFound(#[source] Box<InferConfigError>),
    /// The context, or what it names, is missing in the kubeconfig, or a file of it cannot be read.
    #[error("cannot use the kubeconfig")]
    Kubeconfig(#[source] Box<KubeconfigError>),
    /// Certificates, keys or headers in the configuration are not valid.
    #[error("cannot use the configuration")]
    Invalid(#[source] Box<kube_client::Error>),
    /// The token of the service account, or the token file of a kubeconfig, cannot be read.
    #[error("cannot read the token file {path}")]
    Token {
        /// The path of the file.
        path: String,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The proxy in the environment is not a valid URL. The message does not contain it, since it may
    /// contain a password.
    #[error("HTTPS_PROXY is not a valid URL")]
    Proxy(#[source] http::uri::InvalidUri),
}

/// Reads `KUBECONFIG` or `~/.kube/config`, or else the files that are mounted into a pod.
///
/// The proxy is the `proxy-url` of the kubeconfig, or else, also in a pod, `HTTPS_PROXY` unless
/// `NO_PROXY` excludes the server.
pub async fn infer() -> Result<Config, ConfigError> {
    let inferred = Config::infer().await;
    let mut config = inferred.map_err(|error| ConfigError::NotFound(Box::new(error)))?;
    apply_environment(&mut config)?;
    Ok(config)
}

/// Reads a context of a kubeconfig, or its current context. The proxy is that of [`infer`].
///
/// ```no_run
/// use client::config::{Kubeconfig, from_kubeconfig};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let kubeconfig = Kubeconfig::read_from("./kubeconfig")?;
/// let config = from_kubeconfig(kubeconfig, Some("staging")).await?;
/// # drop(config);
/// # Ok(())
/// # }
/// ```
pub async fn from_kubeconfig(
    kubeconfig: Kubeconfig,
    context: Option<&str>,
) -> Result<Config, ConfigError> {
    let options =
        KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let read = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = read.map_err(|error| ConfigError::Kubeconfig(Box::new(error)))?;
    apply_environment(&mut config)?;
    Ok(config)
}

fn apply_environment(config: &mut Config) -> Result<(), ConfigError> {
    let proxy = variable("HTTPS_PROXY", |name| env::var(name).ok());
    let no_proxy = variable("NO_PROXY", |name| env::var(name).ok());
    apply_proxy_environment(config, &proxy, &no_proxy)
}

/// The value of a variable in upper or lower case; an empty value counts as not set.
fn variable(name: &str, read: impl Fn(&str) -> Option<String>) -> String {
    let spellings = [name.to_owned(), name.to_lowercase()];
    spellings.iter().filter_map(|name| read(name)).find(|text| !text.is_empty()).unwrap_or_default()
}

/// Sets or removes the proxy of the environment, depending on whether it applies to this server. A
/// proxy in a kubeconfig always applies to its server, as for kubectl.
fn apply_proxy_environment(
    config: &mut Config,
    proxy: &str,
    no_proxy: &str,
) -> Result<(), ConfigError> {
    if proxy.is_empty() {
        return Ok(());
    }
    let proxy = Some(proxy.parse().map_err(ConfigError::Proxy)?);
    let is_encrypted = config.cluster_url.scheme_str() == Some("https");
    if config.proxy_url.is_none() && is_encrypted {
        config.proxy_url.clone_from(&proxy);
    }
    if config.proxy_url == proxy && bypasses_proxy(&config.cluster_url, no_proxy) {
        config.proxy_url = None;
    }
    Ok(())
}

/// A client of the server in `config`, with our [`Transport`].
///
/// Nothing is sent before the first request. Must be called within a tokio runtime. A token file
/// takes precedence over a token, as in client-go; the token is used if the file cannot be read.
pub fn connect(mut config: Config, clock: &Clock) -> Result<Client, ConfigError> {
    let invalid = |error| ConfigError::Invalid(Box::new(error));
    let transport = Transport::new(&config).map_err(invalid)?;
    tracing::info!(url = %config.cluster_url, "the API server of this client");
    let Some(path) = config.auth_info.token_file.take() else {
        return with_layers(&config, transport).map_err(invalid);
    };
    match FileTokenSource::read(&path, clock) {
        Ok(token) => {
            config.auth_info.token = None;
            with_layers(&config, Authorized::new(transport, token)).map_err(invalid)
        }
        Err(error) if config.auth_info.token.is_some() => {
            tracing::warn!(path, %error, "cannot read the token file; the token of the configuration is used");
            with_layers(&config, transport).map_err(invalid)
        }
        Err(source) => Err(ConfigError::Token { path, source }),
    }
}

/// A client with the layers of `config`: headers, authentication and the base URL.
fn with_layers<S, B>(config: &Config, service: S) -> Result<Client, kube_client::Error>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: HttpBody<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let builder = ClientBuilder::new(service, config.default_namespace.clone())
        .with_layer(&config.extra_headers_layer()?);
    let base = config.base_uri_layer();
    Ok(match config.auth_layer()? {
        Some(auth) => builder.with_layer(&auth).with_layer(&base).build(),
        None => builder.with_layer(&base).build(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proxy that is used for `server`, or "".
    fn proxy_of(server: &str, configured: &str, environment: &str, no_proxy: &str) -> String {
        let mut config = Config::new(server.parse().unwrap());
        config.proxy_url = configured.parse().ok();
        apply_proxy_environment(&mut config, environment, no_proxy).unwrap();
        config.proxy_url.map(|url| url.to_string()).unwrap_or_default()
    }

    #[test]
    fn no_proxy_excludes_servers_from_the_proxy_of_the_environment() {
        let proxy = "http://proxy:3128/";
        assert_eq!(proxy_of("https://api.example.com", proxy, proxy, ""), proxy);
        assert_eq!(proxy_of("https://api.example.com", proxy, proxy, "example.org"), proxy);
        assert_eq!(proxy_of("https://api.example.com", proxy, proxy, "a, .example.com"), "");
        assert_eq!(proxy_of("https://10.1.2.3:6443", proxy, proxy, "10.0.0.0/8"), "");
        assert_eq!(
            proxy_of("https://[::1]:6443", proxy, proxy, ""),
            "",
            "a server on this machine is reached directly"
        );
    }

    #[test]
    fn the_proxy_of_the_environment_is_used_in_a_pod() {
        let proxy = "http://proxy:3128/";
        assert_eq!(proxy_of("https://10.96.0.1", "", proxy, ""), proxy);
        assert_eq!(proxy_of("https://10.96.0.1", "", proxy, "10.96.0.0/12"), "");
        assert_eq!(
            proxy_of("http://10.96.0.1", "", proxy, ""),
            "",
            "HTTPS_PROXY applies to https only"
        );
        assert_eq!(proxy_of("https://10.96.0.1", "", "", ""), "");
        let mut config = Config::new("https://10.96.0.1".parse().unwrap());
        assert!(apply_proxy_environment(&mut config, "no address", "").is_err());
    }

    #[test]
    fn an_empty_variable_counts_as_not_set() {
        let value = |capital: &'static str, small: &'static str| {
            variable("NO_PROXY", |name| {
                Some(if name == "NO_PROXY" { capital } else { small }.to_owned())
            })
        };
        assert_eq!(value("one", "other"), "one");
        assert_eq!(value("", "other"), "other");
        assert_eq!(value("", ""), "");
        assert_eq!(variable("NO_PROXY", |_| None), "");
    }

    #[test]
    fn the_proxy_of_a_kubeconfig_is_always_used() {
        let (own, other) = ("http://own:1/", "http://other:2/");
        assert_eq!(proxy_of("https://api.example.com", own, other, "*"), own);
        assert_eq!(proxy_of("https://127.0.0.1", own, "", ""), own);
    }

    #[tokio::test]
    async fn connect_refuses_a_proxy_with_an_unsupported_scheme() {
        let mut config = Config::new("https://api.example.com".parse().unwrap());
        config.proxy_url = Some("ftp://proxy:21/".parse().unwrap());
        let refused = connect(config, &Clock::system()).err().unwrap();
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert!(cause.contains("ftp://proxy:21/"), "{cause}");
    }
}
