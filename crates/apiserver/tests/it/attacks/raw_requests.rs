//! Requests that no HTTP library would send, as bytes through a TLS connection.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::grant;
use crate::objects::{CONFIG_MAPS, config_map};
use apiserver::AuthorizerConfig;
use apiserver::auth::authentication::token::TokenFile;
use machinery::json;
use testenv::TestEnv;
use tls::Trust;

pub(super) const SECRET_TEXT: &str = "Zm9yLWJvYi1vbmx5";

/// The path of a secret that alice may not read.
pub(super) const SECRET: &str = "/api/v1/namespaces/default/secrets/a";

/// The path of a config map that alice may read.
pub(super) const MAP: &str = "/api/v1/namespaces/default/configmaps/a";

/// A plane that listens. `t-alice` may read the config maps of the namespace `default`.
pub(super) async fn listening() -> TestEnv {
    let builder = TestEnv::builder().system_clock().listen().config(|config| {
        config.authorizers.push(AuthorizerConfig::Rbac);
        config.tokens =
            TokenFile::parse("t-alice,alice,1\nt-root,root,2,system:masters\n").unwrap();
    });
    let plane = builder.start().await;
    let secret = json!({"metadata": {"name": "a"}, "data": {"x": SECRET_TEXT}});
    plane.create("/api/v1/namespaces/default/secrets", &secret).await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    grant(&plane, "reader", &["get,list,watch configmaps"]).await;
    plane
}

/// Sends lines of a request and returns everything that comes until the server closes.
async fn exchange(plane: &TestEnv, lines: &[&str]) -> String {
    let trust = Trust::CaBundle(plane.server().authority().into());
    let config = tls::client_config(&trust, None).unwrap();
    let stream = TcpStream::connect(plane.server().address().unwrap()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let request = format!("{}\r\n\r\n", lines.join("\r\n"));
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    // A server may close without the end of TLS; what it has sent before counts.
    let reading = stream.read_to_end(&mut response);
    let _ = tokio::time::timeout(std::time::Duration::from_secs(30), reading).await.unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

/// The status codes of all responses of an exchange.
fn codes(response: &str) -> Vec<u16> {
    let heads = response.match_indices("HTTP/1.1 ");
    heads.map(|(at, head)| response[at + head.len()..][..3].parse().unwrap()).collect()
}

const ALICE: &str = "Authorization: Bearer t-alice";
const CLOSE: &str = "Connection: close";
const HOST: &str = "Host: localhost";

#[tokio::test]
async fn a_request_line_of_any_form_is_authorized_by_its_path() {
    let plane = listening().await;
    for (line, expected) in [
        (format!("GET {MAP} HTTP/1.1"), 200),
        (format!("GET https://localhost{MAP} HTTP/1.1"), 200),
        (format!("GET {SECRET} HTTP/1.1"), 403),
        (format!("GET https://localhost{SECRET} HTTP/1.1"), 403),
        (format!("GET http://example.com{SECRET} HTTP/1.1"), 403),
        (format!("GET https://alice:x@localhost{SECRET} HTTP/1.1"), 403),
        (format!("GET https://localhost{MAP}/../../secrets/a HTTP/1.1"), 403),
        (format!("GET {MAP}?{SECRET} HTTP/1.1"), 200),
        (format!("GET {MAP}?x#{SECRET} HTTP/1.1"), 200),
        (format!("GET {SECRET}#{MAP} HTTP/1.1"), 403),
        (format!("HEAD {SECRET} HTTP/1.1"), 403),
        (format!("get {MAP} HTTP/1.1"), 403),
        (format!("Get {MAP} HTTP/1.1"), 403),
        (format!("TRACE {MAP} HTTP/1.1"), 403),
        (format!("OPTIONS {MAP} HTTP/1.1"), 403),
        (format!("LIST {MAP} HTTP/1.1"), 403),
        (format!("DELETE {MAP} HTTP/1.1"), 403),
    ] {
        let response = exchange(&plane, &[&line, HOST, ALICE, CLOSE]).await;
        assert_eq!(codes(&response), [expected], "{line}: {response}");
        assert!(!response.contains(SECRET_TEXT), "{line}: {response}");
    }
    plane.read(MAP).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn no_request_opens_a_tunnel_or_another_protocol() {
    let plane = listening().await;
    let address = plane.server().address().unwrap();
    let connect = format!("CONNECT {address} HTTP/1.1");
    let settings = "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA";
    let h2c = ["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", settings];
    let websocket = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"];
    let (secret, map) = (format!("GET {SECRET} HTTP/1.1"), format!("GET {MAP} HTTP/1.1"));
    for (lines, expected) in [
        (vec![connect.as_str(), HOST, ALICE, CLOSE], &[400, 403, 404, 405][..]),
        (vec!["CONNECT /api HTTP/1.1", HOST, ALICE, CLOSE], &[400, 403, 404, 405]),
        (vec!["OPTIONS * HTTP/1.1", HOST, ALICE, CLOSE], &[400, 403, 404]),
        (vec!["GET * HTTP/1.1", HOST, ALICE, CLOSE], &[400, 403, 404]),
        ([&[secret.as_str(), HOST, ALICE, CLOSE], &h2c[..]].concat(), &[403]),
        ([&[secret.as_str(), HOST, ALICE, CLOSE], &websocket[..]].concat(), &[403]),
        ([&[map.as_str(), HOST, ALICE, CLOSE], &h2c[..]].concat(), &[200]),
        ([&[map.as_str(), HOST, ALICE, CLOSE], &websocket[..]].concat(), &[200]),
    ] {
        let response = exchange(&plane, &lines).await;
        let found = codes(&response);
        assert!(
            matches!(found.as_slice(), [code] if expected.contains(code)),
            "{lines:?}: {response}"
        );
        assert!(!response.contains(SECRET_TEXT), "{lines:?}: {response}");
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn each_request_of_a_connection_is_authenticated_by_itself() {
    let plane = listening().await;
    let secret = format!("GET {SECRET} HTTP/1.1");
    let root = "Authorization: Bearer t-root";
    let both = |first: &'static str, second: &'static str| {
        let mut lines = vec![secret.as_str(), HOST];
        lines.extend([first].iter().filter(|it| !it.is_empty()));
        lines.extend(["", &secret, HOST]);
        lines.extend([second].iter().filter(|it| !it.is_empty()));
        lines.push(CLOSE);
        lines
    };
    for (lines, expected) in [
        (both(root, ALICE), [200, 403]),
        (both(root, ""), [200, 403]),
        (both("", root), [403, 200]),
    ] {
        let response = exchange(&plane, &lines).await;
        assert_eq!(codes(&response), expected, "{response}");
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_body_is_not_read_as_the_next_request() {
    let plane = listening().await;
    let (map, secret) = (format!("GET {MAP} HTTP/1.1"), format!("GET {SECRET} HTTP/1.1"));
    let root = "Authorization: Bearer t-root";
    let inner = format!("{secret}\r\n{HOST}\r\n{root}\r\n\r\n");
    let length = format!("Content-Length: {}", inner.len());
    let response = exchange(&plane, &[&map, HOST, ALICE, CLOSE, &length, "", &inner]).await;
    assert_eq!(codes(&response), [200], "{response}");
    for ambiguous in [
        vec!["Content-Length: 0", "Content-Length: 5"],
        vec!["Content-Length: +5"],
        vec!["Transfer-Encoding: chunked, identity"],
        vec!["Transfer-Encoding: chunked", "Transfer-Encoding: x"],
        vec!["Content-Length : 0"],
        vec![" X: folded"],
    ] {
        let mut lines = vec![map.as_str(), HOST, ALICE, CLOSE];
        lines.extend(&ambiguous);
        lines.extend(["", &inner]);
        let response = exchange(&plane, &lines).await;
        assert_eq!(codes(&response), [400], "{ambiguous:?}: {response}");
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn ambiguous_credentials_and_hosts_do_not_give_more_rights() {
    let plane = listening().await;
    let root = "Authorization: Bearer t-root";
    let secret = format!("GET {SECRET} HTTP/1.1");
    for (headers, expected) in [
        (vec![HOST, ALICE, root], 403),
        (vec![HOST, ALICE, "X-Remote-User: root", "X-Remote-Group: system:masters"], 403),
        (vec![HOST, ALICE, "IMPERSONATE-USER: root"], 403),
        (vec![HOST, ALICE, "Impersonate_User: root"], 403),
        (vec![HOST, "Authorization: Basic cm9vdDp4"], 403),
        (vec![HOST, "Authorization: t-root"], 403),
        (vec![HOST, "Authorization: Bearer t-roo"], 401),
        (vec![HOST, "Authorization: Bearer t-root,t-alice"], 401),
        (vec![HOST, "Cookie: token=t-root"], 403),
        (vec![ALICE], 400),
        (vec![HOST, "Host: example.com", ALICE], 400),
    ] {
        let mut lines = vec![secret.as_str(), CLOSE];
        lines.extend(&headers);
        let response = exchange(&plane, &lines).await;
        assert_eq!(codes(&response), [expected], "{headers:?}: {response}");
    }
    let query = format!("GET {SECRET}?access_token=t-root HTTP/1.1");
    assert_eq!(codes(&exchange(&plane, &[&query, HOST, CLOSE]).await), [403]);
    plane.stop().await.unwrap();
}
