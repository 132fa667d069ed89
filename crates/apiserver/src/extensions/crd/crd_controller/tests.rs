//! Tests of the CRD controller in a running server.

use std::sync::Arc;

use super::CrdController;
use crate::config::Config;
use crate::plane::Plane;
use crate::server::Server;
use keel::{Clock, Entropy, Timestamp};
use machinery::{Object, Value, json};
use store::Expect;

const KEY: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/things.example.com";

/// Stores a CRD without a storage version, and waits until the controller has seen it.
async fn store_unservable(plane: &Plane, labels: &Value) {
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing",
        "listKind": "ThingList"});
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com", "uid": "u", "generation": 1, "labels": labels},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": []},
        "status": {"acceptedNames": names,
            "conditions": [condition("NamesAccepted"), condition("Established")]},
    });
    let stored = plane.storage.store.put(KEY, crd.to_string().into(), Expect::Any, None).await;
    let revision = stored.unwrap().modified;
    plane.storage.crds_served.subscribe().wait_for(|it| *it >= revision).await.unwrap();
}

#[tokio::test]
async fn a_crd_that_cannot_be_served_does_not_change_the_catalog() {
    let config = Config {
        clock: Clock::manual(Timestamp::from_seconds(0)),
        entropy: Entropy::seeded(1),
        ..Config::default()
    };
    let server = Server::start(config).await.unwrap();
    let plane = server.plane();
    let before = plane.storage.catalog.load_full();
    store_unservable(plane, &json!({})).await;
    store_unservable(plane, &json!({"a": "b"})).await;
    assert!(Arc::ptr_eq(&before, &plane.storage.catalog.load_full()));
    server.stop().await.unwrap();
}

/// An established CRD with this generation.
fn established(generation: i64) -> Object {
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing",
        "listKind": "ThingList"});
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    Object::from_value(json!({
        "metadata": {"name": "things.example.com", "uid": "u", "generation": generation},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
        "status": {"acceptedNames": names, "conditions": [{"type": "Established", "status": "True"}]},
    }))
    .unwrap()
}

#[tokio::test]
async fn a_prepared_resource_is_served_only_if_the_crd_is_unchanged() {
    let server = Server::start(Config::default()).await.unwrap();
    let plane = Arc::clone(server.plane());
    let mut controller = CrdController::new(Arc::clone(&plane.storage), plane.loopback.clone());
    controller.prepare(&established(1));
    assert!(controller.take_prepared(&established(2)).is_none());
    controller.prepare(&established(1));
    assert!(controller.take_prepared(&established(1)).is_some());
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_unused_prepared_resource_leaves_no_cache() {
    let server = Server::start(Config::default()).await.unwrap();
    let plane = Arc::clone(server.plane());
    let mut controller = CrdController::new(Arc::clone(&plane.storage), plane.loopback.clone());
    controller.prepare(&established(1));
    let cache = plane.storage.cache.get_or_create("/registry/example.com/things");
    controller.remove_unused_prepared();
    assert!(controller.prepared.is_empty());
    assert!(!Arc::ptr_eq(
        &cache,
        &plane.storage.cache.get_or_create("/registry/example.com/things")
    ));
    server.stop().await.unwrap();
}
