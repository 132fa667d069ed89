//! Caches without a working watch show writes whose responses do not contain the written object.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::{v1, v2};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube_client::api::EvictParams;
use kube_core::params::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_core::{PartialObjectMeta, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::world::{Running, World, options, until};
use crate::writing::refuse_watches;
use informer::Selection;
use machinery::selector::FieldSelector;
use machinery::{Value, json};
use runtime::{Api, Manager};

/// A running manager whose watches fail, and the result of `before_start`.
async fn start_without_watches<T>(
    world: &World,
    before_start: impl FnOnce(&Manager) -> T,
) -> (Running, T) {
    let (faulty, client) = world.faulty();
    faulty.decide(refuse_watches);
    let manager = Manager::new(client, options());
    let result = before_start(&manager);
    let running = Running::start(&manager);
    let maps = Api::<ConfigMap>::namespaced(manager.client(), "default");
    let probe = json!({"metadata": {"name": "probe"}});
    let probe = serde_json::from_value(probe).unwrap();
    until("it writes", async || maps.create(&PostParams::default(), &probe).await.is_ok()).await;
    (running, result)
}

fn api<K>(running: &Running) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = kube_core::NamespaceResourceScope>,
{
    Api::namespaced(running.manager.client(), "default")
}

async fn create<K>(running: &Running, object: Value) -> K
where
    K: Resource<DynamicType = (), Scope = kube_core::NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let object = serde_json::from_value(object).unwrap();
    api(running).create(&PostParams::default(), &object).await.unwrap()
}

fn pod() -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn the_cache_shows_the_replicas_after_a_write_to_scale() {
    let world = World::new().await;
    let (running, deployments) = start_without_watches(&world, Manager::lister::<Deployment>).await;
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod()["spec"]});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "a"}},
        "template": template});
    create::<Deployment>(&running, json!({"metadata": {"name": "a"}, "spec": spec})).await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    api::<Deployment>(&running).patch_scale("a", &PatchParams::default(), &patch).await.unwrap();
    let replicas = deployments.get("default", "a").unwrap().unwrap().spec.unwrap().replicas;
    assert_eq!(replicas, Some(3));
    running.stop().await;
}

#[tokio::test]
async fn a_response_with_metadata_updates_both_caches() {
    let world = World::new().await;
    let before_start = |manager: &Manager| {
        (manager.lister::<ConfigMap>(), manager.lister::<PartialObjectMeta<ConfigMap>>())
    };
    let (running, (whole, partial)) = start_without_watches(&world, before_start).await;
    create::<ConfigMap>(&running, json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    let maps = api::<ConfigMap>(&running);
    maps.patch_metadata("a", &PatchParams::default(), &patch).await.unwrap();
    let whole = whole.get("default", "a").unwrap().unwrap();
    assert_eq!(whole.metadata.labels.unwrap()["x"], "y");
    assert_eq!(whole.data.unwrap()["k"], "1");
    let partial = partial.get("default", "a").unwrap().unwrap();
    assert_eq!(partial.metadata.labels.unwrap()["x"], "y");
    running.stop().await;
}

#[tokio::test]
async fn the_cache_shows_a_write_to_a_subresource() {
    let world = World::new().await;
    let before_start = |manager: &Manager| (manager.lister::<Pod>(), manager.lister::<Namespace>());
    let (running, (pods, namespaces)) = start_without_watches(&world, before_start).await;
    create::<Pod>(&running, pod()).await;
    let containers = json!([{"name": "e", "image": "i"}]);
    let patch = Patch::Strategic(json!({"spec": {"ephemeralContainers": containers}}));
    let api = api::<Pod>(&running);
    api.patch_ephemeral_containers("a", &PatchParams::default(), &patch).await.unwrap();
    let cached = pods.get("default", "a").unwrap().unwrap().spec.unwrap();
    assert_eq!(cached.ephemeral_containers.unwrap()[0].name, "e");
    api.evict("a", &EvictParams::default()).await.unwrap();
    assert!(pods.get("default", "a").unwrap().is_none(), "a pod without a node is removed at once");

    let api = Api::<Namespace>::all(running.manager.client());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let mut namespace = api.create(&PostParams::default(), &namespace).await.unwrap();
    namespace.spec.as_mut().unwrap().finalizers = Some(Vec::new());
    api.replace_subresource("finalize", "n", &PostParams::default(), &namespace).await.unwrap();
    let cached = namespaces.get("", "n").unwrap().unwrap().spec.unwrap();
    assert_eq!(cached.finalizers.unwrap_or_default(), [""; 0]);
    running.stop().await;
}

#[tokio::test]
async fn the_cache_shows_a_write_in_another_version() {
    type Old = v1::HorizontalPodAutoscaler;
    type New = v2::HorizontalPodAutoscaler;
    let world = World::new().await;
    let (running, old) = start_without_watches(&world, Manager::lister::<Old>).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"});
    let spec = json!({"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 5});
    create::<New>(&running, json!({"metadata": {"name": "a"}, "spec": spec})).await;
    let max_replicas = || old.get("default", "a").unwrap().map(|it| it.spec.unwrap().max_replicas);
    assert_eq!(max_replicas(), Some(5));
    let new = api::<New>(&running);
    let patch = Patch::Merge(json!({"spec": {"maxReplicas": 7}}));
    new.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(max_replicas(), Some(7));
    new.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(max_replicas(), None);
    running.stop().await;
}

#[tokio::test]
async fn the_cache_shows_the_deletion_of_a_collection() {
    let world = World::new().await;
    let (running, maps) = start_without_watches(&world, Manager::lister::<ConfigMap>).await;
    for name in ["a", "b"] {
        let labels = json!({"of": "us"});
        let metadata = json!({"name": name, "labels": labels});
        create::<ConfigMap>(&running, json!({"metadata": metadata})).await;
    }
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    let api = api::<ConfigMap>(&running);
    api.patch("b", &PatchParams::default(), &hold).await.unwrap();
    let ours = ListParams::default().labels("of=us");
    api.delete_collection(&DeleteParams::default().dry_run(), &ours).await.unwrap();
    assert!(maps.get("default", "a").unwrap().is_some(), "a dry run deletes nothing");
    api.delete_collection(&DeleteParams::default(), &ours).await.unwrap();
    assert!(maps.get("default", "a").unwrap().is_none());
    assert!(maps.get("default", "b").unwrap().unwrap().metadata.deletion_timestamp.is_some());
    assert!(maps.get("default", "probe").unwrap().is_some());
    running.stop().await;
}

#[tokio::test]
async fn a_field_selector_that_only_the_server_applies_is_respected() {
    let world = World::new().await;
    let fields = FieldSelector::parse("type=example.com/mine").unwrap();
    let mine = Selection { fields, ..Selection::default() };
    let before_start = |manager: &Manager| manager.lister_selecting::<Secret>(&mine);
    let (running, secrets) = start_without_watches(&world, before_start).await;
    let secret = |name: &str, type_: &str| json!({"metadata": {"name": name}, "type": type_});
    create::<Secret>(&running, secret("a", "example.com/mine")).await;
    create::<Secret>(&running, secret("b", "Opaque")).await;
    assert!(secrets.get("default", "a").unwrap().is_some());
    assert!(secrets.get("default", "b").unwrap().is_none());
    running.stop().await;
}
