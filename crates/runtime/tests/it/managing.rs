//! The caches, controllers, webhooks, events, readiness and metrics of a manager.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kube_client::api::ListParams;

use crate::controlling::get;
use crate::faulty::RequestOutcome;
use crate::https;
use crate::log::Log;
use crate::plane::{certificate_options, server_options};
use crate::world::{MAPS, Running, Thing, World, manual_clock, options, until};
use informer::{InformerOptions, Selection};
use machinery::json;
use runtime::reconcile_history::ReconcileOutcome;
use runtime::recorder::{EventType, Recorder};
use runtime::webhook::{Handler, WebhookServer};
use runtime::{
    Action, Api, CONTROLLER_INDEX, Controller, Failure, LeaderElection, Lister, Manager,
    ManagerOptions, Mapper, Request,
};

async fn succeed(_: Request, _: Arc<()>) -> Result<Action, Failure> {
    Ok(Action::Done)
}

async fn fail(_: Request, _: Arc<()>) -> Result<Action, Failure> {
    Err(Failure::permanent("it must not be called"))
}

#[tokio::test]
async fn readiness_names_the_caches_that_have_not_synced() {
    let world = World::new().await;
    world.delete_crd().await;
    let endpoint = Some("127.0.0.1:0".parse().unwrap());
    let manager = Manager::new(world.client.clone(), ManagerOptions { endpoint, ..options() });
    manager.add(Controller::for_::<Thing>().reconcile(succeed, ()));
    let running = Running::start(&manager);
    let address = manager.endpoint().await.unwrap();
    let why = "[-]caches failed: things.example.com/v1: the server responded with 404 Not Found: 404 page not found";
    until("the cache is named", async || get(address, "/readyz?verbose").await.contains(why)).await;
    assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 500"));
    world.install_crd().await;
    until("it is ready", async || get(address, "/readyz").await.starts_with("HTTP/1.1 200")).await;
    running.stop().await;
}

#[tokio::test]
async fn an_independent_controller_does_not_wait_for_the_caches_of_others() {
    let world = World::new().await;
    world.delete_crd().await;
    let manager = Manager::new(world.client.clone(), options());
    let (things, maps) = (manager.independent(), manager.independent());
    things.add(Controller::for_::<Thing>().reconcile(succeed, ()));
    maps.add(Controller::for_::<ConfigMap>().named("maps").reconcile(succeed, ()));
    let running = Running::start(&manager);
    assert!(maps.wait_until_ready().await);
    until("a map is reconciled", async || !manager.records("maps").is_empty()).await;
    let reasons = manager.wait_until_listed().await.unwrap_err();
    assert!(reasons.starts_with("things.example.com/v1: "), "{reasons}");
    assert!(things.wait_until_ready().now_or_never().is_none());
    assert!(manager.wait_until_ready().now_or_never().is_none());
    world.install_crd().await;
    assert!(things.wait_until_ready().await && manager.wait_until_ready().await);
    assert_eq!(manager.wait_until_listed().await, Ok(()));
    running.stop().await;
}

async fn expect_things(request: Request, things: Arc<Lister<Thing>>) -> Result<Action, Failure> {
    if things.indexer().list().is_empty() {
        return Err(Failure::permanent(format!("{request} is reconciled without things")));
    }
    Ok(Action::Done)
}

#[tokio::test]
async fn a_controller_that_is_added_later_waits_for_its_caches_too() {
    let world = World::new().await;
    world.create_thing("a", json!(1)).await;
    world.env.create(MAPS, &json!({"metadata": {"name": "m"}})).await;
    let (faulty, client) = world.faulty();
    faulty.decide(|_, target| match target {
        _ if target.contains("/things") => RequestOutcome::Refused(503),
        _ => RequestOutcome::Served,
    });
    let manager = Manager::new(client, options());
    manager.add(Controller::for_::<ConfigMap>().named("early").reconcile(succeed, ()));
    let running = Running::start(&manager);
    assert!(manager.wait_until_ready().await);
    let late = Controller::for_::<ConfigMap>().named("late");
    manager.add(late.reconcile(expect_things, manager.lister::<Thing>()));
    let others = manager.independent();
    others.add(Controller::for_::<ConfigMap>().named("others").reconcile(succeed, ()));
    until("a map is reconciled", async || !manager.records("others").is_empty()).await;
    assert!(manager.wait_until_ready().now_or_never().is_none());
    assert!(manager.records("late").is_empty());
    faulty.decide(|_, _| RequestOutcome::Served);
    until("a map is reconciled", async || !manager.records("late").is_empty()).await;
    let failed =
        manager.records("late").into_iter().find(|it| it.outcome != ReconcileOutcome::Done);
    assert!(failed.is_none(), "{failed:?}");
    assert!(manager.wait_until_ready().await);
    running.stop().await;
}

#[tokio::test]
async fn a_replica_that_does_not_lead_serves_webhooks() {
    let world = World::new().await;
    let (faulty, client) = world.faulty();
    faulty.decide(|_, target| match target {
        _ if target.contains("/leases") => RequestOutcome::Refused(503),
        _ => RequestOutcome::Served,
    });
    let leader_election = Some(LeaderElection::new("default", "the-lease").identity("second"));
    let endpoint = Some("127.0.0.1:0".parse().unwrap());
    let options = ManagerOptions { leader_election, endpoint, ..options() };
    let clock = options.clock.clone();
    let manager = Manager::new(client, options);
    let server = WebhookServer::new(server_options()).at("/echo", Handler::new(async |it| Ok(it)));
    manager.serve_webhooks(server, certificate_options(), []);
    assert!(!manager.readiness().run("readyz").has_passed, "the manager does not run yet");
    let running = Running::start(&manager);
    let address = manager.webhook_endpoint().await.unwrap();
    let secret = Api::<Secret>::namespaced(world.client.clone(), "default")
        .get("hook-certificates")
        .await
        .unwrap();
    let bundle = String::from_utf8(secret.data.unwrap()["ca.crt"].0.clone()).unwrap();
    let send = async |path: &str, body: &str| {
        https::send(address, &bundle, &clock, path, body).await.unwrap().0
    };
    assert_eq!(send("/readyz", "").await, 200);
    until("it is ready", async || manager.readiness().run("readyz").has_passed).await;

    assert_eq!((send("/echo", "{}").await, send("/echo", "").await), (200, 405));
    let metrics = get(manager.endpoint().await.unwrap(), "/metrics").await;
    for line in [
        r#"controller_runtime_webhook_requests_total{webhook="/echo",code="200"} 1"#,
        r#"controller_runtime_webhook_requests_total{webhook="/echo",code="405"} 1"#,
        r#"controller_runtime_webhook_requests_total{webhook="/echo",code="500"} 0"#,
        r#"controller_runtime_webhook_requests_in_flight{webhook="/echo"} 0"#,
        r#"controller_runtime_webhook_latency_seconds_count{webhook="/echo"} 2"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    running.stop().await;
}

async fn record_event(
    request: Request,
    cx: Arc<(Lister<Thing>, Recorder)>,
) -> Result<Action, Failure> {
    if let Some(thing) = cx.0.get_key(&request)? {
        cx.1.record(&thing, EventType::Normal, "Seen", "the thing exists");
    }
    Ok(Action::Done)
}

#[tokio::test]
async fn events_have_the_name_of_the_controller() {
    let world = World::new().await;
    world.create_thing("a", json!(1)).await;
    let manager = Manager::new(world.client.clone(), options());
    let context = (manager.lister(), manager.recorder("example.com/tester"));
    manager.add(Controller::for_::<Thing>().reconcile(record_event, context));
    let running = Running::start(&manager);
    until("a was reconciled", async || manager.records("thing").len() == 1).await;
    running.stop().await;
    let events = Api::<Event>::namespaced(world.client.clone(), "default");
    let about = ListParams::default().fields("involvedObject.name=a");
    let found = events.list(&about).await.unwrap().items;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].reporting_component.as_deref(), Some("example.com/tester"));
}

#[tokio::test]
async fn objects_that_refer_to_a_changed_object_are_reconciled() {
    let world = World::new().await;
    world.create_thing("a", json!(1)).await;
    let manager = Manager::new(world.client.clone(), options());
    let things = manager.informer::<Thing>();
    things.indexer().add_index("size", |item| {
        let thing = item.decode::<Thing>().ok();
        thing.map(|it| format!("{}/size-{}", item.namespace(), it.spec.size)).into_iter().collect()
    });
    let maps = Mapper::by_index(&things, "size");
    let watches = Controller::for_::<Thing>().watches::<ConfigMap>(maps);
    manager.add(watches.reconcile(succeed, ()));
    let running = Running::start(&manager);
    until("a was reconciled", async || manager.records("thing").len() == 1).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "size-1"}});
    world.env.create(MAPS, &map).await;
    until("a was reconciled again", async || manager.records("thing").len() == 2).await;
    let causes = manager.records("thing")[0].causes.to_string();
    assert_eq!(causes, "ConfigMap default/size-1 added");
    running.stop().await;
}

#[tokio::test]
async fn a_cache_that_is_requested_while_the_manager_runs_is_filled() {
    let world = World::new().await;
    world.create_thing("a", json!(1)).await;
    let manager = Manager::new(world.client.clone(), options());
    manager.add(Controller::for_::<ConfigMap>().reconcile(succeed, ()));
    let running = Running::start(&manager);
    until("it is ready", async || manager.readiness().run("readyz").has_passed).await;
    let things = manager.lister::<Thing>();
    until("a is cached", async || things.get("default", "a").unwrap().is_some()).await;
    until("it is ready again", async || manager.readiness().run("readyz").has_passed).await;
    running.stop().await;
}

#[tokio::test]
async fn a_controller_can_be_added_while_the_manager_runs_unless_its_name_is_used() {
    let world = World::new().await;
    world.create_thing("a", json!(1)).await;
    let manager = Manager::new(world.client.clone(), options());
    manager.add(Controller::for_::<Thing>().reconcile(succeed, ()));
    let running = Running::start(&manager);
    until("a was reconciled", async || manager.records("thing").len() == 1).await;
    manager.add(Controller::for_::<Thing>().named("late").reconcile(succeed, ()));
    manager.add(Controller::for_::<Thing>().reconcile(fail, ()));
    until("a was reconciled again", async || manager.records("late").len() == 1).await;
    assert_eq!(manager.records("thing").len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn two_controllers_with_the_same_name_are_refused() {
    let world = World::new().await;
    let manager = Manager::new(world.client.clone(), options());
    for _ in 0..2 {
        manager.add(Controller::for_::<Thing>().reconcile(succeed, ()));
    }
    let refused = manager.run().await.unwrap_err();
    assert_eq!(refused.to_string(), r#"two controllers are named "thing""#);
}

async fn read(
    request: Request,
    cx: Arc<(Lister<ConfigMap>, Lister<Secret>)>,
) -> Result<Action, Failure> {
    // The cache must contain the object of the event.
    let map = cx.0.get_key(&request)?.ok_or_else(|| Failure::permanent("not cached"))?;
    let uid = map.metadata.uid.unwrap_or_default();
    assert!(cx.1.by_index(CONTROLLER_INDEX, &uid)?.objects.is_empty());
    Ok(Action::Done)
}

#[tokio::test]
async fn a_controller_of_a_selection_reads_its_own_cache() {
    let world = World::new().await;
    // Listing all config maps is forbidden.
    let (faulty, client) = world.faulty();
    faulty.decide(|_, target| {
        if target.starts_with("/api/v1/configmaps") {
            RequestOutcome::Refused(403)
        } else {
            RequestOutcome::Served
        }
    });
    let manager = Manager::new(client, options());
    let mine = Selection { namespace: Some("default".to_owned()), ..Selection::default() };
    let context = (manager.lister_selecting(&mine), manager.lister_selecting(&mine));
    let controller = Controller::for_::<ConfigMap>().selecting(mine.clone());
    manager.add(controller.owns::<Secret>().selecting(mine).reconcile(read, context));
    let running = Running::start(&manager);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    world.env.create(MAPS, &map).await;
    until("a was reconciled", async || manager.records("configmap").len() == 1).await;
    assert_eq!(manager.records("configmap")[0].outcome, ReconcileOutcome::Done);
    running.stop().await;
}

#[tokio::test]
async fn a_cache_is_complete_within_a_second_after_its_crd_was_installed() {
    let world = World::new().await;
    world.delete_crd().await;
    let clock = manual_clock();
    // The delays of an operator, not those of the tests.
    let options =
        ManagerOptions { clock: clock.clone(), informer: InformerOptions::default(), ..options() };
    let manager = Manager::new(world.client.clone(), options);
    manager.add(Controller::for_::<Thing>().reconcile(succeed, ()));
    let running = Running::start(&manager);
    let status = manager.informer::<Thing>().reflector_status();
    // The delay would grow to half a minute.
    for failures in 1..12 {
        until("the server has responded", async || status.borrow().failures >= failures).await;
        until("it pauses", async || clock.next_deadline().is_some()).await;
        let error = status.borrow().last_error.clone().unwrap_or_default();
        assert!(error.ends_with("404 page not found; is its CRD installed?"), "{error}");
        clock.advance(Duration::from_secs(1));
    }
    world.install_crd().await;
    clock.advance(Duration::from_secs(1));
    manager.wait_until_ready().await;
    running.stop().await;
}

#[tokio::test]
async fn a_crd_that_is_missing_is_logged_after_five_seconds() {
    let log = Log::start();
    let world = World::new().await;
    world.delete_crd().await;
    let clock = manual_clock();
    let options =
        ManagerOptions { clock: clock.clone(), informer: InformerOptions::default(), ..options() };
    let manager = Manager::new(world.client.clone(), options);
    manager.add(Controller::for_::<Thing>().reconcile(succeed, ()));
    let running = Running::start(&manager);
    let status = manager.informer::<Thing>().reflector_status();
    let warnings = || log.lines("cannot list or watch: ");
    for failures in 1..8 {
        until("the server has responded", async || status.borrow().failures >= failures).await;
        until("it pauses", async || clock.next_deadline().is_some()).await;
        assert!(failures > 4 || warnings().is_empty(), "the CRD may be installed at this moment");
        clock.advance(Duration::from_secs(1));
    }
    until("a warning", async || !warnings().is_empty()).await;
    let warnings = warnings();
    assert!(warnings[0].contains("is its CRD installed?"), "{warnings:?}");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    running.stop().await;
}
