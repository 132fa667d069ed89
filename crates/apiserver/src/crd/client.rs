//! The few requests that the definitions' task makes, through the in-process door.

use crate::authentication::{MASTERS, User};
use crate::door::Door;
use crate::plane::Plane;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use machinery::Value;
use std::sync::Arc;
use tower_service::Service;

/// Where definitions are.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A client of its own plane.
#[derive(Debug, Clone)]
pub(super) struct Client(Door);

impl Client {
    /// For the server's own use.
    pub(super) fn new(plane: &Arc<Plane>) -> Self {
        let user = User::authenticated("system:apiserver", "", vec![MASTERS.to_owned()]);
        Self(Door::new(Arc::clone(plane), user))
    }

    /// Replaces a definition's status; the answer's code.
    pub(super) async fn put_status(&self, name: &str, definition: &Value) -> u16 {
        let path = format!("{DEFINITIONS}/{name}/status");
        self.send(Method::PUT, &path, "application/json", definition.to_string()).await
    }

    /// Merges something into a definition; the answer's code.
    pub(super) async fn patch(&self, name: &str, patch: &Value) -> u16 {
        let path = format!("{DEFINITIONS}/{name}");
        self.send(Method::PATCH, &path, "application/merge-patch+json", patch.to_string()).await
    }

    /// Deletes an object; the answer's code.
    pub(super) async fn delete(&self, path: &str) -> u16 {
        self.send(Method::DELETE, path, "application/json", String::new()).await
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: String) -> u16 {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(Full::from(body))
            .expect("the request is ours");
        let response = match self.0.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let code = response.status().as_u16();
        if code >= 400 && !matches!(code, 404 | 409) {
            let body = match response.into_body().collect().await {
                Ok(body) => body.to_bytes(),
                Err(never) => match never {},
            };
            let answer = String::from_utf8_lossy(&body);
            tracing::warn!(code, path, %answer, "a request of the definitions' task failed");
        }
        code
    }
}
