//! Compressed answers, and the requests for them.

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

/// Says what it was asked for, packed if it was asked to.
fn answer(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let asked = request.headers().get(ACCEPT_ENCODING).map(|it| it.to_str().unwrap().to_owned());
    let text = format!("asked for {asked:?}");
    if asked.as_deref() != Some("gzip") {
        return Response::new(Full::from(text));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    Response::builder().header("content-encoding", "gzip").body(Full::from(packed)).unwrap()
}

async fn check(on_this_machine: bool, disable_compression: bool) -> String {
    let server = Server::start(answer).await;
    let proxy = Proxy::http(server.address, "").await;
    let mut config = if on_this_machine {
        Config::new(format!("http://{}", server.address).parse().unwrap())
    } else {
        let mut config = Config::new("http://server.invalid:8080".parse().unwrap());
        config.proxy_url = Some(format!("http://{}", proxy.address).parse().unwrap());
        config
    };
    config.disable_compression = disable_compression;
    let client = connect(config, &Clock::system()).unwrap();
    client.request_text(Request::get("/").body(Vec::new()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn remote_answers_are_compressed_unless_disabled() {
    assert_eq!(check(false, false).await, r#"asked for Some("gzip")"#);
    assert_eq!(check(false, true).await, "asked for None");
}

#[tokio::test]
async fn loopback_answers_are_not_compressed() {
    assert_eq!(check(true, false).await, "asked for None");
}
