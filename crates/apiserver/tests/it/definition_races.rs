//! What is served of a definition, and what is stored of it: the first never runs ahead of the
//! second, and the end of a definition leaves nothing behind.

use crate::objects::{CRDS, THINGS, anything, thing, things};
use crate::webhook_server::{WebhookServer, answer};
use crate::webhooks::validating;
use machinery::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use testenv::TestEnv;
use testenv::media_type::MERGE_PATCH;
use tokio::sync::Semaphore;

const THE_DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";

/// A definition of any object, with these names.
fn named(plural: &str, kind: &str) -> Value {
    let mut definition = things(&anything());
    definition["metadata"]["name"] = format!("{plural}.example.com").into();
    definition["spec"]["names"] = json!({"plural": plural, "kind": kind});
    definition
}

/// A webhook that admits everything, but not before `gate` is opened.
async fn gated(gate: &Arc<Semaphore>) -> WebhookServer {
    let gate = Arc::clone(gate);
    WebhookServer::start(move |review| {
        let gate = Arc::clone(&gate);
        async move {
            let _open = gate.acquire().await.unwrap();
            answer(&review, &json!({"allowed": true}))
        }
    })
    .await
}

async fn until_asked(server: &WebhookServer) {
    while server.asked().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// A webhook's settings: what it is asked about, patiently.
fn about(group: &str, resource: &str, operation: &str) -> Value {
    let rule = json!({"operations": [operation], "apiGroups": [group], "apiVersions": ["*"],
        "resources": [resource]});
    json!({"rules": [rule], "timeoutSeconds": 30})
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions
        .is_some_and(|it| it.iter().any(|it| it["type"] == "Established" && it["status"] == "True"))
}

/// Waits for the end of the definition, for which the server looks again and again.
async fn until_gone(plane: &TestEnv) {
    let is_gone = |code: u16, _: &Value| {
        plane.advance(Duration::from_secs(1));
        code == 404
    };
    plane.until(THE_DEFINITION, is_gone).await;
}

#[tokio::test]
async fn a_kind_is_not_served_before_its_definition_is_stored_as_established() {
    let plane = TestEnv::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let server = gated(&gate).await;
    let status = about("apiextensions.k8s.io", "customresourcedefinitions/status", "UPDATE");
    validating(&plane, "c", &[server.hook("a.b.c", &status)]).await;
    let mut definition = things(&anything());
    plane.create(CRDS, &definition).await;
    until_asked(&server).await;

    assert_eq!(plane.get(THINGS).await.0, 404);
    assert_eq!(plane.get("/apis/example.com").await.0, 404);
    assert!(!is_established(&plane.read(THE_DEFINITION).await));
    let scope = plane.merge(THE_DEFINITION, &json!({"spec": {"scope": "Cluster"}})).await;
    assert_eq!(scope["spec"]["scope"], "Cluster", "it is not established, and may still change");

    gate.add_permits(100);
    plane.until(THE_DEFINITION, |_, it| is_established(it)).await;
    assert_eq!(plane.get("/apis/example.com/v1/things").await.0, 200);
    assert_eq!(plane.get("/apis/example.com").await.0, 200);
    definition["spec"]["scope"] = "Namespaced".into();
    let (code, _) = plane.patch(THE_DEFINITION, MERGE_PATCH, &definition).await;
    assert_eq!(code, 422, "it is established");
}

#[tokio::test]
async fn a_reader_of_an_established_definition_finds_its_kind() {
    let plane = TestEnv::start().await;
    for _ in 0..20 {
        plane.create(CRDS, &things(&anything())).await;
        plane.until(THE_DEFINITION, |_, it| is_established(it)).await;
        assert_eq!(plane.get(THINGS).await.0, 200);
        assert_eq!(plane.get("/apis/example.com").await.0, 200);
        assert_eq!(plane.delete(THE_DEFINITION).await.0, 200);
        plane.get(THE_DEFINITION).await;
        let (code, _) = plane.post(THINGS, &thing("late", &json!({}))).await;
        assert!(matches!(code, 403 | 404), "{code}");
        until_gone(&plane).await;
        assert_eq!(plane.get(THINGS).await.0, 404);
    }
}

#[tokio::test]
async fn a_definition_without_a_served_version_takes_its_objects_with_it() {
    let plane = TestEnv::start().await;
    let mut definition = things(&anything());
    plane.install_crd(&definition).await;
    plane.create(THINGS, &thing("a", &json!({}))).await;
    definition["spec"]["versions"][0]["served"] = false.into();
    plane.merge(THE_DEFINITION, &definition).await;
    assert_eq!(plane.read(THE_DEFINITION).await["spec"]["versions"][0]["served"], false);
    assert_eq!(plane.get(THINGS).await.0, 404);
    assert_eq!(plane.delete(THE_DEFINITION).await.0, 200);
    until_gone(&plane).await;
    plane.install_crd(&things(&anything())).await;
    assert_eq!(plane.read(THINGS).await["items"], json!([]));
}

#[tokio::test]
async fn a_webhook_that_refuses_deletions_does_not_hold_back_the_end_of_a_definition() {
    let plane = TestEnv::start().await;
    plane.install_crd(&things(&anything())).await;
    plane.create(THINGS, &thing("a", &json!({}))).await;
    let server = WebhookServer::answering(|_| json!({"allowed": false})).await;
    let deletions = about("example.com", "things", "DELETE");
    validating(&plane, "c", &[server.hook("a.b.c", &deletions)]).await;
    assert_eq!(plane.delete(&format!("{THINGS}/a")).await.0, 400);
    assert_eq!(plane.delete(THE_DEFINITION).await.0, 200);
    until_gone(&plane).await;
}

#[tokio::test]
async fn a_definition_stays_until_creations_that_have_begun_are_over() {
    let plane = TestEnv::start().await;
    plane.install_crd(&things(&anything())).await;
    let gate = Arc::new(Semaphore::new(0));
    let server = gated(&gate).await;
    let creations = about("example.com", "things", "CREATE");
    validating(&plane, "c", &[server.hook("a.b.c", &creations)]).await;
    let object = thing("a", &json!({}));
    let creating = plane.post(THINGS, &object);
    let deleting = async {
        until_asked(&server).await;
        assert_eq!(plane.delete(THE_DEFINITION).await.0, 200);
        for _ in 0..100 {
            plane.advance(Duration::from_secs(1));
            assert_eq!(plane.get(THE_DEFINITION).await.0, 200);
        }
        gate.add_permits(100);
    };
    let ((code, created), ()) = tokio::join!(creating, deleting);
    assert_eq!(code, 201, "{created}");
    until_gone(&plane).await;
    plane.install_crd(&things(&anything())).await;
    assert_eq!(plane.read(THINGS).await["items"], json!([]));
}

#[tokio::test]
async fn a_status_write_that_hangs_delays_no_other_definition() {
    let plane = TestEnv::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let server = gated(&gate).await;
    let mut status = about("apiextensions.k8s.io", "customresourcedefinitions/status", "UPDATE");
    let only = "object.metadata.name == 'things.example.com'";
    status["matchConditions"] = json!([{"name": "only", "expression": only}]);
    validating(&plane, "c", &[server.hook("a.b.c", &status)]).await;
    plane.create(CRDS, &things(&anything())).await;
    until_asked(&server).await;

    plane.create(CRDS, &named("zithers", "Zither")).await;
    let zithers = format!("{CRDS}/zithers.example.com");
    plane.until(&zithers, |_, it| is_established(it)).await;
    assert!(!is_established(&plane.read(THE_DEFINITION).await));

    // The kind that the hanging write claims is taken.
    plane.create(CRDS, &named("rivals", "Thing")).await;
    let is_refused = |_: u16, it: &Value| {
        let conditions = it["status"]["conditions"].as_array();
        conditions.is_some_and(|it| it.iter().any(|it| it["reason"] == "ListKindConflict"))
    };
    plane.until(&format!("{CRDS}/rivals.example.com"), is_refused).await;
    gate.add_permits(100);
    plane.until(THE_DEFINITION, |_, it| is_established(it)).await;
}

#[tokio::test]
async fn the_end_of_a_definition_that_hangs_delays_no_other_definition() {
    let plane = TestEnv::start().await;
    plane.install_crd(&things(&anything())).await;
    // It is never established, since its kind is taken.
    plane.create(CRDS, &named("rivals", "Thing")).await;
    let rivals = format!("{CRDS}/rivals.example.com");
    plane.until(&rivals, |_, it| it["status"]["conditions"].is_array()).await;
    let gate = Arc::new(Semaphore::new(0));
    let server = gated(&gate).await;
    let mut status = about("apiextensions.k8s.io", "customresourcedefinitions/status", "UPDATE");
    let only = "object.metadata.name == 'rivals.example.com'";
    status["matchConditions"] = json!([{"name": "only", "expression": only}]);
    validating(&plane, "c", &[server.hook("a.b.c", &status)]).await;
    plane.delete(&rivals).await;
    until_asked(&server).await;

    plane.create(CRDS, &named("zithers", "Zither")).await;
    let zithers = format!("{CRDS}/zithers.example.com");
    plane.until(&zithers, |_, it| is_established(it)).await;
    assert_eq!(plane.get(&rivals).await.0, 200);
    gate.add_permits(100);
    plane.until(&rivals, |code, _| code == 404).await;
}

/// The condition `Terminating`, without its time.
fn terminating(definition: &Value) -> Value {
    let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|it| it["type"] == "Terminating");
    let mut condition = found.unwrap_or_default();
    condition.as_object_mut().map(|it| it.remove("lastTransitionTime"));
    condition
}

#[tokio::test]
async fn the_status_of_a_definition_tells_how_far_its_end_is() {
    let plane = TestEnv::start().await;
    let mut definition = things(&anything());
    definition["metadata"]["finalizers"] = json!(["example.com/keep"]);
    plane.install_crd(&definition).await;
    let mut object = thing("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/wait"]);
    plane.create(THINGS, &object).await;
    let pending = plane.delete(THE_DEFINITION).await.1;
    assert_eq!(
        terminating(&pending),
        json!({"type": "Terminating", "status": "True", "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"})
    );
    let is_in_progress = |_: u16, it: &Value| {
        plane.advance(Duration::from_secs(1));
        terminating(it)
            == json!({"type": "Terminating", "status": "True",
                "reason": "InstanceDeletionInProgress",
                "message": "CustomResource deletion is in progress"})
    };
    let in_progress = plane.until(THE_DEFINITION, is_in_progress).await;
    let verbs = |document: &Value| document["resources"][0]["verbs"].clone();
    let few = json!(["delete", "deletecollection", "get", "list", "watch"]);
    assert_eq!(verbs(&plane.read("/apis/example.com/v1").await), few);
    let labeled = plane.merge(THE_DEFINITION, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(terminating(&labeled), terminating(&in_progress));
    for _ in 0..20 {
        plane.advance(Duration::from_secs(1));
        let later = plane.read(THE_DEFINITION).await;
        assert_eq!(later["metadata"], labeled["metadata"], "the server does not write it again");
    }
    plane.merge(&format!("{THINGS}/a"), &json!({"metadata": {"finalizers": null}})).await;
    let is_completed = |_: u16, it: &Value| {
        plane.advance(Duration::from_secs(1));
        terminating(it)
            == json!({"type": "Terminating", "status": "False",
                "reason": "InstanceDeletionCompleted", "message": "removed all instances"})
    };
    let completed = plane.until(THE_DEFINITION, is_completed).await;
    assert_eq!(completed["metadata"]["finalizers"], json!(["example.com/keep"]));
    assert_ne!(verbs(&plane.read("/apis/example.com/v1").await), few);
    plane.merge(THE_DEFINITION, &json!({"metadata": {"finalizers": null}})).await;
    until_gone(&plane).await;
}

#[tokio::test]
async fn the_status_of_a_definition_that_was_never_established_tells_so_at_its_end() {
    let plane = TestEnv::start().await;
    plane.install_crd(&things(&anything())).await;
    let mut rival = things(&anything());
    rival["metadata"] = json!({"name": "rivals.example.com", "finalizers": ["example.com/keep"]});
    rival["spec"]["names"] = json!({"plural": "rivals", "kind": "Thing"});
    plane.create(CRDS, &rival).await;
    let path = format!("{CRDS}/rivals.example.com");
    plane.delete(&path).await;
    let is_told = |_: u16, it: &Value| {
        plane.advance(Duration::from_secs(1));
        terminating(it)
            == json!({"type": "Terminating", "status": "False", "reason": "NeverEstablished",
                "message": "resource was never established"})
    };
    plane.until(&path, is_told).await;
}
