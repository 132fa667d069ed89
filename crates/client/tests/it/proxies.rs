//! Servers that are reached through proxies only.

use std::error::Error;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;

use crate::proxy::Proxy;
use crate::server::Server;
use client::config::{Config, connect};
use keel::Clock;

/// A name that only the proxy can resolve.
const URL: &str = "http://server.invalid:8080";

async fn server() -> Server {
    Server::start(|request| Response::new(Full::from(request.uri().path().to_owned()))).await
}

async fn get_version(proxy: &str) -> Result<String, kube_client::Error> {
    let mut config = Config::new(URL.parse().unwrap());
    config.proxy_url = Some(proxy.parse().unwrap());
    let client = connect(config, &Clock::system()).unwrap();
    client.request_text(Request::get("/version").body(Vec::new()).unwrap()).await
}

#[tokio::test]
async fn a_server_is_reached_through_a_proxy_with_a_password() {
    let server = server().await;
    let proxy = Proxy::http(server.address, "Basic dXNlcjpwQHNz").await;
    let response = get_version(&format!("http://user:p%40ss@{}", proxy.address)).await.unwrap();
    assert_eq!(response, "/version");
    let requested = proxy.requested.lock().unwrap().clone();
    assert_eq!(requested, ["server.invalid:8080 Basic dXNlcjpwQHNz"]);
}

#[tokio::test]
async fn a_server_is_reached_through_socks() {
    let server = server().await;
    let proxy = Proxy::socks(server.address).await;
    for scheme in ["socks5", "socks5h"] {
        let response = get_version(&format!("{scheme}://{}", proxy.address)).await.unwrap();
        assert_eq!(response, "/version");
    }
    let requested = proxy.requested.lock().unwrap().clone();
    assert_eq!(requested, ["server.invalid:8080"; 2], "the proxy resolves the name");
}

#[tokio::test]
async fn the_error_of_a_proxy_names_it_without_its_password() {
    let server = server().await;
    let proxy = Proxy::http(server.address, "Basic dXNlcjpwQHNz").await;
    let failed = get_version(&format!("http://user:wrong@{}", proxy.address)).await.unwrap_err();
    let message = error_chain(&failed);
    let expected = format!("cannot connect through the proxy http://{}/", proxy.address);
    assert!(message.contains(&expected), "{message}");
    assert!(!message.contains("wrong"), "the error contains the password: {message}");
}

fn error_chain(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    message
}

#[tokio::test]
async fn no_proxy_is_used_unless_configured() {
    let server = Server::start(|_| Response::new(Full::new(Bytes::from_static(b"here")))).await;
    let config = Config::new(format!("http://{}", server.address).parse().unwrap());
    let client = connect(config, &Clock::system()).unwrap();
    let response = client.request_text(Request::get("/").body(Vec::new()).unwrap()).await.unwrap();
    assert_eq!(response, "here");
}
