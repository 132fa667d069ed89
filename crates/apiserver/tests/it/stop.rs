//! Stopping a server, and starting it again.

use crate::objects::{CONFIG_MAPS, THINGS, any_schema, config_map, thing, thing_crd};
use machinery::json;
use testenv::TestEnv;

#[tokio::test]
async fn a_stopping_server_ends_its_watches_and_finishes() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    let mut watches = [
        plane.watch(&format!("{CONFIG_MAPS}?watch=1")).await,
        plane.watch(&format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true")).await,
        plane.watch(&format!("{THINGS}?watch=1")).await,
    ];
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(watches[0].next_summary().await, "ADDED a");
    let idle = watches[0].next();
    let (stopped, ended) = tokio::join!(plane.stop(), idle);
    stopped.unwrap();
    assert_eq!(ended, None);
    for watch in &mut watches[1..] {
        assert_eq!(watch.next().await, None);
    }
}

#[tokio::test]
async fn a_stopped_server_returns_an_error() {
    let plane = TestEnv::start().await;
    let client = plane.client();
    plane.stop().await.unwrap();
    let (code, status) = client.post(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!((code, &status["reason"]), (503, &json!("ServiceUnavailable")));
}

#[tokio::test]
async fn objects_survive_a_restart_and_a_watch_resumes_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    let created = plane.create(CONFIG_MAPS, &config_map("a", &json!({"k": "v"}))).await;
    let made = plane.create(THINGS, &thing("t", &json!({"k": "v"}))).await;
    plane.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"k": "w"}})).await;
    plane.stop().await.unwrap();

    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    assert_eq!(plane.read(&format!("{THINGS}/t")).await, made, "its kind is served at once");
    assert_eq!(plane.read(&format!("{CONFIG_MAPS}/a")).await["data"]["k"], "w");
    let from = created["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = plane.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}")).await;
    assert_eq!(watch.expect("MODIFIED").await["data"]["k"], "w");
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_token_and_the_certificate_authority_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    plane.create(accounts, &json!({"metadata": {"name": "robot"}})).await;
    let answer = plane.create(&format!("{accounts}/robot/token"), &json!({})).await;
    let token = answer["status"]["token"].as_str().unwrap();
    let authority = plane.server().authority();
    plane.stop().await.unwrap();
    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    assert_eq!(plane.bearer(token).get("/apis").await.0, 200);
    assert_eq!(plane.server().authority(), authority);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_that_fails_to_start_closes_its_store() {
    let directory = tempfile::tempdir().unwrap();
    TestEnv::builder().data_dir(directory.path()).start().await.stop().await.unwrap();
    let key = directory.path().join("pki/ca.key");
    let content = std::fs::read(&key).unwrap();
    std::fs::write(&key, "damaged").unwrap();
    let error = TestEnv::builder().data_dir(directory.path()).try_start().await.unwrap_err();
    assert_eq!(error.to_string(), "cannot set up certificates");
    std::fs::write(&key, content).unwrap();
    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    plane.stop().await.unwrap();
}
