//! A test waits until a manager has settled, and calls one reconcile.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::ObjectMeta;
use kube_core::params::PostParams;
use tokio::time::Instant;

use crate::faulty::RequestOutcome;
use crate::world::{MAPS, Running, THINGS, Thing, World, manual_clock, options};
use machinery::json;
use runtime::informer::work_queue::RateLimits;
use runtime::recorder::{EventType, Recorder};
use runtime::{
    Action, Api, Client, ClientExt, Controller, Failure, LeaderElection, Lister, ListerExt,
    Manager, ManagerOptions, Mapper, Request, create_or_update, kube_client, owner,
};

const MINUTE: Duration = Duration::from_mins(1);

struct Context {
    client: Client,
    things: Lister<Thing>,
    maps: Lister<ConfigMap>,
}

/// Keeps a config map for each thing. Things of size 7 fail, and those of size 8 are requeued later.
async fn keep_map(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    let Some(thing) = cx.things.get_key(&request)? else { return Ok(Action::Done) };
    match thing.spec.size {
        7 => return Err(Failure::transient("seven")),
        8 => return Ok(Action::RequeueAfter(MINUTE)),
        _ => {}
    }
    let map = cx.maps.get_key(&request)?.unwrap_or_else(|| {
        let (name, namespace) = (thing.metadata.name.clone(), thing.metadata.namespace.clone());
        ConfigMap {
            metadata: ObjectMeta { name, namespace, ..ObjectMeta::default() },
            ..ConfigMap::default()
        }
    });
    let size = thing.spec.size.to_string();
    create_or_update(&cx.client.api_beside(&thing), map, |map| {
        map.data = Some([("size".to_owned(), size)].into());
        Ok(owner::set_controller(&thing, map)?)
    })
    .await?;
    Ok(Action::Done)
}

fn controller(manager: &Manager) -> Controller {
    let context =
        Context { client: manager.client(), things: manager.lister(), maps: manager.lister() };
    // A mapper of its own, so that events pass through the queue of a handler.
    let mapper = Mapper::custom(|item| vec![item.key().clone()]);
    Controller::for_::<Thing>().watches::<ConfigMap>(mapper).reconcile(keep_map, context)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settled_manager_has_done_everything() {
    let world = World::new().await;
    let manager = Manager::new(world.client.clone(), options());
    manager.add(controller(&manager));
    let early = manager.settled(Duration::ZERO).await.unwrap_err().to_string();
    assert!(early.contains("the caches are not complete: configmaps.v1: listing"), "{early}");
    let running = Running::start(&manager);
    for round in 1..6 {
        for name in ["a", "b", "c"] {
            if round == 1 {
                world.create_thing(name, json!(10)).await;
            } else {
                let patch = json!({"spec": {"size": round * 10}});
                world.env.merge(&format!("{THINGS}/{name}"), &patch).await;
            }
        }
        manager.settled(MINUTE).await.unwrap();
        for name in ["a", "b", "c"] {
            let map = world.env.read(&format!("{MAPS}/{name}")).await;
            assert_eq!(map["data"]["size"], (round * 10).to_string(), "{name} in round {round}");
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn the_error_says_what_is_not_settled() {
    let world = World::new().await;
    let clock = manual_clock();
    let options = ManagerOptions { clock: clock.clone(), ..options() };
    let manager = Manager::new(world.client.clone(), options);
    manager.add(controller(&manager));
    let running = Running::start(&manager);
    world.create_thing("later", json!(8)).await;
    manager.settled(MINUTE).await.unwrap();
    let reconciles = manager.records("thing").len();
    clock.advance(MINUTE);
    manager.settled(MINUTE).await.unwrap();
    assert_eq!(manager.records("thing").len(), reconciles + 1, "a key that is due is not settled");
    world.create_thing("seven", json!(7)).await;
    // The clock stands still, so the retry is never due.
    let began = Instant::now();
    let error = manager.settled(MINUTE).await.unwrap_err().to_string();
    assert!(began.elapsed() < MINUTE / 2, "it fails at once");
    let retry = "not settled: thing: default/seven waits for a retry after 1 failure, \
                 until 2024-01-01T00:01:00.005000Z at the latest: seven; \
                 the clock stands still at 2024-01-01T00:01:00.000000Z: advance it";
    assert_eq!(error, retry);
    // The cache has the change before the retry is due.
    world.env.merge(&format!("{THINGS}/seven"), &json!({"spec": {"size": 6}})).await;
    manager.caches_current(MINUTE).await.unwrap();
    clock.advance(MINUTE);
    manager.settled(MINUTE).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn a_retry_that_comes_due_by_itself_is_waited_for() {
    async fn fail_twice(_: Request, calls: Arc<AtomicUsize>) -> Result<Action, Failure> {
        match calls.fetch_add(1, Relaxed) {
            0 | 1 => Err(Failure::transient("not yet")),
            _ => Ok(Action::Done),
        }
    }
    let world = World::new().await;
    let manager = Manager::new(world.client.clone(), options());
    let base = Duration::from_millis(400);
    let controller = Controller::for_::<Thing>()
        .back_off(RateLimits { backoff_base: base, ..RateLimits::default() })
        .reconcile(fail_twice, AtomicUsize::new(0));
    manager.add(controller);
    let running = Running::start(&manager);
    world.create_thing("a", json!(1)).await;
    manager.settled(MINUTE).await.unwrap();
    assert_eq!(manager.records("thing").len(), 3);
    running.stop().await;
}

#[tokio::test]
async fn the_events_of_a_settled_manager_are_written() {
    async fn record(
        request: Request,
        cx: Arc<(Lister<Thing>, Recorder)>,
    ) -> Result<Action, Failure> {
        if let Some(thing) = cx.0.get_key(&request)? {
            for reason in ["First", "Second", "Third"] {
                cx.1.record(&thing, EventType::Normal, reason, "as recorded");
            }
        }
        Ok(Action::Done)
    }
    let world = World::new().await;
    let manager = Manager::new(world.client.clone(), options());
    let context = (manager.lister(), manager.recorder("example.com/tester"));
    manager.add(Controller::for_::<Thing>().reconcile(record, context));
    let running = Running::start(&manager);
    world.create_thing("a", json!(1)).await;
    manager.settled(MINUTE).await.unwrap();
    let events = world.env.read("/api/v1/namespaces/default/events").await;
    assert_eq!(events["items"].as_array().unwrap().len(), 3);
    running.stop().await;
}

#[tokio::test]
async fn caches_can_be_current_while_a_standby_waits() {
    let world = World::new().await;
    let first = Manager::new(world.client.clone(), elected("first"));
    let running = Running::start(&first);
    first.settled(MINUTE).await.unwrap();
    let second = Manager::new(world.client.clone(), elected("second"));
    second.add(controller(&second));
    let standby = Running::start(&second);
    world.create_thing("a", json!(1)).await;
    second.caches_current(MINUTE).await.unwrap();
    assert!(second.lister::<Thing>().get("default", "a").unwrap().is_some());
    standby.stop().await;
    running.stop().await;
}

fn elected(identity: &str) -> ManagerOptions {
    let election = LeaderElection::new("default", "the-lease").identity(identity);
    ManagerOptions { leader_election: Some(election), ..options() }
}

#[tokio::test]
async fn a_cache_that_is_behind_the_server_is_not_settled() {
    let world = World::new().await;
    let (faulty, client) = world.faulty();
    // The cache is listed once, and gets no events.
    faulty.decide(|_, target| match target {
        _ if target.contains("/things") && target.contains("watch=true") => {
            RequestOutcome::Refused(503)
        }
        _ => RequestOutcome::Served,
    });
    let manager = Manager::new(client, options());
    manager.add(controller(&manager));
    let running = Running::start(&manager);
    manager.settled(MINUTE).await.unwrap();
    world.create_thing("a", json!(1)).await;
    let error = manager.settled(Duration::from_millis(50)).await.unwrap_err().to_string();
    let behind = "not settled: the cache of things.example.com/v1 is not level: default/a";
    assert_eq!(error, behind);
    faulty.decide(|_, _| RequestOutcome::Served);
    manager.settled(MINUTE).await.unwrap();
    assert_eq!(world.env.read(&format!("{MAPS}/a")).await["data"]["size"], "1");
    faulty.decide(|_, target| match target {
        _ if target.contains("/things") => RequestOutcome::Refused(503),
        _ => RequestOutcome::Served,
    });
    let error = manager.settled(Duration::from_millis(50)).await.unwrap_err().to_string();
    assert!(error.contains("cannot list things.example.com/v1: "), "{error}");
    running.stop().await;
}

#[tokio::test]
async fn one_reconcile_is_called_without_workers() {
    let world = World::new().await;
    world.create_thing("a", json!(3)).await;
    let manager = Manager::new(world.client.clone(), options());
    let controller = controller(&manager);
    let running = Running::start(&manager);
    manager.settled(MINUTE).await.unwrap();
    let action = controller.reconcile_once(Request::new("default", "a")).await.unwrap();
    assert_eq!(action, Action::Done);
    let map = world.env.read(&format!("{MAPS}/a")).await;
    assert_eq!(map["data"]["size"], "3");
    let version = map["metadata"]["resourceVersion"].clone();
    controller.reconcile_once(Request::new("default", "a")).await.unwrap();
    let map = world.env.read(&format!("{MAPS}/a")).await;
    assert_eq!(map["metadata"]["resourceVersion"], version, "nothing changed, nothing is written");
    assert_eq!(manager.records("thing").len(), 0);
    // A stale object is a conflict.
    let maps = world.client.api_in::<ConfigMap>("default");
    let mut stale = maps.get("a").await.unwrap();
    world.env.merge(&format!("{MAPS}/a"), &json!({"data": {"more": "x"}})).await;
    stale.data = None;
    let refused = maps.replace("a", &PostParams::default(), &stale).await;
    assert!(refused.is_err());
    running.stop().await;
}

#[tokio::test]
async fn the_dependents_of_an_object_are_found_before_its_controller_is_added() {
    let world = World::new().await;
    for (name, size) in [("a", 3), ("b", 4)] {
        world.create_thing(name, json!(size)).await;
    }
    let manager = Manager::new(world.client.clone(), options());
    let controller = controller(&manager);
    let running = Running::start(&manager);
    manager.settled(MINUTE).await.unwrap();
    let (things, maps) = (manager.lister::<Thing>(), manager.lister::<ConfigMap>());
    let a = things.get("default", "a").unwrap().unwrap();
    assert!(maps.controlled_by(&a).objects.is_empty());
    for name in ["a", "b"] {
        controller.reconcile_once(Request::new("default", name)).await.unwrap();
    }
    let names = |listed: Vec<ConfigMap>| -> Vec<_> {
        listed.into_iter().filter_map(|map| map.metadata.name).collect()
    };
    assert_eq!(names(maps.controlled_by(&a).objects), ["a"]);
    let mut elsewhere = a.clone();
    elsewhere.metadata.namespace = Some("other".to_owned());
    assert!(maps.controlled_by(&elsewhere).objects.is_empty(), "a uid of another namespace");
    let mut not_stored = a;
    not_stored.metadata.uid = None;
    assert!(maps.controlled_by(&not_stored).objects.is_empty());
    running.stop().await;
}

#[tokio::test]
async fn a_leader_settles_although_its_clock_was_advanced_beyond_its_renewal() {
    /// Writes an object now and in a minute.
    async fn write_again(_: Request, maps: Arc<Api<ConfigMap>>) -> Result<Action, Failure> {
        let metadata =
            ObjectMeta { generate_name: Some("written-".to_owned()), ..ObjectMeta::default() };
        let map = ConfigMap { metadata, ..ConfigMap::default() };
        maps.create(&PostParams::default(), &map).await?;
        Ok(Action::RequeueAfter(MINUTE))
    }
    let world = World::new().await;
    let clock = manual_clock();
    let options = ManagerOptions { clock: clock.clone(), ..elected("first") };
    let manager = Manager::new(world.client.clone(), options);
    let maps = manager.client().api_in::<ConfigMap>("default");
    manager.add(Controller::for_::<Thing>().reconcile(write_again, maps));
    let running = Running::start(&manager);
    world.create_thing("a", json!(1)).await;
    manager.settled(MINUTE).await.unwrap();
    for written in 2..5 {
        clock.advance(MINUTE);
        manager.settled(MINUTE).await.unwrap();
        assert_eq!(manager.records("thing").len(), written);
    }
    // Nothing is due, but the lease is renewed before the next step.
    for _ in 0..20 {
        clock.advance(MINUTE / 12);
        manager.settled(MINUTE).await.unwrap();
    }
    running.stop().await;
}

#[tokio::test]
async fn a_missing_right_is_no_reason_to_advance_the_clock() {
    async fn fail(_: Request, _: Arc<()>) -> Result<Action, Failure> {
        let status = kube_core::Status::failure("things are forbidden", "Forbidden");
        Err(kube_client::Error::Api(Box::new(status.with_code(403))).into())
    }
    let world = World::new().await;
    let options = ManagerOptions { clock: manual_clock(), ..options() };
    let manager = Manager::new(world.client.clone(), options);
    manager.add(Controller::for_::<Thing>().reconcile(fail, ()));
    let running = Running::start(&manager);
    world.create_thing("a", json!(1)).await;
    let error = manager.settled(MINUTE).await.unwrap_err().to_string();
    let end = "the server responded with 403: things are forbidden; \
               the clock stands still at 2024-01-01T00:00:00.000000Z";
    assert!(error.ends_with(end), "{error}");
    running.stop().await;
}
