//! Clients that hold a connection to the webhook server and do not use it, or send slowly.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::https;
use crate::plane::{Plane, certificate_options, server_options};
use runtime::webhook::{Certificates, Handler, ServerOptions, WebhookServer};

const SOON: Duration = Duration::from_millis(200);
const NEVER: Duration = Duration::from_hours(1);
const TIMEOUT: Duration = Duration::from_secs(20);

/// The HTTP/2 connection preface, with an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

struct Server {
    plane: Plane,
    bundle: String,
    address: SocketAddr,
}

impl Server {
    async fn start(options: ServerOptions) -> Self {
        let plane = Plane::start().await;
        let Plane { client, clock, entropy, tasks, .. } = &plane;
        let certificates =
            Certificates::start(client.clone(), certificate_options(), clock, entropy, tasks);
        let certificates = certificates.await.unwrap();
        let server = WebhookServer::new(ServerOptions { drain_timeout: SOON, ..options })
            .at("/echo", Handler::new(async |body| Ok(body)));
        let address = server.start(&certificates.serving(), clock, tasks).await.unwrap();
        let bundle = certificates.bundle().borrow().clone();
        Self { plane, bundle, address }
    }

    async fn connect(&self, protocols: &[&str]) -> TlsStream<TcpStream> {
        https::connect(self.address, &self.bundle, &self.plane.clock, protocols).await.unwrap()
    }
}

fn options(first_request_timeout: Duration, idle_timeout: Duration) -> ServerOptions {
    ServerOptions { first_request_timeout, idle_timeout, ..server_options() }
}

/// Waits until the server closes a connection, and returns whether it does so in time.
async fn is_closed(stream: &mut TlsStream<TcpStream>) -> bool {
    timeout(TIMEOUT, stream.read_to_end(&mut Vec::new())).await.is_ok()
}

/// Sends a request with the body `ok` and returns the code of the response, whose body is `ok` too.
async fn exchange(stream: &mut TlsStream<TcpStream>, request: &str) -> std::io::Result<String> {
    stream.write_all(format!("{request} HTTP/1.1\r\nhost: a\r\n").as_bytes()).await?;
    stream.write_all(b"content-length: 2\r\n\r\nok").await?;
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\nok") {
        if stream.read_buf(&mut response).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(String::from_utf8(response).unwrap()[9..12].to_owned())
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let server = Server::start(options(SOON, NEVER)).await;
    for protocols in [&["h2"][..], &["http/1.1"], &[]] {
        let mut silent = server.connect(protocols).await;
        assert!(is_closed(&mut silent).await, "{protocols:?}");
    }
}

#[tokio::test]
async fn a_connection_with_an_incomplete_request_is_closed() {
    let server = Server::start(options(SOON, NEVER)).await;
    let beginnings = [("h2", &PREFACE[..7]), ("h2", PREFACE), ("http/1.1", b"GET /readyz HT")];
    for (protocol, beginning) in beginnings {
        let mut slow = server.connect(&[protocol]).await;
        slow.write_all(beginning).await.unwrap();
        assert!(is_closed(&mut slow).await, "{protocol}, after {} bytes", beginning.len());
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = Server::start(options(NEVER, SOON)).await;
    let mut idle = server.connect(&["http/1.1"]).await;
    assert_eq!(exchange(&mut idle, "POST /echo").await.unwrap(), "200");
    assert!(is_closed(&mut idle).await);
}

#[tokio::test]
async fn health_requests_do_not_keep_a_connection_open() {
    let server = Server::start(options(NEVER, SOON)).await;
    let mut connection = server.connect(&["http/1.1"]).await;
    let until_closed = async {
        while exchange(&mut connection, "GET /healthz").await.is_ok() {
            tokio::time::sleep(SOON / 4).await;
        }
    };
    assert!(timeout(TIMEOUT, until_closed).await.is_ok(), "the connection is never closed");
}

#[tokio::test]
async fn a_new_connection_evicts_an_idle_one_on_which_no_review_was_answered() {
    let limited = ServerOptions { max_connections: 3, ..options(NEVER, NEVER) };
    let server = Server::start(limited).await;
    let mut of_api_server = server.connect(&["http/1.1"]).await;
    assert_eq!(exchange(&mut of_api_server, "POST /echo").await.unwrap(), "200");
    let mut idle = Vec::new();
    for _ in 0..5 {
        let mut connection = server.connect(&["http/1.1"]).await;
        let served = timeout(TIMEOUT, exchange(&mut connection, "GET /healthz")).await;
        assert_eq!(served.expect("the connection is served").unwrap(), "200");
        idle.push(connection);
    }
    for evicted in &mut idle[..3] {
        assert!(is_closed(evicted).await);
    }
    assert_eq!(exchange(&mut idle[3], "GET /healthz").await.unwrap(), "200");
    assert_eq!(exchange(&mut of_api_server, "POST /echo").await.unwrap(), "200");
}

#[tokio::test]
async fn a_body_that_arrives_byte_by_byte_is_refused() {
    let limited =
        ServerOptions { body_timeout: SOON, handler_timeout: NEVER, ..options(NEVER, NEVER) };
    let server = Server::start(limited).await;
    let stream = server.connect(&["http/1.1"]).await;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let head = b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n";
    writer.write_all(head).await.unwrap();
    writer.write_all(&vec![b' '; 40_000]).await.unwrap();
    let trickle = async {
        while writer.write_all(b" ").await.is_ok() && writer.flush().await.is_ok() {
            tokio::time::sleep(SOON / 10).await;
        }
        std::future::pending::<()>().await;
    };
    let mut code = [0; 12];
    let refused = tokio::select! {
        refused = timeout(TIMEOUT, reader.read_exact(&mut code)) => refused,
        () = trickle => return,
    };
    refused.expect("the body is refused in time").unwrap();
    assert_eq!(&code, b"HTTP/1.1 408");
}

#[tokio::test]
async fn an_http2_connection_has_a_limited_number_of_streams() {
    let server = Server::start(options(NEVER, NEVER)).await;
    let mut connection = server.connect(&["h2"]).await;
    connection.write_all(PREFACE).await.unwrap();
    let mut head = [0; 9];
    connection.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "the first frame has the settings");
    let mut settings = vec![0; usize::from(head[2])];
    connection.read_exact(&mut settings).await.unwrap();
    let max_streams = settings.chunks(6).find(|it| it[..2] == [0, 3]).unwrap();
    assert_eq!(max_streams[2..], 100_u32.to_be_bytes());
}
