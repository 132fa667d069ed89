//! Compressed responses, and the requests for them.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::ACCEPT_ENCODING;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::proxy::Proxy;
use crate::server::Server;
use client::config::{Config, connect};
use keel::Clock;

/// Responds with the `Accept-Encoding` of the request, compressed if that is gzip.
fn respond(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let accepted = request.headers().get(ACCEPT_ENCODING).map(|it| it.to_str().unwrap().to_owned());
    let text = format!("{accepted:?}");
    if accepted.as_deref() != Some("gzip") {
        return Response::new(Full::from(text));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    let compressed = encoder.finish().unwrap();
    Response::builder().header("content-encoding", "gzip").body(Full::from(compressed)).unwrap()
}

/// The `Accept-Encoding` that a client with this configuration sends.
async fn sent_accept_encoding(config: Config) -> String {
    let client = connect(config, &Clock::system()).unwrap();
    client.request_text(Request::get("/").body(Vec::new()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn remote_responses_are_compressed_unless_disabled() {
    let server = Server::start(respond).await;
    let proxy = Proxy::http(server.address, "").await;
    // A server behind a proxy counts as remote.
    let mut config = Config::new("http://server.invalid:8080".parse().unwrap());
    config.proxy_url = Some(format!("http://{}", proxy.address).parse().unwrap());
    assert_eq!(sent_accept_encoding(config.clone()).await, r#"Some("gzip")"#);
    config.disable_compression = true;
    assert_eq!(sent_accept_encoding(config).await, "None");
}

#[tokio::test]
async fn loopback_responses_are_not_compressed() {
    let server = Server::start(respond).await;
    let config = Config::new(format!("http://{}", server.address).parse().unwrap());
    assert_eq!(sent_accept_encoding(config).await, "None");
}
