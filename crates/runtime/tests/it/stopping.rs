//! A stop waits for running reconciles, within a time limit.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::params::PostParams;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::world::{MAPS, Running, Thing, World, options, until};
use machinery::json;
use runtime::{
    Action, Api, Client, Controller, Failure, Manager, ManagerError, ManagerOptions, Request,
};

struct BlockedReconcile {
    client: Client,
    began: Arc<Notify>,
    may_end: Arc<Notify>,
}

/// Notifies that it began, waits for `may_end`, and creates a config map.
async fn create_when_allowed(
    request: Request,
    cx: Arc<BlockedReconcile>,
) -> Result<Action, Failure> {
    cx.began.notify_one();
    cx.may_end.notified().await;
    let map = ConfigMap {
        metadata: kube_core::ObjectMeta {
            name: Some(request.name().to_owned()),
            ..kube_core::ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let maps = Api::<ConfigMap>::namespaced(cx.client.clone(), "default");
    maps.create(&PostParams::default(), &map).await?;
    Ok(Action::Done)
}

#[tokio::test]
async fn a_running_reconcile_may_finish_and_write() {
    let world = World::new().await;
    world.create_thing("a", json!(1)).await;
    let manager = Manager::new(world.client.clone(), options());
    let (began, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let blocked = BlockedReconcile {
        client: manager.client(),
        began: Arc::clone(&began),
        may_end: Arc::clone(&may_end),
    };
    manager.add(Controller::for_::<Thing>().reconcile(create_when_allowed, blocked));
    let running = Running::start(&manager);
    began.notified().await;
    manager.stop();
    may_end.notify_one();
    running.ended.await.unwrap().unwrap();
    world.env.read(&format!("{MAPS}/a")).await;
}

#[tokio::test]
async fn a_stop_is_limited_in_time() {
    async fn hang(_: Request, began: Arc<Notify>) -> Result<Action, Failure> {
        began.notify_one();
        pending().await
    }
    let world = World::new().await;
    world.create_thing("a", json!(1)).await;
    let stop_within = Duration::from_secs(10);
    let manager = Manager::new(world.client.clone(), ManagerOptions { stop_within, ..options() });
    let began = Arc::new(Notify::new());
    let context = Arc::clone(&began);
    let hanging = move |request, _: Arc<()>| hang(request, Arc::clone(&context));
    manager.add(Controller::for_::<Thing>().reconcile(hanging, ()));
    manager.tasks().spawn("hanging", pending::<()>());
    let running = Running::start(&manager);
    began.notified().await;
    // From here on, tokio's time advances only while all tasks wait for it.
    tokio::time::pause();
    let began = Instant::now();
    manager.stop();
    let ended = running.ended.await.unwrap();
    let took = began.elapsed();
    assert!(took <= stop_within, "{took:?}");
    assert!(took >= Duration::from_secs(5), "the reconcile had no time to end: {took:?}");
    let Err(ManagerError::UncleanStop(unclean)) = ended else { panic!("it ended cleanly") };
    assert_eq!(unclean.running.len(), 1, "{unclean}");
    assert!(unclean.running[0].contains("workers/thing-"), "{unclean}");
}

#[tokio::test]
async fn a_manager_writes_only_while_it_runs() {
    let world = World::new().await;
    let manager = Manager::new(world.client.clone(), options());
    let maps = Api::<ConfigMap>::namespaced(manager.client(), "default");
    let map = |name: &str| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let refused = maps.create(&PostParams::default(), &map("early")).await.unwrap_err();
    assert!(refused.to_string().contains("refused to write"), "{refused}");
    let running = Running::start(&manager);
    until("it writes", async || maps.create(&PostParams::default(), &map("a")).await.is_ok()).await;
    running.stop().await;
    maps.create(&PostParams::default(), &map("late")).await.unwrap_err();
    assert_eq!(world.env.get(&format!("{MAPS}/late")).await.0, 404);
}
