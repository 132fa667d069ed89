//! Unread watches: their memory is bounded by the event log.

use http_body_util::BodyExt;

use crate::objects::{THINGS, any_schema, thing, thing_crd};
use crate::watch::overflow_event_log;
use machinery::json;
use testenv::TestEnv;
use testenv::media_type::JSON;

/// A plane with the objects `a`, which fills the first chunk of a watch, and `b`.
async fn plane() -> TestEnv {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.create(THINGS, &thing("a", &json!({"bulk": "x".repeat(70_000)}))).await;
    plane.create(THINGS, &thing("b", &json!({"turn": 0}))).await;
    plane
}

#[tokio::test]
async fn an_unread_watch_does_not_retain_replaced_objects() {
    let plane = plane().await;
    let mut watch = plane.watch(&format!("{THINGS}?watch=1")).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
    plane.merge(&format!("{THINGS}/b"), &json!({"spec": {"turn": 1}})).await;
    overflow_event_log(&plane).await;
    let status = watch.expect("ERROR").await;
    assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn a_watch_that_is_read_late_starts_with_its_initial_objects() {
    let plane = plane().await;
    let mut watch = plane.watch(&format!("{THINGS}?watch=1")).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
    plane.merge(&format!("{THINGS}/b"), &json!({"spec": {"turn": 1}})).await;
    assert_eq!(watch.expect("ADDED").await["spec"]["turn"], 0);
    assert_eq!(watch.expect("MODIFIED").await["spec"]["turn"], 1);
}

#[tokio::test]
async fn a_large_event_is_complete_and_in_order() {
    let plane = plane().await;
    let list = plane.read(THINGS).await;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = plane.watch(&format!("{THINGS}?watch=1&resourceVersion={revision}")).await;
    let bulk = "y".repeat(300_000);
    plane.merge(&format!("{THINGS}/b"), &json!({"spec": {"turn": 1}})).await;
    plane.merge(&format!("{THINGS}/b"), &json!({"spec": {"turn": 2, "bulk": bulk}})).await;
    plane.merge(&format!("{THINGS}/b"), &json!({"spec": {"turn": 3, "bulk": null}})).await;
    for turn in 1..=3 {
        let object = watch.expect("MODIFIED").await;
        assert_eq!(object["spec"]["turn"], turn);
        assert_eq!(object["spec"]["bulk"] == bulk.as_str(), turn == 2);
    }
}

#[tokio::test]
async fn a_large_event_that_leaves_the_log_while_it_is_read_ends_the_watch() {
    let plane = plane().await;
    let list = plane.read(THINGS).await;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{THINGS}?watch=1&resourceVersion={revision}");
    let mut body = plane.get_streaming(&path, JSON).await.into_body();
    let bulk = "y".repeat(300_000);
    plane.merge(&format!("{THINGS}/b"), &json!({"spec": {"bulk": bulk}})).await;
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.len() < bulk.len(), "the first frame has the whole event");
    overflow_event_log(&plane).await;
    let rest = body.collect().await.unwrap().to_bytes();
    assert!(rest.is_empty(), "{} bytes came after it", rest.len());
}
