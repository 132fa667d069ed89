//! Clients that disconnect, or send invalid bytes below HTTP.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::{AttackedPlane, COLLECTION, JSON};
use crate::http::{Credentials, is_closed_by_server, read_response};
use machinery::json;

fn dial(attacked: &AttackedPlane) -> TcpStream {
    let stream = TcpStream::connect(attacked.plane.url.strip_prefix("https://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    stream
}

/// Checks that the server closes the connection, whatever it sends before.
fn assert_closed(stream: &mut impl Read, what: &str) {
    let mut rest = Vec::new();
    if let Err(error) = stream.read_to_end(&mut rest) {
        assert_ne!(error.kind(), ErrorKind::WouldBlock, "{what} is still open");
    }
}

#[test]
fn connections_without_tls_are_closed() {
    let attacked = AttackedPlane::start();
    let garbage: Vec<u8> =
        (0..10_000_u32).map(|it| (it.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut endless_record = vec![0x16, 3, 1, 0xff, 0xff];
    endless_record.resize(70_000, 0);
    let attacks: [&[u8]; 4] = [
        &garbage,
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &endless_record,
    ];
    for _ in 0..20 {
        for attack in attacks {
            let mut stream = dial(&attacked);
            // The server may close the connection before it has read everything.
            let _ = stream.write_all(attack);
            assert_closed(&mut stream, "a connection without TLS");
        }
        drop(dial(&attacked));
    }
    attacked.assert_healthy();
}

#[test]
fn a_client_without_alpn_speaks_http_1() {
    let attacked = AttackedPlane::start();
    let with_alpn = |protocols: &[&str]| {
        attacked.client_with(|it| {
            let mut tls = it.tls();
            tls.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
            tls
        })
    };
    for protocols in [&[][..], &["http/1.1"], &["spdy/3", "http/1.1"]] {
        assert_eq!(with_alpn(protocols).send("GET", "/readyz", None).unwrap().0, 200);
    }
    assert!(with_alpn(&["spdy/3"]).send("GET", "/readyz", None).is_err());
    attacked.assert_healthy();
}

#[test]
fn bytes_that_are_not_http_are_refused() {
    let attacked = AttackedPlane::start();
    let many = "h: x\r\n".repeat(2100);
    let large = format!("h: {}\r\n", "x".repeat(1 << 20));
    let attacks = [
        ("\x00\x01\x02\r\n\r\n".to_owned(), 400),
        ("GET /readyz\r\n\r\n".to_owned(), 400),
        ("GET /readyz HTTP/9.9\r\n\r\n".to_owned(), 400),
        ("GET /readyz HTTP/1.1\r\nno colon\r\n\r\n".to_owned(), 400),
        ("GET /readyz HTTP/1.1\r\nh: a\x00b\r\n\r\n".to_owned(), 400),
        (format!("GET /readyz HTTP/1.1\r\n{many}\r\n"), 431),
        (format!("GET /readyz HTTP/1.1\r\n{large}\r\n"), 431),
        (format!("POST {COLLECTION} HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n"), 400),
        (
            format!(
                "POST {COLLECTION} HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"
            ),
            400,
        ),
        (
            format!(
                "POST {COLLECTION} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
            ),
            400,
        ),
    ];
    for (attack, code) in attacks {
        let mut connection = attacked.client.connect().unwrap();
        let _ = connection.get_mut().write_all(attack.as_bytes());
        let shown: String = attack.chars().take(80).collect();
        match read_response(&mut connection, "GET") {
            Ok(response) => assert_eq!(response.code, code, "{shown:?}"),
            Err(error) => {
                let is_large = attack.len() > large.len();
                assert!(is_large && is_closed_by_server(&error), "{shown:?}: {error}");
                continue;
            }
        }
        assert_closed(&mut connection, &shown);
    }
    attacked.assert_healthy();
}

#[test]
fn half_closed_connections_are_closed() {
    let attacked = AttackedPlane::start();
    for request in ["", "GET /rea", "GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut connection = attacked.client.connect().unwrap();
        connection.get_mut().write_all(request.as_bytes()).unwrap();
        connection.get_mut().flush().unwrap();
        connection.get_ref().sock.shutdown(Shutdown::Write).unwrap();
        assert_closed(&mut connection, request);
    }
    let stream = dial(&attacked);
    stream.shutdown(Shutdown::Write).unwrap();
    assert_closed(&mut &stream, "a connection without a handshake");
    attacked.assert_healthy();
}

/// 200 writes can be in progress: if these clients occupied their seats, none would be left.
#[test]
fn clients_that_disconnect_within_a_body_release_their_seats() {
    let mut attacked = AttackedPlane::start();
    let head = format!(
        "POST {COLLECTION} HTTP/1.1\r\nhost: x\r\ncontent-type: {JSON}\r\ncontent-length: 1000\r\n\r\n{{"
    );
    for _ in 0..250 {
        let mut connection = attacked.client.connect().unwrap();
        connection.get_mut().write_all(head.as_bytes()).unwrap();
        connection.get_mut().flush().unwrap();
    }
    let object = json!({"metadata": {"name": "a"}});
    // The server may not have noticed the last disconnect yet.
    let response = (0..1000).find_map(|_| {
        let (code, response) = attacked.client.send("POST", COLLECTION, Some(&object)).unwrap();
        (code != 429).then_some((code, response))
    });
    assert_eq!(response.unwrap().0, 201);
    attacked.assert_healthy();
}

#[test]
fn clients_that_disconnect_within_a_response_leave_no_resources() {
    let mut attacked = AttackedPlane::start();
    let data = "x".repeat(100_000);
    for name in 0..20 {
        let object = json!({"metadata": {"name": format!("a{name}")}, "data": {"k": data}});
        attacked.send_accepted("POST", COLLECTION, &object);
    }
    for path in [COLLECTION, &format!("{COLLECTION}?watch=1")] {
        for _ in 0..50 {
            let mut connection = attacked.client.connect().unwrap();
            let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
            connection.get_mut().write_all(head.as_bytes()).unwrap();
            connection.read_exact(&mut [0; 1000]).unwrap();
        }
    }
    attacked.assert_healthy();
}

#[test]
fn idle_connections_do_not_block_new_ones() {
    let attacked = AttackedPlane::start();
    let silent: Vec<TcpStream> = (0..200).map(|_| dial(&attacked)).collect();
    let slow: Vec<_> = (0..100)
        .map(|_| {
            let mut connection = attacked.client.connect().unwrap();
            connection.get_mut().write_all(b"GET /readyz HTTP/1.1\r\nhost: ").unwrap();
            connection.get_mut().flush().unwrap();
            connection
        })
        .collect();
    let mut anonymous = attacked.client_with(Credentials::anonymous_tls);
    for _ in 0..20 {
        assert_eq!(anonymous.send("GET", "/readyz", None).unwrap().0, 200);
    }
    drop((silent, slow));
    attacked.assert_healthy();
}

/// The kernel closes such a connection after a minute; the test reads the timer of the server's
/// socket instead of waiting.
#[test]
#[cfg(target_os = "linux")]
fn keepalive_probes_detect_a_dead_client() {
    let attacked = AttackedPlane::start();
    let mut connection = attacked.client.connect().unwrap();
    connection.get_mut().write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert_eq!(read_response(&mut connection, "GET").unwrap().code, 200);
    let socket = &connection.get_ref().sock;
    let (ours, theirs) = (socket.local_addr().unwrap(), socket.peer_addr().unwrap());
    let ends = format!("0100007F:{:04X} 0100007F:{:04X}", theirs.port(), ours.port());
    // Until the response is acknowledged, the socket has the retransmission timer, of kind 1.
    let timer = (0..100_000).map(|_| timer(&ends)).find(|it| !it.starts_with("01"));
    let timer = timer.expect("the response is acknowledged");
    let ticks = timer.strip_prefix("02:").expect("the keepalive timer runs");
    let seconds = u64::from_str_radix(ticks, 16).unwrap() / 100;
    assert!((20..=30).contains(&seconds), "the first probe is due after {seconds} s");
}

/// The kind of a socket's timer and its remaining ticks.
#[cfg(target_os = "linux")]
fn timer(ends: &str) -> String {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let line = sockets.lines().find(|it| it.contains(ends)).expect("the server's socket exists");
    line.split_whitespace().nth(5).unwrap().to_owned()
}
