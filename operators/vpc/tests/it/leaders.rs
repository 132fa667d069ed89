//! Two replicas of the operator, of which one works.

use std::time::Duration;

use crate::installation::LIMIT;
use crate::world::World;
use machinery::json;
use runtime::LeaderElection;
use testenv::TestEnv;

fn candidate(identity: &str) -> LeaderElection {
    let election = LeaderElection {
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_secs(1),
        retry_period: Duration::from_millis(100),
        ..LeaderElection::new("operators", "vpc-operator")
    };
    election.identity(identity)
}

#[tokio::test]
async fn the_second_replica_goes_on_when_the_leader_is_stopped_or_killed() {
    let world = World::without_operator(TestEnv::builder().system_clock()).await;
    world.create("10.0.0.0/16", 2).await;
    let first = world.start_replica(Some(candidate("first")));
    first.manager.settled(LIMIT).await.unwrap();
    let second = world.start_replica(Some(candidate("second")));
    world.change(&json!({"subnetnum": 3})).await;
    first.stop().await;
    second.manager.settled(LIMIT).await.unwrap();
    assert_eq!(world.cidrs().await, "10.0.0.0/17 10.0.128.0/18 10.0.192.0/18");

    let third = world.start_replica(Some(candidate("third")));
    world.change(&json!({"subnetnum": 1})).await;
    second.kill().await;
    third.manager.settled(LIMIT).await.unwrap();
    assert_eq!(world.cidrs().await, "10.0.0.0/17");
    third.stop().await;
    world.stop().await;
}
