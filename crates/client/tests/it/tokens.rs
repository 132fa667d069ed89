//! Tokens of a file, which expire.

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use http_body_util::Full;

use crate::server::Server;
use client::config::{Config, connect};
use keel::Clock;

#[tokio::test]
async fn a_token_that_expired_is_refused_once_and_then_read_again() {
    let server = Server::start(|request| {
        let is_valid = request.headers().get(AUTHORIZATION).is_some_and(|it| it == "Bearer two");
        let mut response = Response::new(Full::new(Bytes::from_static(b"{}")));
        if !is_valid {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
        }
        response
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "one").unwrap();
    let mut config = Config::new(format!("http://{}", server.address).parse().unwrap());
    config.auth_info.token_file = Some(path.to_str().unwrap().to_owned());
    let clock = Clock::manual(Clock::system().now());
    let client = connect(config, &clock).unwrap();
    let ask = async || client.send(Request::get("/").body(Vec::new().into()).unwrap()).await;
    std::fs::write(&path, "two").unwrap();
    assert_eq!(ask().await.unwrap().status(), StatusCode::UNAUTHORIZED, "it was read before");
    assert_eq!(ask().await.unwrap().status(), StatusCode::OK);
}

/// The token of a client with a token and a token file.
async fn shown(inline: &str, in_file: &str) -> String {
    let server = Server::start(|request| {
        let shown = request.headers()[AUTHORIZATION].to_str().unwrap().to_owned();
        Response::new(Full::from(shown))
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, in_file).unwrap();
    let mut config = Config::new(format!("http://{}", server.address).parse().unwrap());
    config.auth_info.token = Some(inline.to_owned().into());
    config.auth_info.token_file = Some(path.to_str().unwrap().to_owned());
    let client = connect(config, &Clock::system()).unwrap();
    client.request_text(Request::get("/").body(Vec::new()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_token_file_takes_precedence_over_a_token_unless_it_is_empty() {
    assert_eq!(shown("written-down", "in-file").await, "Bearer in-file");
    assert_eq!(shown("written-down", "\n").await, "Bearer written-down");
}
