//! An HTTPS client for webhook servers, which trusts a given CA and uses a given clock.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use keel::Clock;

/// The clock of a test as the clock of rustls.
#[derive(Debug)]
struct TestTime(Clock);

impl TimeProvider for TestTime {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().seconds()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// A TLS connection on which no request was sent. `protocols` are offered by ALPN.
pub(crate) async fn connect(
    address: SocketAddr,
    bundle: &str,
    clock: &Clock,
    protocols: &[&str],
) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let (provider, time) = (Arc::new(ring::default_provider()), Arc::new(TestTime(clock.clone())));
    let mut config = ClientConfig::builder_with_details(provider, time)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Sends a POST, or a GET if the body is empty, and returns the code and the body of the response.
pub(crate) async fn send(
    address: SocketAddr,
    bundle: &str,
    clock: &Clock,
    path: &str,
    body: &str,
) -> io::Result<(u16, String)> {
    let mut stream = connect(address, bundle, clock, &[]).await?;
    let method = if body.is_empty() { "GET" } else { "POST" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    // A server that refuses a body need not read it.
    let _ = stream.write_all(body.as_bytes()).await;
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    let response = String::from_utf8(response).unwrap();
    let code = response.split(' ').nth(1).unwrap().parse().unwrap();
    Ok((code, response.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned()))
}
