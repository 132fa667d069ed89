//! [`Session`]: a client of one cluster, and the requests that verbs send with it.

use std::error::Error as StdError;
use std::path::Path;
use std::time::Duration;

use futures_util::FutureExt;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT, WARNING};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube_client::Client;
use kube_client::client::Body;
use tokio::sync::OnceCell;

use crate::discovery::Discovery;
use crate::error::Error;
use crate::global::GlobalArgs;
use crate::io::Notes;
use crate::kubeconfig::Kubeconfig;
use client::config::from_kubeconfig;
use keel::Clock;
use machinery::{Map, Reason, Status, Value, json};

/// The media type of JSON.
pub(crate) const JSON: &str = "application/json";

/// The server takes the part before the slash for the name of the field manager.
const AGENT: &str = concat!("kubectl/sampan-", env!("CARGO_PKG_VERSION"));

/// How often a request is repeated that the server asks to send later.
const MAX_RETRIES: u32 = 10;

/// See the [module documentation](self).
pub(crate) struct Session {
    client: Client,
    /// The address of the server.
    pub server: String,
    /// The namespace of requests that name none.
    pub namespace: String,
    /// Whether the namespace was given as a flag.
    pub is_namespace_given: bool,
    notes: Notes,
    timeout: Option<Duration>,
    discovery: OnceCell<Discovery>,
    /// The clock of ages and time limits.
    pub clock: Clock,
}

impl Session {
    /// Reads the kubeconfig. Nothing is sent yet.
    pub(crate) async fn connect(args: &GlobalArgs, notes: Notes) -> Result<Self, Error> {
        let files = Kubeconfig::load(args)?;
        let resolved = resolve(args, &files)?;
        let unusable = |error: &dyn StdError| {
            let mut text = format!("cannot use the kubeconfig: {error}");
            let mut cause = error.source();
            while let Some(it) = cause {
                text.push_str(&format!(": {it}"));
                cause = it.source();
            }
            Error::message(text)
        };
        let document = serde_json::from_value(resolved.document);
        let document = document.map_err(|error| unusable(&error))?;
        let mut config = from_kubeconfig(document, None).await.map_err(|error| unusable(&error))?;
        // A watch may be silent for as long as it lasts.
        config.read_timeout = None;
        let clock = Clock::system();
        let client = client::connect(config, &clock).map_err(|error| unusable(&error))?;
        Ok(Self {
            client,
            server: resolved.server,
            namespace: resolved.namespace,
            is_namespace_given: args.namespace.is_some(),
            notes,
            timeout: args.request_timeout(),
            discovery: OnceCell::new(),
            clock,
        })
    }

    /// What the server serves, asked once.
    pub(crate) async fn discovery(&self) -> Result<&Discovery, Error> {
        self.discovery.get_or_try_init(|| Discovery::fetch(self).boxed()).await
    }

    /// Sends a request, and returns the response if it is a success.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(http::HeaderName, &str)],
        body: Vec<u8>,
    ) -> Result<Response<Body>, Error> {
        for _ in 0..MAX_RETRIES {
            let response = self.send_once(&method, path, headers, body.clone()).await?;
            let is_asked_to_wait = matches!(
                response.status(),
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
            );
            let seconds = response.headers().get(RETRY_AFTER);
            let seconds = seconds.and_then(|it| it.to_str().ok()?.trim().parse().ok());
            match seconds {
                Some(seconds) if is_asked_to_wait => {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                }
                _ => return self.check(response).await,
            }
        }
        self.check(self.send_once(&method, path, headers, body).await?).await
    }

    async fn send_once(
        &self,
        method: &Method,
        path: &str,
        headers: &[(http::HeaderName, &str)],
        body: Vec<u8>,
    ) -> Result<Response<Body>, Error> {
        let mut request = Request::builder().method(method.clone()).uri(path);
        request = request.header(USER_AGENT, AGENT);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let request = request.body(Body::from(body));
        let request =
            request.map_err(|error| Error::message(format!("invalid request {path}: {error}")))?;
        let sent = self.client.send(request);
        let response = match self.timeout {
            Some(limit) => tokio::time::timeout(limit, sent).await.map_err(|_| {
                Error::Unreachable(
                    "Unable to connect to the server: net/http: request canceled (Client.Timeout \
                     exceeded while awaiting headers)"
                        .to_owned(),
                )
            })?,
            None => sent.await,
        };
        let response = response.map_err(|error| self.unreachable(&error))?;
        self.print_warnings(response.headers());
        Ok(response)
    }

    /// Turns a response with another code than success into an error.
    async fn check(&self, response: Response<Body>) -> Result<Response<Body>, Error> {
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status();
        let bytes = self.read(response).await?;
        Err(status_of(code, &bytes).into())
    }

    /// Reads the whole body of a response.
    pub(crate) async fn read(&self, response: Response<Body>) -> Result<Vec<u8>, Error> {
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| Error::Unreachable(format!("error: {error}")))?;
        Ok(body.to_bytes().to_vec())
    }

    /// GET: the body as it is.
    pub(crate) async fn get_bytes(&self, path: &str, accept: &str) -> Result<Vec<u8>, Error> {
        let response = self.send(Method::GET, path, &[(ACCEPT, accept)], Vec::new()).await?;
        self.read(response).await
    }

    /// GET of an object or a list.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, Error> {
        decode(&self.get_bytes(path, JSON).await?)
    }

    /// A request with an object or a patch, which answers with an object.
    pub(crate) async fn write(
        &self,
        method: Method,
        path: &str,
        media_type: &str,
        body: &Value,
    ) -> Result<Value, Error> {
        let headers = [(ACCEPT, JSON), (CONTENT_TYPE, media_type)];
        let body = body.to_string().into_bytes();
        let response = self.send(method, path, &headers, body).await?;
        decode(&self.read(response).await?)
    }

    /// Prints the warnings of a response, as kubectl does.
    fn print_warnings(&self, headers: &HeaderMap) {
        for header in headers.get_all(WARNING) {
            let text = String::from_utf8_lossy(header.as_bytes());
            // 299 - "text"
            let Some((_, quoted)) = text.split_once('"') else { continue };
            let quoted = quoted.rsplit_once('"').map_or(quoted, |it| it.0);
            self.notes.line(&format!("Warning: {}", quoted.replace("\\\"", "\"")));
        }
    }

    fn unreachable(&self, error: &kube_client::Error) -> Error {
        let mut text = error.to_string();
        let mut cause: Option<&dyn StdError> = error.source();
        while let Some(it) = cause {
            let refused = it
                .downcast_ref::<std::io::Error>()
                .is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
            if refused {
                let server = self.server.split_once("://").map_or(&*self.server, |it| it.1);
                let server = server.split('/').next().unwrap_or_default();
                return Error::Unreachable(format!(
                    "The connection to the server {server} was refused - did you specify the right \
                     host or port?"
                ));
            }
            text = it.to_string();
            cause = it.source();
        }
        Error::Unreachable(format!("Unable to connect to the server: {text}"))
    }
}

/// The status in an error response, or one that is made of its code.
fn status_of(code: StatusCode, body: &[u8]) -> Status {
    let sent: Option<Value> = serde_json::from_slice(body).ok();
    if let Some(status) = sent.and_then(|value| Status::from_value(&value)) {
        return status;
    }
    let text = String::from_utf8_lossy(body);
    let (reason, message) = match code.as_u16() {
        401 => (Reason::Unauthorized, "the server has asked for the client to provide credentials"),
        403 => (Reason::Forbidden, text.trim()),
        404 => (Reason::NotFound, "the server could not find the requested resource"),
        405 => (
            Reason::MethodNotAllowed,
            "the server does not allow this method on the requested resource",
        ),
        406 => (
            Reason::NotAcceptable,
            "the server was unable to respond with a content type that the client supports",
        ),
        503 => (Reason::ServiceUnavailable, "the server is currently unable to handle the request"),
        _ => (Reason::InternalError, text.trim()),
    };
    Status::new(code.as_u16(), reason, message)
}

/// Decodes a response.
pub(crate) fn decode(bytes: &[u8]) -> Result<Value, Error> {
    let decoded = serde_json::from_slice(bytes);
    decoded.map_err(|error| {
        Error::message(format!("the server sent a response that is no JSON: {error}"))
    })
}

/// A kubeconfig of one context, with the flags applied.
struct Resolved {
    document: Value,
    server: String,
    namespace: String,
}

fn resolve(args: &GlobalArgs, files: &Kubeconfig) -> Result<Resolved, Error> {
    let context = match (&args.context, files.current_context()) {
        (Some(name), _) => Some(files.entry("contexts", name).ok_or_else(|| {
            Error::Verbatim(format!(
                "Error in configuration: context was not found for specified context: {name}"
            ))
        })?),
        (None, Some(name)) => Some(files.entry("contexts", name).ok_or_else(|| {
            Error::Verbatim(format!(
                "Error in configuration: context was not found for specified context: {name}"
            ))
        })?),
        (None, None) => None,
    };
    let context = context.unwrap_or_default();
    let entry = |list: &str, what: &str, flag: &Option<String>| {
        let named = flag.as_deref().or(context[what].as_str()).filter(|it| !it.is_empty());
        let Some(name) = named else { return Ok(Value::Object(Map::new())) };
        match (files.entry(list, name), flag) {
            (Some(Value::Object(map)), _) => Ok(Value::Object(map)),
            (Some(_), _) => Ok(json!({})),
            (None, None) if what == "user" => Ok(json!({})),
            (None, _) => Err(Error::message(format!("{what} {name:?} does not exist"))),
        }
    };
    let mut cluster = entry("clusters", "cluster", &args.cluster)?;
    let mut user = entry("users", "user", &args.user)?;
    override_cluster(args, &mut cluster)?;
    let user_name = args.user.as_deref().or(context["user"].as_str()).unwrap_or_default();
    override_user(args, user_name, &mut user)?;
    let named = args.namespace.as_deref().or(context["namespace"].as_str());
    let namespace = named.filter(|it| !it.is_empty()).unwrap_or("default").to_owned();
    let server = cluster["server"].as_str().unwrap_or_default().to_owned();
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "current",
        "clusters": [{"name": "current", "cluster": cluster}],
        "users": [{"name": "current", "user": user}],
        "contexts": [{"name": "current",
            "context": {"cluster": "current", "user": "current", "namespace": namespace}}],
    });
    Ok(Resolved { document, server, namespace })
}

fn override_cluster(args: &GlobalArgs, cluster: &mut Value) -> Result<(), Error> {
    if let Some(server) = &args.server {
        let has_scheme = server.contains("://");
        let server = if has_scheme { server.clone() } else { format!("http://{server}") };
        cluster["server"] = server.into();
    } else if cluster["server"].as_str().is_none_or(str::is_empty) {
        cluster["server"] = "http://localhost:8080".into();
    }
    if let Some(name) = &args.tls_server_name {
        cluster["tls-server-name"] = name.as_str().into();
    }
    if let Some(path) = &args.certificate_authority {
        replace(cluster, "certificate-authority", path)?;
    }
    if args.insecure_skip_tls_verify {
        cluster["insecure-skip-tls-verify"] = true.into();
        if let Some(map) = cluster.as_object_mut() {
            map.remove("certificate-authority");
            map.remove("certificate-authority-data");
        }
    }
    Ok(())
}

fn override_user(args: &GlobalArgs, name: &str, user: &mut Value) -> Result<(), Error> {
    if let Some(token) = &args.token {
        user["token"] = token.as_str().into();
        if let Some(map) = user.as_object_mut() {
            map.remove("tokenFile");
            map.remove("exec");
        }
    }
    if let Some(path) = &args.client_certificate {
        replace(user, "client-certificate", path)?;
    }
    if let Some(path) = &args.client_key {
        replace(user, "client-key", path)?;
    }
    if let Some(name) = &args.act_as {
        user["as"] = name.as_str().into();
    } else if !args.act_as_groups.is_empty() || args.act_as_uid.is_some() {
        return Err(Error::message(format!(
            "requesting uid, groups or user-extra for {name} without impersonating a user"
        )));
    }
    if !args.act_as_groups.is_empty() {
        user["as-groups"] = args.act_as_groups.clone().into();
    }
    if let Some(uid) = &args.act_as_uid {
        user["as-uid"] = uid.as_str().into();
    }
    Ok(())
}

/// Sets the path of a file, in place of data.
fn replace(entry: &mut Value, field: &str, path: &Path) -> Result<(), Error> {
    let path = std::path::absolute(path).map_err(|error| Error::message(error.to_string()))?;
    entry[field] = path.display().to_string().into();
    if let Some(map) = entry.as_object_mut() {
        map.remove(&format!("{field}-data"));
    }
    Ok(())
}
