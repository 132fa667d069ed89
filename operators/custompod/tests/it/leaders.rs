//! Two replicas of the operator, of which one works.

use std::time::Duration;

use crate::installation::LIMIT;
use crate::observer::Observer;
use crate::world::World;
use runtime::LeaderElection;

fn candidate(identity: &str) -> LeaderElection {
    let election = LeaderElection {
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_secs(1),
        retry_period: Duration::from_millis(100),
        ..LeaderElection::new("operators", "custompod-operator")
    };
    election.identity(identity)
}

#[tokio::test]
async fn the_second_replica_goes_on_when_the_leader_is_stopped_or_killed() {
    let world = World::new(1).await;
    let mut observer = Observer::new(&world, 1).await;
    let first = world.start_replica(Some(candidate("first")));
    first.manager.settled(LIMIT).await.unwrap();
    let second = world.start_replica(Some(candidate("second")));
    observer.record_desired_replicas(world.scale(4).await, 4);
    first.manager.settled(LIMIT).await.unwrap();
    assert!(second.manager.records("custompod").is_empty());

    observer.record_desired_replicas(world.scale(9).await, 9);
    first.stop().await;
    second.manager.settled(LIMIT).await.unwrap();
    observer.settle(&world).await;

    let third = world.start_replica(Some(candidate("third")));
    observer.record_desired_replicas(world.scale(2).await, 2);
    second.kill().await;
    third.manager.settled(LIMIT).await.unwrap();
    observer.settle(&world).await;
    assert_eq!(observer.live().len(), 2);
    third.stop().await;
    world.stop().await;
}
