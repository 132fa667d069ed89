//! Keystone and Neutron, both played by a small server.

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

use crate::world::cluster;
use network_operator::backend::Mark;
use network_operator::backend::neutron::NeutronOptions;
use runtime::Request;
use runtime::keel::Tasks;

/// What a server was sent, and what it responds.
#[derive(Default)]
pub(crate) struct Exchange {
    pub(crate) logins: Vec<Value>,
    /// The requests to Neutron.
    pub(crate) requests: Vec<Sent>,
    /// The tokens that were issued.
    pub(crate) tokens: usize,
    /// The number of the first token that is valid.
    pub(crate) valid_from: usize,
    /// Tokens have no project.
    pub(crate) has_no_project: bool,
    /// Keystone refuses the credentials.
    pub(crate) refuses_logins: bool,
    /// The objects of Neutron.
    pub(crate) networks: Vec<Value>,
    pub(crate) subnets: Vec<Value>,
    /// The largest page of a list.
    pub(crate) max_page: Option<usize>,
    /// Each page of networks is full and new, and its networks have this description.
    pub(crate) endless_padding: Option<String>,
    /// The response of Neutron to every request, instead of lists.
    pub(crate) body: Option<Bytes>,
    /// The status and the message of the response of Neutron to every change.
    pub(crate) refusal: Option<(StatusCode, &'static str)>,
}

pub(crate) struct Sent {
    pub(crate) uri: String,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Exchange {
    /// A page of a list, as Neutron responds it. It ignores the filter by project.
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
        if let Some(padding) = &self.endless_padding {
            let page = self.requests.len();
            let network = |number: usize| {
                json!({"id": format!("{page:06}-{number:06}"), "project_id": "ours",
                    "revision_number": 1, "description": padding})
            };
            return json!({plural: (0..limit).map(network).collect::<Vec<_>>()});
        }
        let mut objects: Vec<_> = objects.iter().filter(is_asked_for).collect();
        objects.sort_by_key(|object| object["id"].to_string());
        objects.retain(|object| object["id"].as_str() > marker);
        objects.truncate(limit);
        let next = json!([{"rel": "next", "href": "http://x/"}]);
        let links = if objects.len() == limit { next } else { json!([]) };
        json!({plural: objects, format!("{plural}_links"): links})
    }
}

pub(crate) struct Servers {
    pub(crate) address: SocketAddr,
    pub(crate) exchange: Arc<Mutex<Exchange>>,
    _tasks: Tasks,
}

impl Servers {
    pub(crate) async fn start() -> Self {
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

    pub(crate) fn options(&self) -> NeutronOptions {
        let os_auth_url = Some(format!("http://{}/identity/v3", self.address).parse().unwrap());
        NeutronOptions { os_auth_url, ..NeutronOptions::default() }
    }

    pub(crate) fn application_credential(&self) -> NeutronOptions {
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
        let project = if exchange.has_no_project { Value::Null } else { json!({"id": "ours"}) };
        let expires_at = "2026-01-01T00:00:00Z";
        let token = json!({"token": {"expires_at": expires_at, "project": project, "catalog": [
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
    if let (Some((status, message)), true) = (exchange.refusal, parts.method != Method::GET) {
        let error = json!({"NeutronError": {"type": "x", "message": message, "detail": ""}});
        let response = Response::builder().status(status);
        return Ok(response.body(Full::from(error.to_string())).unwrap());
    }
    let body = match exchange.body.clone() {
        Some(body) => body,
        None if parts.method == Method::GET => exchange.page(&parts.uri).to_string().into(),
        // A change is accepted and not made.
        None => "{}".into(),
    };
    Ok(Response::new(Full::new(body)))
}

pub(crate) fn mark_of(name: &str) -> Mark {
    Mark::new(&cluster(), &Request::new("default", name)).unwrap()
}

/// A network of the operator, as Neutron sends it.
pub(crate) fn network(id: &str, name: &str) -> Value {
    let mark = mark_of(name);
    json!({
        "id": id, "project_id": "ours", "revision_number": 1, "name": format!("default/{name}"),
        "description": mark.as_str(), "tags": [mark.as_str()], "admin_state_up": true,
    })
}

/// Its subnet.
pub(crate) fn subnet(name: &str) -> Value {
    let mark = mark_of(name);
    json!({
        "id": format!("s-{name}"), "network_id": name, "project_id": "ours", "revision_number": 1,
        "name": format!("default/{name}"), "description": mark.as_str(), "tags": [mark.as_str()],
        "cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1",
    })
}

pub(crate) fn network_of(id: &str) -> Value {
    json!({"id": id, "project_id": "ours", "revision_number": 1})
}
