//! HTTP/2 requests that no library would send: pseudo-headers and lengths that say different things.

use super::http2_frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, Outcome, RawHttp2, block, frame,
};
use super::raw_requests::{MAP, SECRET, SECRET_TEXT, listening};
use crate::objects::CONFIG_MAPS;
use testenv::TestEnv;

const ROOT: (&str, &str) = ("authorization", "Bearer t-root");
const ALICE: (&str, &str) = ("authorization", "Bearer t-alice");

/// Sends one request with these headers, in this order, on a new connection.
async fn exchange(plane: &TestEnv, headers: &[(&str, &str)], body: &[u8]) -> Outcome {
    let mut raw = RawHttp2::connect(plane).await;
    let end = if body.is_empty() { END_STREAM } else { 0 };
    let mut request = frame(HEADERS, END_HEADERS | end, 1, &block(headers));
    if !body.is_empty() {
        request.extend(frame(DATA, END_STREAM, 1, body));
    }
    raw.send(&request).await;
    raw.outcome(1).await
}

/// The pseudo-headers of a GET request, and further headers.
fn get<'a>(path: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut headers = vec![
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
    ];
    headers.extend(more);
    headers
}

#[tokio::test]
async fn a_request_is_authorized_by_the_path_that_is_served() {
    let plane = listening().await;
    let [with_fragment, fragment, query] =
        [format!("{SECRET}#{MAP}"), format!("{MAP}#{SECRET}"), format!("{MAP}?{SECRET}")];
    let dots = format!("{MAP}/../../secrets/a");
    let other_authority = |path| {
        vec![
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "kubernetes.default.svc:1"),
            (":path", path),
            ("host", "example.com"),
        ]
    };
    let method = |method| {
        let mut headers = get(MAP, &[]);
        headers[0] = (":method", method);
        headers
    };
    for (headers, expected) in [
        (get(MAP, &[]), 200),
        (get(SECRET, &[]), 403),
        (get(&query, &[]), 200),
        (get(&with_fragment, &[]), 403),
        (get(&dots, &[]), 403),
        (other_authority(MAP), 200),
        (other_authority(SECRET), 403),
        (get(SECRET, &[("x-http-method-override", "OPTIONS"), ("x-original-url", MAP)]), 403),
        (get(SECRET, &[("x-remote-user", "root"), ("x-remote-group", "system:masters")]), 403),
        (method("get"), 403),
        (method("DELETE"), 403),
        (method("CONNECTED"), 403),
    ] {
        for (credentials, expected) in [(Some(ALICE), expected), (None, 403)] {
            let mut headers = headers.clone();
            headers.extend(credentials);
            let outcome = exchange(&plane, &headers, b"").await;
            assert_eq!(outcome.code(), expected, "{headers:?}: {outcome:?}");
            assert!(!format!("{outcome:?}").contains(SECRET_TEXT), "{headers:?}: {outcome:?}");
        }
    }
    // What follows the `#` is not a part of the path.
    let outcome = exchange(&plane, &get(&fragment, &[ALICE]), b"").await;
    assert!(!format!("{outcome:?}").contains(SECRET_TEXT), "{outcome:?}");
    // Two credentials are those of the first, as over HTTP/1.1.
    let outcome = exchange(&plane, &get(SECRET, &[ALICE, ROOT]), b"").await;
    assert_eq!(outcome.code(), 403, "{outcome:?}");
    plane.read(MAP).await;
    plane.stop().await.unwrap();
}

/// Requests that are malformed by RFC 9113, section 8, without credentials.
fn malformed() -> Vec<Vec<(&'static str, &'static str)>> {
    let without = |name: &str| {
        let headers = get(SECRET, &[]).into_iter();
        headers.filter(|(it, _)| *it != name).collect::<Vec<_>>()
    };
    let with_first = |first| [vec![first], get(SECRET, &[])].concat();
    vec![
        without(":method"),
        without(":path"),
        get("", &[]),
        get(SECRET, &[(":path", MAP)]),
        get(MAP, &[(":path", SECRET)]),
        get(SECRET, &[(":path", SECRET)]),
        get(SECRET, &[(":method", "GET")]),
        get(SECRET, &[(":authority", "example.com")]),
        get(SECRET, &[("accept", "*/*"), (":path", MAP)]),
        with_first(("accept", "*/*")),
        with_first((":status", "200")),
        with_first((":protocol", "websocket")),
        with_first((":unknown", "x")),
        get(SECRET, &[(":PATH", MAP)]),
        get(SECRET, &[("ACCEPT", "*/*")]),
        get(SECRET, &[("connection", "upgrade"), ("upgrade", "websocket")]),
        get(SECRET, &[("transfer-encoding", "chunked")]),
        get(SECRET, &[("x", "a\r\nauthorization: Bearer t-root")]),
        get(SECRET, &[("x", "a\0b")]),
        get(SECRET, &[("a b", "c")]),
        get(SECRET, &[("", "c")]),
        get("/api/v1 HTTP/1.1\r\nx:", &[]),
    ]
}

#[tokio::test]
async fn a_malformed_request_is_not_served_to_anybody() {
    let plane = listening().await;
    for headers in malformed() {
        for credentials in [Some(ROOT), Some(ALICE), None] {
            let mut headers = headers.clone();
            headers.extend(credentials);
            let outcome = exchange(&plane, &headers, b"").await;
            let is_refused =
                matches!(outcome, Outcome::Refused(_) | Outcome::Closed) || outcome.code() == 400;
            assert!(is_refused, "{headers:?}: {outcome:?}");
        }
    }
    plane.read(MAP).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn no_request_opens_a_tunnel_and_odd_paths_lead_nowhere() {
    let plane = listening().await;
    let absolute = format!("https://localhost{SECRET}");
    let connect = |more: &[(&'static str, &'static str)]| {
        let mut headers = vec![(":method", "CONNECT")];
        headers.extend(more);
        headers
    };
    let mut options = get("*", &[]);
    options[0] = (":method", "OPTIONS");
    for headers in [
        connect(&[(":authority", "localhost:443")]),
        connect(&[(":authority", "localhost:443"), (":scheme", "https"), (":path", SECRET)]),
        connect(&[
            (":protocol", "websocket"),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", SECRET),
        ]),
        options,
        get("*", &[]),
        get(&absolute, &[]),
        get("api/v1/namespaces/default/secrets/a", &[]),
        get("//api/v1/namespaces/default/secrets/a", &[]),
        get("/api//v1/namespaces/default/secrets/a", &[]),
        get("\\api\\v1", &[]),
    ] {
        for credentials in [Some(ALICE), None] {
            let mut headers = headers.clone();
            headers.extend(credentials);
            let outcome = exchange(&plane, &headers, b"").await;
            let is_refused = matches!(outcome, Outcome::Refused(_) | Outcome::Closed)
                || (301..500).contains(&outcome.code());
            assert!(is_refused, "{headers:?}: {outcome:?}");
            assert!(!format!("{outcome:?}").contains(SECRET_TEXT), "{headers:?}: {outcome:?}");
        }
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_body_of_another_length_than_it_says_is_not_read() {
    let plane = listening().await;
    let body = br#"{"metadata": {"name": "smuggled"}}"#;
    let length = body.len().to_string();
    let post = |lengths: &[&'static str]| {
        let mut headers = get(CONFIG_MAPS, &[("content-type", "application/json")]);
        headers[0] = (":method", "POST");
        headers.extend(lengths.iter().map(|it| ("content-length", *it)));
        headers
    };
    for lengths in [
        &["0"][..],
        &["1"],
        &["1000"],
        &["18446744073709551616"],
        &["-1"],
        &["+34"],
        &["34 "],
        &["x"],
        &["34", "35"],
        &["34, 34"],
    ] {
        for credentials in [Some(ROOT), None] {
            let mut headers = post(lengths);
            headers.extend(credentials);
            let outcome = exchange(&plane, &headers, body).await;
            assert!(!(200..300).contains(&outcome.code()), "{headers:?}: {outcome:?}");
        }
    }
    assert_eq!(plane.get(&format!("{CONFIG_MAPS}/smuggled")).await.0, 404);
    let mut headers = post(&[]);
    headers.extend([("content-length", length.as_str()), ROOT]);
    assert_eq!(exchange(&plane, &headers, body).await.code(), 201);
    plane.stop().await.unwrap();
}
