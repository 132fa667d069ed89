//! Controllers whose cache of one resource is old: another object has the name of one that it shows.

use http::{Request, StatusCode};
use kube_client::client::Body;

use crate::interception::{self, Interception};
use crate::objects::{PODS, names, template};
use crate::plane::Plane;
use machinery::{Value, json};

/// The watches of a resource are never answered: its cache shows the objects that exist when the
/// controllers start.
fn refuse_watches(request: &Request<Body>, plural: &str) -> Interception {
    let query = request.uri().query().unwrap_or_default();
    if !query.contains("watch=true") || !request.uri().path().ends_with(plural) {
        Interception::None
    } else if query.contains("sendInitialEvents=true") {
        // The objects are listed instead.
        Interception::Refused(StatusCode::UNPROCESSABLE_ENTITY)
    } else {
        Interception::Unanswered
    }
}

fn workload(name: &str, replicas: u32) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "replicas": replicas,
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "template": template(name),
    }})
}

async fn until_observed(plane: &Plane, path: &str) {
    let is_observed =
        |it: &Value| it["status"]["observedGeneration"] == it["metadata"]["generation"];
    plane.until(path, |_, it| is_observed(it)).await;
}

/// Restarts the controllers so that their cache does not show later changes of a resource.
async fn restart_without_watches(plane: &mut Plane, plural: &'static str) {
    let connect = interception::connect(plane, move |request| refuse_watches(request, plural));
    plane.restart_with(connect).await;
    plane.controllers().wait_until_ready().await.unwrap();
}

#[tokio::test]
async fn a_set_that_was_replaced_under_its_name_adopts_nothing() {
    let mut plane = Plane::start(&["replicaset"]).await;
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let path = format!("{sets}/web");
    let mut set = workload("web", 0);
    set["spec"].as_object_mut().unwrap().remove("serviceName");
    plane.create(sets, &set).await;
    until_observed(&plane, &path).await;
    restart_without_watches(&mut plane, "replicasets").await;
    plane.delete(&path).await;
    plane.create(sets, &set).await;

    let mut orphan = template("web");
    orphan["metadata"]["name"] = "orphan".into();
    plane.create(PODS, &orphan).await;
    let has_failed = || {
        let text = plane.controllers().manager().metrics_text();
        let is_error = |line: &str| {
            line.starts_with("controller_runtime_reconcile_total")
                && line.contains("\"replicaset-controller\"")
                && line.contains("result=\"error\"")
                && !line.ends_with(" 0")
        };
        text.lines().any(is_error)
    };
    let is_adopted =
        |code, pod: &Value| code == 404 || pod["metadata"]["ownerReferences"].is_array();
    let path = format!("{PODS}/orphan");
    plane.until(&path, |code, pod| has_failed() || is_adopted(code, pod)).await;
    let (code, orphan) = plane.get(&path).await;
    assert!(!is_adopted(code, &orphan), "{code} {orphan}");
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_that_was_replaced_under_its_name_is_not_deleted() {
    let mut plane = Plane::start(&["statefulset"]).await;
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let path = format!("{sets}/db");
    plane.create(sets, &workload("db", 1)).await;
    plane.until(PODS, |_, pods| names(pods) == ["db-0"]).await;
    until_observed(&plane, &path).await;
    restart_without_watches(&mut plane, "pods").await;
    let mut foreign = template("foreign");
    foreign["metadata"]["name"] = "db-0".into();
    plane.delete(&format!("{PODS}/db-0")).await;
    let foreign = plane.create(PODS, &foreign).await;

    plane.merge(&path, &json!({"spec": {"replicas": 0}})).await;
    until_observed(&plane, &path).await;
    let (_, found) = plane.get(&format!("{PODS}/db-0")).await;
    assert_eq!(found["metadata"]["uid"], foreign["metadata"]["uid"]);
    assert_eq!(found["metadata"]["deletionTimestamp"], Value::Null);
    plane.stop().await;
}
