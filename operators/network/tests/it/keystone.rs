//! Authentication with Keystone, played by a small server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::world::{desired, owner};
use network_operator::backend::neutron::{Neutron, NeutronOptions};
use network_operator::backend::{Backend, BackendError, Mark};
use runtime::Request;
use runtime::keel::Tasks;

/// What a server was sent, and what it responds.
#[derive(Default)]
struct Exchange {
    logins: Vec<Value>,
    /// The headers of requests to Neutron.
    requests: Vec<BTreeMap<String, String>>,
    /// The tokens that were issued.
    tokens: usize,
    /// The number of the first token that is valid.
    valid_from: usize,
    /// The responses of Neutron, instead of empty lists.
    body: Option<Bytes>,
}

struct Servers {
    address: SocketAddr,
    exchange: Arc<Mutex<Exchange>>,
    _tasks: Tasks,
}

impl Servers {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let exchange = Arc::<Mutex<Exchange>>::default();
        let tasks = Tasks::new();
        let (shared, connections) = (Arc::clone(&exchange), tasks.clone());
        tasks.spawn("server", async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = Arc::clone(&shared);
                let service =
                    service_fn(move |request| respond(request, address, Arc::clone(&shared)));
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                connections.spawn("connection", async move { drop(serving.await) });
            }
        });
        Self { address, exchange, _tasks: tasks }
    }

    fn options(&self) -> NeutronOptions {
        let os_auth_url = Some(format!("http://{}/identity/v3", self.address).parse().unwrap());
        NeutronOptions { os_auth_url, ..NeutronOptions::default() }
    }
}

async fn respond(
    request: http::Request<Incoming>,
    address: SocketAddr,
    exchange: Arc<Mutex<Exchange>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut exchange = exchange.lock().unwrap();
    if parts.uri.path() == "/identity/v3/auth/tokens" {
        exchange.logins.push(serde_json::from_slice(&body).unwrap());
        exchange.tokens += 1;
        let endpoint = |interface: &str, region: &str, url: String| {
            let id = "x";
            json!({"interface": interface, "region": region, "url": url, "id": id})
        };
        let token = json!({"token": {"expires_at": "2026-01-01T00:00:00Z", "catalog": [
            {"type": "compute", "endpoints": [endpoint("public", "one", "http://x/".into())]},
            {"type": "network", "endpoints": [
                endpoint("admin", "two", "http://x/".into()),
                endpoint("public", "one", "http://x/".into()),
                endpoint("public", "two", format!("http://{address}/networking/")),
            ]},
        ]}});
        let response = Response::builder().status(StatusCode::CREATED);
        let response = response.header("x-subject-token", format!("token-{}", exchange.tokens));
        return Ok(response.body(Full::from(token.to_string())).unwrap());
    }
    assert!(parts.uri.path().starts_with("/networking/v2.0/"), "{}", parts.uri);
    let text = |it: &http::HeaderValue| it.to_str().unwrap().to_owned();
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    let headers: BTreeMap<_, _> = headers.collect();
    let token = headers.get("x-auth-token").map(|it| it.trim_start_matches("token-").to_owned());
    exchange.requests.push(headers);
    let is_valid =
        token.is_some_and(|token| token.parse().is_ok_and(|it: usize| it >= exchange.valid_from));
    if !is_valid {
        let response = Response::builder().status(StatusCode::UNAUTHORIZED);
        return Ok(response.body(Full::default()).unwrap());
    }
    let empty = || Bytes::from(json!({"networks": [], "subnets": []}).to_string());
    Ok(Response::new(Full::new(exchange.body.clone().unwrap_or_else(empty))))
}

fn mark() -> Mark {
    Mark::new(&owner(), &Request::new("default", "a")).unwrap()
}

#[tokio::test]
async fn a_password_is_exchanged_for_a_token_which_is_renewed() {
    let servers = Servers::start().await;
    let neutron = Neutron::new(&NeutronOptions {
        os_username: Some("alice".to_owned()),
        os_password: Some("wonder".to_owned().into()),
        os_project_name: Some("demo".to_owned()),
        os_project_domain_name: Some("land".to_owned()),
        os_region_name: Some("two".to_owned()),
        ..servers.options()
    })
    .unwrap();
    neutron.keys(&owner()).await.unwrap();
    neutron.keys(&owner()).await.unwrap();
    servers.exchange.lock().unwrap().valid_from = 2;
    neutron.keys(&owner()).await.unwrap();
    let exchange = servers.exchange.lock().unwrap();
    let login = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {
            "name": "alice", "domain": {"name": "Default"}, "password": "wonder",
        }}},
        "scope": {"project": {"name": "demo", "domain": {"name": "land"}}},
    }});
    assert_eq!(exchange.logins, [login.clone(), login]);
    let tokens: Vec<_> = exchange.requests.iter().map(|it| it["x-auth-token"].as_str()).collect();
    assert_eq!(tokens, ["token-1", "token-1", "token-1", "token-2"]);
    assert!(exchange.requests.iter().all(|it| !it.contains_key("x-project-id")));
}

#[tokio::test]
async fn an_application_credential_is_exchanged_for_a_token() {
    let servers = Servers::start().await;
    let options = NeutronOptions {
        os_application_credential_id: Some("id".to_owned()),
        os_application_credential_secret: Some("secret".to_owned().into()),
        os_region_name: Some("two".to_owned()),
        ..servers.options()
    };
    assert!(!format!("{options:?}").contains("secret\""), "secrets are not printed");
    Neutron::new(&options).unwrap().keys(&owner()).await.unwrap();
    let login = json!({"auth": {"identity": {
        "methods": ["application_credential"],
        "application_credential": {"id": "id", "secret": "secret"},
    }}});
    assert_eq!(servers.exchange.lock().unwrap().logins, [login]);
    // A token that is refused again is not asked for without end.
    servers.exchange.lock().unwrap().valid_from = 99;
    let refused = Neutron::new(&options).unwrap().keys(&owner()).await;
    assert!(matches!(refused, Err(BackendError::Unavailable(_))), "{refused:?}");
    assert_eq!(servers.exchange.lock().unwrap().tokens, 3);
}

#[tokio::test]
async fn options_that_are_missing_are_named() {
    let servers = Servers::start().await;
    let error = |options: &NeutronOptions| Neutron::new(options).unwrap_err().to_string();
    assert_eq!(error(&NeutronOptions::default()), "NEUTRON_URL or OS_AUTH_URL is missing");
    assert_eq!(error(&servers.options()), "OS_USERNAME is missing");
    let neutron_url = Some("/relative".parse().unwrap());
    let relative = NeutronOptions { neutron_url, ..NeutronOptions::default() };
    let message = "/relative is not an absolute http or https URL without a query";
    assert_eq!(error(&relative), message);
}

#[tokio::test]
async fn responses_that_are_too_large_or_not_those_that_were_asked_for_do_no_harm() {
    let servers = Servers::start().await;
    let options = NeutronOptions {
        os_application_credential_id: Some("id".to_owned()),
        os_application_credential_secret: Some("secret".to_owned().into()),
        os_region_name: Some("two".to_owned()),
        ..servers.options()
    };
    let neutron = Neutron::new(&options).unwrap();
    let plan = async |body: Vec<u8>, desired| {
        servers.exchange.lock().unwrap().body = Some(body.into());
        neutron.plan(&mark(), desired).await
    };
    let too_large = plan(vec![b' '; 5 << 20], None).await.unwrap_err().to_string();
    assert!(too_large.contains("length limit exceeded"), "{too_large}");
    let no_json = plan(b"<html>".to_vec(), None).await.unwrap_err().to_string();
    assert!(no_json.contains("a response is not valid"), "{no_json}");
    let path = json!({"networks": [{"id": "../../x", "revision_number": 1}]}).to_string();
    assert!(plan(path.into_bytes(), None).await.is_err());
    // A server that ignores the filter.
    let network = json!({"id": "x", "revision_number": 1, "description": "of somebody else"});
    let others = json!({"networks": [network], "subnets": []}).to_string();
    assert!(plan(others.clone().into_bytes(), None).await.unwrap().changes.is_empty());
    let wanted = desired("10.0.0.0/24", "10.0.0.1");
    let changes = plan(others.into_bytes(), Some(&wanted)).await.unwrap().changes;
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].to_string(), "created network");
    // A server that sends the same full page for ever.
    let page: Vec<_> = (0..500).map(|_| network_of("same")).collect();
    let page = json!({"networks": page}).to_string();
    servers.exchange.lock().unwrap().body = Some(page.into());
    assert!(neutron.keys(&owner()).await.unwrap().is_empty());
}

fn network_of(id: &str) -> Value {
    json!({"id": id, "revision_number": 1})
}
