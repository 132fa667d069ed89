//! Where the server is and who asks: a kubeconfig, or the service account that is mounted into a
//! pod, become a [`Client`].
//!
//! Files are read by kube's own [`Config`], so everything that kubectl understands (exec plugins,
//! impersonation, several files in `KUBECONFIG`) is understood here. Our own are the transport
//! below it and the token of a file, which is read again when the server does not take it any more.

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
    token_file::{Authorized, TokenFile},
    transport::{BoxError, Transport},
};

/// Why there is no client.
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
pub async fn infer() -> Result<Config, ConfigError> {
    Config::infer().await.map_err(|error| ConfigError::Nowhere(Box::new(error)))
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
