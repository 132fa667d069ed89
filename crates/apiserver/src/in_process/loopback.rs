//! [`LoopbackClient`]: the client for the server's own requests, which pass the same chain as all
//! other requests.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use tower_service::Service;

use crate::auth::authentication::User;
use crate::auth::authorization::masters;
use crate::in_process::InProcessClient;
use crate::in_process::handler::Handler;
use crate::storage::catalog::ServedResource;
use machinery::{Object, Value, codec};

/// See the [module documentation](self).
#[derive(Clone)]
pub(crate) struct LoopbackClient {
    /// Weak, since the handler owns this client.
    handler: Weak<dyn Handler>,
    user: User,
}

/// The user of the server's own requests, which no person is. Upstream: the loopback client of
/// kube-apiserver.
pub(crate) fn user() -> User {
    masters::member("system:apiserver")
}

/// Marks the requests of this client, which are never forwarded to an aggregated server.
#[derive(Debug, Clone, Copy)]
struct Loopback;

/// Marks a request that deletes an object whose CRD is being deleted. The object is found although
/// no version of the resource may be served, and there is no admission.
#[derive(Clone)]
pub(crate) struct DeletedCrdInstance(pub Arc<ServedResource>);

/// Whether the request was sent by the loopback client.
pub(crate) fn is_loopback(head: &Parts) -> bool {
    head.extensions.get::<Loopback>().is_some()
}

/// A response: its status code, and its object, which is decoded when it is read.
pub(crate) struct Answer {
    /// The HTTP status code.
    pub code: u16,
    body: Bytes,
}

impl Answer {
    fn without_body(code: u16) -> Self {
        Self { code, body: Bytes::new() }
    }

    /// The object, or the Status of an error.
    pub(crate) fn object(&self) -> Object {
        let value = codec::json::decode(&self.body).ok().map(|it| it.value);
        value.and_then(Object::from_value).unwrap_or_default()
    }

    /// The message of the Status.
    pub(crate) fn message(&self) -> String {
        self.object().str_at(&["message"]).to_owned()
    }
}

impl LoopbackClient {
    /// A client of `handler`.
    pub(crate) fn new(handler: Weak<dyn Handler>) -> Self {
        Self { handler, user: user() }
    }

    /// Reads an object.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "application/json", String::new()).await
    }

    /// Creates an object without waiting for its initializers, which must not block the server.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Answer {
        let path = &format!("{path}?includeUninitialized=true");
        self.send(Method::POST, path, "application/json", object.to_string()).await
    }

    /// Creates an object like [`LoopbackClient::create`], with the name of a field manager.
    pub(crate) async fn create_as(&self, path: &str, manager: &str, object: &Value) -> Answer {
        let path = &format!("{path}?includeUninitialized=true&fieldManager={manager}");
        self.send(Method::POST, path, "application/json", object.to_string()).await
    }

    /// Replaces an object.
    pub(crate) async fn update(&self, path: &str, object: &Value) -> Answer {
        self.send(Method::PUT, path, "application/json", object.to_string()).await
    }

    /// Applies a merge patch to an object.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Answer {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch.to_string()).await
    }

    /// Applies a configuration by server-side apply, with force.
    pub(crate) async fn apply(&self, path: &str, manager: &str, config: &Value) -> Answer {
        let path = format!("{path}?fieldManager={manager}&force=true");
        let config = config.to_string();
        self.send(Method::PATCH, &path, "application/apply-patch+yaml", config).await
    }

    /// Deletes an object.
    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "application/json", String::new()).await
    }

    /// Deletes an object whose CRD is being deleted.
    pub(crate) async fn delete_instance(&self, path: &str, served: &Arc<ServedResource>) -> Answer {
        let mut request = request(Method::DELETE, path, "application/json", String::new());
        request.extensions_mut().insert(DeletedCrdInstance(Arc::clone(served)));
        self.call(path, request).await
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: String) -> Answer {
        self.call(path, request(method, path, content_type, body)).await
    }

    async fn call(&self, path: &str, request: Request<Full<Bytes>>) -> Answer {
        let Some(handler) = self.handler.upgrade() else {
            return Answer::without_body(503);
        };
        let Ok(response) = InProcessClient::new(handler, self.user.clone()).call(request).await;
        let code = response.status().as_u16();
        let body = match response.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(truncated) => {
                tracing::warn!(path, error = %truncated, "a loopback request failed");
                return Answer::without_body(502);
            }
        };
        let answer = Answer { code, body };
        if code >= 400 && !matches!(code, 404 | 409) {
            tracing::warn!(code, path, message = answer.message(), "a loopback request failed");
        }
        answer
    }
}

fn request(method: Method, path: &str, content_type: &str, body: String) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .header("user-agent", "sampan")
        .extension(Loopback)
        .body(Full::from(body))
        .expect("paths and headers of loopback requests are valid")
}
