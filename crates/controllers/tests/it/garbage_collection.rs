//! Dependents follow their owners, or are orphaned.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::{Method, Request};
use serde_json::{Value, json};

use crate::interception::{self, Interception};
use crate::plane::Plane;
use runtime::Connect;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const BOATS: &str = "/apis/example.com/v1/namespaces/default/boats";
const FINALIZER: &str = "example.com/hold";

async fn start() -> Plane {
    Plane::start(&["garbage-collector-controller"]).await
}

/// A reference that blocks the deletion of its owner.
fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true,
    })
}

/// Creates an object with these owners.
async fn create(plane: &Plane, collection: &str, name: &str, owners: &[&Value]) -> Value {
    let references: Vec<Value> = owners.iter().map(|owner| reference(owner)).collect();
    create_with(plane, collection, json!({"name": name, "ownerReferences": references})).await
}

async fn create_with(plane: &Plane, collection: &str, metadata: Value) -> Value {
    let mut object = json!({"metadata": metadata});
    if collection == BOATS {
        (object["apiVersion"], object["kind"]) = (json!("example.com/v1"), json!("Boat"));
    }
    plane.create(collection, &object).await
}

async fn delete(plane: &Plane, path: &str, policy: &str) {
    let (code, answer) = plane.delete_with(path, &json!({"propagationPolicy": policy})).await;
    assert_eq!(code, 200, "DELETE {path}: {answer}");
}

async fn until_gone(plane: &Plane, path: &str) {
    plane.until(path, |code, _| code == 404).await;
}

/// Waits until the collector has seen all that was created in these collections, and has done what
/// follows: it sees the changes of a collection in their order, and does its work in that order.
async fn settle(plane: &Plane, collections: &[&str]) {
    for collection in collections {
        let owner = create(plane, MAPS, "settling-owner", &[]).await;
        create(plane, collection, "settling", &[&owner]).await;
        delete(plane, &format!("{MAPS}/settling-owner"), "Background").await;
        until_gone(plane, &format!("{collection}/settling")).await;
    }
}

/// A root, two objects below it, and one below each of these.
async fn create_tree(plane: &Plane) {
    let root = create(plane, MAPS, "root", &[]).await;
    for side in ["left", "right"] {
        let middle = create(plane, SECRETS, side, &[&root]).await;
        let leaf = json!({
            "name": format!("{side}-leaf"),
            "ownerReferences": [reference(&middle)],
            "finalizers": if side == "left" { vec![FINALIZER] } else { vec![] },
        });
        create_with(plane, MAPS, leaf).await;
    }
    settle(plane, &[MAPS, SECRETS]).await;
}

async fn clear_finalizers(plane: &Plane, path: &str) {
    plane.merge(path, &json!({"metadata": {"finalizers": null}})).await;
}

fn is_deleting(code: u16, object: &Value) -> bool {
    code == 200 && !object["metadata"]["deletionTimestamp"].is_null()
}

#[tokio::test]
async fn in_the_background_dependents_are_deleted_after_their_owner() {
    let plane = start().await;
    create_tree(&plane).await;
    delete(&plane, &format!("{MAPS}/root"), "Background").await;
    assert_eq!(plane.get(&format!("{MAPS}/root")).await.0, 404, "the owner does not wait");
    for path in
        [format!("{SECRETS}/left"), format!("{SECRETS}/right"), format!("{MAPS}/right-leaf")]
    {
        until_gone(&plane, &path).await;
    }
    let leaf = format!("{MAPS}/left-leaf");
    plane.until(&leaf, is_deleting).await;
    clear_finalizers(&plane, &leaf).await;
    assert_eq!(plane.get(&leaf).await.0, 404);
    plane.stop().await;
}

#[tokio::test]
async fn in_the_foreground_owners_are_deleted_after_their_dependents() {
    let plane = start().await;
    create_tree(&plane).await;
    delete(&plane, &format!("{MAPS}/root"), "Foreground").await;
    until_gone(&plane, &format!("{SECRETS}/right")).await;
    assert_eq!(plane.get(&format!("{MAPS}/right-leaf")).await.0, 404);
    let leaf = format!("{MAPS}/left-leaf");
    plane.until(&leaf, is_deleting).await;
    settle(&plane, &[MAPS, SECRETS]).await;
    for path in [format!("{SECRETS}/left"), format!("{MAPS}/root")] {
        let waiting = plane.read(&path).await;
        assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        assert!(is_deleting(200, &waiting));
    }
    clear_finalizers(&plane, &leaf).await;
    until_gone(&plane, &format!("{MAPS}/root")).await;
    assert_eq!(plane.get(&format!("{SECRETS}/left")).await.0, 404);
    plane.stop().await;
}

#[tokio::test]
async fn orphaned_dependents_lose_the_reference_and_stay() {
    let plane = start().await;
    create_tree(&plane).await;
    delete(&plane, &format!("{MAPS}/root"), "Orphan").await;
    until_gone(&plane, &format!("{MAPS}/root")).await;
    settle(&plane, &[MAPS, SECRETS]).await;
    for side in ["left", "right"] {
        let middle = plane.read(&format!("{SECRETS}/{side}")).await;
        assert_eq!(middle["metadata"]["ownerReferences"], Value::Null);
        let leaf = plane.read(&format!("{MAPS}/{side}-leaf")).await;
        let owners = &leaf["metadata"]["ownerReferences"];
        assert_eq!(owners, &json!([reference(&middle)]), "the other references stay");
    }
    plane.stop().await;
}

#[tokio::test]
async fn an_owner_does_not_wait_for_dependents_that_do_not_block_it() {
    let plane = start().await;
    let owner = create(&plane, MAPS, "owner", &[]).await;
    let mut reference = reference(&owner);
    reference["blockOwnerDeletion"] = false.into();
    let metadata =
        json!({"name": "child", "ownerReferences": [reference], "finalizers": [FINALIZER]});
    create_with(&plane, MAPS, metadata).await;
    settle(&plane, &[MAPS]).await;
    delete(&plane, &format!("{MAPS}/owner"), "Foreground").await;
    until_gone(&plane, &format!("{MAPS}/owner")).await;
    plane.until(&format!("{MAPS}/child"), is_deleting).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_cycle_of_owners_is_deleted_in_either_mode() {
    let plane = start().await;
    for policy in ["Foreground", "Background"] {
        let one = create(&plane, MAPS, "one", &[]).await;
        let two = create(&plane, MAPS, "two", &[&one]).await;
        let owners = json!({"metadata": {"ownerReferences": [reference(&two)]}});
        plane.merge(&format!("{MAPS}/one"), &owners).await;
        settle(&plane, &[MAPS]).await;
        assert_eq!(plane.get(&format!("{MAPS}/two")).await.0, 200);
        delete(&plane, &format!("{MAPS}/one"), policy).await;
        until_gone(&plane, &format!("{MAPS}/one")).await;
        until_gone(&plane, &format!("{MAPS}/two")).await;
    }
    plane.stop().await;
}

#[tokio::test]
async fn an_owner_in_another_namespace_is_no_owner() {
    let plane = start().await;
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    let owner = create(&plane, elsewhere, "owner", &[]).await;
    settle(&plane, &[MAPS]).await;
    let child = create(&plane, MAPS, "child", &[&owner]).await;
    until_gone(&plane, &format!("{MAPS}/child")).await;
    assert_eq!(plane.get(&format!("{elsewhere}/owner")).await.0, 200);
    let events = "/api/v1/namespaces/default/events";
    let events = plane.until(events, |_, list| !list["items"].as_array().unwrap().is_empty()).await;
    let event = &events["items"][0];
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {uid}] does not exist in namespace \"default\""
    );
    assert_eq!(event["message"], message);
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("OwnerRefInvalidNamespace"))
    );
    assert_eq!(event["source"]["component"], "garbage-collector-controller");
    assert_eq!(event["involvedObject"]["uid"], child["metadata"]["uid"]);
    plane.stop().await;
}

#[tokio::test]
async fn an_object_in_another_namespace_does_not_block_a_foreground_deletion() {
    let plane = start().await;
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    let owner = create(&plane, elsewhere, "owner", &[]).await;
    let mut reference = reference(&owner);
    (reference["apiVersion"], reference["kind"]) = (json!("unknown.example.com/v1"), json!("None"));
    create_with(&plane, MAPS, json!({"name": "blocker", "ownerReferences": [reference]})).await;
    settle(&plane, &[MAPS]).await;
    delete(&plane, &format!("{elsewhere}/owner"), "Foreground").await;
    until_gone(&plane, &format!("{elsewhere}/owner")).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_cluster_scoped_object_with_a_namespaced_owner_is_never_deleted() {
    let plane = start().await;
    let owner = create(&plane, MAPS, "owner", &[]).await;
    let classes = "/apis/node.k8s.io/v1/runtimeclasses";
    let class = json!({
        "metadata": {"name": "child", "ownerReferences": [reference(&owner)]},
        "handler": "simulated",
    });
    plane.create(classes, &class).await;
    delete(&plane, &format!("{MAPS}/owner"), "Background").await;
    settle(&plane, &[MAPS]).await;
    assert_eq!(plane.get(&format!("{classes}/child")).await.0, 200);
    plane.stop().await;
}

#[tokio::test]
async fn a_new_owner_of_the_same_name_does_not_keep_the_dependents_of_the_old_one() {
    let plane = start().await;
    let old = create(&plane, MAPS, "owner", &[]).await;
    create(&plane, SECRETS, "early", &[&old]).await;
    delete(&plane, &format!("{MAPS}/owner"), "Background").await;
    let new = create(&plane, MAPS, "owner", &[]).await;
    create(&plane, SECRETS, "late", &[&old]).await;
    create(&plane, SECRETS, "of-the-new-one", &[&new]).await;
    until_gone(&plane, &format!("{SECRETS}/early")).await;
    until_gone(&plane, &format!("{SECRETS}/late")).await;
    settle(&plane, &[SECRETS]).await;
    assert_eq!(plane.get(&format!("{SECRETS}/of-the-new-one")).await.0, 200);
    plane.stop().await;
}

#[tokio::test]
async fn an_owner_that_never_existed_is_no_owner() {
    let plane = start().await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "never", "uid": "not-even-a-uuid"}});
    create(&plane, SECRETS, "child", &[&owner]).await;
    until_gone(&plane, &format!("{SECRETS}/child")).await;
    plane.stop().await;
}

#[tokio::test]
async fn an_object_with_many_invented_owners_does_not_stop_the_collection_of_others() {
    let mut plane = start().await;
    let connect = interception::connect(&plane, |request| {
        let is_invented = request.uri().path().starts_with(&format!("{MAPS}/invented-"));
        if is_invented { Interception::Unanswered } else { Interception::None }
    });
    plane.restart_with(connect).await;
    let invented = |number: u32| {
        let uid = format!("11111111-2222-4333-8444-{number:012}");
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("invented-{number}"), "uid": uid}})
    };
    let owners: Vec<Value> = (0..100).map(invented).collect();
    create(&plane, SECRETS, "of-many", &owners.iter().collect::<Vec<_>>()).await;
    settle(&plane, &[SECRETS]).await;
    let owner = create(&plane, MAPS, "owner", &[]).await;
    create(&plane, SECRETS, "child", &[&owner]).await;
    settle(&plane, &[SECRETS, MAPS]).await;
    delete(&plane, &format!("{MAPS}/owner"), "Background").await;
    until_gone(&plane, &format!("{SECRETS}/child")).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_dependent_with_several_owners_loses_one_after_the_other() {
    let plane = start().await;
    plane.install_crd(&boat_crd()).await;
    for (collection, policy) in
        [(MAPS, "Background"), (BOATS, "Background"), (MAPS, "Foreground"), (BOATS, "Foreground")]
    {
        let one = create(&plane, MAPS, "one", &[]).await;
        let two = create(&plane, MAPS, "two", &[]).await;
        create(&plane, collection, "child", &[&one, &two]).await;
        settle(&plane, &[collection]).await;
        let child = format!("{collection}/child");
        delete(&plane, &format!("{MAPS}/one"), policy).await;
        until_gone(&plane, &format!("{MAPS}/one")).await;
        let only_two = json!([reference(&two)]);
        plane.until(&child, |_, it| it["metadata"]["ownerReferences"] == only_two).await;
        delete(&plane, &format!("{MAPS}/two"), policy).await;
        until_gone(&plane, &child).await;
        until_gone(&plane, &format!("{MAPS}/two")).await;
    }
    plane.stop().await;
}

#[tokio::test]
async fn custom_resources_are_owners_and_dependents_as_soon_as_their_crd_exists() {
    let plane = start().await;
    settle(&plane, &[MAPS]).await;
    plane.install_crd(&boat_crd()).await;
    let boat = create(&plane, BOATS, "boat", &[]).await;
    create(&plane, MAPS, "of-the-boat", &[&boat]).await;
    let map = create(&plane, MAPS, "map", &[]).await;
    create(&plane, BOATS, "of-the-map", &[&map]).await;
    delete(&plane, &format!("{BOATS}/boat"), "Background").await;
    delete(&plane, &format!("{MAPS}/map"), "Background").await;
    until_gone(&plane, &format!("{MAPS}/of-the-boat")).await;
    until_gone(&plane, &format!("{BOATS}/of-the-map")).await;
    plane.stop().await;
}

#[tokio::test]
async fn an_orphaned_custom_resource_stays() {
    let plane = start().await;
    plane.install_crd(&boat_crd()).await;
    let owner = create(&plane, BOATS, "owner", &[]).await;
    create(&plane, BOATS, "child", &[&owner]).await;
    settle(&plane, &[BOATS]).await;
    delete(&plane, &format!("{BOATS}/owner"), "Orphan").await;
    until_gone(&plane, &format!("{BOATS}/owner")).await;
    settle(&plane, &[BOATS]).await;
    let child = plane.read(&format!("{BOATS}/child")).await;
    assert_eq!(child["metadata"]["ownerReferences"], Value::Null);
    plane.stop().await;
}

#[tokio::test]
async fn a_dependent_of_an_unknown_kind_waits_for_the_crd() {
    let plane = start().await;
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Boat",
        "metadata": {"name": "missing", "uid": "11111111-2222-4333-8444-555555555555"}});
    create(&plane, MAPS, "child", &[&owner]).await;
    settle(&plane, &[MAPS]).await;
    assert_eq!(plane.get(&format!("{MAPS}/child")).await.0, 200, "the owner may exist");
    plane.install_crd(&boat_crd()).await;
    until_gone(&plane, &format!("{MAPS}/child")).await;
    plane.stop().await;
}

#[tokio::test]
async fn the_dependents_of_a_deleted_crd_are_deleted() {
    let plane = start().await;
    plane.install_crd(&boat_crd()).await;
    let boat = create(&plane, BOATS, "boat", &[]).await;
    create(&plane, MAPS, "child", &[&boat]).await;
    settle(&plane, &[BOATS, MAPS]).await;
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.example.com";
    assert_eq!(plane.delete(crd).await.0, 200);
    until_gone(&plane, &format!("{MAPS}/child")).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_resource_whose_list_hangs_does_not_stop_the_collection_of_others() {
    let mut plane = start().await;
    plane.restart_with(without_lists_of_boats(&plane)).await;
    settle(&plane, &[MAPS]).await;
    plane.install_crd(&boat_crd()).await;
    // It is known that Boats exist when an owner of this kind is looked up.
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Boat",
        "metadata": {"name": "missing", "uid": "11111111-2222-4333-8444-555555555555"}});
    create(&plane, SECRETS, "of-no-boat", &[&owner]).await;
    until_gone(&plane, &format!("{SECRETS}/of-no-boat")).await;
    settle(&plane, &[MAPS, SECRETS]).await;

    // A Boat could be a dependent of these.
    for (name, policy) in [("front", "Foreground"), ("orphaning", "Orphan")] {
        create(&plane, MAPS, name, &[]).await;
        delete(&plane, &format!("{MAPS}/{name}"), policy).await;
    }
    settle(&plane, &[MAPS]).await;
    for name in ["front", "orphaning"] {
        assert!(is_deleting(200, &plane.read(&format!("{MAPS}/{name}")).await), "{name}");
    }
    plane.advance(Duration::from_secs(30));
    until_gone(&plane, &format!("{MAPS}/front")).await;
    until_gone(&plane, &format!("{MAPS}/orphaning")).await;
    plane.stop().await;
}

#[tokio::test]
async fn an_object_that_gets_an_owner_while_it_is_deleted_is_kept() {
    let mut plane = start().await;
    let owner = create(&plane, MAPS, "owner", &[]).await;
    let child = format!("{SECRETS}/child");
    plane.restart_with(adopting_before_deletion(&plane, child.clone(), &owner)).await;
    let gone = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "gone", "uid": "11111111-2222-4333-8444-555555555555"}});
    create(&plane, SECRETS, "child", &[&gone]).await;
    let uid = owner["metadata"]["uid"].clone();
    plane.until(&child, |_, it| it["metadata"]["ownerReferences"][0]["uid"] == uid).await;
    settle(&plane, &[MAPS, SECRETS]).await;
    assert_eq!(plane.get(&child).await.0, 200);
    plane.stop().await;
}

/// Connections on which the object at `path` gets a label before its first deletion, so that it is
/// read again, and this owner before each further one.
fn adopting_before_deletion(plane: &Plane, path: String, owner: &Value) -> Connect {
    let label = json!({"metadata": {"labels": {"changed": "true"}}}).to_string();
    let adoption = json!({"metadata": {"ownerReferences": [reference(owner)]}}).to_string();
    let is_labeled = AtomicBool::new(false);
    interception::connect(plane, move |request| {
        if request.method() != Method::DELETE || request.uri().path() != path {
            return Interception::None;
        }
        let change = if is_labeled.swap(true, Relaxed) { &adoption } else { &label };
        let patch = Request::patch(&path).header("content-type", "application/merge-patch+json");
        Interception::After(Box::new(patch.body(change.clone().into_bytes().into()).unwrap()))
    })
}

/// Connections on which lists of Boats are never answered.
fn without_lists_of_boats(plane: &Plane) -> Connect {
    interception::connect(plane, |request| {
        let is_list = request.uri().path().ends_with("/boats");
        if is_list { Interception::Unanswered } else { Interception::None }
    })
}

pub(crate) fn boat_crd() -> Value {
    json!({
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}
