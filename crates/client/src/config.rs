//! Where the server is and who asks: a kubeconfig, or the service account that is mounted into a
//! pod, become a [`Client`].
//!
//! Files are read by kube's own [`Config`], so everything that kubectl understands (exec plugins,
//! impersonation, several files in `KUBECONFIG`) is understood here. Our own are the transport
//! below it and the token of a file, which is read again when the server does not take it any more.

use std::env;

use http::{Request, Response};
use http_body::Body as HttpBody;
use keel::Clock;
use kube_client::{
    Client,
    client::{Body, ClientBuilder, ConfigExt},
    config::InferConfigError,
};
use tower_service::Service;

pub use kube_client::Config;

use crate::{
    dialer::is_spared,
    token_file::{Authorized, TokenFile},
    transport::{BoxError, Transport},
};

/// Why there is no client.
///
/// ```no_run
/// use client::{ConfigError, config::Config};
/// use keel::Clock;
///
/// # async fn example() -> Result<(), ConfigError> {
/// let config = match client::infer().await {
///     // Such as `kubectl proxy` offers.
///     Err(ConfigError::Nowhere(_)) => Config::new("http://127.0.0.1:8001".parse().unwrap()),
///     inferred => inferred?,
/// };
/// let client = client::connect(config, &Clock::system())?;
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Neither a kubeconfig nor a mounted service account: say where the server is.
    #[error("found neither a kubeconfig nor a service account")]
    Nowhere(#[source] Box<InferConfigError>),
    /// Certificates, keys or headers in the configuration make no sense.
    #[error("cannot use the configuration")]
    Unusable(#[source] Box<kube_client::Error>),
    /// The token of the service account, or the one that a kubeconfig names, cannot be read.
    #[error("cannot read the token {path}")]
    Token {
        /// Where it should be.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

/// Reads `KUBECONFIG` or `~/.kube/config`, or else what is mounted into a pod.
///
/// A kubeconfig's `proxy-url` is used, or else `HTTPS_PROXY`, which `NO_PROXY` may overrule.
pub async fn infer() -> Result<Config, ConfigError> {
    let inferred = Config::infer().await;
    let mut config = inferred.map_err(|error| ConfigError::Nowhere(Box::new(error)))?;
    let variable = |name: &str| env::var(name).or_else(|_| env::var(name.to_lowercase()));
    let proxy = variable("HTTPS_PROXY").unwrap_or_default();
    let no_proxy = variable("NO_PROXY").unwrap_or_default();
    heed_no_proxy(&mut config, &proxy, &no_proxy);
    Ok(config)
}

/// Takes the environment's proxy out of the configuration if it is not for this server. One that a
/// kubeconfig names is for its server, whatever the environment says, as for kubectl.
fn heed_no_proxy(config: &mut Config, proxy: &str, no_proxy: &str) {
    let is_from_environment = config.proxy_url.is_some() && config.proxy_url == proxy.parse().ok();
    if is_from_environment && is_spared(&config.cluster_url, no_proxy) {
        config.proxy_url = None;
    }
}

/// A client of the server that `config` names, over our [`Transport`].
///
/// Nothing is sent before the first request. Must be called within a tokio runtime.
pub fn connect(mut config: Config, clock: &Clock) -> Result<Client, ConfigError> {
    let unusable = |error| ConfigError::Unusable(Box::new(error));
    let transport = Transport::new(&config).map_err(unusable)?;
    let has_inline_token = config.auth_info.token.is_some();
    match config.auth_info.token_file.take().filter(|_| !has_inline_token) {
        Some(path) => {
            let token = TokenFile::read(&path, clock)
                .map_err(|source| ConfigError::Token { path, source })?;
            with_layers(&config, Authorized::new(transport, token)).map_err(unusable)
        }
        None => with_layers(&config, transport).map_err(unusable),
    }
}

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

    /// The proxy through which `server` is reached.
    fn check(server: &str, configured: &str, environment: &str, no_proxy: &str) -> String {
        let mut config = Config::new(server.parse().unwrap());
        config.proxy_url = Some(configured.parse().unwrap());
        heed_no_proxy(&mut config, environment, no_proxy);
        config.proxy_url.map(|url| url.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_environments_proxy_is_not_for_everybody() {
        let proxy = "http://proxy:3128/";
        assert_eq!(check("https://api.example.com", proxy, proxy, ""), proxy);
        assert_eq!(check("https://api.example.com", proxy, proxy, "example.org"), proxy);
        assert_eq!(check("https://api.example.com", proxy, proxy, "a, .example.com"), "");
        assert_eq!(check("https://10.1.2.3:6443", proxy, proxy, "10.0.0.0/8"), "");
        assert_eq!(check("https://[::1]:6443", proxy, proxy, ""), "", "nothing lies in between");
    }

    #[test]
    fn a_kubeconfigs_proxy_is_always_used() {
        let (own, other) = ("http://own:1/", "http://other:2/");
        assert_eq!(check("https://api.example.com", own, other, "*"), own);
        assert_eq!(check("https://127.0.0.1", own, "", ""), own);
    }

    #[tokio::test]
    async fn a_proxy_of_an_unknown_kind_is_refused_at_once() {
        let mut config = Config::new("https://api.example.com".parse().unwrap());
        config.proxy_url = Some("ftp://proxy:21/".parse().unwrap());
        let refused = connect(config, &Clock::system()).err().unwrap();
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert!(cause.contains("ftp://proxy:21/"), "{cause}");
    }
}
