//! The Events of an object.

use crate::installation::LIMIT;
use crate::world::{CUSTOM_PODS, SAMPLE, World};
use machinery::{Value, json};

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Waits for Events of the object, and returns their reasons and messages.
async fn events(world: &World, count: usize) -> Vec<(String, String)> {
    let list = world.env.until(EVENTS, |_, list| list["items"].as_array().unwrap().len() >= count);
    let list = list.await;
    let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
    let events = list["items"].as_array().unwrap().iter();
    events.map(|event| (text(event, "reason"), text(event, "message"))).collect()
}

#[tokio::test]
async fn scaling_is_reported() {
    let mut world = World::new(1).await;
    world.scale(3).await;
    world.start_operator();
    world.manager().settled(LIMIT).await.unwrap();
    world.scale(2).await;
    let expected = [
        ("ScaledUp".to_owned(), "created 3 pods, from 0 to 3".to_owned()),
        ("ScaledDown".to_owned(), "deleted 1 pod, from 3 to 2".to_owned()),
    ];
    assert_eq!(events(&world, 2).await, expected);
    world.stop().await;
}

#[tokio::test]
async fn a_quota_that_refuses_pods_is_reported_with_the_pods_that_exist() {
    let mut world = World::new(1).await;
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}});
    world.env.create("/api/v1/namespaces/default/resourcequotas", &quota).await;
    world.scale(3).await;
    world.start_operator();
    let (reason, message) = events(&world, 1).await.remove(0);
    assert_eq!(reason, "FailedCreate");
    assert!(message.contains("exceeded quota: few"), "{message}");
    let sample = format!("{CUSTOM_PODS}/{SAMPLE}");
    world.env.until(&sample, |_, sample| sample["status"]["replicas"] == 2).await;
    // More pods are created as soon as the quota allows them.
    let more = json!({"spec": {"hard": {"pods": "3"}}});
    world.env.merge("/api/v1/namespaces/default/resourcequotas/few", &more).await;
    world.env.until(&sample, |_, sample| sample["status"]["replicas"] == 3).await;
    world.stop().await;
}
