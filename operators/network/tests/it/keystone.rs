//! The requests to Keystone and Neutron, both played by a small server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::world::{cluster, desired};
use network_operator::backend::neutron::{Neutron, NeutronOptions};
use network_operator::backend::{Backend, BackendError, Mark};
use runtime::Request;
use runtime::keel::Tasks;

/// What a server was sent, and what it responds.
#[derive(Default)]
struct Exchange {
    logins: Vec<Value>,
    /// The requests to Neutron.
    requests: Vec<Sent>,
    /// The tokens that were issued.
    tokens: usize,
    /// The number of the first token that is valid.
    valid_from: usize,
    /// Keystone refuses the credentials.
    refuses_logins: bool,
    /// The objects of Neutron.
    networks: Vec<Value>,
    subnets: Vec<Value>,
    /// The largest page of a list.
    max_page: Option<usize>,
    /// The response of Neutron to every request, instead of lists.
    body: Option<Bytes>,
}

struct Sent {
    uri: String,
    headers: BTreeMap<String, String>,
}

impl Exchange {
    /// A page of a list, as Neutron responds it.
    fn page(&self, uri: &Uri) -> Value {
        let (plural, objects) = match uri.path().rsplit('/').next() {
            Some("networks") => ("networks", &self.networks),
            _ => ("subnets", &self.subnets),
        };
        let query = uri.query().unwrap_or_default();
        let query: BTreeMap<_, _> = form_urlencoded::parse(query.as_bytes()).collect();
        let limit: usize = query["limit"].parse().unwrap();
        let limit = self.max_page.map_or(limit, |most| limit.min(most));
        let marker = query.get("marker").map(AsRef::as_ref);
        let is_asked_for = |object: &&Value| {
            let has = |name: &str, text: &str| match &object[name] {
                Value::Array(all) => all.iter().any(|one| one == text),
                one => one == text,
            };
            let filters = ["tags", "description", "network_id"].into_iter();
            filters
                .filter_map(|name| Some((name, query.get(name)?)))
                .all(|(name, value)| has(name, value))
        };
        let mut objects: Vec<_> = objects.iter().filter(is_asked_for).collect();
        objects.sort_by_key(|object| object["id"].to_string());
        objects.retain(|object| object["id"].as_str() > marker);
        objects.truncate(limit);
        let next = json!([{"rel": "next", "href": "http://x/"}]);
        let links = if objects.len() == limit { next } else { json!([]) };
        json!({plural: objects, format!("{plural}_links"): links})
    }
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

    fn application_credential(&self) -> NeutronOptions {
        NeutronOptions {
            os_application_credential_id: Some("id".to_owned()),
            os_application_credential_secret: Some("secret".to_owned().into()),
            os_region_name: Some("two".to_owned()),
            ..self.options()
        }
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
        if exchange.refuses_logins {
            let why = "The request you have made requires authentication.";
            let why = json!({"error": {"code": 401, "message": why, "title": "Unauthorized"}});
            let response = Response::builder().status(StatusCode::UNAUTHORIZED);
            return Ok(response.body(Full::from(why.to_string())).unwrap());
        }
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
    if !parts.uri.path().starts_with("/networking/v2.0/") {
        let response = Response::builder().status(StatusCode::NOT_FOUND);
        return Ok(response.body(Full::from("no such page")).unwrap());
    }
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    let headers: BTreeMap<_, _> = headers.collect();
    let token = headers.get("x-auth-token").and_then(|token| token.strip_prefix("token-"));
    let token = token.and_then(|number| number.parse::<usize>().ok());
    exchange.requests.push(Sent { uri: parts.uri.to_string(), headers });
    let is_valid = token.is_some_and(|number| number >= exchange.valid_from);
    if !is_valid {
        let response = Response::builder().status(StatusCode::UNAUTHORIZED);
        return Ok(response.body(Full::default()).unwrap());
    }
    let body = match exchange.body.clone() {
        Some(body) => body,
        None if parts.method == Method::GET => exchange.page(&parts.uri).to_string().into(),
        // A change is accepted and not made.
        None => "{}".into(),
    };
    Ok(Response::new(Full::new(body)))
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
    neutron.keys(&cluster()).await.unwrap();
    neutron.keys(&cluster()).await.unwrap();
    servers.exchange.lock().unwrap().valid_from = 2;
    neutron.keys(&cluster()).await.unwrap();
    let exchange = servers.exchange.lock().unwrap();
    let login = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {
            "name": "alice", "domain": {"name": "Default"}, "password": "wonder",
        }}},
        "scope": {"project": {"name": "demo", "domain": {"name": "land"}}},
    }});
    assert_eq!(exchange.logins, [login.clone(), login]);
    let tokens = exchange.requests.iter().map(|sent| sent.headers["x-auth-token"].as_str());
    let tokens: Vec<_> = tokens.collect();
    // Each call lists networks and subnets.
    assert_eq!(
        tokens,
        ["token-1", "token-1", "token-1", "token-1", "token-1", "token-2", "token-2"]
    );
    assert!(exchange.requests.iter().all(|sent| !sent.headers.contains_key("x-project-id")));
}

#[tokio::test]
async fn an_application_credential_is_exchanged_for_a_token() {
    let servers = Servers::start().await;
    let options = servers.application_credential();
    assert!(!format!("{options:?}").contains("secret\""), "secrets are not printed");
    Neutron::new(&options).unwrap().keys(&cluster()).await.unwrap();
    let login = json!({"auth": {"identity": {
        "methods": ["application_credential"],
        "application_credential": {"id": "id", "secret": "secret"},
    }}});
    assert_eq!(servers.exchange.lock().unwrap().logins, [login]);
    // A token that is refused again is not asked for without end.
    servers.exchange.lock().unwrap().valid_from = 99;
    let refused = Neutron::new(&options).unwrap().keys(&cluster()).await;
    assert!(matches!(refused, Err(BackendError::Unavailable(_))), "{refused:?}");
    assert_eq!(servers.exchange.lock().unwrap().tokens, 3);
}

#[tokio::test]
async fn domains_are_named_by_their_identifiers_too() {
    let servers = Servers::start().await;
    let neutron = Neutron::new(&NeutronOptions {
        os_username: Some("alice".to_owned()),
        os_password: Some("wonder".to_owned().into()),
        os_user_domain_id: Some("u".to_owned()),
        os_project_name: Some("demo".to_owned()),
        os_project_domain_id: Some("default".to_owned()),
        os_project_domain_name: Some("land".to_owned()),
        os_region_name: Some("two".to_owned()),
        ..servers.options()
    });
    neutron.unwrap().keys(&cluster()).await.unwrap();
    let auth = &servers.exchange.lock().unwrap().logins[0]["auth"];
    assert_eq!(auth["identity"]["password"]["user"]["domain"], json!({"id": "u"}));
    assert_eq!(auth["scope"]["project"]["domain"], json!({"id": "default"}));
}

#[tokio::test]
async fn the_url_of_neutron_may_end_in_the_version_of_its_api() {
    let servers = Servers::start().await;
    for version in ["", "/", "/v2.0", "/v2.0/"] {
        let neutron_url = format!("http://{}/networking{version}", servers.address);
        let neutron_url = Some(neutron_url.parse().unwrap());
        let options = NeutronOptions { neutron_url, ..servers.application_credential() };
        Neutron::new(&options).unwrap().keys(&cluster()).await.unwrap();
    }
    let exchange = servers.exchange.lock().unwrap();
    let is_right = |sent: &Sent| sent.uri.starts_with("/networking/v2.0/");
    assert!(exchange.requests.len() == 8 && exchange.requests.iter().all(is_right));
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
    let options = servers.application_credential();
    let neutron = Neutron::new(&options).unwrap();
    let plan = async |body: Vec<u8>, desired| {
        servers.exchange.lock().unwrap().body = Some(body.into());
        neutron.plan(&mark_of("a"), desired).await
    };
    let too_large = plan(vec![b' '; 5 << 20], None).await.unwrap_err().to_string();
    assert!(too_large.contains("length limit exceeded"), "{too_large}");
    let no_json = plan(b"<html>".to_vec(), None).await.unwrap_err().to_string();
    assert!(no_json.contains("is not valid: expected value"), "{no_json}");
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
    let incomplete = neutron.keys(&cluster()).await.unwrap_err();
    assert_eq!(
        incomplete.to_string(),
        "unavailable: Neutron repeats a page of its list of networks"
    );
}

#[tokio::test]
async fn wrong_credentials_and_wrong_urls_are_refusals_that_name_the_service_and_the_url() {
    let servers = Servers::start().await;
    let options = servers.application_credential();
    let error = async |options: &NeutronOptions| {
        let error = Neutron::new(options).unwrap().keys(&cluster()).await.unwrap_err();
        assert!(matches!(error, BackendError::Refused(_)), "{error:?}");
        error.to_string().replace(&servers.address.to_string(), "ADDRESS")
    };
    let neutron_url = Some(format!("http://{}/wrong", servers.address).parse().unwrap());
    let expected = "refused: Neutron responded to GET http://ADDRESS/wrong/v2.0/networks with 404 \
                    Not Found: no such page";
    assert_eq!(error(&NeutronOptions { neutron_url, ..options.clone() }).await, expected);

    let os_auth_url = Some(format!("http://{}/wrong", servers.address).parse().unwrap());
    let expected = "refused: Keystone responded to POST http://ADDRESS/wrong/v3/auth/tokens with \
                    404 Not Found: no such page";
    assert_eq!(error(&NeutronOptions { os_auth_url, ..options.clone() }).await, expected);

    servers.exchange.lock().unwrap().refuses_logins = true;
    let expected = "refused: Keystone responded to POST http://ADDRESS/identity/v3/auth/tokens \
                    with 401 Unauthorized: The request you have made requires authentication.";
    assert_eq!(error(&options).await, expected);
}

#[tokio::test]
async fn a_list_is_read_page_by_page() {
    let servers = Servers::start().await;
    let neutron = Neutron::new(&servers.application_credential()).unwrap();
    let name = |number: usize| format!("n{number:04}");
    let networks = |count: usize| {
        (0..count).map(|number| network(&name(number), &name(number))).collect::<Vec<_>>()
    };
    let expected = |count: usize| {
        (0..count).map(|number| Request::new("default", &name(number))).collect::<Vec<_>>()
    };
    // 500 is the limit that is asked for; 7 is the one of a server that sends smaller pages.
    for (count, max_page, pages) in [(500, None, 2), (501, None, 2), (20, Some(7), 3)] {
        *servers.exchange.lock().unwrap() =
            Exchange { networks: networks(count), max_page, tokens: 1, ..Exchange::default() };
        assert_eq!(neutron.keys(&cluster()).await.unwrap(), expected(count));
        let exchange = servers.exchange.lock().unwrap();
        let lists = exchange.requests.iter().filter(|sent| sent.uri.contains("/networks"));
        assert_eq!(lists.count(), pages, "{count}");
    }
}

#[tokio::test]
async fn a_network_that_was_listed_as_desired_costs_no_request() {
    let servers = Servers::start().await;
    let neutron = Neutron::new(&servers.application_credential()).unwrap();
    let wanted = desired("10.0.0.0/24", "10.0.0.1");
    let names = ["a", "b", "c"];
    servers.exchange.lock().unwrap().networks = names.map(|name| network(name, name)).to_vec();
    servers.exchange.lock().unwrap().subnets = names.map(subnet).to_vec();
    // The number of requests of a plan, and of its changes.
    let plan = async |name: &str| {
        servers.exchange.lock().unwrap().requests.clear();
        let plan = neutron.plan(&mark_of(name), Some(&wanted)).await.unwrap();
        (servers.exchange.lock().unwrap().requests.len(), plan.changes)
    };
    neutron.keys(&cluster()).await.unwrap();
    assert_eq!(servers.exchange.lock().unwrap().requests.len(), 2);
    let (requests, changes) = plan("a").await;
    assert_eq!((requests, changes.len()), (0, 0));
    // Once: what was listed is then outdated.
    assert_eq!(plan("a").await.0, 3);

    // A difference is planned with what exists now.
    servers.exchange.lock().unwrap().subnets[1]["gateway_ip"] = json!("10.0.0.9");
    neutron.keys(&cluster()).await.unwrap();
    let (requests, changes) = plan("b").await;
    assert_eq!(requests, 3);
    assert_eq!(changes[0].to_string(), "set the gateway of subnet s-b to 10.0.0.1");

    // After a change of this operator, its outcome is read.
    neutron.keys(&cluster()).await.unwrap();
    neutron.make(&mark_of("c"), &changes[0]).await.unwrap();
    assert_eq!(plan("c").await.0, 3);

    // A deletion is never planned with a list.
    neutron.keys(&cluster()).await.unwrap();
    servers.exchange.lock().unwrap().requests.clear();
    assert_eq!(neutron.plan(&mark_of("a"), None).await.unwrap().changes.len(), 1);
    assert_eq!(servers.exchange.lock().unwrap().requests.len(), 3);
}

fn mark_of(name: &str) -> Mark {
    Mark::new(&cluster(), &Request::new("default", name)).unwrap()
}

/// A network of the operator, as Neutron sends it.
fn network(id: &str, name: &str) -> Value {
    let mark = mark_of(name);
    json!({
        "id": id, "revision_number": 1, "name": format!("default/{name}"),
        "description": mark.as_str(), "tags": [mark.as_str()], "admin_state_up": true,
    })
}

/// Its subnet.
fn subnet(name: &str) -> Value {
    let mark = mark_of(name);
    json!({
        "id": format!("s-{name}"), "network_id": name, "revision_number": 1,
        "name": format!("default/{name}"), "description": mark.as_str(), "tags": [mark.as_str()],
        "cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1",
    })
}

fn network_of(id: &str) -> Value {
    json!({"id": id, "revision_number": 1})
}
