//! A store behind a network: its connection is lost, its answers are late, and its history is
//! compacted while it cannot be reached.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::Method;

use crate::faulty_store::{Fault, FaultyStore, HISTORY};
use crate::objects::{CONFIG_MAPS, config_map};
use keel::{Clock, Entropy, Tasks};
use machinery::{Value, json};
use store::{Expect, Options, Store};
use testenv::media_type::JSON;
use testenv::{START, TestEnv, Watch};

/// A plane on a store with the history of a default store; the tasks are those of the store.
async fn start() -> (Arc<FaultyStore>, TestEnv, Tasks) {
    start_with(Options::default()).await
}

async fn start_with(options: Options) -> (Arc<FaultyStore>, TestEnv, Tasks) {
    let (clock, tasks) = (Clock::manual(START), Tasks::new());
    let store = FaultyStore::open_with(options, &clock, &tasks);
    let plane =
        TestEnv::builder().clock(clock).store(Arc::<FaultyStore>::clone(&store)).start().await;
    (store, plane, tasks)
}

async fn code(plane: &TestEnv, path: &str) -> u16 {
    plane.send(Method::GET, path, JSON, "").await.code
}

/// Waits until the watch cache is ready. The clock passes the delays between two attempts to connect.
async fn until_ready(plane: &TestEnv) {
    let is_ready = |code: u16, _: &Value| {
        plane.advance(Duration::from_secs(1));
        code == 200
    };
    plane.until("/readyz/watch-cache", is_ready).await;
}

/// Waits until the watch cache is not ready.
async fn until_not_ready(plane: &TestEnv) {
    let is_not_ready = |code: u16, _: &Value| {
        plane.advance(Duration::from_secs(1));
        code != 200
    };
    plane.until("/readyz/watch-cache", is_not_ready).await;
}

/// A watch of config maps from the current revision.
async fn watch_maps(plane: &TestEnv) -> Watch {
    let list = plane.read(CONFIG_MAPS).await;
    let now = list["metadata"]["resourceVersion"].as_str().unwrap();
    plane.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={now}")).await
}

/// The next `count` events, as `name@resourceVersion`.
async fn next_events(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut events = Vec::new();
    while events.len() < count {
        let (kind, object) = watch.next().await.expect("the watch is open");
        assert_ne!(kind, "ERROR", "{object} after {events:?}");
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        events.push(format!("{}@{}", text("name"), text("resourceVersion")));
    }
    events
}

#[tokio::test]
async fn a_lost_connection_neither_loses_nor_repeats_an_event() {
    let (store, plane, _tasks) = start().await;
    let mut watch = watch_maps(&plane).await;
    let mut expected = vec![format!("a@{}", store.put_map("a").await)];
    assert_eq!(next_events(&mut watch, 1).await, expected);
    for name in ["b", "c", "d"] {
        // The event of the first map is on its way when the connection is lost.
        store.set_fault(Fault::LateEvents);
        expected.push(format!("{name}1@{}", store.put_map(&format!("{name}1")).await));
        store.set_fault(Fault::Disconnected);
        until_not_ready(&plane).await;
        expected.push(format!("{name}2@{}", store.put_map(&format!("{name}2")).await));
        store.end_fault();
        until_ready(&plane).await;
        expected.push(format!("{name}3@{}", store.put_map(&format!("{name}3")).await));
    }
    assert_eq!(next_events(&mut watch, 9).await, expected[1..]);
}

#[tokio::test]
async fn readyz_fails_while_the_store_cannot_be_reached() {
    let (store, plane, _tasks) = start().await;
    assert_eq!(code(&plane, "/readyz").await, 200);
    store.set_fault(Fault::Disconnected);
    until_not_ready(&plane).await;
    for check in ["/readyz", "/readyz/etcd", "/readyz/watch-cache", "/livez", "/livez/etcd"] {
        assert_eq!(code(&plane, check).await, 500, "{check}");
    }
    let etcd = &plane.read("/api/v1/componentstatuses/etcd-0").await["conditions"][0];
    let error = "the store is unavailable";
    assert_eq!(etcd, &json!({"type": "Healthy", "status": "False", "error": error}));
    // The watch cache recovers without a restart.
    assert_eq!(code(&plane, "/livez/watch-cache").await, 200);
    store.end_fault();
    until_ready(&plane).await;
    assert_eq!(code(&plane, "/readyz").await, 200);
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
}

#[tokio::test]
async fn readyz_fails_while_no_watch_can_be_opened() {
    let (store, plane, _tasks) = start().await;
    for fault in [Fault::NoWatches, Fault::LateWatches] {
        // Ends the open watch; late watches alone would not.
        store.set_fault(Fault::NoWatches);
        store.set_fault(fault);
        until_not_ready(&plane).await;
        assert_eq!(code(&plane, "/readyz/etcd").await, 200);
        assert_eq!(code(&plane, "/livez").await, 200);
        store.end_fault();
        until_ready(&plane).await;
    }
}

#[tokio::test]
async fn a_consistent_read_fails_while_the_store_cannot_be_reached() {
    let (store, plane, _tasks) = start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    store.set_fault(Fault::Disconnected);
    let (code, status) = plane.get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!((code, &status["reason"]), (500, &json!("InternalError")), "{status}");
    store.end_fault();
    until_ready(&plane).await;
    plane.read(&format!("{CONFIG_MAPS}/a")).await;
}

#[tokio::test]
async fn a_consistent_read_waits_for_the_events_of_a_store_that_is_late() {
    let (store, plane, _tasks) = start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({"version": "old"}))).await;
    for fault in [Fault::LateEvents, Fault::NoWatches, Fault::LateWatches] {
        if fault == Fault::LateWatches {
            // The open watch ends.
            store.set_fault(Fault::NoWatches);
        }
        store.set_fault(fault);
        let edited = format!("{fault:?}");
        let key = "/registry/configmaps/default/a";
        store.edit(key, |object| object["data"]["version"] = json!(edited)).await;
        let path = format!("{CONFIG_MAPS}/a");
        let mut read = pin!(plane.get(&path));
        for _ in 0..100 {
            assert!((&mut read).now_or_never().is_none(), "{edited}");
            tokio::task::yield_now().await;
        }
        store.end_fault();
        until_ready(&plane).await;
        let (code, object) = read.await;
        assert_eq!((code, &object["data"]["version"]), (200, &json!(edited)));
    }
}

#[tokio::test]
async fn a_history_that_is_compacted_while_the_store_cannot_be_reached_leads_to_a_relist() {
    let options = Options { history_events: HISTORY, ..Options::default() };
    let (store, plane, _tasks) = start_with(options).await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    plane.create(CONFIG_MAPS, &config_map("b", &json!({}))).await;
    let mut older = watch_maps(&plane).await;
    for lost in [Fault::Disconnected, Fault::NoWatches] {
        store.set_fault(lost);
        until_not_ready(&plane).await;
        let key = "/registry/configmaps/default/a";
        store.without_faults().delete(key, Expect::Any).await.unwrap();
        store.put_at_once(2 * HISTORY).await;
        store.end_fault();
        until_ready(&plane).await;
        let error = older.expect("ERROR").await;
        assert_eq!((&error["code"], &error["reason"]), (&json!(410), &json!("Expired")));
        assert_eq!(plane.get(&format!("{CONFIG_MAPS}/a")).await.0, 404);
        plane.read(&format!("{CONFIG_MAPS}/b")).await;
        older = watch_maps(&plane).await;
        plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
        assert_eq!(older.next_summary().await, "ADDED a");
    }
}

#[tokio::test]
async fn a_server_does_not_start_on_a_store_that_cannot_be_reached() {
    let (clock, tasks) = (Clock::manual(START), Tasks::new());
    let store = FaultyStore::open(&clock, &tasks);
    store.set_fault(Fault::Disconnected);
    let error = TestEnv::builder().clock(clock).store(store).try_start().await.unwrap_err();
    assert!(matches!(error, apiserver::server::Error::Store(store::Error::Unavailable(_))));
}

/// Each watcher gets each event once, in the order of revisions, after any sequence of faults.
#[tokio::test]
async fn random_faults_neither_lose_nor_repeat_an_event() {
    for seed in 0..10 {
        println!("seed {seed}");
        let entropy = Entropy::seeded(seed);
        let (store, plane, _tasks) = start().await;
        let mut watch = watch_maps(&plane).await;
        let mut expected = Vec::new();
        for step in 0..100 {
            match entropy.below(8) {
                0 => store.set_fault(Fault::Disconnected),
                1 => store.set_fault(Fault::NoWatches),
                2 => store.set_fault(Fault::LateWatches),
                3 => store.set_fault(Fault::LateEvents),
                4 => store.end_fault(),
                5 => plane.advance(Duration::from_secs(1)),
                _ => {
                    let name = format!("map-{step}");
                    expected.push(format!("{name}@{}", store.put_map(&name).await));
                }
            }
            for _ in 0..entropy.below(20) {
                tokio::task::yield_now().await;
            }
        }
        store.end_fault();
        until_ready(&plane).await;
        expected.push(format!("last@{}", store.put_map("last").await));
        assert_eq!(next_events(&mut watch, expected.len()).await, expected);
        let list = plane.read(CONFIG_MAPS).await;
        // The server itself creates one config map in each namespace.
        assert!(list["items"].as_array().unwrap().len() >= expected.len());
    }
}
