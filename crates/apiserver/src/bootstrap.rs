//! What every plane has from the beginning: its namespaces, and the service by which pods reach it.

use crate::admission::IMMORTAL;
use crate::authentication::{MASTERS, User};
use crate::door::Door;
use crate::plane::Plane;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use machinery::{Object, Value, codec, json};
use std::sync::Arc;
use tower_service::Service;

/// Why a plane is not ready.
#[derive(Debug, thiserror::Error)]
#[error("cannot create {path}: {message}")]
pub struct Error {
    path: String,
    message: String,
}

/// Creates what is missing, as a client of the plane.
pub(crate) async fn bootstrap(plane: &Arc<Plane>) -> Result<(), Error> {
    let user = User::authenticated("system:apiserver", "", vec![MASTERS.to_owned()]);
    let door = Door::new(Arc::clone(plane), Some(user));
    for name in IMMORTAL.iter().chain(&["kube-node-lease"]) {
        create(&door, "/api/v1/namespaces", &json!({"metadata": {"name": name}})).await?;
    }
    let service = json!({
        "metadata": {"name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": plane.allocations.first_address(), "type": "ClusterIP",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]},
    });
    create(&door, "/api/v1/namespaces/default/services", &service).await
}

async fn create(door: &Door, path: &str, object: &Value) -> Result<(), Error> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("content-type", "application/json")
        .body(Full::from(object.to_string()))
        .expect("the request is ours");
    let response = match door.clone().call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let code = response.status().as_u16();
    // It was there already: this is not the first start.
    if matches!(code, 201 | 409) {
        return Ok(());
    }
    let body = match response.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    };
    let message = codec::json::decode(&body).ok().and_then(|it| Object::from_value(it.value));
    let message = message.map_or_else(String::new, |it| it.str_at(&["message"]).to_owned());
    Err(Error { path: path.to_owned(), message })
}
