//! Tests of the registrar in a running server.

use crate::config::Config;
use crate::plane::Plane;
use crate::server::Server;
use keel::{Clock, Entropy, Timestamp};
use machinery::{Value, json};
use std::sync::Arc;
use store::Expect;

const KEY: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/things.example.com";

/// Stores a definition without a storage version, and waits until the catalog has seen it.
async fn store_unservable(plane: &Plane, labels: &Value) {
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing",
        "listKind": "ThingList"});
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com", "uid": "u", "generation": 1, "labels": labels},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": []},
        "status": {"acceptedNames": names,
            "conditions": [condition("NamesAccepted"), condition("Established")]},
    });
    let stored = plane.store.put(KEY, definition.to_string().into(), Expect::Any, None).await;
    let revision = stored.unwrap().modified;
    plane.definitions_served.subscribe().wait_for(|it| *it >= revision).await.unwrap();
}

#[tokio::test]
async fn a_definition_that_cannot_be_served_leaves_the_catalog_alone() {
    let config = Config {
        clock: Clock::manual(Timestamp::from_seconds(0)),
        entropy: Entropy::seeded(1),
        ..Config::default()
    };
    let server = Server::start(config).await.unwrap();
    let plane = server.plane();
    let before = plane.catalog.load_full();
    store_unservable(plane, &json!({})).await;
    store_unservable(plane, &json!({"a": "b"})).await;
    assert!(Arc::ptr_eq(&before, &plane.catalog.load_full()));
    server.stop().await.unwrap();
}
