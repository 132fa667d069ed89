//! [`Dialer`]: connects to the server directly, or through the proxy of the configuration (`http`,
//! `https`, `socks5`, `socks5h`).
//!
//! ```text
//! direct    ────────────────────────────────────▶ server
//! http(s)   ──▶ proxy: CONNECT server:443 ──────▶ server     TLS end to end: the proxy sees the
//! socks5(h) ──▶ proxy: SOCKS 5, its DNS ────────▶ server     address, not the content
//! ```

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use kube_client::Config;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::tls_config::tls_config;
use crate::transport::BoxError;
use tls::{HttpsConnector, Stream};

/// A connection to the server or to a proxy, with TLS if the proxy has it.
pub(crate) type DialedStream = Stream<TokioIo<TokioIo<TcpStream>>>;

type Connecting = Pin<Box<dyn Future<Output = Result<DialedStream, BoxError>> + Send>>;

/// See the [module documentation](self).
#[derive(Clone)]
pub(crate) struct Dialer {
    route: Route,
    /// The URL of the proxy without the password.
    proxy: Option<Uri>,
}

#[derive(Clone)]
enum Route {
    Direct(HttpConnector),
    Tunnel(Tunnel<HttpsConnector<HttpConnector>>),
    Socks(SocksV5<HttpConnector>),
}

/// The proxy was not reached, requires a password, or does not reach the server.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect through the proxy {proxy}")]
pub(crate) struct ProxyFailed {
    proxy: Uri,
    #[source]
    source: BoxError,
}

impl Dialer {
    /// The dialer for `config`.
    pub(crate) fn new(config: &Config) -> Result<Self, kube_client::Error> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(config.connect_timeout);
        let Some(url) = &config.proxy_url else {
            return Ok(Self { route: Route::Direct(tcp), proxy: None });
        };
        let unsupported =
            || kube_client::Error::ProxyProtocolUnsupported { proxy_url: Box::new(url.clone()) };
        let matcher = Matcher::builder().all(url.to_string()).build();
        let proxy = matcher.intercept(&config.cluster_url).ok_or_else(unsupported)?;
        let route = match proxy.uri().scheme_str() {
            Some("http" | "https") => {
                let to_proxy = HttpsConnector::new(tcp, tls_config(config)?);
                let tunnel = Tunnel::new(proxy.uri().clone(), to_proxy);
                Route::Tunnel(match proxy.basic_auth() {
                    Some(password) => tunnel.with_auth(password.clone()),
                    None => tunnel,
                })
            }
            Some("socks5" | "socks5h") => {
                let socks = SocksV5::new(with_port(proxy.uri(), 1080), tcp);
                Route::Socks(match proxy.raw_auth() {
                    Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
                    None => socks,
                })
            }
            _ => return Err(unsupported()),
        };
        Ok(Self { route, proxy: Some(proxy.uri().clone()) })
    }
}

/// Whether the server is on this machine.
pub(crate) fn is_on_this_machine(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let address = host.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Whether `NO_PROXY` in the environment excludes this server. As in Go, a server on this machine
/// is always excluded.
pub(crate) fn bypasses_proxy(server: &Uri, no_proxy: &str) -> bool {
    let matcher = Matcher::builder().all("http://proxy").no(no_proxy).build();
    is_on_this_machine(server) || matcher.intercept(server).is_none()
}

fn with_port(uri: &Uri, port: u16) -> Uri {
    let (Some(scheme), Some(host), None) = (uri.scheme(), uri.host(), uri.port()) else {
        return uri.clone();
    };
    let built = Uri::builder()
        .scheme(scheme.clone())
        .authority(format!("{host}:{port}"))
        .path_and_query("/")
        .build();
    built.unwrap_or_else(|_| uri.clone())
}

impl Service<Uri> for Dialer {
    type Response = DialedStream;
    type Error = BoxError;
    type Future = Connecting;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match &mut self.route {
            Route::Direct(tcp) => tcp.poll_ready(context).map_err(Into::into),
            Route::Tunnel(tunnel) => tunnel.poll_ready(context).map_err(Into::into),
            Route::Socks(socks) => socks.poll_ready(context).map_err(Into::into),
        }
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let proxy = self.proxy.clone();
        let failed = move |source| match proxy {
            Some(proxy) => ProxyFailed { proxy, source }.into(),
            None => source,
        };
        match &mut self.route {
            Route::Direct(tcp) => plain(tcp.call(server), failed),
            Route::Socks(socks) => plain(socks.call(server), failed),
            Route::Tunnel(tunnel) => {
                let connecting = tunnel.call(server);
                Box::pin(async move { connecting.await.map_err(|error| failed(error.into())) })
            }
        }
    }
}

/// Awaits a connection without TLS.
fn plain<E: Into<BoxError>>(
    connecting: impl Future<Output = Result<TokioIo<TcpStream>, E>> + Send + 'static,
    failed: impl FnOnce(BoxError) -> BoxError + Send + 'static,
) -> Connecting {
    Box::pin(async move {
        let stream = connecting.await.map_err(|error| failed(error.into()))?;
        Ok(Stream::plain(TokioIo::new(stream)))
    })
}
