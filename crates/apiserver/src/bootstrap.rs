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
    let door = Door::new(Arc::clone(plane), user);
    for name in IMMORTAL.iter().chain(&["kube-node-lease"]) {
        ensure(&door, "/api/v1/namespaces", name, json!({})).await?;
    }
    let service = json!({
        "metadata": {"labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": plane.allocations.first_address(), "type": "ClusterIP",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]},
    });
    ensure(&door, "/api/v1/namespaces/default/services", "kubernetes", service).await
}

/// Creates an object unless it is there.
async fn ensure(door: &Door, path: &str, name: &str, mut object: Value) -> Result<(), Error> {
    let (code, _) = send(door, Method::GET, &format!("{path}/{name}"), String::new()).await;
    if code == 200 {
        return Ok(());
    }
    object["metadata"]["name"] = name.into();
    let (code, message) = send(door, Method::POST, path, object.to_string()).await;
    // Another server on the same store may have been faster.
    if matches!(code, 201 | 409) {
        return Ok(());
    }
    Err(Error { path: path.to_owned(), message })
}

/// The code of the answer, and its message if it has one.
async fn send(door: &Door, method: Method, path: &str, body: String) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Full::from(body))
        .expect("the request is ours");
    let response = match door.clone().call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let code = response.status().as_u16();
    let body = match response.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    };
    let answer = codec::json::decode(&body).ok().and_then(|it| Object::from_value(it.value));
    (code, answer.map_or_else(String::new, |it| it.str_at(&["message"]).to_owned()))
}
