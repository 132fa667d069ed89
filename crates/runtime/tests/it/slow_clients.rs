//! Clients that hold a connection to the webhook server and do not use it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::https;
use crate::plane::{Plane, certificate_options, server_options};
use runtime::webhook::{Certificates, ServerOptions, WebhookServer};

const SOON: Duration = Duration::from_millis(200);
const NEVER: Duration = Duration::from_hours(1);

/// The HTTP/2 connection preface, with an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A server that accepts one connection at a time.
struct SingleConnectionServer {
    plane: Plane,
    bundle: String,
    address: SocketAddr,
}

impl SingleConnectionServer {
    async fn start(first_request_timeout: Duration, idle_timeout: Duration) -> Self {
        let plane = Plane::start().await;
        let Plane { client, clock, entropy, tasks, .. } = &plane;
        let certificates =
            Certificates::start(client.clone(), certificate_options(), clock, entropy, tasks);
        let certificates = certificates.await.unwrap();
        let options = ServerOptions {
            max_connections: 1,
            first_request_timeout,
            idle_timeout,
            drain_timeout: SOON,
            ..server_options()
        };
        let server = WebhookServer::new(options);
        let address = server.start(&certificates.serving(), clock, tasks).await.unwrap();
        let bundle = certificates.bundle().borrow().clone();
        Self { plane, bundle, address }
    }

    async fn connect(&self, protocols: &[&str]) -> TlsStream<TcpStream> {
        https::connect(self.address, &self.bundle, &self.plane.clock, protocols).await.unwrap()
    }

    /// Whether another connection is accepted soon.
    async fn serves(&self) -> bool {
        let request = https::send(self.address, &self.bundle, &self.plane.clock, "/readyz", "");
        timeout(Duration::from_secs(20), request).await.is_ok_and(|it| it.unwrap().0 == 200)
    }
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let server = SingleConnectionServer::start(SOON, NEVER).await;
    for protocols in [&["h2"][..], &["http/1.1"], &[]] {
        let _silent = server.connect(protocols).await;
        assert!(server.serves().await, "{protocols:?}");
    }
}

#[tokio::test]
async fn a_connection_with_an_incomplete_request_is_closed() {
    let server = SingleConnectionServer::start(SOON, NEVER).await;
    let beginnings = [("h2", &PREFACE[..7]), ("h2", PREFACE), ("http/1.1", b"GET /readyz HT")];
    for (protocol, beginning) in beginnings {
        let mut slow = server.connect(&[protocol]).await;
        slow.write_all(beginning).await.unwrap();
        assert!(server.serves().await, "{protocol}, after {} bytes", beginning.len());
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = SingleConnectionServer::start(NEVER, SOON).await;
    let mut idle = server.connect(&["http/1.1"]).await;
    idle.write_all(b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut response = [0; 12];
    idle.read_exact(&mut response).await.unwrap();
    assert_eq!(&response, b"HTTP/1.1 200");
    assert!(server.serves().await);
}
