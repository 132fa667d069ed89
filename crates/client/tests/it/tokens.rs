//! Tokens that are read from a file.

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use http_body_util::Full;

use crate::server::Server;
use client::config::{Config, connect};
use keel::Clock;

#[tokio::test]
async fn a_token_file_is_read_again_after_the_server_has_refused_the_token() {
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
    let get = async || client.send(Request::get("/").body(Vec::new().into()).unwrap()).await;
    std::fs::write(&path, "two").unwrap();
    assert_eq!(
        get().await.unwrap().status(),
        StatusCode::UNAUTHORIZED,
        "the token read by `connect` is still cached"
    );
    assert_eq!(get().await.unwrap().status(), StatusCode::OK);
}

/// The `Authorization` header that a client with an inline token and a token file sends.
async fn sent_authorization(inline_token: &str, file_token: &str) -> String {
    let server = Server::start(|request| {
        let sent = request.headers()[AUTHORIZATION].to_str().unwrap().to_owned();
        Response::new(Full::from(sent))
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, file_token).unwrap();
    let mut config = Config::new(format!("http://{}", server.address).parse().unwrap());
    config.auth_info.token = Some(inline_token.to_owned().into());
    config.auth_info.token_file = Some(path.to_str().unwrap().to_owned());
    let client = connect(config, &Clock::system()).unwrap();
    client.request_text(Request::get("/").body(Vec::new()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_token_file_takes_precedence_over_an_inline_token_unless_it_is_empty() {
    assert_eq!(sent_authorization("inline", "in-file").await, "Bearer in-file");
    assert_eq!(sent_authorization("inline", "\n").await, "Bearer inline");
}
