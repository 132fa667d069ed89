//! [`Client`]: sends requests to a plane as one user.

use std::fmt::Debug;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use tower_service::Service;

use crate::media_type::{JSON, MERGE_PATCH};
use crate::response::Response;
use crate::watch::Watch;
use apiserver::InProcessClient;
use apiserver::auth::authentication::User;
use apiserver::http::body::Body;
use machinery::Value;

/// The timeout of waits for results that are expected at once. It only ends tests that would hang, so
/// it is longer than the slowest machine needs.
const LIMIT: Duration = Duration::from_mins(1);

/// A client of a plane in the same process. Each clone acts as the same user.
///
/// ```
/// # use {machinery::json, testenv::{Client, TestEnv}};
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let env = TestEnv::start().await;
/// let bob: Client = env.with_header("impersonate-user", "bob");
/// let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// let review = bob.create(path, &json!({})).await;
/// assert_eq!(review["status"]["userInfo"]["username"], "bob");
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    service: InProcessClient,
    /// Headers of each request.
    headers: HeaderMap,
}

impl Client {
    pub(crate) fn new(service: InProcessClient) -> Self {
        Self { service, headers: HeaderMap::new() }
    }

    /// A client that acts as another user, without the headers of this one.
    #[must_use]
    pub fn as_user(&self, user: User) -> Self {
        Self::new(self.service.for_user(user))
    }

    /// A client without a user, which is anonymous unless a header authenticates it.
    #[must_use]
    pub fn unauthenticated(&self) -> Self {
        Self::new(self.service.unauthenticated())
    }

    /// A client that is authenticated by a bearer token.
    #[must_use]
    pub fn bearer(&self, token: &str) -> Self {
        self.unauthenticated().with_header(AUTHORIZATION.as_str(), format!("Bearer {token}"))
    }

    /// A client of the same user that sends one more header with each request.
    #[must_use]
    pub fn with_header(&self, name: &str, value: impl TryInto<HeaderValue, Error: Debug>) -> Self {
        let mut client = self.clone();
        let name = HeaderName::try_from(name).expect("a valid name of a header");
        client.headers.append(name, value.try_into().expect("a valid value of a header"));
        client
    }

    /// Sends any request, and reads the whole response.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: impl TryInto<HeaderValue, Error: Debug>,
        body: impl Into<Bytes>,
    ) -> Response {
        let content_type = content_type.try_into().expect("a valid value of a header");
        let (head, body) = self.call(method, path, content_type, body.into()).await.into_parts();
        let body = within_limit(body.collect(), path).await;
        let bytes = body.expect("the response is not truncated").to_bytes();
        Response { code: head.status.as_u16(), headers: head.headers, bytes }
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: HeaderValue,
        body: Bytes,
    ) -> http::Response<Body> {
        let request = Request::builder().method(method).uri(path);
        let mut request = request.body(Full::new(body)).expect("a valid path");
        request.headers_mut().clone_from(&self.headers);
        request.headers_mut().insert(CONTENT_TYPE, content_type);
        let Ok(response) = within_limit(self.service.clone().call(request), path).await;
        response
    }

    async fn send_value(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> (u16, Value) {
        let response = self.send(method, path, content_type, body.to_string()).await;
        (response.code, response.value())
    }

    /// GET: the code and the body.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        let response = self.send(Method::GET, path, JSON, "").await;
        (response.code, response.value())
    }

    /// GET with an `Accept` header.
    pub async fn get_as(&self, path: &str, accept: &str) -> Response {
        self.with_header(ACCEPT.as_str(), accept).send(Method::GET, path, JSON, "").await
    }

    /// GET with an `Accept` header. The body is read by the caller, or not at all.
    pub async fn get_streaming(&self, path: &str, accept: &str) -> http::Response<Body> {
        let client = self.with_header(ACCEPT.as_str(), accept);
        client.call(Method::GET, path, HeaderValue::from_static(JSON), Bytes::new()).await
    }

    /// POST: the code and the body.
    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send_value(Method::POST, path, JSON, body).await
    }

    /// PUT: the code and the body.
    pub async fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send_value(Method::PUT, path, JSON, body).await
    }

    /// PATCH with a patch of this [media type](crate::media_type): the code and the body.
    pub async fn patch(&self, path: &str, content_type: &str, patch: &Value) -> (u16, Value) {
        self.send_value(Method::PATCH, path, content_type, patch).await
    }

    /// DELETE: the code and the body.
    pub async fn delete(&self, path: &str) -> (u16, Value) {
        let response = self.send(Method::DELETE, path, JSON, "").await;
        (response.code, response.value())
    }

    /// DELETE with `DeleteOptions`: the code and the body.
    pub async fn delete_with(&self, path: &str, options: &Value) -> (u16, Value) {
        self.send_value(Method::DELETE, path, JSON, options).await
    }

    /// GET of an object or a list that must exist.
    pub async fn read(&self, path: &str) -> Value {
        let (code, found) = self.get(path).await;
        assert_eq!(code, 200, "GET {path}: {found}");
        found
    }

    /// POST of an object that must be accepted.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        let (code, created) = self.post(path, object).await;
        assert_eq!(code, 201, "POST {path}: {created}");
        created
    }

    /// PATCH with a merge patch that must be accepted.
    pub async fn merge(&self, path: &str, patch: &Value) -> Value {
        let (code, patched) = self.patch(path, MERGE_PATCH, patch).await;
        assert_eq!(code, 200, "PATCH {path}: {patched}");
        patched
    }

    /// Repeats a GET until code and body are as expected, for changes that a task of the server
    /// makes.
    pub async fn until(&self, path: &str, is_expected: impl Fn(u16, &Value) -> bool) -> Value {
        let polling = async {
            loop {
                let (code, found) = self.get(path).await;
                if is_expected(code, &found) {
                    return found;
                }
                tokio::task::yield_now().await;
            }
        };
        within_limit(polling, path).await
    }

    /// Begins a watch that must be accepted. The path has the parameter `watch`.
    pub async fn watch(&self, path: &str) -> Watch {
        let content_type = HeaderValue::from_static(JSON);
        let response = self.call(Method::GET, path, content_type, Bytes::new()).await;
        let (head, body) = response.into_parts();
        if head.status != 200 {
            let body = within_limit(body.collect(), path).await;
            let bytes = body.expect("the response is not truncated").to_bytes();
            panic!("GET {path}: {} {}", head.status, String::from_utf8_lossy(&bytes));
        }
        Watch::new(body)
    }
}

/// Waits for `future`, at most until [`LIMIT`]; the panic after that names `what`.
pub(crate) async fn within_limit<T>(future: impl Future<Output = T>, what: &str) -> T {
    let done = tokio::time::timeout(LIMIT, future).await;
    done.unwrap_or_else(|_| panic!("{what} took longer than {} s", LIMIT.as_secs()))
}
