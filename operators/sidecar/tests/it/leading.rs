//! Two replicas with leader election.

use std::time::Duration;

use crate::requests::{PODS, annotated, names};
use crate::world::{LIMIT, World};
use runtime::LeaderElection;
use sidecar_operator::Mode;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/operators/leases/sidecar-operator";

/// An election with short times. The lease is not released, as if the process was killed.
fn election(identity: &str) -> LeaderElection {
    LeaderElection {
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_secs(1),
        retry_period: Duration::from_millis(200),
        release_on_exit: false,
        ..LeaderElection::new("operators", "sidecar-operator").identity(identity)
    }
}

#[tokio::test]
async fn the_second_replica_initializes_pods_when_the_leader_is_killed() {
    let mut world = World::start(Mode::Initializer).await;
    world.stop_operator().await;
    let first = world.start_replica(Some(election("first")));
    first.manager().settled(LIMIT).await.unwrap();
    let second = world.start_replica(Some(election("second")));
    let created = world.admin.create(PODS, &annotated("a")).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web", "envoy"]);
    let lease = world.admin.get(LEASE).await.unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "first");

    first.stop().await.unwrap();
    let created = world.admin.create(PODS, &annotated("b")).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web", "envoy"]);
    let lease = world.admin.get(LEASE).await.unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "second");
    second.stop().await.unwrap();
    world.stop().await;
}

#[tokio::test]
async fn a_standby_replica_serves_the_webhook() {
    let mut world = World::start(Mode::Webhook).await;
    world.stop_operator().await;
    let first = world.start_replica(Some(election("first")));
    first.manager().settled(LIMIT).await.unwrap();
    let second = world.start_replica(Some(election("second")));
    let address = second.manager().webhook_endpoint().await.unwrap();
    world.call_webhook_at(address).await;
    let created = world.admin.create(PODS, &annotated("a")).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web", "envoy"]);
    first.stop().await.unwrap();
    second.stop().await.unwrap();
    world.stop().await;
}
