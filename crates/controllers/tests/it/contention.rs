//! Two controllers that undo each other's changes of an object are reported in the log.

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube_client::Api;
use kube_client::api::{Patch, PatchParams};

use crate::fake_node::FakeNode;
use crate::log::Log;
use crate::objects::template;
use crate::plane::Plane;
use keel::{Entropy, Tasks};
use machinery::{Value, json};
use runtime::{Action, Controller, Failure, Manager, ManagerOptions, Request};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const WARNING: &str = "this controller and another client keep changing the same field";

fn deployment(replicas: u32) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "replicas": replicas,
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "selector": {"matchLabels": {"app": "web"}},
        "template": template("web"),
    }})
}

/// Keeps one replica in each `ReplicaSet`.
async fn keep_one_replica(
    request: Request,
    sets: std::sync::Arc<Api<ReplicaSet>>,
) -> Result<Action, Failure> {
    let set = sets.get(request.name()).await?;
    if set.spec.and_then(|spec| spec.replicas) != Some(1) {
        let patch = Patch::Merge(json!({"spec": {"replicas": 1}}));
        sets.patch(request.name(), &PatchParams::default(), &patch).await?;
    }
    Ok(Action::Done)
}

#[tokio::test]
async fn an_operator_that_undoes_the_work_of_a_controller_is_reported() {
    let log = Log::start();
    let plane = Plane::start(&["deployment"]).await;
    let manager = Manager::new(
        plane.kube(),
        ManagerOptions {
            handles_signals: false,
            clock: plane.clock().clone(),
            entropy: Entropy::seeded(7),
            ..ManagerOptions::default()
        },
    );
    let sets = Api::<ReplicaSet>::namespaced(manager.client(), "default");
    manager.add(Controller::for_::<ReplicaSet>().reconcile(keep_one_replica, sets));
    let running = manager.clone();
    let ended = Tasks::new().spawn("operator", async move { running.run().await });

    plane.create(DEPLOYMENTS, &deployment(3)).await;
    let field = "field=\".spec.replicas\"";
    log.until(&[WARNING, "resource=replicasets.apps", "default/web-", field]).await;
    manager.stop();
    ended.await.unwrap().unwrap();
    plane.stop().await;
}

#[tokio::test]
async fn controllers_that_work_together_on_an_object_are_not_reported() {
    let log = Log::start();
    let plane = Plane::start(&["*", "-kube-scheduler"]).await;
    let is_complete = |web: &Value| {
        let status = &web["status"];
        status["observedGeneration"] == web["metadata"]["generation"]
            && status["updatedReplicas"] == 60
            && status["availableReplicas"] == 60
            && status["replicas"] == 60
    };
    plane.create(DEPLOYMENTS, &deployment(60)).await;
    FakeNode.until(&plane, WEB, is_complete).await;
    let containers = json!([{"name": "main", "image": "nginx:2"}]);
    let template = json!({"spec": {"containers": containers}});
    plane.merge(WEB, &json!({"spec": {"template": template}})).await;
    FakeNode.until(&plane, WEB, is_complete).await;
    assert!(!log.has(&["keep changing the same"]), "two controllers are reported");
    plane.stop().await;
}
