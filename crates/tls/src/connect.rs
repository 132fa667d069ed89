//! Connections of HTTP clients: [`dial`] and [`handshake`] open one, [`HttpsConnector`] opens them for
//! a pool, and [`pool_builder`] has the settings that all pools share.

use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio_rustls::TlsConnector;
use tower_service::Service;

use crate::Stream;

type BoxError = Box<dyn StdError + Send + Sync>;

/// Opens a TCP connection that sends small requests without delay.
pub async fn dial(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
    let tcp = TcpStream::connect(address).await?;
    let _ = tcp.set_nodelay(true);
    Ok(tcp)
}

/// Performs a TLS handshake with the server `name`.
pub async fn handshake<T: AsyncRead + AsyncWrite + Unpin>(
    config: &Arc<ClientConfig>,
    name: ServerName<'static>,
    stream: T,
) -> io::Result<Stream<T>> {
    Ok(Stream::tls(TlsConnector::from(Arc::clone(config)).connect(name, stream).await?))
}

/// A builder of pools of connections, which checks HTTP/2 connections with pings: one after each
/// `interval` without a frame, which must be answered within `timeout`.
pub fn pool_builder(interval: Duration, timeout: Duration) -> Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(interval)
        .http2_keep_alive_timeout(timeout)
        .http2_keep_alive_while_idle(true);
    builder
}

/// Adds TLS to the connections of a dialer, if the scheme of the URL is `https`.
#[derive(Debug, Clone)]
pub struct HttpsConnector<D> {
    dialer: D,
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl<D> HttpsConnector<D> {
    /// A connector that negotiates the protocols of `config`.
    pub fn new(dialer: D, config: ClientConfig) -> Self {
        Self { dialer, config: Arc::new(config), server_name: None }
    }

    /// Expects `name` in the certificates of servers, instead of the host of the URL.
    #[must_use]
    pub fn with_server_name(self, name: ServerName<'static>) -> Self {
        Self { server_name: Some(name), ..self }
    }

    /// The name in the certificate of a server; none for a server without TLS.
    fn server_name(&self, server: &Uri) -> io::Result<Option<ServerName<'static>>> {
        match server.scheme_str() {
            Some("https") => {}
            Some("http") => return Ok(None),
            _ => return Err(io::Error::other(format!("{server} is neither http nor https"))),
        }
        if let Some(name) = &self.server_name {
            return Ok(Some(name.clone()));
        }
        let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
        ServerName::try_from(host.to_owned()).map(Some).map_err(io::Error::other)
    }
}

impl<D> Service<Uri> for HttpsConnector<D>
where
    D: Service<Uri, Error: Into<BoxError>, Future: Send + 'static>,
    D::Response: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    type Response = Stream<TokioIo<D::Response>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.dialer.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let name = match self.server_name(&server) {
            Ok(name) => name,
            Err(error) => return Box::pin(async move { Err(error.into()) }),
        };
        let (config, dialing) = (Arc::clone(&self.config), self.dialer.call(server));
        Box::pin(async move {
            let stream = TokioIo::new(dialing.await.map_err(Into::into)?);
            match name {
                Some(name) => Ok(handshake(&config, name, stream).await?),
                None => Ok(Stream::plain(stream)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::client::legacy::connect::{Connection, HttpConnector};
    use rustls::ServerConfig;
    use rustls::crypto::ring;
    use rustls::pki_types::PrivateKeyDer;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::fixtures::{TestCertificate, params, self_signed};
    use crate::{Trust, client_config};
    use keel::Tasks;

    /// A server that completes one TLS handshake with `certificate`, or accepts one connection
    /// without TLS; the port of the server.
    async fn server(certificate: Option<&TestCertificate>, protocol: &[u8]) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = certificate.map(|it| {
            let key = PrivateKeyDer::try_from(it.key.serialize_der()).unwrap();
            let provider = Arc::new(ring::default_provider());
            let mut config = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![it.der.clone()], key)
                .unwrap();
            config.alpn_protocols = vec![protocol.to_vec()];
            TlsAcceptor::from(Arc::new(config))
        });
        Tasks::new().spawn("server", async move {
            let (tcp, _) = listener.accept().await.unwrap();
            match acceptor {
                Some(acceptor) => drop(acceptor.accept(tcp).await),
                None => drop(tcp),
            }
        });
        port
    }

    fn connector(certificate: &TestCertificate) -> HttpsConnector<HttpConnector> {
        let trust = Trust::CaBundle(certificate.pem.as_str().into());
        let mut config = client_config(&trust, None).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        HttpsConnector::new(tcp, config)
    }

    #[tokio::test]
    async fn a_connection_reports_the_negotiated_protocol() {
        let certificate = self_signed(params("localhost"));
        for (protocol, is_http2) in [(&b"h2"[..], true), (b"http/1.1", false)] {
            let port = server(Some(&certificate), protocol).await;
            let url = format!("https://localhost:{port}").parse().unwrap();
            let stream = connector(&certificate).call(url).await.unwrap();
            assert_eq!(stream.is_http2(), is_http2);
            assert_eq!(stream.connected().is_negotiated_h2(), is_http2);
        }
    }

    #[tokio::test]
    async fn a_given_server_name_replaces_the_host_of_the_url() {
        let certificate = self_signed(params("other.example"));
        let name = ServerName::try_from("other.example").unwrap();
        let port = server(Some(&certificate), b"h2").await;
        let url: Uri = format!("https://127.0.0.1:{port}").parse().unwrap();
        connector(&certificate).with_server_name(name).call(url).await.unwrap();
        let port = server(Some(&certificate), b"h2").await;
        let url: Uri = format!("https://127.0.0.1:{port}").parse().unwrap();
        assert!(connector(&certificate).call(url).await.is_err());
    }

    #[tokio::test]
    async fn only_https_urls_use_tls_and_other_schemes_are_refused() {
        let certificate = self_signed(params("localhost"));
        let port = server(None, b"").await;
        let url = format!("http://127.0.0.1:{port}").parse().unwrap();
        assert!(!connector(&certificate).call(url).await.unwrap().is_http2());
        let error = connector(&certificate).call("ftp://localhost".parse().unwrap()).await;
        assert_eq!(error.unwrap_err().to_string(), "ftp://localhost/ is neither http nor https");
    }

    #[tokio::test]
    async fn the_extra_value_of_a_stream_is_in_its_metadata() {
        let port = server(None, b"").await;
        let tcp = dial(("127.0.0.1", port)).await.unwrap();
        let connected = Stream::plain(tcp).with_extra(7_u8).connected();
        let mut extras = http::Extensions::new();
        connected.get_extras(&mut extras);
        assert_eq!(extras.get(), Some(&7_u8));
    }

    #[test]
    fn a_bundle_without_certificates_is_refused() {
        let trust = Trust::CaBundle("rubbish".into());
        let message = "unable to load root certificates: unable to parse bytes as PEM block";
        assert_eq!(client_config(&trust, None).unwrap_err().to_string(), message);
    }
}
