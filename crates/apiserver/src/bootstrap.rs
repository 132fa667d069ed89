//! What every plane has from the beginning: its namespaces, the service by which pods reach it, the
//! highest priorities, what aggregated servers need to know of it, and what it serves.

use crate::admission::IMMORTAL;
use crate::aggregation::{self, FRONT_PROXY};
use crate::own_client::OwnClient;
use crate::plane::Plane;
use futures_util::future::try_join_all;
use kinds::scheduling::priority_class::system_classes;
use machinery::{Value, json};
use std::sync::Arc;

/// Why a plane is not ready.
#[derive(Debug, thiserror::Error)]
#[error("cannot create {path}: {message}")]
pub struct Error {
    path: String,
    message: String,
}

/// Creates what is missing, as a client of the plane.
pub(crate) async fn bootstrap(plane: &Arc<Plane>) -> Result<(), Error> {
    let client = OwnClient::new(plane);
    // Side by side: a store on a disk takes as long for all of them as for one.
    let namespaces = IMMORTAL.iter().chain(&["kube-node-lease"]);
    let namespaces = namespaces.map(|it| ensure(&client, "/api/v1/namespaces", it, json!({})));
    try_join_all(namespaces).await?;
    let service = json!({
        "metadata": {"labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": plane.allocations.first_address(), "type": "ClusterIP",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]},
    });
    let service = ensure(&client, "/api/v1/namespaces/default/services", "kubernetes", service);
    let classes =
        system_classes().into_iter().map(|class| {
            let name = class["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let client = &client;
            async move {
                ensure(client, "/apis/scheduling.k8s.io/v1/priorityclasses", &name, class).await
            }
        });
    let maps = "/api/v1/namespaces/kube-system/configmaps";
    let trust = ensure(&client, maps, "extension-apiserver-authentication", trust(plane));
    let announced = aggregation::announce(plane, &client);
    let (made, ()) =
        tokio::join!(async { tokio::try_join!(service, try_join_all(classes), trust) }, announced);
    made.map(|_| ())
}

/// How an aggregated server knows a request that this server hands on: by our certificate, and by
/// the headers that name the user.
fn trust(plane: &Plane) -> Value {
    let list = |name: &str| json!([name]).to_string();
    json!({"data": {
        "client-ca-file": plane.authority.certificate(),
        "requestheader-client-ca-file": plane.authority.certificate(),
        "requestheader-allowed-names": list(FRONT_PROXY),
        "requestheader-username-headers": list("X-Remote-User"),
        "requestheader-uid-headers": list("X-Remote-Uid"),
        "requestheader-group-headers": list("X-Remote-Group"),
        "requestheader-extra-headers-prefix": list("X-Remote-Extra-"),
    }})
}

/// Creates an object unless it is there.
async fn ensure(
    client: &OwnClient,
    path: &str,
    name: &str,
    mut object: Value,
) -> Result<(), Error> {
    if client.get(&format!("{path}/{name}")).await.code == 200 {
        return Ok(());
    }
    object["metadata"]["name"] = name.into();
    let answer = client.create(path, &object).await;
    // Another server on the same store may have been faster.
    if matches!(answer.code, 201 | 409) {
        return Ok(());
    }
    Err(Error { path: path.to_owned(), message: answer.message().to_owned() })
}
