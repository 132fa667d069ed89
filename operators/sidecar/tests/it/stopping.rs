//! An operator that does not run, and that is started again.

use serde_json::json;

use crate::requests::{CONFIG_MAPS, PODS, Refusal, annotated, names, plain};
use crate::world::World;
use sidecar_operator::Mode;

#[tokio::test]
async fn without_the_webhook_only_pods_with_the_annotation_are_refused() {
    let mut world = World::start(Mode::Webhook).await;
    world.stop_operator().await;
    let refusal = world.admin.create(PODS, &annotated("web")).await.unwrap_err();
    assert_eq!(refusal.code, 500);
    let expected = "failed calling webhook \"envoy.initializer.kubernetes.io\"";
    assert!(refusal.message.contains(expected), "{refusal:?}");
    world.admin.create(PODS, &plain("plain")).await.unwrap();
    world.start_operator().await;
    let created = world.admin.create(PODS, &annotated("web")).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web", "envoy"]);
    world.stop().await;
}

#[tokio::test]
async fn without_the_initializer_pods_are_invisible_until_it_returns() {
    let mut world = World::start(Mode::Initializer).await;
    world.stop_operator().await;
    let waiting = format!("{PODS}?timeoutSeconds=1");
    for pod in [annotated("web"), plain("plain")] {
        let refusal = world.admin.create(&waiting, &pod).await.unwrap_err();
        assert_eq!(refusal.code, 504, "{refusal:?}");
    }
    let missing = world.admin.get(&format!("{PODS}/web")).await;
    let message = "pods \"web\" not found".to_owned();
    assert_eq!(missing, Err(Refusal { code: 404, message }));
    let stored = world.admin.get(&format!("{PODS}?includeUninitialized=true")).await.unwrap();
    assert_eq!(stored["items"].as_array().unwrap().len(), 2);

    world.start_operator().await;
    let web = world.admin.get(&format!("{PODS}/web")).await.unwrap();
    assert_eq!(names(&web, "containers"), ["web", "envoy"]);
    let plain = world.admin.get(&format!("{PODS}/plain")).await.unwrap();
    assert_eq!(names(&plain, "containers"), ["web"]);
    world.stop().await;
}

#[tokio::test]
async fn a_policy_adds_sidecars_without_the_operator_and_is_updated_when_it_returns() {
    let mut world = World::start(Mode::Policy).await;
    world.stop_operator().await;
    let created = world.admin.create(PODS, &annotated("web")).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web", "envoy"]);

    let config = json!({"data": {"config": "containers: [{name: proxy, image: proxy}]"}});
    world.admin.merge(&format!("{CONFIG_MAPS}/envoy-initializer"), &config).await;
    world.start_operator().await;
    let created = world.admin.create(PODS, &annotated("later")).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web", "proxy"]);

    world.stop_operator().await;
    world.admin.delete(&format!("{CONFIG_MAPS}/envoy-initializer")).await;
    world.start_operator().await;
    let created = world.admin.create(PODS, &annotated("last")).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web"]);
    world.stop().await;
}
