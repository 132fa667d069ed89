//! A Network from its creation to its deletion, also while the operator is down.

use serde_json::json;

use crate::world::{NETWORKS, World, desired, mark};
use network_operator::backend::dry_run::DryRun;
use runtime::prelude::*;

#[tokio::test]
async fn a_network_is_created_changed_and_deleted() {
    let mut world = World::new(DryRun::default()).await;
    world.start_operator();
    assert!(world.create("a", "10.0.0.0/24", "10.0.0.1").await);
    world.settle().await;
    assert_eq!(world.backend.inner.networks()[&mark("a")], desired("10.0.0.0/24", "10.0.0.1"));
    assert_eq!(world.ready("a").await, "True InSync");
    let status = world.networks().get("a").await.unwrap().status.unwrap();
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(status.backend_ids["network"], mark("a"));
    world.wait_for_event("a", "Created", "created network 10.0.0.0/24").await;

    world.change("a", &json!({"gateway": "10.0.0.9"})).await;
    world.settle().await;
    assert_eq!(world.backend.inner.networks()[&mark("a")], desired("10.0.0.0/24", "10.0.0.9"));
    world.wait_for_event("a", "Updated", "to 10.0.0.0/24 with gateway 10.0.0.9").await;

    world.delete("a").await;
    world.settle().await;
    assert!(world.networks().get_opt("a").await.unwrap().is_none());
    assert!(world.backend.inner.networks().is_empty());
    world.wait_for_event("a", "Deleted", "deleted network").await;
    world.stop().await;
}

#[tokio::test]
async fn a_settled_operator_writes_nothing_more() {
    let mut world = World::new(DryRun::default()).await;
    world.start_operator();
    world.create("a", "10.0.0.0/24", "10.0.0.1").await;
    world.settle().await;
    let version = world.networks().get("a").await.unwrap().metadata.resource_version;
    world.kill_operator().await;
    world.start_operator();
    world.settle().await;
    assert_eq!(world.networks().get("a").await.unwrap().metadata.resource_version, version);
    world.stop().await;
}

#[tokio::test]
async fn changes_while_the_operator_is_down_are_made_when_it_is_back() {
    let mut world = World::new(DryRun::default()).await;
    world.start_operator();
    world.create("a", "10.0.0.0/24", "10.0.0.1").await;
    world.create("b", "10.0.1.0/24", "10.0.1.1").await;
    world.settle().await;
    world.kill_operator().await;

    world.change("a", &json!({"cidr": "10.0.9.0/24", "gateway": "10.0.9.1"})).await;
    world.delete("b").await;
    world.create("c", "10.0.2.0/24", "10.0.2.1").await;
    // The finalizer keeps it until its network is deleted.
    assert!(world.networks().get("b").await.unwrap().metadata.deletion_timestamp.is_some());
    assert!(world.backend.inner.networks().contains_key(&mark("b")));

    world.start_operator();
    world.settle().await;
    let networks = world.backend.inner.networks().clone();
    let expected = [
        (mark("a"), desired("10.0.9.0/24", "10.0.9.1")),
        (mark("c"), desired("10.0.2.0/24", "10.0.2.1")),
    ];
    assert_eq!(networks, expected.into());
    assert!(world.networks().get_opt("b").await.unwrap().is_none());
    world.stop().await;
}

#[tokio::test]
async fn an_edit_that_conflicts_is_refused_and_the_last_accepted_one_is_made() {
    let mut world = World::new(DryRun::default()).await;
    world.create("a", "10.0.0.0/24", "10.0.0.1").await;
    let mut stale = world.networks().get("a").await.unwrap();
    world.start_operator();
    world.settle().await; // has written the finalizer and the status

    stale.spec.gateway = "10.0.0.66".to_owned();
    let refused = world.networks().replace("a", &PostParams::default(), &stale).await;
    assert!(refused.unwrap_err().to_string().contains("the object has been modified"));

    // Somebody else's finalizer and status stay, and so does the deletion wait for it.
    let theirs =
        json!({"metadata": {"finalizers": ["samplecrd.k8s.io/network-operator", "b.c/d"]}});
    world.env.merge(&format!("{NETWORKS}/a"), &theirs).await;
    for gateway in 2..20 {
        world.change("a", &json!({"gateway": format!("10.0.0.{gateway}")})).await;
    }
    world.settle().await;
    assert_eq!(world.backend.inner.networks()[&mark("a")], desired("10.0.0.0/24", "10.0.0.19"));
    world.delete("a").await;
    world.settle().await;
    let left = world.networks().get("a").await.unwrap().metadata.finalizers;
    assert_eq!(left, Some(vec!["b.c/d".to_owned()]));
    assert!(world.backend.inner.networks().is_empty());
    world.stop().await;
}

#[tokio::test]
async fn an_operator_that_ends_at_any_step_loses_nothing() {
    for steps in 0..8 {
        let mut world = World::new(DryRun::default()).await;
        world.create("a", "10.0.0.0/24", "10.0.0.1").await;
        for _ in 0..2 {
            world.start_operator();
            tokio::select! {
                () = world.backend.wait_for_steps(steps) => {}
                () = world.settle() => {}
            }
            world.kill_operator().await;
            world.delete("a").await;
        }
        world.start_operator();
        world.settle().await;
        assert!(world.networks().get_opt("a").await.unwrap().is_none(), "{steps}");
        assert!(world.backend.inner.networks().is_empty(), "{steps}");
        world.stop().await;
    }
}
