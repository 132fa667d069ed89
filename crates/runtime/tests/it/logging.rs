//! What an operator logs: its start, its reconciles, and whom a standby waits for.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::params::PostParams;

use crate::log::Log;
use crate::world::{MAPS, Running, Thing, World, manual_clock, options, until};
use machinery::json;
use runtime::keel::Clock;
use runtime::{Action, Api, Controller, Failure, LeaderElection, Manager, ManagerOptions, Request};

async fn log_size(_: Request, size: Arc<u32>) -> Result<Action, Failure> {
    tracing::info!(size = *size, "hello");
    Ok(Action::Done)
}

#[tokio::test]
async fn what_a_reconcile_logs_names_its_controller_and_its_object() {
    let log = Log::start();
    let world = World::new().await;
    world.create_thing("a", json!(1)).await;
    let manager = Manager::new(world.client.clone(), options());
    // One context for both controllers.
    let size = Arc::new(7);
    for name in ["first", "second"] {
        let controller = Controller::for_::<Thing>().named(name);
        manager.add(controller.reconcile(log_size, Arc::clone(&size)));
    }
    let running = Running::start(&manager);
    until("both have logged", async || log.lines("hello").len() == 2).await;
    for name in ["first", "second"] {
        let span = format!("reconcile{{controller=\"{name}\" object=default/a}}");
        let line = log.lines(&span).concat();
        assert!(line.contains("hello size=7"), "{line}");
    }
    running.stop().await;
}

#[tokio::test]
async fn the_start_line_names_the_version_the_kinds_and_the_endpoint() {
    let log = Log::start();
    let world = World::new().await;
    let endpoint = Some("127.0.0.1:0".parse().unwrap());
    let options =
        ManagerOptions { name: "thing-operator", version: "7.1.0", endpoint, ..options() };
    let manager = Manager::new(world.client.clone(), options);
    manager.add(Controller::for_::<Thing>().reconcile(log_size, 1));
    let running = Running::start(&manager);
    let address = manager.endpoint().await.unwrap();
    until("the line is logged", async || !log.lines("the manager starts").is_empty()).await;
    let line = log.lines("the manager starts").concat();
    let runtime = env!("CARGO_PKG_VERSION");
    let fields = format!(
        "operator=\"thing-operator\" version=\"7.1.0\" runtime=\"{runtime}\" \
         kinds=\"things.example.com/v1\" endpoint=\"http://{address}\""
    );
    assert!(line.contains(&fields), "{line}");
    running.stop().await;
}

#[tokio::test]
async fn a_conflict_is_a_warning_when_it_repeats() {
    /// Writes with an old version.
    async fn conflict(_: Request, maps: Arc<Api<ConfigMap>>) -> Result<Action, Failure> {
        let mut map = maps.get("a").await?;
        map.metadata.resource_version = Some("1".to_owned());
        maps.replace("a", &PostParams::default(), &map).await?;
        Ok(Action::Done)
    }
    let log = Log::start();
    let world = World::new().await;
    world.env.create(MAPS, &json!({"metadata": {"name": "a"}})).await;
    let clock = manual_clock();
    let options = ManagerOptions { clock: clock.clone(), ..options() };
    let manager = Manager::new(world.client.clone(), options);
    let maps = Api::<ConfigMap>::namespaced(manager.client(), "default");
    manager.add(Controller::for_::<Thing>().reconcile(conflict, maps));
    let running = Running::start(&manager);
    world.create_thing("a", json!(1)).await;
    until("it has failed", async || manager.records("thing").len() == 1).await;
    assert_eq!(log.lines("a reconcile failed"), [""; 0]);
    until("it has failed again", async || {
        clock.advance(Duration::from_millis(5));
        manager.records("thing").len() == 2
    })
    .await;
    let lines = log.lines("a reconcile failed");
    assert!(lines.len() == 1 && lines[0].contains("WARN"), "{lines:?}");
    running.stop().await;
}

fn candidate(world: &World, namespace: &str, identity: &str, clock: &Clock) -> Running {
    let election = LeaderElection::new(namespace, "the-lease").identity(identity);
    let (leader_election, clock) = (Some(election), clock.clone());
    let options = ManagerOptions { leader_election, clock, ..options() };
    Running::start(&Manager::new(world.client.clone(), options))
}

#[tokio::test]
async fn a_standby_logs_once_whom_it_waits_for() {
    let log = Log::start();
    let world = World::new().await;
    let leader = candidate(&world, "default", "one", &manual_clock());
    leader.manager.wait_until_ready().await;
    let clock = manual_clock();
    let standby = candidate(&world, "default", "two", &clock);
    let waits = "stands by for the leader lease=\"default/the-lease\" holder=\"one\"";
    until("the standby waits", async || !log.lines(waits).is_empty()).await;
    for _ in 0..3 {
        until("it pauses", async || clock.next_deadline().is_some()).await;
        clock.advance(Duration::from_secs(3));
    }
    leader.stop().await;
    until("it leads", async || {
        clock.advance(Duration::from_millis(100));
        log.lines("became the leader").len() == 2
    })
    .await;
    assert_eq!(log.lines(waits).len(), 1);
    standby.stop().await;
}

#[tokio::test]
async fn a_lease_in_a_missing_namespace_is_reported_as_that() {
    let log = Log::start();
    let world = World::new().await;
    let running = candidate(&world, "operators", "one", &manual_clock());
    let error = "cannot acquire or renew the lease operators/the-lease \
                 error=\"namespaces \\\"operators\\\" not found: \
                 run `kubectl create namespace operators`\"";
    until("it is reported", async || !log.lines(error).is_empty()).await;
    running.stop().await;
}
