//! Connections on which nothing is ever asked for: handshakes and heads of requests that stay halves.

use super::{COLLECTION, GROWTH_MAX, JSON, Siege, resident};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use tokio::time::Instant;

/// Nobody waits longer than this because of somebody else.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The plane is small, and somebody who connects now is served at once.
#[track_caller]
fn assert_holds(siege: &Siege, what: &str) {
    let since = Instant::now();
    let object = br#"{"metadata":{"generateName":"a-"}}"#;
    let headers = [("content-type", JSON)];
    let answer = siege.plane.client().exchange("POST", COLLECTION, &headers, object).unwrap();
    assert_eq!(answer.code, 201, "{what}: {}", answer.body);
    assert!(since.elapsed() < AT_ONCE, "{what}: others waited {:?}", since.elapsed());
    let during = resident(&siege.plane);
    assert!(during < siege.before + GROWTH_MAX, "{what}: from {} to {during} KiB", siege.before);
}

/// Begins requests on so many connections, each with a head of `length` bytes that does not end.
fn half_heads(siege: &Siege, count: usize, length: usize) {
    let client = siege.stranger();
    let head = format!("GET /readyz HTTP/1.1\r\nhost: x\r\nh: {}", "x".repeat(length));
    let open: Vec<_> = (0..count)
        .map(|_| {
            let mut connection = client.connect().unwrap();
            // The server may refuse it before it is all there.
            let _ = connection.get_mut().write_all(head.as_bytes());
            let _ = connection.get_mut().flush();
            connection
        })
        .collect();
    assert_holds(siege, &format!("{count} heads of {length} bytes"));
    drop(open);
}

#[test]
fn many_halves_of_heads_take_a_bounded_amount_of_memory() {
    let siege = Siege::begin();
    half_heads(&siege, 600, 390_000);
    half_heads(&siege, 1500, 125_000);
    siege.survived();
}

#[test]
fn many_halves_of_handshakes_take_a_bounded_amount_of_memory() {
    let siege = Siege::begin();
    // A handshake record of 16,000 bytes, of which one is missing: a hello that never ends.
    let mut hello = vec![0x16, 3, 1, 0x3e, 0x80, 1, 0, 0xff, 0];
    hello.resize(5 + 16_000 - 1, 0);
    let address = siege.plane.url.strip_prefix("https://").unwrap();
    let open: Vec<TcpStream> = (0..9000)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            let _ = stream.write_all(&hello);
            stream
        })
        .collect();
    assert_holds(&siege, "handshakes");
    drop(open);
    siege.survived();
}
