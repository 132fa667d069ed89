//! [`LoopbackClient`]: the server as its own client. What it writes for itself takes the same road as
//! everybody's requests, through the in-process door.

use crate::auth::authentication::{MASTERS, User};
use crate::cache::catalog::Served;
use crate::in_process::InProcessClient;
use crate::plane::Plane;
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use machinery::{Object, Value, codec};
use std::sync::Arc;
use tower_service::Service;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub(crate) struct LoopbackClient(InProcessClient);

/// Marks the requests that the server makes for itself. An `APIService` does not lead them to
/// another server.
#[derive(Debug, Clone, Copy)]
struct Own;

/// Marks a request that deletes an object of a definition that is being deleted. The object is
/// found although no version of the resource may be served, and admission is not asked.
#[derive(Clone)]
pub(crate) struct Instance(pub Arc<Served>);

/// Whether the server makes this request for itself.
pub(crate) fn is_own(head: &Parts) -> bool {
    head.extensions.get::<Own>().is_some()
}

/// An answer: its code, and the object that it is.
pub(crate) struct Answer {
    /// Of the answer.
    pub code: u16,
    /// The object, or the Status that says why not.
    pub object: Object,
}

impl Answer {
    /// What a failure says.
    pub(crate) fn message(&self) -> &str {
        self.object.str_at(&["message"])
    }
}

impl LoopbackClient {
    /// For the server's own use.
    pub(crate) fn new(plane: &Arc<Plane>) -> Self {
        let user = User::authenticated("system:apiserver", "", vec![MASTERS.to_owned()]);
        Self(InProcessClient::new(Arc::clone(plane), user))
    }

    /// Reads an object.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "application/json", String::new()).await
    }

    /// Creates an object, without waiting for those who still have to work on it: the server has
    /// other things to do.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Answer {
        let path = &format!("{path}?includeUninitialized=true");
        self.send(Method::POST, path, "application/json", object.to_string()).await
    }

    /// Replaces an object.
    pub(crate) async fn update(&self, path: &str, object: &Value) -> Answer {
        self.send(Method::PUT, path, "application/json", object.to_string()).await
    }

    /// Merges something into an object.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Answer {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch.to_string()).await
    }

    /// Applies a configuration, whoever owns its fields so far.
    pub(crate) async fn apply(&self, path: &str, manager: &str, config: &Value) -> Answer {
        let path = format!("{path}?fieldManager={manager}&force=true");
        let config = config.to_string();
        self.send(Method::PATCH, &path, "application/apply-patch+yaml", config).await
    }

    /// Deletes an object.
    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "application/json", String::new()).await
    }

    /// Deletes an object of a definition that is being deleted.
    pub(crate) async fn delete_instance(&self, path: &str, served: &Arc<Served>) -> Answer {
        let mut request = request(Method::DELETE, path, "application/json", String::new());
        request.extensions_mut().insert(Instance(Arc::clone(served)));
        self.call(path, request).await
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: String) -> Answer {
        self.call(path, request(method, path, content_type, body)).await
    }

    async fn call(&self, path: &str, request: Request<Full<Bytes>>) -> Answer {
        let response = match self.0.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let code = response.status().as_u16();
        let body = match response.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(truncated) => {
                tracing::warn!(path, error = %truncated, "our own request failed");
                return Answer { code: 502, object: Object::default() };
            }
        };
        let object = codec::json::decode(&body).ok().and_then(|it| Object::from_value(it.value));
        let answer = Answer { code, object: object.unwrap_or_default() };
        if code >= 400 && !matches!(code, 404 | 409) {
            tracing::warn!(code, path, message = answer.message(), "our own request failed");
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
        .extension(Own)
        .body(Full::from(body))
        .expect("the request is ours")
}
