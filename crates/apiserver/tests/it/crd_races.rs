//! Races of CRDs: a kind is not served before its CRD is stored as established, and the deletion of a
//! CRD leaves no objects.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::objects::{CRDS, THINGS, any_schema, thing, thing_crd};
use crate::webhook_server::{WebhookServer, answer};
use crate::webhooks::configure_validating_webhooks;
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::MERGE_PATCH;

const CRD_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";

/// A CRD with the given names and without validation.
fn crd_named(plural: &str, kind: &str) -> Value {
    let mut crd = thing_crd(&any_schema());
    crd["metadata"]["name"] = format!("{plural}.example.com").into();
    crd["spec"]["names"] = json!({"plural": plural, "kind": kind});
    crd
}

/// A webhook that allows every request after `gate` is opened.
async fn gated_webhook(gate: &Arc<Semaphore>) -> WebhookServer {
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

async fn until_called(server: &WebhookServer) {
    while server.calls().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// The fields of a webhook for one resource and operation, with a long timeout.
fn webhook_for(group: &str, resource: &str, operation: &str) -> Value {
    let rule = json!({"operations": [operation], "apiGroups": [group], "apiVersions": ["*"],
        "resources": [resource]});
    json!({"rules": [rule], "timeoutSeconds": 30})
}

fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array();
    conditions
        .is_some_and(|it| it.iter().any(|it| it["type"] == "Established" && it["status"] == "True"))
}

/// Waits for the deletion of the CRD, which the server retries periodically.
async fn until_gone(plane: &TestEnv) {
    let is_gone = |code: u16, _: &Value| {
        plane.advance(Duration::from_secs(1));
        code == 404
    };
    plane.until(CRD_PATH, is_gone).await;
}

#[tokio::test]
async fn a_kind_is_not_served_before_its_crd_is_established() {
    let plane = TestEnv::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let server = gated_webhook(&gate).await;
    let status = webhook_for("apiextensions.k8s.io", "customresourcedefinitions/status", "UPDATE");
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &status)]).await;
    let mut crd = thing_crd(&any_schema());
    plane.create(CRDS, &crd).await;
    until_called(&server).await;

    assert_eq!(plane.get(THINGS).await.0, 404);
    assert_eq!(plane.get("/apis/example.com").await.0, 404);
    assert!(!is_established(&plane.read(CRD_PATH).await));
    let scope = plane.merge(CRD_PATH, &json!({"spec": {"scope": "Cluster"}})).await;
    assert_eq!(
        scope["spec"]["scope"], "Cluster",
        "the scope can change until the CRD is established"
    );

    gate.add_permits(100);
    plane.until(CRD_PATH, |_, it| is_established(it)).await;
    assert_eq!(plane.get("/apis/example.com/v1/things").await.0, 200);
    assert_eq!(plane.get("/apis/example.com").await.0, 200);
    crd["spec"]["scope"] = "Namespaced".into();
    let (code, _) = plane.patch(CRD_PATH, MERGE_PATCH, &crd).await;
    assert_eq!(code, 422, "the scope of an established CRD is immutable");
}

#[tokio::test]
async fn the_kind_of_an_established_crd_is_served() {
    let plane = TestEnv::start().await;
    for _ in 0..20 {
        plane.create(CRDS, &thing_crd(&any_schema())).await;
        plane.until(CRD_PATH, |_, it| is_established(it)).await;
        assert_eq!(plane.get(THINGS).await.0, 200);
        assert_eq!(plane.get("/apis/example.com").await.0, 200);
        assert_eq!(plane.delete(CRD_PATH).await.0, 200);
        plane.get(CRD_PATH).await;
        let (code, _) = plane.post(THINGS, &thing("late", &json!({}))).await;
        assert!(matches!(code, 403 | 404), "{code}");
        until_gone(&plane).await;
        assert_eq!(plane.get(THINGS).await.0, 404);
    }
}

#[tokio::test]
async fn deleting_a_crd_without_a_served_version_deletes_its_objects() {
    let plane = TestEnv::start().await;
    let mut crd = thing_crd(&any_schema());
    plane.install_crd(&crd).await;
    plane.create(THINGS, &thing("a", &json!({}))).await;
    crd["spec"]["versions"][0]["served"] = false.into();
    plane.merge(CRD_PATH, &crd).await;
    assert_eq!(plane.read(CRD_PATH).await["spec"]["versions"][0]["served"], false);
    assert_eq!(plane.get(THINGS).await.0, 404);
    assert_eq!(plane.delete(CRD_PATH).await.0, 200);
    until_gone(&plane).await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    assert_eq!(plane.read(THINGS).await["items"], json!([]));
}

#[tokio::test]
async fn a_webhook_that_denies_deletes_does_not_block_the_deletion_of_a_crd() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.create(THINGS, &thing("a", &json!({}))).await;
    let server = WebhookServer::answering(|_| json!({"allowed": false})).await;
    let deletions = webhook_for("example.com", "things", "DELETE");
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &deletions)]).await;
    assert_eq!(plane.delete(&format!("{THINGS}/a")).await.0, 400);
    assert_eq!(plane.delete(CRD_PATH).await.0, 200);
    until_gone(&plane).await;
}

#[tokio::test]
async fn a_crd_exists_until_pending_creates_have_ended() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    let gate = Arc::new(Semaphore::new(0));
    let server = gated_webhook(&gate).await;
    let creations = webhook_for("example.com", "things", "CREATE");
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &creations)]).await;
    let object = thing("a", &json!({}));
    let creating = plane.post(THINGS, &object);
    let deleting = async {
        until_called(&server).await;
        assert_eq!(plane.delete(CRD_PATH).await.0, 200);
        for _ in 0..100 {
            plane.advance(Duration::from_secs(1));
            assert_eq!(plane.get(CRD_PATH).await.0, 200);
        }
        gate.add_permits(100);
    };
    let ((code, created), ()) = tokio::join!(creating, deleting);
    assert_eq!(code, 201, "{created}");
    until_gone(&plane).await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    assert_eq!(plane.read(THINGS).await["items"], json!([]));
}

#[tokio::test]
async fn a_hanging_status_write_delays_no_other_crd() {
    let plane = TestEnv::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let server = gated_webhook(&gate).await;
    let mut status =
        webhook_for("apiextensions.k8s.io", "customresourcedefinitions/status", "UPDATE");
    let only = "object.metadata.name == 'things.example.com'";
    status["matchConditions"] = json!([{"name": "only", "expression": only}]);
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &status)]).await;
    plane.create(CRDS, &thing_crd(&any_schema())).await;
    until_called(&server).await;

    plane.create(CRDS, &crd_named("zithers", "Zither")).await;
    let zithers = format!("{CRDS}/zithers.example.com");
    plane.until(&zithers, |_, it| is_established(it)).await;
    assert!(!is_established(&plane.read(CRD_PATH).await));

    // The kind of the CRD with the hanging write is taken.
    plane.create(CRDS, &crd_named("rivals", "Thing")).await;
    let is_refused = |_: u16, it: &Value| {
        let conditions = it["status"]["conditions"].as_array();
        conditions.is_some_and(|it| it.iter().any(|it| it["reason"] == "ListKindConflict"))
    };
    plane.until(&format!("{CRDS}/rivals.example.com"), is_refused).await;
    gate.add_permits(100);
    plane.until(CRD_PATH, |_, it| is_established(it)).await;
}

#[tokio::test]
async fn a_hanging_deletion_of_a_crd_delays_no_other_crd() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    // The CRD is never established, since its kind is taken.
    plane.create(CRDS, &crd_named("rivals", "Thing")).await;
    let rivals = format!("{CRDS}/rivals.example.com");
    plane.until(&rivals, |_, it| it["status"]["conditions"].is_array()).await;
    let gate = Arc::new(Semaphore::new(0));
    let server = gated_webhook(&gate).await;
    let mut status =
        webhook_for("apiextensions.k8s.io", "customresourcedefinitions/status", "UPDATE");
    let only = "object.metadata.name == 'rivals.example.com'";
    status["matchConditions"] = json!([{"name": "only", "expression": only}]);
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &status)]).await;
    plane.delete(&rivals).await;
    until_called(&server).await;

    plane.create(CRDS, &crd_named("zithers", "Zither")).await;
    let zithers = format!("{CRDS}/zithers.example.com");
    plane.until(&zithers, |_, it| is_established(it)).await;
    assert_eq!(plane.get(&rivals).await.0, 200);
    gate.add_permits(100);
    plane.until(&rivals, |code, _| code == 404).await;
}

/// The condition `Terminating` without its time.
fn terminating(crd: &Value) -> Value {
    let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|it| it["type"] == "Terminating");
    let mut condition = found.unwrap_or_default();
    condition.as_object_mut().map(|it| it.remove("lastTransitionTime"));
    condition
}

#[tokio::test]
async fn the_status_of_a_crd_shows_the_progress_of_its_deletion() {
    let plane = TestEnv::start().await;
    let mut crd = thing_crd(&any_schema());
    crd["metadata"]["finalizers"] = json!(["example.com/keep"]);
    plane.install_crd(&crd).await;
    let mut object = thing("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/wait"]);
    plane.create(THINGS, &object).await;
    let pending = plane.delete(CRD_PATH).await.1;
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
    let in_progress = plane.until(CRD_PATH, is_in_progress).await;
    let verbs = |document: &Value| document["resources"][0]["verbs"].clone();
    let few = json!(["delete", "deletecollection", "get", "list", "watch"]);
    assert_eq!(verbs(&plane.read("/apis/example.com/v1").await), few);
    let labeled = plane.merge(CRD_PATH, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(terminating(&labeled), terminating(&in_progress));
    for _ in 0..20 {
        plane.advance(Duration::from_secs(1));
        let later = plane.read(CRD_PATH).await;
        assert_eq!(later["metadata"], labeled["metadata"], "the server does not write it again");
    }
    plane.merge(&format!("{THINGS}/a"), &json!({"metadata": {"finalizers": null}})).await;
    let is_completed = |_: u16, it: &Value| {
        plane.advance(Duration::from_secs(1));
        terminating(it)
            == json!({"type": "Terminating", "status": "False",
                "reason": "InstanceDeletionCompleted", "message": "removed all instances"})
    };
    let completed = plane.until(CRD_PATH, is_completed).await;
    assert_eq!(completed["metadata"]["finalizers"], json!(["example.com/keep"]));
    assert_ne!(verbs(&plane.read("/apis/example.com/v1").await), few);
    plane.merge(CRD_PATH, &json!({"metadata": {"finalizers": null}})).await;
    until_gone(&plane).await;
}

#[tokio::test]
async fn the_status_of_a_deleted_crd_shows_that_it_was_never_established() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    let mut rival = thing_crd(&any_schema());
    rival["metadata"] = json!({"name": "rivals.example.com", "finalizers": ["example.com/keep"]});
    rival["spec"]["names"] = json!({"plural": "rivals", "kind": "Thing"});
    plane.create(CRDS, &rival).await;
    let path = format!("{CRDS}/rivals.example.com");
    plane.delete(&path).await;
    let is_shown = |_: u16, it: &Value| {
        plane.advance(Duration::from_secs(1));
        terminating(it)
            == json!({"type": "Terminating", "status": "False", "reason": "NeverEstablished",
                "message": "resource was never established"})
    };
    plane.until(&path, is_shown).await;
}
