//! Leader election, with jumping clocks and failing servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::params::{DeleteParams, PostParams};
use tokio::sync::mpsc;

use crate::controlling::get;
use crate::faulty::{FaultyClient, RequestOutcome};
use crate::world::{Running, Thing, World, manual_clock, options, until};
use machinery::json;
use runtime::keel::{Clock, Entropy, Tasks, Timestamp};
use runtime::{
    Action, Api, Controller, Failure, InvalidLeaderElection, LeaderElection, Manager, ManagerError,
    ManagerOptions, Request, WriteAbandoned, kube_client,
};

const SECOND: Duration = Duration::from_secs(1);

/// A manager that takes part in leader election, with its own clock and client.
struct Candidate {
    clock: Clock,
    faulty: FaultyClient,
    running: Running,
}

impl Candidate {
    fn start(world: &World, identity: &str) -> Self {
        Self::start_with(world, identity, |_, _| RequestOutcome::Served)
    }

    /// A candidate with faults from its first request on.
    fn start_with(
        world: &World,
        identity: &str,
        decide: impl FnMut(&Method, &str) -> RequestOutcome + Send + 'static,
    ) -> Self {
        let (faulty, client) = world.faulty();
        faulty.decide(decide);
        let clock = manual_clock();
        let election = LeaderElection::new("default", "the-lease").identity(identity);
        let options = ManagerOptions {
            leader_election: Some(election),
            clock: clock.clone(),
            // With equal seeds, two candidates would generate equal names.
            entropy: Entropy::system(),
            // Longer than the test, so that no stop ends by its timeout.
            stop_within: Duration::from_hours(1),
            ..options()
        };
        let running = Running::start(&Manager::new(client, options));
        Self { clock, faulty, running }
    }

    /// Tries a write, and returns whether it succeeded.
    async fn writes(&self) -> bool {
        write(&self.running.manager).await.is_ok()
    }

    /// Advances the clock in steps of a second, after each of which the tasks that are due run.
    async fn pass(&self, seconds: u32) {
        for _ in 0..seconds {
            self.clock.advance(SECOND);
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            // A candidate that waits for the server has a longer deadline than one that pauses.
            let is_waiting_for_response = || {
                let deadline = self.clock.next_deadline();
                deadline.is_some_and(|deadline| deadline.since(self.clock.now()) > 3 * SECOND)
            };
            until("the server has responded", async || !is_waiting_for_response()).await;
        }
    }

    fn cut_off(&self) {
        self.faulty.decide(refuse_leases);
    }
}

pub(crate) fn refuse_leases(_: &Method, target: &str) -> RequestOutcome {
    if target.contains("/leases") { RequestOutcome::Refused(503) } else { RequestOutcome::Served }
}

pub(crate) async fn write(manager: &Manager) -> kube_client::Result<ConfigMap> {
    let maps = Api::<ConfigMap>::namespaced(manager.client(), "default");
    let map = json!({"metadata": {"generateName": "written-"}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await
}

/// Decides the outcome of the lease requests with this method by their number, and counts them; other
/// requests are served.
fn of_leases(
    method: Method,
    mut outcome_of: impl FnMut(usize) -> RequestOutcome + Send + 'static,
) -> (Arc<AtomicUsize>, impl FnMut(&Method, &str) -> RequestOutcome + Send + 'static) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let decide = move |requested: &Method, target: &str| {
        if *requested != method || !target.contains("/leases") {
            return RequestOutcome::Served;
        }
        outcome_of(counted.fetch_add(1, Ordering::Relaxed))
    };
    (count, decide)
}

fn leases(world: &World) -> Api<Lease> {
    Api::namespaced(world.client.clone(), "default")
}

async fn holder(world: &World) -> String {
    let lease = leases(world).get_opt("the-lease").await.unwrap();
    lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
}

#[tokio::test]
async fn another_candidate_leads_after_the_lease_is_released() {
    let world = World::new().await;
    let first = Candidate::start(&world, "first");
    until("the first leads", async || first.writes().await).await;
    let second = Candidate::start(&world, "second");
    second.pass(60).await;
    // The clock of the first candidate stands still. Its lease expires because the second one has
    // seen no change for a minute.
    assert_eq!(holder(&world).await, "second");
    second.running.stop().await;
    assert_eq!(holder(&world).await, "", "the lease was not released");
    let third = Candidate::start(&world, "third");
    until("the third leads at once", async || third.writes().await).await;
}

#[tokio::test]
async fn a_candidate_does_not_write_while_the_lease_is_renewed() {
    let world = World::new().await;
    let first = Candidate::start(&world, "first");
    until("the first leads", async || first.writes().await).await;
    let second = Candidate::start(&world, "second");
    for _ in 0..15 {
        first.pass(3).await;
        second.pass(3).await;
        assert!(!second.writes().await);
    }
    assert_eq!(holder(&world).await, "first");
    assert!(first.writes().await);
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_writing_before_another_begins() {
    let world = World::new().await;
    let first = Candidate::start(&world, "first");
    until("the first leads", async || first.writes().await).await;
    first.pass(4).await;
    first.cut_off();
    let second = Candidate::start(&world, "second");
    let mut overlap = 0;
    for _ in 0..30 {
        first.pass(1).await;
        second.pass(1).await;
        overlap += u32::from(first.writes().await && second.writes().await);
    }
    assert_eq!(overlap, 0);
    assert!(second.writes().await && !first.writes().await);
    let ended = first.running.ended.await.unwrap();
    assert!(matches!(ended, Err(ManagerError::LeadershipLost)), "{ended:?}");
}

#[tokio::test]
async fn a_former_leader_does_not_write() {
    let world = World::new().await;
    let first = Candidate::start(&world, "first");
    until("the first leads", async || first.writes().await).await;
    // The lease is overwritten. The first candidate finds that at its next renewal.
    let leases = leases(&world);
    let mut lease = leases.get("the-lease").await.unwrap();
    lease.spec.as_mut().unwrap().holder_identity = Some("another".to_owned());
    leases.replace("the-lease", &PostParams::default(), &lease).await.unwrap();
    first.pass(5).await;
    assert!(!first.writes().await);
    let ended = first.running.ended.await.unwrap();
    assert!(matches!(ended, Err(ManagerError::LeadershipLost)), "{ended:?}");
    assert_eq!(holder(&world).await, "another");
}

#[tokio::test]
async fn a_clock_that_jumps_does_not_change_leadership() {
    let world = World::new().await;
    let first = Candidate::start(&world, "first");
    until("the first leads", async || first.writes().await).await;
    let second = Candidate::start(&world, "second");
    second.pass(3).await;
    second.clock.jump(Timestamp::from_seconds(1_900_000_000));
    second.pass(3).await;
    assert_eq!(holder(&world).await, "first", "a clock that jumps does not make the lease expire");

    // A jump forward may result from a suspension, so the leader must renew before it writes.
    first.cut_off();
    first.clock.jump(Timestamp::from_seconds(1_800_000_000));
    assert!(!first.writes().await);
    first.faulty.decide(|_: &Method, _: &str| RequestOutcome::Served);
    first.pass(3).await;
    assert!(first.writes().await, "the lease was still held");

    // A jump back does not extend the time in which the leader may write.
    first.clock.jump(Timestamp::from_seconds(1_000_000_000));
    first.pass(3).await;
    assert!(first.writes().await);
    first.cut_off();
    first.pass(12).await;
    assert!(!first.writes().await);
}

async fn succeed(_: Request, _: Arc<()>) -> Result<Action, Failure> {
    Ok(Action::Done)
}

#[tokio::test]
async fn a_replica_that_does_not_lead_has_caches_and_empty_queues() {
    let world = World::new().await;
    let (faulty, client) = world.faulty();
    faulty.decide(refuse_leases);
    let clock = manual_clock();
    let options = ManagerOptions {
        leader_election: Some(LeaderElection::new("default", "the-lease").identity("second")),
        clock: clock.clone(),
        endpoint: Some("127.0.0.1:0".parse().unwrap()),
        ..options()
    };
    let manager = Manager::new(client, options);
    let things = manager.lister::<Thing>();
    let (send, requests) = mpsc::channel(4);
    manager.add(Controller::for_::<Thing>().channel(requests).reconcile(succeed, ()));
    let running = Running::start(&manager);
    until("it is ready", async || manager.readiness().run("readyz").has_passed).await;
    for name in ["a", "gone", "b"] {
        world.create_thing(name, json!(1)).await;
    }
    let api = Api::<Thing>::namespaced(world.client.clone(), "default");
    api.delete("gone", &DeleteParams::default()).await.unwrap();
    send.send(Request::new("default", "sent")).await.unwrap();
    until("both are cached", async || things.list().objects.len() == 2).await;
    let address = manager.endpoint().await.unwrap();
    let queued = r#"workqueue_adds_total{name="thing",controller="thing"} 0"#;
    let metrics = get(address, "/metrics").await;
    assert!(metrics.lines().any(|line| line == queued), "{metrics}");

    clock.advance(24 * 3600 * SECOND);
    faulty.decide(|_: &Method, _: &str| RequestOutcome::Served);
    until("all keys are reconciled", async || {
        clock.advance(SECOND / 10);
        manager.records("thing").len() == 3
    })
    .await;
    let mut records = manager.records("thing");
    records.sort_by(|one, other| one.request.cmp(&other.request));
    let causes: Vec<_> = records.iter().map(|record| record.causes.to_string()).collect();
    let expected = ["Thing default/a found", "Thing default/b found", "sent through a channel"];
    assert_eq!(causes, expected);
    assert!(records.iter().all(|record| record.waited < 60 * SECOND), "{records:?}");
    running.stop().await;
}

#[tokio::test]
async fn a_lease_is_released_although_the_response_to_its_renewal_was_lost() {
    let world = World::new().await;
    let first = Candidate::start(&world, "first");
    until("the first leads", async || first.writes().await).await;
    let once = |n| if n == 0 { RequestOutcome::ResponseLost } else { RequestOutcome::Served };
    let (renewals, decide) = of_leases(Method::PUT, once);
    first.faulty.decide(decide);
    first.pass(2).await;
    assert_eq!(renewals.load(Ordering::Relaxed), 1);
    first.running.stop().await;
    assert_eq!(holder(&world).await, "");
}

#[tokio::test]
async fn a_lease_is_released_although_the_response_to_its_acquisition_was_lost() {
    let world = World::new().await;
    let (_, decide) = of_leases(Method::POST, |_| RequestOutcome::ResponseLost);
    let first = Candidate::start_with(&world, "first", decide);
    until("the first holds it", async || holder(&world).await == "first").await;
    assert!(!first.writes().await, "it does not know that it holds the lease");
    first.running.stop().await;
    assert_eq!(holder(&world).await, "");
}

#[tokio::test]
async fn a_deleted_lease_is_respected_until_it_expires() {
    let world = World::new().await;
    let first = Candidate::start(&world, "first");
    until("the first leads", async || first.writes().await).await;
    let second = Candidate::start(&world, "second");
    second.pass(3).await;
    leases(&world).delete("the-lease", &DeleteParams::default()).await.unwrap();
    second.pass(9).await;
    assert!(first.writes().await && !second.writes().await);
    second.pass(9).await;
    assert!(second.writes().await, "the lease has expired");
}

#[tokio::test]
async fn a_leader_creates_a_deleted_lease_again() {
    let world = World::new().await;
    let first = Candidate::start(&world, "first");
    until("the first leads", async || first.writes().await).await;
    leases(&world).delete("the-lease", &DeleteParams::default()).await.unwrap();
    first.pass(12).await;
    assert_eq!(holder(&world).await, "first");
    assert!(first.writes().await);
}

#[tokio::test]
async fn a_renewal_that_hangs_leaves_time_for_another() {
    let world = World::new().await;
    let first = Candidate::start(&world, "first");
    until("the first leads", async || first.writes().await).await;
    let once = |n| if n == 0 { RequestOutcome::NoResponse } else { RequestOutcome::Served };
    let (renewals, decide) = of_leases(Method::PUT, once);
    first.faulty.decide(decide);
    first.clock.advance(2 * SECOND);
    let sent = async |count| {
        until("it is sent", async || renewals.load(Ordering::Relaxed) == count).await;
    };
    sent(1).await;
    first.clock.advance(5 * SECOND);
    let soon = first.clock.now() + SECOND;
    until("it pauses", async || first.clock.next_deadline().is_some_and(|it| it < soon)).await;
    first.clock.advance(SECOND / 10);
    sent(2).await;
    first.pass(4).await;
    assert!(first.writes().await);
}

#[tokio::test]
async fn a_write_without_a_response_is_abandoned_when_another_may_lead() {
    let world = World::new().await;
    let first = Candidate::start(&world, "first");
    until("the first leads", async || first.writes().await).await;
    let manager = first.running.manager.clone();
    let (tasks, maps) = (Tasks::new(), Arc::new(AtomicUsize::new(0)));
    let sent = Arc::clone(&maps);
    first.faulty.decide(move |method, target| match target {
        _ if target.contains("/leases") => RequestOutcome::Refused(503),
        _ if *method == Method::POST => {
            sent.fetch_add(1, Ordering::Relaxed);
            RequestOutcome::NoResponse
        }
        _ => RequestOutcome::Served,
    });
    let written = tasks.spawn("write", async move { write(&manager).await });
    until("it is sent", async || maps.load(Ordering::Relaxed) == 1).await;
    first.pass(9).await;
    first.clock.advance(5 * SECOND);
    until("the leadership is lost", async || first.running.ended.is_finished()).await;
    assert!(!written.is_finished());
    first.clock.advance(SECOND);
    let Err(kube_client::Error::Service(error)) = written.await.unwrap() else {
        panic!("the write was not abandoned");
    };
    assert!(error.is::<WriteAbandoned>(), "{error}");
}

#[tokio::test]
async fn other_tasks_of_a_former_leader_end_at_once() {
    let world = World::new().await;
    let first = Candidate::start(&world, "first");
    until("the first leads", async || first.writes().await).await;
    first.running.manager.tasks().spawn("hanging", std::future::pending::<()>());
    first.cut_off();
    first.pass(12).await;
    let ended = tokio::time::timeout(Duration::from_secs(30), first.running.ended).await;
    let ended = ended.expect("the stop does not wait for the task").unwrap();
    assert!(matches!(ended, Err(ManagerError::LeadershipLost)), "{ended:?}");
}

#[tokio::test]
async fn an_election_that_all_candidates_would_win_is_refused() {
    let world = World::new().await;
    let election = LeaderElection::new("default", "the-lease").identity("");
    let options = ManagerOptions { leader_election: Some(election), ..options() };
    let ended = Manager::new(world.client.clone(), options).run().await;
    let refused = matches!(ended, Err(ManagerError::Election(InvalidLeaderElection::NoIdentity)));
    assert!(refused, "{ended:?}");
}
