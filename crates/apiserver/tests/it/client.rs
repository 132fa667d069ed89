//! [`Client`]: asks a plane through its in-process door, as one user.

use apiserver::InProcessClient;
use apiserver::auth::authentication::User;
use apiserver::http::body::Truncated;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, WARNING};
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use machinery::Value;
use std::time::Duration;
use tower_service::Service;

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// How long something may take that should happen at once: long enough for the slowest machine,
/// short enough to see which test waits in vain.
const PATIENCE: Duration = Duration::from_secs(20);

/// See the [module documentation](self).
#[derive(Clone)]
pub(crate) struct Client {
    door: InProcessClient,
    headers: HeaderMap,
}

/// An answer as it came.
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl Reply {
    /// The body as JSON, or as the text that it is.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|_| String::from_utf8_lossy(&self.bytes).into_owned().into())
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }

    /// The texts of its `Warning` headers.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let all = self.headers.get_all(WARNING).iter().map(|it| it.to_str().unwrap());
        let text = |it: &str| it.strip_prefix("299 - \"")?.strip_suffix('"').map(unquoted);
        all.map(|it| text(it).unwrap_or_else(|| panic!("an odd warning: {it}"))).collect()
    }
}

impl Client {
    pub(crate) fn new(door: InProcessClient) -> Self {
        Self { door, headers: HeaderMap::new() }
    }

    /// The same for somebody else.
    pub(crate) fn as_user(&self, user: User) -> Self {
        Self::new(self.door.for_user(user))
    }

    /// The same with one more header on every request.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        self
    }

    /// The same with a header that need not be text.
    pub(crate) fn with_bytes(mut self, name: &'static str, value: &[u8]) -> Self {
        let value = HeaderValue::from_bytes(value).unwrap();
        self.headers.append(HeaderName::from_static(name), value);
        self
    }

    /// Sends any request.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Reply {
        self.send_as_bytes(method, path, content_type.as_bytes(), body).await
    }

    /// Sends any request; its media type need not be text.
    pub(crate) async fn send_as_bytes(
        &self,
        method: Method,
        path: &str,
        content_type: &[u8],
        body: impl Into<Bytes>,
    ) -> Reply {
        let response = self.call(method, path, content_type, body.into()).await;
        let (head, body) = response.into_parts();
        let bytes = within(body.collect(), path).await.unwrap().to_bytes();
        Reply { code: head.status.as_u16(), headers: head.headers, bytes }
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &[u8],
        body: Bytes,
    ) -> http::Response<UnsyncBoxBody<Bytes, Truncated>> {
        let mut request = Request::builder().method(method).uri(path);
        let headers = request.headers_mut().unwrap();
        headers.clone_from(&self.headers);
        headers.insert(CONTENT_TYPE, HeaderValue::from_bytes(content_type).unwrap());
        let answered = self.door.clone().call(request.body(Full::new(body)).unwrap());
        within(answered, path).await.unwrap().map(BodyExt::boxed_unsync)
    }

    async fn ask(&self, method: Method, path: &str, media: &str, body: &Value) -> (u16, Value) {
        let reply = self.send(method, path, media, body.to_string()).await;
        (reply.code, reply.value())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let reply = self.send(Method::GET, path, JSON, "").await;
        (reply.code, reply.value())
    }

    /// GET with an `Accept` header.
    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Reply {
        self.clone().with(ACCEPT.as_str(), accept).send(Method::GET, path, JSON, "").await
    }

    /// GET with an `Accept` header, of whose answer only the head is read.
    pub(crate) async fn begin(
        &self,
        path: &str,
        accept: &str,
    ) -> http::Response<UnsyncBoxBody<Bytes, Truncated>> {
        let client = self.clone().with(ACCEPT.as_str(), accept);
        client.call(Method::GET, path, JSON.as_bytes(), Bytes::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask(Method::POST, path, JSON, body).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask(Method::PUT, path, JSON, body).await
    }

    /// PATCH; `media` says of which kind.
    pub(crate) async fn patch(&self, path: &str, media: &str, body: &Value) -> (u16, Value) {
        self.ask(Method::PATCH, path, media, body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (u16, Value) {
        let reply = self.send(Method::DELETE, path, JSON, "").await;
        (reply.code, reply.value())
    }

    /// DELETE with options in its body.
    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> (u16, Value) {
        self.ask(Method::DELETE, path, JSON, options).await
    }

    /// Reads what must be there.
    pub(crate) async fn read(&self, path: &str) -> Value {
        let (code, found) = self.get(path).await;
        assert_eq!(code, 200, "GET {path}: {found}");
        found
    }

    /// Creates what must be accepted.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Value {
        let (code, created) = self.post(path, object).await;
        assert_eq!(code, 201, "POST {path}: {created}");
        created
    }

    /// Merges what must be accepted.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Value {
        let (code, patched) = self.patch(path, MERGE, patch).await;
        assert_eq!(code, 200, "PATCH {path}: {patched}");
        patched
    }

    /// Asks again until the answer is as `wanted`: for what a task of the server does by itself.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(u16, &Value) -> bool) -> Value {
        let asking = async {
            loop {
                let (code, found) = self.get(path).await;
                if wanted(code, &found) {
                    return found;
                }
                tokio::task::yield_now().await;
            }
        };
        within(asking, path).await
    }

    /// Begins a watch, which must be accepted.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let response = self.call(Method::GET, path, JSON.as_bytes(), Bytes::new()).await;
        let code = response.status().as_u16();
        let mut watch = Watch { body: response.into_body(), bytes: Vec::new() };
        if code != 200 {
            watch.fill().await;
            panic!("GET {path}: {code} {}", String::from_utf8_lossy(&watch.bytes));
        }
        watch
    }
}

/// A watch under way.
pub(crate) struct Watch {
    body: UnsyncBoxBody<Bytes, Truncated>,
    /// What has come and is not a whole line yet.
    bytes: Vec<u8>,
}

impl Watch {
    /// The next event, its type and its object; None at the end.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        let mut event: Value = serde_json::from_str(&self.line().await?).unwrap();
        let kind = event["type"].as_str().unwrap().to_owned();
        Some((kind, event["object"].take()))
    }

    /// The next event as it is written; None at the end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.bytes.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=end).collect();
                return Some(String::from_utf8(line).unwrap());
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    /// The next event, which must be of this type.
    pub(crate) async fn expect(&mut self, kind: &str) -> Value {
        let (found, object) = self.next().await.unwrap_or_else(|| panic!("{kind} did not come"));
        assert_eq!(found, kind, "{object}");
        object
    }

    /// The next event in short: its type and the name of its object.
    pub(crate) async fn brief(&mut self) -> String {
        let (kind, object) = self.next().await.expect("the watch goes on");
        format!("{kind} {}", object["metadata"]["name"].as_str().unwrap_or_default())
    }

    /// Waits for more bytes; false at the end.
    async fn fill(&mut self) -> bool {
        match within(self.body.frame(), "an event").await {
            Some(frame) => {
                self.bytes.extend_from_slice(&frame.unwrap().into_data().unwrap());
                true
            }
            None => false,
        }
    }
}

fn unquoted(text: &str) -> String {
    text.replace("\\\"", "\"")
}

async fn within<T>(work: impl Future<Output = T>, what: &str) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| panic!("waited for {what} in vain"))
}
