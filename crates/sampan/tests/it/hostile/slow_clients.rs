//! Clients that take their time, against a server in this process that has little patience.

use super::http2::{END_HEADERS, END_STREAM, HEADERS, RST_STREAM, Rude, SHUT, frame, get};
use super::{COLLECTION, JSON, assert_refused};
use crate::http::{Client, Connection, Credentials, read_answer};
use apiserver::{Config, Server, Timeouts};
use machinery::json;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::Instant;

/// How long a client may take for anything.
const PATIENCE: Duration = Duration::from_millis(300);

/// A server that is late by this much has forgotten its client.
const LATE: Duration = Duration::from_secs(10);

/// A server of this test's own.
struct Impatient {
    runtime: Runtime,
    server: Server,
    url: String,
    credentials: Credentials,
}

impl Impatient {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let config = Config {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            timeouts: Timeouts {
                handshake: PATIENCE,
                head: PATIENCE,
                request: PATIENCE,
                answer: PATIENCE,
            },
            ..Config::default()
        };
        let server = runtime.block_on(Server::start(config)).unwrap();
        let url = format!("https://{}", server.address().unwrap());
        let admin = server.admin().unwrap();
        let credentials = Credentials {
            authority: server.authority().into(),
            certificate: admin.certificate.into(),
            key: admin.key.into(),
        };
        Self { runtime, server, url, credentials }
    }

    fn client(&self, protocol: &str) -> Client {
        let mut tls = self.credentials.tls();
        tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Client::with_tls(&self.url, tls)
    }

    /// Others are served, and it stops as it should.
    fn survived(self) {
        assert_eq!(self.client("http/1.1").send("GET", "/readyz", None).unwrap().0, 200);
        self.runtime.block_on(self.server.stop()).unwrap();
    }
}

/// The other side closes the connection, in good time.
fn assert_cut_off(stream: &mut impl Read, since: Instant, what: &str) {
    let mut rest = Vec::new();
    if let Err(error) = stream.read_to_end(&mut rest) {
        assert_ne!(error.kind(), ErrorKind::WouldBlock, "{what} was not cut off");
    }
    assert!(since.elapsed() < LATE, "{what} was cut off after {:?}", since.elapsed());
}

/// A connection whose handshake is over, and on which `begin` was said.
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
fn who_says_nothing_or_half_of_it_is_cut_off() {
    let impatient = Impatient::start();
    let cases: [(&str, &[u8]); 6] = [
        ("http/1.1", b""),
        ("http/1.1", b"GET /readyz HTTP/1.1\r\nhost: "),
        ("http/1.1", b"PRI * HTTP/2.0\r\n"),
        ("h2", b""),
        ("h2", b"PRI * HT"),
        ("h2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ];
    let since = Instant::now();
    let mut silent = TcpStream::connect(impatient.url.strip_prefix("https://").unwrap()).unwrap();
    silent.set_read_timeout(Some(LATE)).unwrap();
    let opened = cases.map(|(protocol, begin)| open(&impatient.client(protocol), begin));
    assert_eq!(impatient.client("http/1.1").send("GET", "/readyz", None).unwrap().0, 200);
    for (mut connection, (protocol, begin)) in opened.into_iter().zip(cases) {
        let what = format!("{protocol} {}", String::from_utf8_lossy(begin));
        assert_cut_off(&mut connection, since, &what);
    }
    assert_cut_off(&mut silent, since, "a handshake that never came");
    impatient.survived();
}

#[test]
fn a_head_that_comes_drop_by_drop_is_cut_off() {
    let impatient = Impatient::start();
    let mut connection = open(&impatient.client("http/1.1"), b"GET /readyz HTTP/1.1\r\nh: ");
    let since = Instant::now();
    connection.get_ref().sock.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    loop {
        assert!(since.elapsed() < LATE, "it is still listened to");
        if connection.get_mut().write_all(b"x").is_err() {
            break;
        }
        match connection.get_mut().read(&mut [0; 100]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    impatient.survived();
}

#[test]
fn a_body_that_never_ends_is_answered_when_time_is_up() {
    let impatient = Impatient::start();
    let head = format!(
        "POST {COLLECTION} HTTP/1.1\r\nhost: x\r\ncontent-type: {JSON}\r\ncontent-length: 1000\r\n\r\n{{"
    );
    let since = Instant::now();
    let mut connection = open(&impatient.client("http/1.1"), head.as_bytes());
    let answer = read_answer(&mut connection, "POST").unwrap();
    let message = "Timeout: request did not complete within the allotted timeout";
    assert_refused(&answer, 504, "Timeout", message);
    assert_cut_off(&mut connection, since, "a body without end");
    impatient.survived();
}

#[test]
fn a_watch_is_not_hurried() {
    let impatient = Impatient::start();
    let path = format!("{COLLECTION}?watch=1&timeoutSeconds=1");
    let since = Instant::now();
    let mut events = impatient.client("http/1.1").watch(&path).unwrap();
    assert_eq!(events.next().unwrap(), None);
    assert!(since.elapsed() > 2 * PATIENCE, "it ended after {:?}", since.elapsed());
    impatient.survived();
}

#[test]
fn an_answer_that_is_not_read_is_reset_and_its_connection_goes_on() {
    let impatient = Impatient::start();
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(100_000)}});
    let (code, _) = impatient.client("http/1.1").send("POST", COLLECTION, Some(&object)).unwrap();
    assert_eq!(code, 201);
    let mut rude = Rude::begin(&impatient.client("h2"), &SHUT);
    for (stream, path) in [(1, format!("{COLLECTION}/a")), (3, COLLECTION.to_owned())] {
        rude.send(&frame(HEADERS, END_STREAM | END_HEADERS, stream, &get(&path))).unwrap();
        for kind in [HEADERS, RST_STREAM] {
            let found = loop {
                let frame = rude.read().unwrap();
                if frame.stream == stream {
                    break frame;
                }
            };
            assert_eq!(found.kind, kind, "{path}");
        }
    }
    drop(rude);
    impatient.survived();
}

#[test]
fn a_connection_whose_answer_is_not_read_is_closed() {
    const COUNT: usize = 20;
    const SIZE: usize = 1_000_000;
    let impatient = Impatient::start();
    let mut client = impatient.client("http/1.1");
    for name in 0..COUNT {
        let data = json!({"k": "x".repeat(SIZE)});
        let object = json!({"metadata": {"name": format!("a{name}")}, "data": data});
        assert_eq!(client.send("POST", COLLECTION, Some(&object)).unwrap().0, 201);
    }
    let request = format!("GET {COLLECTION} HTTP/1.1\r\nhost: x\r\n\r\n");
    let mut connection = open(&impatient.client("http/1.1"), request.as_bytes());
    connection.read_exact(&mut [0; 10]).unwrap();
    let since = Instant::now();
    while since.elapsed() < 10 * PATIENCE {
        assert_eq!(client.send("GET", "/readyz", None).unwrap().0, 200);
    }
    let mut rest = Vec::new();
    let _ = connection.read_to_end(&mut rest);
    assert!(rest.len() < COUNT * SIZE, "it was sent all the same");
    impatient.survived();
}
