//! [`is_running`]: whether the server of a kubeconfig entry accepts connections.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use tls::{Trust, client_config};

/// The limit of connecting, of a read and of a write. A plane on this machine responds within
/// milliseconds.
const IO_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns whether the server at a URL has a certificate signed by an authority, in PEM. Another
/// program that uses the port of a stopped server does not count.
pub(super) fn is_running(url: &str, authority: &[u8]) -> bool {
    handshake(url, authority).is_ok()
}

fn handshake(url: &str, authority: &[u8]) -> io::Result<()> {
    let address = url.strip_prefix("https://").unwrap_or(url).trim_end_matches('/');
    let (host, _) = address.rsplit_once(':').unwrap_or((address, ""));
    let host = host.trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let trust = Trust::CaBundle(String::from_utf8_lossy(authority).into());
    let config = client_config(&trust, None).map_err(io::Error::other)?;
    let mut tls = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let address = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(&address, IO_TIMEOUT)?;
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    while tls.is_handshaking() {
        tls.complete_io(&mut stream)?;
    }
    Ok(())
}
