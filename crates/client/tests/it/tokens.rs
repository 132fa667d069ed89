//! Tokens of a file, which expire.

use bytes::Bytes;
use client::config::{Config, connect};
use http::{Request, Response, StatusCode, header::AUTHORIZATION};
use http_body_util::Full;
use keel::Clock;

use crate::server::Server;

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
