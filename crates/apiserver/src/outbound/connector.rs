//! [`Connector`]: opens TCP and TLS connections to one destination.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use super::Destination;
use machinery::timestamp;
use tls::{ConfigError, client_config};

/// See the [module documentation](self).
#[derive(Clone)]
pub(crate) struct Connector {
    name: ServerName<'static>,
    addresses: Arc<[String]>,
    config: Arc<ClientConfig>,
    /// The [`AddressIndex`] that the next connection tries first, shared by all clones.
    first: Arc<AtomicUsize>,
}

/// The address of a connection: a counter that stands for the address with the index
/// `counter % addresses.len()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressIndex(usize);

/// The time limit for a connection to an address, including the handshake, if another address remains.
pub(super) const ADDRESS_TIMEOUT: Duration = Duration::from_secs(2);

/// The time limit for a connection to the last address.
const LAST_ADDRESS_TIMEOUT: Duration = Duration::from_secs(30);

impl Connector {
    /// A connector for connections to `to`.
    pub(super) fn new(to: &Destination) -> Result<Self, ConfigError> {
        let bad_name = |_| ConfigError::Name(to.server_name.clone());
        let name = ServerName::try_from(to.server_name.clone()).map_err(bad_name)?;
        let mut config = client_config(&to.trust, to.identity.as_ref())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            name,
            addresses: Arc::clone(&to.addresses),
            config: Arc::new(config),
            first: Arc::default(),
        })
    }

    /// The addresses to dial.
    pub(super) fn addresses(&self) -> &Arc<[String]> {
        &self.addresses
    }

    /// A connector with the same TLS settings and other addresses.
    pub(super) fn with_addresses(&self, addresses: &Arc<[String]>) -> Self {
        Self {
            name: self.name.clone(),
            addresses: Arc::clone(addresses),
            config: Arc::clone(&self.config),
            first: Arc::default(),
        }
    }

    /// Begins with the next address from now on, if the connector would begin with this one.
    pub(super) fn skip_address(&self, AddressIndex(index): AddressIndex) {
        let order = Ordering::Relaxed;
        // Fails if another connection has already changed the first address.
        let _ = self.first.compare_exchange(index, index.wrapping_add(1), order, order);
    }

    /// Connects to the first address that completes a handshake.
    async fn connect(self, uri: Uri) -> io::Result<Stream> {
        let addresses = if self.addresses.is_empty() {
            let host = uri.host().unwrap_or_default();
            resolve(&[format!("{host}:{}", uri.port_u16().unwrap_or(443))]).await?
        } else {
            resolve(&self.addresses).await?
        };
        let first = self.first.load(Ordering::Relaxed);
        let mut last_error = dial_error("dial tcp: no address to dial");
        for attempt in 0..addresses.len() {
            let index = first.wrapping_add(attempt);
            let address = addresses[index % addresses.len()];
            // If this future is dropped while it waits, the next connection begins with the next address.
            self.first.store(index.wrapping_add(1), Ordering::Relaxed);
            let is_last = attempt + 1 == addresses.len();
            let limit = if is_last { LAST_ADDRESS_TIMEOUT } else { ADDRESS_TIMEOUT };
            match timeout(limit, self.connect_to(address)).await {
                Ok(Ok(stream)) => {
                    self.first.store(index, Ordering::Relaxed);
                    return Ok(stream.with_extra(AddressIndex(index)));
                }
                Ok(Err(error)) => last_error = error,
                Err(_) => last_error = dial_error(&format!("dial tcp {address}: i/o timeout")),
            }
        }
        Err(last_error)
    }

    async fn connect_to(&self, address: SocketAddr) -> io::Result<tls::Stream<TcpStream>> {
        let tcp = tls::dial(address).await.map_err(|error| {
            dial_error(&format!("dial tcp {address}: connect: {}", dial_message(&error)))
        })?;
        let handshake = tls::handshake(&self.config, self.name.clone(), tcp).await;
        handshake.map_err(|error| dial_error(&tls_message(&error)))
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// Resolves the names to addresses; an error if none is found.
async fn resolve(names: &[String]) -> io::Result<Vec<SocketAddr>> {
    let mut last_error = dial_error("dial tcp: no address to dial");
    let mut addresses = Vec::with_capacity(names.len());
    for name in names {
        if let Ok(found) = tokio::net::lookup_host(name).await {
            addresses.extend(found);
        } else {
            let host = name.rsplit_once(':').map_or(name.as_str(), |(host, _)| host);
            last_error = dial_error(&format!("dial tcp: lookup {host}: no such host"));
        }
    }
    if addresses.is_empty() { Err(last_error) } else { Ok(addresses) }
}

fn dial_error(message: &str) -> io::Error {
    io::Error::other(message)
}

fn dial_message(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        _ => error.to_string(),
    }
}

/// Go's message for a failed handshake.
fn tls_message(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
    let Some(inner) = inner else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => "EOF".to_owned(),
            _ => error.to_string(),
        };
    };
    match inner {
        rustls::Error::InvalidCertificate(why) => {
            format!("tls: failed to verify certificate: x509: {}", certificate_message(why))
        }
        rustls::Error::InvalidMessage(_) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        other => format!("tls: {other}"),
    }
}

/// Go's message for a certificate that is not accepted.
fn certificate_message(why: &CertificateError) -> String {
    let formatted = |time: &UnixTime| {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        timestamp::format_seconds(seconds)
    };
    match why {
        // A bad signature means an unknown authority with the same name as a known one.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => format!(
            "certificate has expired or is not yet valid: current time {} is after {}",
            formatted(time),
            formatted(not_after)
        ),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "certificate has expired or is not yet valid: current time {} is before {}",
            formatted(time),
            formatted(not_before)
        ),
        CertificateError::Expired | CertificateError::NotValidYet => {
            "certificate has expired or is not yet valid".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::UnhandledCriticalExtension => "unhandled critical extension".to_owned(),
        // The errors of `tls::ServerVerifier`: a name that does not match, a key that is not supported.
        CertificateError::Other(other) => other.0.to_string(),
        other => other.to_string(),
    }
}

/// A connection, whose metadata has its [`AddressIndex`].
pub(crate) type Stream = tls::Stream<TcpStream, AddressIndex>;
