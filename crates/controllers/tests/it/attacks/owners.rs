//! References to owners that are to make the garbage collector delete, keep or request what mallory
//! may not.

use std::sync::{Arc, Mutex};

use super::{OWN, own, plane};
use crate::garbage_collection::boat_crd;
use crate::interception::{self, Interception};
use crate::plane::Plane;
use machinery::{Value, json};
use testenv::Client;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.example.com";
const BOATS: &str = "/apis/example.com/v1/namespaces/default/boats";

fn own_maps() -> String {
    own("api/v1", "configmaps")
}

fn reference(api_version: &str, kind: &str, name: &str, uid: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
        "blockOwnerDeletion": true, "controller": true})
}

async fn create(client: &Client, collection: &str, name: &str, owners: Value) -> Value {
    let object = json!({"metadata": {"name": name, "ownerReferences": owners}});
    client.create(collection, &object).await
}

/// Waits until the collector has seen all config maps that exist, and has done what follows.
async fn settle(plane: &Plane) {
    let owner = create(plane, MAPS, "settling-owner", json!([])).await;
    let owners = json!([reference("v1", "ConfigMap", "settling-owner", &owner["metadata"]["uid"])]);
    create(plane, MAPS, "settling", owners).await;
    plane.delete(&format!("{MAPS}/settling-owner")).await;
    plane.until(&format!("{MAPS}/settling"), |code, _| code == 404).await;
}

#[tokio::test]
async fn an_owner_reference_never_deletes_or_keeps_the_object_of_another() {
    let (plane, mallory) = plane(&["garbage-collector-controller"]).await;
    let victim = create(&plane, MAPS, "victim", json!([])).await;
    let child = reference("v1", "ConfigMap", "victim", &victim["metadata"]["uid"]);
    create(&plane, MAPS, "child", json!([child])).await;
    let namespace = plane.read("/api/v1/namespaces/default").await;
    let class = json!({"metadata": {"name": "class"}, "handler": "simulated"});
    let classes = "/apis/node.k8s.io/v1/runtimeclasses";
    let class = plane.create(classes, &class).await;

    // Objects with the owners of others, with invented ones, and with cluster-scoped ones.
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    let invented = json!("11111111-2222-4333-8444-555555555555");
    for (name, owner, lives) in [
        ("elsewhere", reference("v1", "ConfigMap", "victim", &uid(&victim)), false),
        ("invented", reference("v1", "Namespace", "default", &invented), false),
        ("renamed", reference("v1", "Namespace", OWN, &uid(&namespace)), false),
        ("namespace", reference("v1", "Namespace", "default", &uid(&namespace)), true),
        ("class", reference("node.k8s.io/v1", "RuntimeClass", "class", &uid(&class)), true),
    ] {
        create(&mallory, &own_maps(), name, json!([owner])).await;
        settle(&plane).await;
        let code = plane.get(&format!("{}/{name}", own_maps())).await.0;
        assert_eq!(code == 200, lives, "{name}: {code}");
        if lives {
            let path = format!("{}/{name}", own_maps());
            let foreground = json!({"propagationPolicy": "Foreground"});
            assert_eq!(mallory.delete_with(&path, &foreground).await.0, 200);
        }
    }
    settle(&plane).await;
    for path in [
        format!("{MAPS}/victim"),
        format!("{MAPS}/child"),
        "/api/v1/namespaces/default".to_owned(),
        format!("{classes}/class"),
    ] {
        let left = plane.read(&path).await;
        assert_eq!(left["metadata"]["deletionTimestamp"], Value::Null, "{path}");
    }
    // She may not give an owner to what is not hers, and needs no finalizer of others to go.
    let owners =
        json!({"metadata": {"ownerReferences": [reference("v1", "ConfigMap", "x", &invented)]}});
    let merge = "application/merge-patch+json";
    assert_eq!(mallory.patch(&format!("{MAPS}/victim"), merge, &owners).await.0, 403);
    plane.stop().await;
}

/// The paths that a controller has requested.
type Requested = Arc<Mutex<Vec<String>>>;

/// Restarts the controllers, and records the paths that they request.
pub(super) async fn record_requests(plane: &mut Plane) -> Requested {
    let requested = Requested::default();
    let paths = Arc::clone(&requested);
    let connect = interception::connect(plane, move |request| {
        paths.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
        Interception::None
    });
    plane.restart_with(connect).await;
    requested
}

#[tokio::test]
async fn the_name_of_an_owner_is_never_a_path_to_something_else() {
    let (mut plane, mallory) = plane(&["garbage-collector-controller"]).await;
    let requested = record_requests(&mut plane).await;
    let uid = json!("11111111-2222-4333-8444-555555555555");
    let names = [
        "n1/proxy/logs",
        "n1%2fproxy%2flogs",
        "..",
        "../namespaces/default/secrets/a",
        "n1?proxy=true",
        "n1#proxy",
        "n1 proxy",
        "n1\nproxy",
        "",
    ];
    for (index, name) in names.iter().enumerate() {
        for (api_version, kind) in [("v1", "Node"), ("v1", "Service"), ("v1", "Pod")] {
            let owners = json!([reference(api_version, kind, name, &uid)]);
            let map = format!("{index}-{}", kind.to_lowercase());
            let object = json!({"metadata": {"name": map, "ownerReferences": owners}});
            let (code, answer) = mallory.post(&own_maps(), &object).await;
            assert_eq!(code, if name.is_empty() { 422 } else { 201 }, "{name:?}: {answer}");
        }
    }
    // No such owner exists.
    plane.until(&own_maps(), |_, list| list["items"].as_array().unwrap().is_empty()).await;
    for path in requested.lock().unwrap().iter() {
        let rest = path.split_once("/nodes/").or_else(|| path.split_once("/services/"));
        let rest = rest.or_else(|| path.split_once("/pods/")).map_or("", |(_, rest)| rest);
        let is_name = !rest.contains(['/', '?', '#']) && !rest.to_lowercase().contains("%2f");
        assert!(is_name, "{path}");
    }
    plane.stop().await;
}

#[tokio::test]
async fn a_kind_that_disappears_and_comes_back_in_another_scope_deletes_only_dependents() {
    let (plane, mallory) = plane(&["garbage-collector-controller"]).await;
    plane.install_crd(&boat_crd()).await;
    let boat = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name}});
    let first = plane.create(BOATS, &boat("b")).await;
    let invented = json!("11111111-2222-4333-8444-555555555555");
    let of_boat = |uid: &Value| reference("example.com/v1", "Boat", "b", uid);
    create(&plane, MAPS, "dependent", json!([of_boat(&first["metadata"]["uid"])])).await;
    settle(&plane).await;
    plane.delete(CRD).await;
    plane.until(CRD, |code, _| code == 404).await;
    plane.until(&format!("{MAPS}/dependent"), |code, _| code == 404).await;

    // While nobody serves the kind, nothing is known about its objects.
    plane.until("/apis/example.com/v1", |code, _| code == 404).await;
    create(&mallory, &own_maps(), "waiting", json!([of_boat(&invented)])).await;
    settle(&plane).await;
    mallory.read(&format!("{}/waiting", own_maps())).await;

    let mut cluster_scoped = boat_crd();
    cluster_scoped["spec"]["scope"] = "Cluster".into();
    plane.install_crd(&cluster_scoped).await;
    let second = plane.create("/apis/example.com/v1/boats", &boat("b")).await;
    plane.until(&format!("{}/waiting", own_maps()), |code, _| code == 404).await;
    create(&mallory, &own_maps(), "of-the-new", json!([of_boat(&second["metadata"]["uid"])])).await;
    create(&mallory, &own_maps(), "of-the-old", json!([of_boat(&first["metadata"]["uid"])])).await;
    plane.until(&format!("{}/of-the-old", own_maps()), |code, _| code == 404).await;
    settle(&plane).await;
    mallory.read(&format!("{}/of-the-new", own_maps())).await;
    plane.read("/apis/example.com/v1/boats/b").await;
    plane.stop().await;
}
