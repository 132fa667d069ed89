//! [`ServerProbe`]: asks the webhook server of this process over the network whether it is healthy, as
//! its API server would call it.
//!
//! Each probe opens a new connection, so that it fails when no connection is accepted. The server
//! counts as unreachable after two failures in succession.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use keel::{Clock, Tasks, message_with_causes};
use tls::{Trust, client_config};

/// The time between two probes.
const INTERVAL: Duration = Duration::from_secs(10);
/// The longest time of a probe; the default timeout of the API server is 10 seconds.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The number of failures after which the server counts as unreachable.
const MAX_FAILURES: u32 = 2;

const REQUEST: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

type ProbeError = Box<dyn std::error::Error + Send + Sync>;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub(crate) struct ServerProbe(Arc<watch::Sender<Failures>>);

#[derive(Debug, Default)]
struct Failures {
    count: u32,
    last: String,
}

impl ServerProbe {
    /// A probe that has not failed.
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }

    /// The reason why the server is unreachable.
    pub(crate) fn check(&self) -> Result<(), String> {
        let failures = self.0.borrow();
        if failures.count < MAX_FAILURES {
            return Ok(());
        }
        Err(format!("the webhook server does not answer: {}", failures.last))
    }

    /// Probes a server until `tasks` are stopped.
    pub(crate) fn start(&self, address: SocketAddr, clock: &Clock, tasks: &Tasks) {
        let (this, clock, stop) = (self.clone(), clock.clone(), tasks.shutdown());
        let address = reachable(address);
        tasks.spawn("webhook probe", async move {
            tokio::pin!(stop);
            loop {
                tokio::select! {
                    () = clock.sleep(INTERVAL) => {}
                    () = &mut stop => return,
                }
                let result = tokio::select! {
                    result = probe(address) => result,
                    () = &mut stop => return,
                };
                this.record(result);
            }
        });
    }

    fn record(&self, result: Result<(), String>) {
        self.0.send_modify(|failures| match result {
            Ok(()) => failures.count = 0,
            Err(reason) => {
                failures.count = failures.count.saturating_add(1);
                failures.last = reason;
            }
        });
    }
}

/// The address at which this machine reaches a server that listens on `address`.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

async fn probe(address: SocketAddr) -> Result<(), String> {
    match timeout(TIMEOUT, ask(address)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(message_with_causes(&*error)),
        Err(_) => Err(format!("no response within {} seconds", TIMEOUT.as_secs())),
    }
}

async fn ask(address: SocketAddr) -> Result<(), ProbeError> {
    // The API server verifies the certificate; the probe finds out whether there is an answer.
    let config = client_config(&Trust::Insecure, None)?;
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::from(address.ip());
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream.write_all(REQUEST).await?;
    let mut status = [0; 12];
    stream.read_exact(&mut status).await?;
    if &status == b"HTTP/1.1 200" {
        return Ok(());
    }
    Err(format!("the response is {}", String::from_utf8_lossy(&status)).into())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn the_server_is_unreachable_after_two_failures_in_succession() {
        let server_probe = ServerProbe::new();
        for (result, is_reachable) in [
            (Err("a".to_owned()), true),
            (Ok(()), true),
            (Err("b".to_owned()), true),
            (Err("c".to_owned()), false),
            (Ok(()), true),
        ] {
            server_probe.record(result);
            assert_eq!(server_probe.check().is_ok(), is_reachable);
        }
    }

    #[tokio::test]
    async fn a_server_that_accepts_no_connections_becomes_unreachable() {
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let (clock, tasks) = (Clock::manual(Clock::system().now()), Tasks::new());
        let server_probe = ServerProbe::new();
        server_probe.start(address, &clock, &tasks);
        let mut failures = server_probe.0.subscribe();
        let failed = failures.wait_for(|failures| failures.count == 2);
        tokio::pin!(failed);
        loop {
            clock.advance(INTERVAL);
            let wait = Duration::from_millis(50);
            if timeout(wait, &mut failed).await.is_ok() {
                break;
            }
        }
        let reason = server_probe.check().unwrap_err();
        assert!(reason.contains("refused"), "{reason}");
        tasks.stop(Duration::from_secs(5)).await.unwrap();
    }
}
