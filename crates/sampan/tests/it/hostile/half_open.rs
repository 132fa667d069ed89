//! Connections without a complete request: incomplete TLS handshakes and request heads.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use tokio::time::Instant;

use super::{AttackedPlane, COLLECTION, GROWTH_MAX, JSON, resident_kib};

/// The maximum time that other clients wait.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Checks that the plane uses little memory, and serves a new client in time.
#[track_caller]
fn assert_small_and_responsive(attacked: &AttackedPlane, what: &str) {
    let since = Instant::now();
    let object = br#"{"metadata":{"generateName":"a-"}}"#;
    let headers = [("content-type", JSON)];
    let response = attacked.plane.client().exchange("POST", COLLECTION, &headers, object).unwrap();
    assert_eq!(response.code, 201, "{what}: {}", response.body);
    assert!(since.elapsed() < WAIT_MAX, "{what}: others waited {:?}", since.elapsed());
    let during = resident_kib(&attacked.plane);
    assert!(
        during < attacked.before + GROWTH_MAX,
        "{what}: from {} to {during} KiB",
        attacked.before
    );
}

/// Opens connections, each with an incomplete request head of `length` bytes.
fn send_incomplete_heads(attacked: &AttackedPlane, count: usize, length: usize) {
    let client = attacked.anonymous_client();
    let head = format!("GET /readyz HTTP/1.1\r\nhost: x\r\nh: {}", "x".repeat(length));
    let open: Vec<_> = (0..count)
        .map(|_| {
            let mut connection = client.connect().unwrap();
            // The server may refuse the head before it has arrived.
            let _ = connection.get_mut().write_all(head.as_bytes());
            let _ = connection.get_mut().flush();
            connection
        })
        .collect();
    assert_small_and_responsive(attacked, &format!("{count} heads of {length} bytes"));
    drop(open);
}

#[test]
fn incomplete_request_heads_use_bounded_memory() {
    let attacked = AttackedPlane::start();
    send_incomplete_heads(&attacked, 600, 390_000);
    send_incomplete_heads(&attacked, 1500, 125_000);
    attacked.assert_healthy();
}

#[test]
fn incomplete_tls_handshakes_use_bounded_memory() {
    let attacked = AttackedPlane::start();
    // A handshake record of 16,000 bytes without its last byte: an incomplete ClientHello.
    let mut hello = vec![0x16, 3, 1, 0x3e, 0x80, 1, 0, 0xff, 0];
    hello.resize(5 + 16_000 - 1, 0);
    let address = attacked.plane.url.strip_prefix("https://").unwrap();
    let open: Vec<TcpStream> = (0..9000)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            let _ = stream.write_all(&hello);
            stream
        })
        .collect();
    assert_small_and_responsive(&attacked, "handshakes");
    drop(open);
    attacked.assert_healthy();
}
