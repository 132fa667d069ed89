//! Two replicas of the operator, of which one works.

use std::time::Duration;

use serde_json::json;

use crate::installation::LIMIT;
use crate::world::{World, desired, mark};
use network_operator::backend::dry_run::DryRun;
use runtime::LeaderElection;
use testenv::TestEnv;

fn candidate(identity: &str) -> LeaderElection {
    let election = LeaderElection {
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_secs(1),
        retry_period: Duration::from_millis(100),
        ..LeaderElection::new("operators", "network-operator")
    };
    election.identity(identity)
}

#[tokio::test]
async fn the_second_replica_goes_on_when_the_leader_is_stopped_or_killed() {
    let world = World::with(TestEnv::builder().system_clock(), DryRun::default()).await;
    let first = world.start_replica(Some(candidate("first")));
    world.create("a", "10.0.0.0/24", "10.0.0.1").await;
    first.manager.settled(LIMIT).await.unwrap();
    let second = world.start_replica(Some(candidate("second")));
    world.change("a", &json!({"gateway": "10.0.0.2"})).await;
    first.manager.settled(LIMIT).await.unwrap();
    assert!(second.manager.records("network").is_empty());

    world.create("b", "10.0.1.0/24", "10.0.1.1").await;
    first.stop().await;
    world.change("a", &json!({"gateway": "10.0.0.3"})).await;
    second.manager.settled(LIMIT).await.unwrap();

    let third = world.start_replica(Some(candidate("third")));
    world.delete("b").await;
    second.kill().await;
    world.change("a", &json!({"gateway": "10.0.0.4"})).await;
    third.manager.settled(LIMIT).await.unwrap();
    let networks = world.backend.inner.networks().clone();
    assert_eq!(networks, [(mark("a"), desired("10.0.0.0/24", "10.0.0.4"))].into());
    assert!(world.networks().get_opt("b").await.unwrap().is_none());
    third.stop().await;
    world.stop().await;
}
