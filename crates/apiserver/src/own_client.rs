//! [`OwnClient`]: the server as its own client. What it writes for itself takes the same road as
//! everybody's requests, through the in-process door.

use crate::authentication::{MASTERS, User};
use crate::door::Door;
use crate::plane::Plane;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use machinery::{Object, Value, codec};
use std::sync::Arc;
use tower_service::Service;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub(crate) struct OwnClient(Door);

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

impl OwnClient {
    /// For the server's own use.
    pub(crate) fn new(plane: &Arc<Plane>) -> Self {
        let user = User::authenticated("system:apiserver", "", vec![MASTERS.to_owned()]);
        Self(Door::new(Arc::clone(plane), user))
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

    async fn send(&self, method: Method, path: &str, content_type: &str, body: String) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("user-agent", "sampan")
            .body(Full::from(body))
            .expect("the request is ours");
        let response = match self.0.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let code = response.status().as_u16();
        let body = match response.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(never) => match never {},
        };
        let object = codec::json::decode(&body).ok().and_then(|it| Object::from_value(it.value));
        let answer = Answer { code, object: object.unwrap_or_default() };
        if code >= 400 && !matches!(code, 404 | 409) {
            tracing::warn!(code, path, message = answer.message(), "our own request failed");
        }
        answer
    }
}
