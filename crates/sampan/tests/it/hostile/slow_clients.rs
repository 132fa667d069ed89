//! Slow clients, and a server in this process with short timeouts.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::Instant;

use super::http2::{
    END_HEADERS, END_STREAM, HEADERS, RST_STREAM, RawHttp2, ZERO_WINDOW, frame, get,
};
use super::{COLLECTION, JSON, assert_refused};
use crate::http::{Client, Connection, Credentials, read_response};
use apiserver::Timeouts;
use machinery::json;
use testenv::TestEnv;

/// Every timeout of the server.
const TIMEOUT: Duration = Duration::from_millis(300);

/// The limit after which a connection counts as not closed.
const CLOSE_DEADLINE: Duration = Duration::from_secs(10);

/// A server in this process with short timeouts.
struct ShortTimeoutServer {
    runtime: Runtime,
    env: TestEnv,
    url: String,
    credentials: Credentials,
}

impl ShortTimeoutServer {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let timeouts =
            Timeouts { handshake: TIMEOUT, head: TIMEOUT, request: TIMEOUT, answer: TIMEOUT };
        let builder = TestEnv::builder().system_clock().listen();
        let env = runtime.block_on(builder.config(|config| config.timeouts = timeouts).start());
        let server = env.server();
        let url = format!("https://{}", server.address().unwrap());
        let admin = server.admin().unwrap();
        let credentials = Credentials {
            authority: server.authority().into(),
            certificate: admin.certificate.into(),
            key: admin.key.into(),
        };
        Self { runtime, env, url, credentials }
    }

    fn client(&self, protocol: &str) -> Client {
        let mut tls = self.credentials.tls();
        tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Client::with_tls(&self.url, tls)
    }

    /// Checks that other clients are served, and that the server stops cleanly.
    fn assert_healthy(self) {
        assert_eq!(self.client("http/1.1").send("GET", "/readyz", None).unwrap().0, 200);
        self.runtime.block_on(self.env.stop()).unwrap();
    }
}

/// Checks that the server closes the connection in time.
fn assert_closed_in_time(stream: &mut impl Read, since: Instant, what: &str) {
    let mut rest = Vec::new();
    if let Err(error) = stream.read_to_end(&mut rest) {
        assert_ne!(error.kind(), ErrorKind::WouldBlock, "{what} is still open");
    }
    assert!(since.elapsed() < CLOSE_DEADLINE, "{what} was closed after {:?}", since.elapsed());
}

/// A connection after the TLS handshake, on which `begin` was sent.
fn open(client: &Client, begin: &[u8]) -> Connection {
    let mut connection = client.connect().unwrap();
    connection.get_mut().write_all(begin).unwrap();
    let connected = connection.get_mut();
    while connected.conn.is_handshaking() {
        connected.conn.complete_io(&mut connected.sock).unwrap();
    }
    connection
}

#[test]
fn silent_and_incomplete_requests_are_closed() {
    let server = ShortTimeoutServer::start();
    let cases: [(&str, &[u8]); 6] = [
        ("http/1.1", b""),
        ("http/1.1", b"GET /readyz HTTP/1.1\r\nhost: "),
        ("http/1.1", b"PRI * HTTP/2.0\r\n"),
        ("h2", b""),
        ("h2", b"PRI * HT"),
        ("h2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ];
    let since = Instant::now();
    let mut silent = TcpStream::connect(server.url.strip_prefix("https://").unwrap()).unwrap();
    silent.set_read_timeout(Some(CLOSE_DEADLINE)).unwrap();
    let opened = cases.map(|(protocol, begin)| open(&server.client(protocol), begin));
    assert_eq!(server.client("http/1.1").send("GET", "/readyz", None).unwrap().0, 200);
    for (mut connection, (protocol, begin)) in opened.into_iter().zip(cases) {
        let what = format!("{protocol} {}", String::from_utf8_lossy(begin));
        assert_closed_in_time(&mut connection, since, &what);
    }
    assert_closed_in_time(&mut silent, since, "a connection without a handshake");
    server.assert_healthy();
}

#[test]
fn a_slow_request_head_is_closed() {
    let server = ShortTimeoutServer::start();
    let mut connection = open(&server.client("http/1.1"), b"GET /readyz HTTP/1.1\r\nh: ");
    let since = Instant::now();
    connection.get_ref().sock.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    loop {
        assert!(since.elapsed() < CLOSE_DEADLINE, "the connection is still open");
        if connection.get_mut().write_all(b"x").is_err() {
            break;
        }
        match connection.get_mut().read(&mut [0; 100]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    server.assert_healthy();
}

#[test]
fn an_endless_body_gets_a_response_at_the_request_deadline() {
    let server = ShortTimeoutServer::start();
    let head = format!(
        "POST {COLLECTION} HTTP/1.1\r\nhost: x\r\ncontent-type: {JSON}\r\ncontent-length: 1000\r\n\r\n{{"
    );
    let since = Instant::now();
    let mut connection = open(&server.client("http/1.1"), head.as_bytes());
    let response = read_response(&mut connection, "POST").unwrap();
    let message = "Timeout: request did not complete within the allotted timeout";
    assert_refused(&response, 504, "Timeout", message);
    assert_closed_in_time(&mut connection, since, "a body without end");
    server.assert_healthy();
}

#[test]
fn a_watch_outlives_the_request_deadline() {
    let server = ShortTimeoutServer::start();
    let path = format!("{COLLECTION}?watch=1&timeoutSeconds=1");
    let since = Instant::now();
    let mut events = server.client("http/1.1").watch(&path).unwrap();
    assert_eq!(events.next().unwrap(), None);
    assert!(since.elapsed() > 2 * TIMEOUT, "it ended after {:?}", since.elapsed());
    server.assert_healthy();
}

#[test]
fn an_unread_http_2_response_is_reset_and_its_connection_stays() {
    let server = ShortTimeoutServer::start();
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(100_000)}});
    let (code, _) = server.client("http/1.1").send("POST", COLLECTION, Some(&object)).unwrap();
    assert_eq!(code, 201);
    let mut raw = RawHttp2::connect_by(&server.client("h2"), &ZERO_WINDOW);
    for (stream, path) in [(1, format!("{COLLECTION}/a")), (3, COLLECTION.to_owned())] {
        raw.send(&frame(HEADERS, END_STREAM | END_HEADERS, stream, &get(&path))).unwrap();
        for kind in [HEADERS, RST_STREAM] {
            let found = loop {
                let frame = raw.read().unwrap();
                if frame.stream == stream {
                    break frame;
                }
            };
            assert_eq!(found.kind, kind, "{path}");
        }
    }
    drop(raw);
    server.assert_healthy();
}

#[test]
fn a_connection_with_an_unread_http_1_response_is_closed() {
    const COUNT: usize = 20;
    const SIZE: usize = 1_000_000;
    let server = ShortTimeoutServer::start();
    let mut client = server.client("http/1.1");
    for name in 0..COUNT {
        let data = json!({"k": "x".repeat(SIZE)});
        let object = json!({"metadata": {"name": format!("a{name}")}, "data": data});
        assert_eq!(client.send("POST", COLLECTION, Some(&object)).unwrap().0, 201);
    }
    let request = format!("GET {COLLECTION} HTTP/1.1\r\nhost: x\r\n\r\n");
    let mut connection = open(&server.client("http/1.1"), request.as_bytes());
    connection.read_exact(&mut [0; 10]).unwrap();
    let since = Instant::now();
    while since.elapsed() < 10 * TIMEOUT {
        assert_eq!(client.send("GET", "/readyz", None).unwrap().0, 200);
    }
    let mut rest = Vec::new();
    let _ = connection.read_to_end(&mut rest);
    assert!(rest.len() < COUNT * SIZE, "the whole response was sent");
    server.assert_healthy();
}
