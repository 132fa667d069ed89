//! Controllers whose cache of one resource is old: another object has the name of one that it shows.

use std::convert::Infallible;
use std::future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use kube_client::client::Body;
use tower_service::Service;

use crate::objects::{PODS, names, template};
use crate::plane::Plane;
use apiserver::auth::authentication::User;
use apiserver::in_process::InProcessClient;
use machinery::{Value, json};
use runtime::{ApiService, Connect, Identity};
use testenv::TestEnv;

/// Connections on which the watches of one resource are never answered: its cache shows the objects
/// that exist when the controllers start.
#[derive(Clone)]
struct Unwatched {
    client: InProcessClient,
    plural: &'static str,
}

/// Connects controllers to a plane with [`Unwatched`] connections.
fn connect_without_watches(env: &TestEnv, plural: &'static str) -> Connect {
    let client = env.server().in_process_client();
    Arc::new(move |identity: &Identity| {
        let user = User::authenticated(&identity.user, "", identity.groups.clone());
        ApiService::new(Unwatched { client: client.for_user(user), plural }, "default")
    })
}

impl Service<Request<Body>> for Unwatched {
    type Response = Response<apiserver::http::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.contains("watch=true") && request.uri().path().ends_with(self.plural);
        let has_initial_events = query.contains("sendInitialEvents=true");
        let mut client = self.client.clone();
        Box::pin(async move {
            match is_watch {
                false => client.call(request).await,
                // The objects are listed instead.
                true if has_initial_events => {
                    let mut refused = Response::new(apiserver::http::body::Body::empty());
                    *refused.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
                    Ok(refused)
                }
                true => future::pending().await,
            }
        })
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
    plane.restart_with(connect_without_watches(plane, plural)).await;
    plane.controllers().wait_until_ready().await;
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
