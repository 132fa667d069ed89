//! Timers on the system clock: leader election, requeues and retries. Most other tests move a
//! manual clock, which cannot show that a sleep of the system clock ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use tokio::sync::mpsc;

use crate::faulty::{FaultyClient, RequestOutcome};
use crate::leading::{refuse_leases, write};
use crate::world::{Running, Thing, World, options, until};
use runtime::keel::{Clock, Entropy};
use runtime::{
    Action, Controller, Failure, LeaderElection, Manager, ManagerError, ManagerOptions, Request,
};

const DELAY: Duration = Duration::from_millis(200);

fn candidate(world: &World, identity: &str) -> (FaultyClient, Running) {
    let (faulty, client) = world.faulty();
    let election = LeaderElection {
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_secs(1),
        retry_period: DELAY,
        ..LeaderElection::new("default", "the-lease").identity(identity)
    };
    let options = ManagerOptions {
        leader_election: Some(election),
        clock: Clock::system(),
        // With equal seeds, two candidates would generate equal names.
        entropy: Entropy::system(),
        ..options()
    };
    (faulty, Running::start(&Manager::new(client, options)))
}

#[tokio::test]
async fn a_leader_that_cannot_renew_is_replaced_when_its_lease_ends() {
    let world = World::new().await;
    let (faulty, first) = candidate(&world, "first");
    until("the first leads", async || write(&first.manager).await.is_ok()).await;
    faulty.decide(|method: &Method, target: &str| -> RequestOutcome {
        refuse_leases(method, target)
    });
    let (_, second) = candidate(&world, "second");
    until("the second leads", async || write(&second.manager).await.is_ok()).await;
    let ended = first.ended.await.unwrap();
    assert!(matches!(ended, Err(ManagerError::LeadershipLost)), "{ended:?}");
    second.stop().await;
}

/// The number of calls so far.
struct Calls(Arc<AtomicUsize>);

/// Fails, then requeues the key, then succeeds.
async fn fail_then_requeue(_: Request, calls: Arc<Calls>) -> Result<Action, Failure> {
    match calls.0.fetch_add(1, Ordering::SeqCst) {
        0 => Err(Failure::transient("not now")),
        1 => Ok(Action::RequeueAfter(DELAY)),
        _ => Ok(Action::Done),
    }
}

#[tokio::test]
async fn a_failed_or_requeued_reconcile_is_called_again() {
    let world = World::new().await;
    let manager =
        Manager::new(world.client.clone(), ManagerOptions { clock: Clock::system(), ..options() });
    let calls = Arc::new(AtomicUsize::new(0));
    let (send, requests) = mpsc::channel(1);
    let controller = Controller::for_::<Thing>().channel(requests);
    manager.add(controller.reconcile(fail_then_requeue, Calls(Arc::clone(&calls))));
    let running = Running::start(&manager);
    send.send(Request::new("default", "a")).await.unwrap();
    until("three calls", async || calls.load(Ordering::SeqCst) == 3).await;
    running.stop().await;
}
