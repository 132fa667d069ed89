//! Watches and lists of clients in the same process, which receive items that share the bytes of the
//! server.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use tower_service::Service;

use apiserver::InProcessClient;
use informer::shared_items::{AcceptItems, ItemEvents, ItemList, WrittenItem};
use informer::{Item, WatchEvent, WatchStream};
use keel::Tasks;
use machinery::json;
use testenv::TestEnv;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Sends a GET that accepts items.
async fn get(client: &InProcessClient, path: &str) -> Response<apiserver::http::body::Body> {
    let request = Request::get(path)
        .extension(AcceptItems { managed_fields: false })
        .body(Empty::<Bytes>::new())
        .unwrap();
    let Ok(response) = client.clone().call(request).await;
    response
}

async fn watch(env: &TestEnv, query: &str) -> WatchStream {
    let response = get(&env.server().in_process_client(), &format!("{MAPS}?watch=1{query}")).await;
    assert_eq!(response.status(), 200);
    response.extensions().get().and_then(ItemEvents::take).expect("the response carries events")
}

async fn next(events: &mut WatchStream) -> WatchEvent {
    let next = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
    next.expect("an event in time").expect("the watch is open").unwrap()
}

/// An event as text: its type, its name and its resourceVersion.
fn summary(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Added(item) => format!("ADDED {}", item.name()),
        WatchEvent::Modified(item) => format!("MODIFIED {}", item.name()),
        WatchEvent::Deleted(item) => format!("DELETED {}", item.name()),
        WatchEvent::Bookmark { initial_events_end: true, .. } => "END".to_owned(),
        WatchEvent::Bookmark { .. } => "BOOKMARK".to_owned(),
        WatchEvent::Bad { .. } => "BAD".to_owned(),
        WatchEvent::Error(status) => format!("ERROR {}", status.code),
    }
}

fn item(event: WatchEvent) -> Item {
    match event {
        WatchEvent::Added(item) | WatchEvent::Modified(item) | WatchEvent::Deleted(item) => item,
        other => panic!("not an object: {}", summary(&other)),
    }
}

#[tokio::test]
async fn all_items_of_a_state_share_the_bytes_of_the_server() {
    let env = TestEnv::start().await;
    let client = env.client();
    let data = "x".repeat(100_000);
    let map = |name: &str| json!({"metadata": {"name": name}, "data": {"a": &data}});
    client.create(MAPS, &map("old")).await;
    let (mut one, mut two) = (watch(&env, "").await, watch(&env, "").await);
    let initial = [item(next(&mut one).await), item(next(&mut two).await)];
    let written = client.create(MAPS, &map("new")).await;
    let changed = [item(next(&mut one).await), item(next(&mut two).await)];
    for [left, right] in [&initial, &changed] {
        let bytes = [left, right].map(|it| it.shared_bytes().expect("the bytes are shared"));
        assert_eq!(bytes[0].as_ptr(), bytes[1].as_ptr());
        assert!(left.object().unwrap().metadata().unwrap().get("managedFields").is_none());
        assert_eq!(left.object().unwrap().resource_version(), left.resource_version());
    }
    assert_eq!(changed[0].uid(), written["metadata"]["uid"]);
    assert_eq!(changed[0].resource_version(), written["metadata"]["resourceVersion"]);

    let response = get(&env.server().in_process_client(), MAPS).await;
    let list = response.extensions().get().and_then(ItemList::take).expect("it carries a list");
    let listed = list.items.iter().find(|it| it.name() == "old").unwrap();
    let bytes = listed.shared_bytes().expect("the bytes are shared");
    assert_eq!(bytes.as_ptr(), initial[0].shared_bytes().unwrap().as_ptr());
    assert!(listed.object().unwrap().metadata().unwrap().get("managedFields").is_some());
    assert!(!list.resource_version.is_empty());
}

#[tokio::test]
async fn events_are_selected_and_bookmarks_are_sent() {
    let env = TestEnv::start().await;
    let client = env.client();
    let labeled = |name: &str, on: &str| json!({"metadata": {"name": name, "labels": {"on": on}}});
    client.create(MAPS, &labeled("a", "yes")).await;
    client.create(MAPS, &labeled("b", "no")).await;
    let query = "&labelSelector=on%3Dyes&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut events = watch(&env, query).await;
    assert_eq!(summary(&next(&mut events).await), "ADDED a");
    assert_eq!(summary(&next(&mut events).await), "END");
    client.merge(&format!("{MAPS}/b"), &json!({"metadata": {"labels": {"on": "yes"}}})).await;
    assert_eq!(summary(&next(&mut events).await), "ADDED b");
    let left = client.merge(&format!("{MAPS}/a"), &json!({"metadata": {"labels": null}})).await;
    let event = next(&mut events).await;
    assert_eq!(summary(&event), "DELETED a");
    let last = item(event);
    assert_eq!(last.resource_version(), left["metadata"]["resourceVersion"]);
    assert_eq!(last.labels()["on"], "yes", "the last selected state");
    env.advance(Duration::from_mins(1));
    assert_eq!(summary(&next(&mut events).await), "BOOKMARK");
    client.delete(&format!("{MAPS}/b")).await;
    assert_eq!(summary(&next(&mut events).await), "DELETED b");
}

#[tokio::test]
async fn a_user_without_permission_is_refused() {
    let env = TestEnv::start().await;
    let stranger = env.server().in_process_client().unauthenticated();
    for path in [format!("{MAPS}?watch=1"), MAPS.to_owned()] {
        let response = get(&stranger, &path).await;
        assert_eq!(response.status(), 403);
        assert!(response.extensions().get::<ItemEvents>().is_none());
        assert!(response.extensions().get::<ItemList>().is_none());
    }
}

#[tokio::test]
async fn a_version_that_was_compacted_ends_the_watch() {
    let env = TestEnv::start().await;
    let client = env.client();
    let map = client.create(MAPS, &json!({"metadata": {"name": "a"}})).await;
    let version = map["metadata"]["resourceVersion"].as_str().unwrap();
    client.merge(&format!("{MAPS}/a"), &json!({"data": {"k": "1"}})).await;
    // History is compacted after five to ten minutes.
    for _ in 0..5 {
        env.advance(Duration::from_mins(5));
        client.until(MAPS, |code, _| code == 200).await;
    }
    let is_expired = async || {
        let mut events = watch(&env, &format!("&resourceVersion={version}")).await;
        let event = next(&mut events).await;
        (summary(&event) == "ERROR 410").then_some(events)
    };
    let expiry = async {
        loop {
            if let Some(events) = is_expired().await {
                break events;
            }
            tokio::task::yield_now().await;
        }
    };
    let mut events = tokio::time::timeout(Duration::from_secs(20), expiry).await.unwrap();
    assert!(events.next().await.is_none(), "the watch has ended");
}

#[tokio::test]
async fn the_end_of_the_server_ends_the_events() {
    let env = TestEnv::start().await;
    let mut events = watch(&env, "").await;
    let ended = Tasks::new().spawn("watch", async move { events.next().await.is_none() });
    env.stop().await.unwrap();
    assert!(ended.await.unwrap());
}

#[tokio::test]
async fn a_client_that_does_not_take_the_items_reads_the_body() {
    let env = TestEnv::start().await;
    env.client().create(MAPS, &json!({"metadata": {"name": "a"}})).await;
    let response = get(&env.server().in_process_client(), &format!("{MAPS}?watch=1")).await;
    let carried = response.extensions().get::<ItemEvents>().unwrap().clone();
    let mut body = response.into_body();
    let line = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(line.starts_with(br#"{"type":"ADDED","object":{"#), "{line:?}");
    assert!(carried.take().is_none(), "the events are in the body");
}

#[tokio::test]
async fn another_version_than_the_stored_one_is_a_copy() {
    let env = TestEnv::start().await;
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let target = json!({"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"});
    let spec = json!({"maxReplicas": 3, "scaleTargetRef": target});
    env.client().create(path, &json!({"metadata": {"name": "a"}, "spec": spec})).await;
    let versions = ["v1", "v2"].map(|version| path.replace("v2", version));
    let mut shared = Vec::new();
    for path in versions {
        let client = env.server().in_process_client();
        let response = get(&client, &format!("{path}?watch=1")).await;
        let mut events = response.extensions().get().and_then(ItemEvents::take).unwrap();
        let item = item(next(&mut events).await);
        assert!(path.contains(item.object().unwrap().api_version()));
        assert_eq!(item.object().unwrap().resource_version(), item.resource_version());
        shared.push(item.shared_bytes().is_some());
    }
    shared.sort_unstable();
    assert_eq!(shared, [false, true]);
}

#[tokio::test]
async fn the_response_to_a_write_carries_the_stored_object() {
    let env = TestEnv::start().await;
    let send = async |method: &str, path: &str, body: &str| {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .extension(AcceptItems { managed_fields: true })
            .body(http_body_util::Full::from(body.to_owned()))
            .unwrap();
        let Ok(response) = env.server().in_process_client().call(request).await;
        assert!(response.status().is_success(), "{}", response.status());
        response.extensions().get::<WrittenItem>().map(|WrittenItem(item)| item.clone())
    };
    let map = r#"{"metadata":{"name":"a"}}"#;
    assert!(send("POST", &format!("{MAPS}?dryRun=All"), map).await.is_none());
    let item = send("POST", MAPS, map).await.expect("it was stored");
    assert!(item.shared_bytes().is_some());
    assert_eq!(item.object().unwrap().kind(), "ConfigMap");
    assert!(send("DELETE", &format!("{MAPS}/a"), "").await.is_none(), "it does not exist any more");
}
