//! Proxies that authenticate users and name them in headers.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::{Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::SELF_SUBJECT_REVIEWS;
use apiserver::auth::authentication::client_authorities::ClientAuthorities;
use apiserver::auth::authentication::request_header::RequestHeaderSettings;
use apiserver::auth::authentication::token::TokenFile;
use apiserver::certificates::Authority;
use keel::{Clock, Tasks, Timestamp};
use machinery::{Value, json};
use testenv::{TestEnv, TestEnvBuilder};
use tls::{Certified, Identity, Trust};

const HEADERS: [(&str, &str); 4] = [
    ("X-Remote-User", "alice"),
    ("X-Remote-Group", "dev"),
    ("X-Remote-Uid", "7"),
    ("X-Remote-Extra-Scope", "all"),
];

fn authority() -> Authority {
    Authority::new(Clock::system().now()).unwrap()
}

fn certificate(authority: &Authority, name: &str) -> Certified {
    authority.client(name, &[], Clock::system().now()).unwrap()
}

fn settings(bundle: &str, allowed_names: &[&str]) -> Arc<RequestHeaderSettings> {
    Arc::new(RequestHeaderSettings {
        authorities: ClientAuthorities::new(bundle.to_owned()),
        allowed_names: allowed_names.iter().map(|it| (*it).to_owned()).collect(),
        username_headers: vec!["x-remote-user".parse().unwrap()],
        uid_headers: vec!["x-remote-uid".parse().unwrap()],
        group_headers: vec!["x-remote-group".parse().unwrap()],
        extra_prefixes: vec!["x-remote-extra-".to_owned()],
    })
}

fn builder(settings: Option<Arc<RequestHeaderSettings>>) -> TestEnvBuilder {
    TestEnv::builder().system_clock().listen().config(|config| {
        config.request_header = settings;
        config.tokens = TokenFile::parse("t-bob,bob,1\n").unwrap();
    })
}

/// Asks the server who the client with this certificate and these headers is. The error is the code of
/// the response.
pub(super) async fn identity(
    plane: &TestEnv,
    certificate: Option<&Certified>,
    headers: &[(&str, &str)],
) -> Result<Value, u16> {
    identity_over(Version::HTTP_11, plane, certificate, headers).await
}

async fn identity_over(
    version: Version,
    plane: &TestEnv,
    certificate: Option<&Certified>,
    headers: &[(&str, &str)],
) -> Result<Value, u16> {
    let identity = certificate.map(|it| Identity {
        certificate: it.certificate.clone().into(),
        key: it.key.clone().into(),
    });
    let trust = Trust::CaBundle(plane.server().authority().into());
    let mut config = tls::client_config(&trust, identity.as_ref()).unwrap();
    if version == Version::HTTP_2 {
        config.alpn_protocols = vec![b"h2".to_vec()];
    }
    let stream = TcpStream::connect(plane.server().address().unwrap()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let (stream, tasks) = (TokioIo::new(stream), Tasks::new());
    let mut request = Request::post(format!("https://localhost{SELF_SUBJECT_REVIEWS}"))
        .version(version)
        .header("host", "localhost")
        .header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::<bytes::Bytes>::from("{}")).unwrap();
    let response = if version == Version::HTTP_2 {
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tasks.spawn("connection", connection.map(drop));
        sender.send_request(request).await
    } else {
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        tasks.spawn("connection", connection.map(drop));
        sender.send_request(request).await
    };
    let response = response.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    if code != 201 {
        return Err(code);
    }
    let value: Value = serde_json::from_slice(&body).unwrap();
    Ok(value["status"]["userInfo"].clone())
}

/// The name of the user, or the code of the response.
async fn name(
    plane: &TestEnv,
    certificate: Option<&Certified>,
    headers: &[(&str, &str)],
) -> Result<String, u16> {
    let user = identity(plane, certificate, headers).await?;
    Ok(user["username"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_proxy_names_the_user_of_a_request() {
    let proxies = authority();
    let plane = builder(Some(settings(proxies.certificate(), &["proxy"]))).start().await;
    let proxy = certificate(&proxies, "proxy");
    let alice = json!({"username": "alice", "uid": "7", "groups": ["dev", "system:authenticated"],
        "extra": {"scope": ["all"]}});
    assert_eq!(identity(&plane, Some(&proxy), &HEADERS).await, Ok(alice));
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_proxy_names_a_user_with_many_groups() {
    let proxies = authority();
    let plane = builder(Some(settings(proxies.certificate(), &["proxy"]))).start().await;
    let proxy = certificate(&proxies, "proxy");
    let groups: Vec<String> = (0..1900).map(|it| format!("department-{it:021}")).collect();
    let mut headers = vec![HEADERS[0]];
    headers.extend(groups.iter().map(|it| ("X-Remote-Group", it.as_str())));
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let user = identity_over(version, &plane, Some(&proxy), &headers).await.unwrap();
        let named = user["groups"].as_array().unwrap();
        assert_eq!(named.len(), 1901, "{version:?}");
        assert_eq!(named[1899].as_str(), Some(groups[1899].as_str()));
    }
    let more = [headers.as_slice(), &headers, &headers].concat();
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let refused = identity_over(version, &plane, Some(&proxy), &more).await;
        assert_eq!(refused, Err(431), "{version:?}");
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn aggregated_servers_are_told_the_authority_and_the_names_of_proxies() {
    const MAP: &str =
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("proxies.crt");
    let (first, second) = (authority(), authority());
    fs::write(&path, first.certificate()).unwrap();
    let mut settings = RequestHeaderSettings::clone(&settings("", &["gateway"]));
    settings.authorities = ClientAuthorities::read(&path).unwrap();
    let plane =
        builder(Some(Arc::new(settings))).clock(Clock::manual(Clock::system().now())).start().await;
    let data = plane.read(MAP).await["data"].clone();
    assert_eq!(data["requestheader-allowed-names"], r#"["front-proxy-client","gateway"]"#);
    let has = |data: &Value, authority: &Authority| {
        let bundle = data["requestheader-client-ca-file"].as_str().unwrap();
        bundle.contains(authority.certificate().lines().nth(1).unwrap())
    };
    assert!(has(&data, &first) && !has(&data, &second));

    fs::write(&path, second.certificate()).unwrap();
    for round in 0.. {
        plane.advance(Duration::from_mins(1));
        tokio::task::yield_now().await;
        if has(&plane.read(MAP).await["data"], &second) {
            break;
        }
        assert!(round < 50, "the second authority is never published");
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn the_headers_of_other_clients_are_ignored() {
    let proxies = authority();
    let plane = builder(Some(settings(proxies.certificate(), &["proxy"]))).start().await;
    let admin = plane.server().admin().unwrap();
    assert_eq!(name(&plane, Some(&admin), &HEADERS).await, Ok("sampan-admin".to_owned()));
    assert_eq!(name(&plane, None, &HEADERS).await, Err(403), "anonymous");
    let with_token = [&HEADERS[..], &[("Authorization", "Bearer t-bob")]].concat();
    assert_eq!(name(&plane, None, &with_token).await, Ok("bob".to_owned()));
    let other = certificate(&proxies, "other");
    assert_eq!(name(&plane, Some(&other), &HEADERS).await, Err(401), "a name that is not allowed");
    assert_eq!(name(&plane, Some(&other), &with_token).await, Ok("bob".to_owned()));
    let forged = certificate(&authority(), "proxy");
    assert_eq!(name(&plane, Some(&forged), &HEADERS).await, Err(401), "of another authority");
    assert_eq!(name(&plane, Some(&forged), &with_token).await, Ok("bob".to_owned()));
    let in_2001 = Timestamp::from_seconds(1_000_000_000);
    let expired = proxies.client("proxy", &[], in_2001).unwrap();
    assert_eq!(name(&plane, Some(&expired), &HEADERS).await, Err(401), "expired");
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_certificate_of_the_proxies_authority_is_not_that_of_a_user() {
    let proxies = authority();
    let plane = builder(Some(settings(proxies.certificate(), &[]))).start().await;
    let now = Clock::system().now();
    let master = proxies.client("root", &["system:masters"], now).unwrap();
    assert_eq!(name(&plane, Some(&master), &[]).await, Err(401));
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn without_proxies_headers_are_ignored() {
    let plane = builder(None).start().await;
    let admin = plane.server().admin().unwrap();
    assert_eq!(name(&plane, Some(&admin), &HEADERS).await, Ok("sampan-admin".to_owned()));
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn an_authority_of_clients_needs_the_names_of_proxies() {
    let shared = authority();
    let start = async |allowed_names: &[&str]| {
        let settings = settings(shared.certificate(), allowed_names);
        let clients = ClientAuthorities::new(shared.certificate().to_owned());
        builder(Some(settings))
            .config(|config| config.client_authorities = clients)
            .try_start()
            .await
    };
    let error = start(&[]).await.err().unwrap();
    let causes: Vec<String> = keel::causes(&error).map(ToString::to_string).collect();
    assert!(causes.iter().any(|it| it.contains("contain overlapping certificates")), "{causes:?}");
    let plane = start(&["proxy"]).await.unwrap();
    let proxy = certificate(&shared, "proxy");
    assert_eq!(name(&plane, Some(&proxy), &HEADERS).await, Ok("alice".to_owned()));
    assert_eq!(name(&plane, Some(&proxy), &[]).await, Ok("proxy".to_owned()));
    let carol = certificate(&shared, "carol");
    assert_eq!(name(&plane, Some(&carol), &HEADERS).await, Ok("carol".to_owned()));
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn an_authority_of_proxies_does_not_become_one_of_clients_without_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("clients.crt");
    let (clients, proxies) = (authority(), authority());
    fs::write(&path, clients.certificate()).unwrap();
    let authorities = ClientAuthorities::read(&path).unwrap();
    let plane = builder(Some(settings(proxies.certificate(), &[])))
        .clock(Clock::manual(Clock::system().now()))
        .config(|config| config.client_authorities = authorities)
        .start()
        .await;
    let (bob, carol) = (certificate(&clients, "bob"), certificate(&proxies, "carol"));

    fs::write(&path, [clients.certificate(), proxies.certificate()].concat()).unwrap();
    for _ in 0..3 {
        // The interval at which the server reads files.
        plane.advance(Duration::from_secs(5));
        assert_eq!(name(&plane, Some(&carol), &[]).await, Err(401));
        assert_eq!(name(&plane, Some(&bob), &HEADERS).await, Ok("bob".to_owned()));
    }
    plane.stop().await.unwrap();
}
