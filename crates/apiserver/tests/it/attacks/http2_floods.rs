//! Floods of HTTP/2 frames that cost a client nothing: each ends its connection or is served within
//! limits, and other connections go on. `crates/sampan/tests/it/hostile/http2.rs` measures the memory
//! of the process.

use super::http2_frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Outcome, PING, PRIORITY, RST_STREAM,
    RawHttp2, SETTINGS, WINDOW_UPDATE, block, frame,
};
use super::raw_requests::{MAP, SECRET_TEXT, listening};

/// The error codes of connections and streams of clients that exceed the limits.
const ENHANCE_YOUR_CALM: u32 = 11;

fn get(path: &str, token: &str) -> Vec<u8> {
    let mut headers = vec![
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
    ];
    headers.extend(Some(("authorization", token)).filter(|_| !token.is_empty()));
    block(&headers)
}

/// A request that ends its stream.
fn request(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, block)
}

#[tokio::test]
async fn streams_that_are_reset_at_once_end_their_connection() {
    let plane = listening().await;
    for token in ["Bearer t-alice", ""] {
        let block = get(MAP, token);
        let raw = RawHttp2::connect(&plane).await;
        let flood: Vec<u8> = (0..20_000)
            .map(|it| 2 * it + 1)
            .flat_map(|it| [request(it, &block), frame(RST_STREAM, 0, it, &[0, 0, 0, 8])].concat())
            .collect();
        let last = 40_003;
        let outcome = raw.flood(&flood, 1, &request(last, &block), last).await;
        let is_ended = matches!(outcome, Outcome::Refused(ENHANCE_YOUR_CALM) | Outcome::Closed);
        assert!(is_ended, "{token}: {outcome:?}");
    }
    plane.read(MAP).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn header_blocks_without_end_end_their_connection() {
    let plane = listening().await;
    let large = block(&[("x", &"y".repeat(1000))]);
    for token in ["Bearer t-alice", ""] {
        let begin = frame(HEADERS, END_STREAM, 1, &get(MAP, token));
        for payload in [&b""[..], &large] {
            let mut raw = RawHttp2::connect(&plane).await;
            raw.send(&begin).await;
            let flood = frame(CONTINUATION, 0, 1, payload).repeat(100);
            let last = frame(CONTINUATION, END_HEADERS, 1, &[]);
            let outcome = raw.flood(&flood, 1000, &last, 1).await;
            assert!(!matches!(outcome, Outcome::Answered(..)), "{} {outcome:?}", payload.len());
        }
    }
    plane.read(MAP).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_small_header_block_that_unpacks_to_a_large_one_is_refused() {
    let plane = listening().await;
    for token in ["Bearer t-alice", ""] {
        let mut raw = RawHttp2::connect(&plane).await;
        let mut bomb = get(MAP, token);
        // A literal that is added to the dynamic table, whose first entry has the index 0x3e.
        bomb.extend([0x40, 1, b'x', 127, 0x80 | 0x01, 0x1e]);
        bomb.extend([b'y'; 127 + 1 + (0x1e << 7)]);
        bomb.extend([0x80 | 0x3e; 10_000]);
        raw.send(&request(1, &bomb)).await;
        let outcome = raw.outcome(1).await;
        let is_refused = matches!(outcome, Outcome::Refused(_) | Outcome::Answered(431, _));
        assert!(is_refused || outcome == Outcome::Closed, "{outcome:?}");
    }
    plane.read(MAP).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn cheap_frames_are_served_or_end_their_connection() {
    let plane = listening().await;
    let many_settings: Vec<u8> = [0, 4, 0, 0, 0xff, 0xff].repeat(1000);
    let floods = [
        ("ping", frame(PING, 0, 0, &[7; 8])),
        ("settings", frame(SETTINGS, 0, 0, &[])),
        ("many settings", frame(SETTINGS, 0, 0, &many_settings)),
        ("window", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("priority", frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1])),
        ("unknown", frame(0xbe, 0xff, 0, &[0; 100])),
        ("empty data", frame(DATA, 0, 1, &[])),
    ];
    for (name, one) in floods {
        for (token, code) in [("Bearer t-alice", 200), ("", 403)] {
            let mut raw = RawHttp2::connect(&plane).await;
            let mut stream = 1;
            if name == "empty data" {
                // A stream whose body does not end.
                raw.send(&frame(HEADERS, END_HEADERS, 1, &get(MAP, token))).await;
                stream = 3;
            }
            let last = request(stream, &get(MAP, token));
            let outcome = raw.flood(&one.repeat(100), 200, &last, stream).await;
            let is_bounded =
                outcome.code() == code || matches!(outcome, Outcome::Refused(_) | Outcome::Closed);
            assert!(is_bounded, "{name} by {token:?}: {outcome:?}");
            assert!(!format!("{outcome:?}").contains(SECRET_TEXT));
            // Others are served meanwhile and afterwards.
            let mut other = RawHttp2::connect(&plane).await;
            other.send(&request(1, &get(MAP, "Bearer t-alice"))).await;
            assert_eq!(other.outcome(1).await.code(), 200, "{name}");
        }
    }
    plane.stop().await.unwrap();
}
