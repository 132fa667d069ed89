//! Several planes in one process: they are isolated, and deterministic for a seed.

use std::time::Duration;

use crate::objects::{CONFIG_MAPS, THINGS, any_schema, config_map, thing_crd};
use machinery::{Value, json};
use testenv::TestEnv;

#[tokio::test]
async fn planes_are_isolated_from_each_other() {
    let (one, two) = (TestEnv::start().await, TestEnv::start().await);
    let mut watch = two.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    one.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    one.install_crd(&thing_crd(&any_schema())).await;
    assert_eq!(two.get(&format!("{CONFIG_MAPS}/a")).await.0, 404);
    assert_eq!(two.get(THINGS).await.0, 404);
    two.create(CONFIG_MAPS, &config_map("b", &json!({}))).await;
    assert_eq!(watch.next_summary().await, "ADDED b");
    one.advance(Duration::from_mins(1));
    let created = two.create(CONFIG_MAPS, &config_map("c", &json!({}))).await;
    assert_eq!(created["metadata"]["creationTimestamp"], "2024-01-01T00:00:00Z");
}

/// The responses of a plane to fixed requests.
async fn responses(seed: u64) -> Value {
    let plane = TestEnv::builder().seed(seed).start().await;
    plane.create(CONFIG_MAPS, &json!({"metadata": {"generateName": "web-"}})).await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let service = json!({"metadata": {"name": "s"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    plane.create("/api/v1/namespaces/default/services", &service).await;
    let mut all = Vec::new();
    for path in ["/api/v1/namespaces", "/api/v1/services", CONFIG_MAPS] {
        all.push(plane.read(path).await);
    }
    all.into()
}

#[tokio::test]
async fn the_same_seed_gives_the_same_names_uids_and_ports() {
    let first = responses(3).await;
    assert_eq!(first, responses(3).await);
    let other = responses(4).await;
    let uid = |it: &Value| it[2]["items"][0]["metadata"]["uid"].clone();
    assert_ne!(uid(&first), uid(&other));
}

#[tokio::test]
async fn a_token_of_one_plane_is_refused_by_another() {
    let (one, two) = (TestEnv::start().await, TestEnv::start().await);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let mut token = String::new();
    for plane in [&two, &one] {
        let account = plane.create(accounts, &json!({"metadata": {"name": "robot"}})).await;
        let answer = plane.create(&format!("{accounts}/robot/token"), &json!({})).await;
        assert!(account["metadata"]["uid"].is_string());
        answer["status"]["token"].as_str().unwrap().clone_into(&mut token);
    }
    assert_eq!(one.bearer(&token).get("/apis").await.0, 200);
    assert_eq!(two.bearer(&token).get("/apis").await.0, 401);
}
