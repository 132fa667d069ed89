//! A backend that fails, networks that others change, and Networks that cannot exist.

use serde_json::json;

use crate::installation::client_of;
use crate::world::{NETWORKS, RESYNC, World, desired, mark, until};
use network_operator::api::v2::Network;
use network_operator::backend::BackendError;
use network_operator::backend::dry_run::DryRun;
use runtime::kube_client;
use runtime::prelude::*;
use runtime::reconcile_history::ReconcileOutcome;

#[tokio::test]
async fn a_network_is_made_when_the_backend_is_back() {
    let mut world = World::new(DryRun::default()).await;
    world.backend.set_down(true);
    world.start_operator();
    world.create("a", "10.0.0.0/24", "10.0.0.1").await;
    world.wait_until_ready_is("a", "False BackendUnavailable").await;
    world.wait_for_event("a", "Failed", "out of service").await;

    world.backend.set_down(false);
    world.env.advance(RESYNC);
    world.settle().await;
    assert_eq!(world.ready("a").await, "True InSync");
    assert!(world.backend.inner.networks().contains_key(&mark("a")));

    // A deletion waits for the backend.
    world.backend.set_down(true);
    world.delete("a").await;
    world.wait_for_event("a", "Failed", "out of service").await;
    assert!(world.networks().get_opt("a").await.unwrap().is_some());
    world.backend.set_down(false);
    world.env.advance(RESYNC);
    world.settle().await;
    assert!(world.networks().get_opt("a").await.unwrap().is_none());
    assert!(world.backend.inner.networks().is_empty());
    world.stop().await;
}

#[tokio::test]
async fn a_network_that_somebody_changes_or_deletes_is_put_right_within_the_resync_period() {
    let mut world = World::new(DryRun::default()).await;
    world.start_operator();
    world.create("a", "10.0.0.0/24", "10.0.0.1").await;
    world.settle().await;
    let networks = || world.backend.inner.networks().clone();
    let right = desired("10.0.0.0/24", "10.0.0.1");

    let wrong = desired("10.0.0.0/24", "10.0.0.66");
    world.backend.inner.networks().insert(mark("a"), wrong);
    world.settle().await;
    assert_eq!(networks()[&mark("a")], wrong);
    world.env.advance(RESYNC);
    until("the gateway is put right", async || networks()[&mark("a")] == right).await;
    world
        .wait_for_event("a", "Drifted", "changed network 10.0.0.0/24 with gateway 10.0.0.66")
        .await;

    world.backend.inner.networks().clear();
    world.env.advance(RESYNC);
    until("the network is back", async || networks().get(&mark("a")) == Some(&right)).await;
    world.wait_for_event("a", "Drifted", "created network").await;
    world.stop().await;
}

#[tokio::test]
async fn a_network_without_a_network_in_the_api_is_deleted_and_those_of_others_are_not() {
    let mut world = World::new(DryRun::default()).await;
    let network = desired("10.0.0.0/24", "10.0.0.1");
    let foreign = "samplecrd.k8s.io:another-cluster:default:a".to_owned();
    world.backend.inner.networks().insert(foreign.clone(), network);
    world.backend.inner.networks().insert(mark("orphan"), network);
    world.start_operator();
    let left = || world.backend.inner.networks().keys().cloned().collect::<Vec<_>>();
    until("the orphan is deleted", async || left() == [foreign.clone()]).await;

    // Somebody removes the finalizer while the operator is down.
    world.create("a", "10.0.0.0/24", "10.0.0.1").await;
    world.settle().await;
    assert_eq!(left().len(), 2);
    world.kill_operator().await;
    let none = json!({"metadata": {"finalizers": null}});
    world.env.merge(&format!("{NETWORKS}/a"), &none).await;
    world.delete("a").await;
    world.start_operator();
    let left = || world.backend.inner.networks().keys().cloned().collect::<Vec<_>>();
    until("the other orphan is deleted", async || left() == [foreign.clone()]).await;
    world.stop().await;
}

#[tokio::test]
async fn the_younger_of_two_overlapping_networks_waits_for_the_older_one() {
    let mut world = World::new(DryRun::default()).await;
    world.start_operator();
    world.create("a", "10.0.0.0/16", "10.0.0.1").await;
    world.env.advance(std::time::Duration::from_secs(1));
    world.create("b", "10.0.1.0/24", "10.0.1.1").await;
    world.settle().await;
    assert_eq!(world.ready("a").await, "True InSync");
    assert_eq!(world.ready("b").await, "False Overlap");
    let text = "10.0.1.0/24 overlaps 10.0.0.0/16 of the Network default/a";
    world.wait_for_event("b", "Overlap", text).await;
    assert!(!world.backend.inner.networks().contains_key(&mark("b")));

    world.delete("a").await;
    world.settle().await;
    world.env.advance(RESYNC);
    world.wait_until_ready_is("b", "True InSync").await;
    world.stop().await;
}

#[tokio::test]
async fn a_status_that_somebody_removes_is_written_again() {
    let mut world = World::new(DryRun::default()).await;
    world.start_operator();
    world.create("a", "10.0.0.0/24", "10.0.0.1").await;
    world.settle().await;
    let patch = Patch::Merge(json!({"status": null}));
    world.networks().patch_status("a", &PatchParams::default(), &patch).await.unwrap();
    world.wait_until_ready_is("a", "True InSync").await;
    world.stop().await;
}

#[tokio::test]
async fn what_a_backend_in_memory_lost_with_its_process_is_no_drift() {
    let mut world = World::new(DryRun::default()).await;
    world.start_operator();
    world.create("a", "10.0.0.0/24", "10.0.0.1").await;
    world.settle().await;
    world.kill_operator().await;
    world.backend.inner.networks().clear();
    world.start_operator();
    world.settle().await;
    assert!(world.backend.inner.networks().contains_key(&mark("a")));
    world.change("a", &json!({"gateway": "10.0.0.9"})).await;
    world.wait_for_event("a", "Updated", "gateway 10.0.0.9").await;
    let events = world.events("a").await;
    assert!(!events.iter().any(|(reason, _)| reason == "Drifted"), "{events:?}");
    world.stop().await;
}

#[tokio::test]
async fn networks_that_take_long_delay_none_of_another_namespace_and_say_so() {
    let mut world = World::new(DryRun::default()).await;
    world.env.create("/api/v1/namespaces", &json!({"metadata": {"name": "b"}})).await;
    world.backend.set_slow(Some("default"));
    world.start_operator();
    for number in 0..4 {
        let gateway = format!("10.0.{number}.1");
        world.create(&format!("a{number}"), &format!("10.0.{number}.0/24"), &gateway).await;
    }
    let path = NETWORKS.replace("default", "b");
    let network = json!({
        "apiVersion": "samplecrd.k8s.io/v2", "kind": "Network", "metadata": {"name": "b"},
        "spec": {"cidr": "10.1.0.0/24", "gateway": "10.1.0.1"},
    });
    world.env.create(&path, &network).await;
    let is_ready =
        |network: &machinery::Value| network["status"]["conditions"][0]["reason"] == "InSync";
    world.env.until(&format!("{path}/b"), |_, network| is_ready(network)).await;

    let slow = async || {
        world.env.advance(std::time::Duration::from_secs(10));
        for number in 0..4 {
            if world.ready(&format!("a{number}")).await == "False BackendSlow" {
                return true;
            }
        }
        false
    };
    until("one is reported", slow).await;
    world.backend.set_slow(None);
    for number in 0..4 {
        world.wait_until_ready_is(&format!("a{number}"), "True InSync").await;
    }
    world.stop().await;
}

#[tokio::test]
async fn changes_before_a_failure_are_recorded() {
    let mut world = World::new(DryRun::default()).await;
    // The plan and its change succeed, and the next plan fails.
    world.backend.fail_after(2, BackendError::Unavailable);
    world.start_operator();
    world.create("a", "10.0.0.0/24", "10.0.0.1").await;
    world.wait_for_event("a", "Failed", "out of service").await;
    world.wait_for_event("a", "Created", "created network 10.0.0.0/24").await;
    world.backend.set_down(false);
    world.env.advance(RESYNC);
    world.settle().await;
    assert_eq!(world.ready("a").await, "True InSync");

    world.backend.fail_after(2, BackendError::Unavailable);
    world.delete("a").await;
    world.wait_for_event("a", "Deleted", "deleted network").await;
    assert!(world.networks().get_opt("a").await.unwrap().is_some());
    world.backend.set_down(false);
    world.env.advance(RESYNC);
    world.settle().await;
    assert!(world.networks().get_opt("a").await.unwrap().is_none());
    world.stop().await;
}

#[tokio::test]
async fn a_network_in_use_is_deleted_by_the_resync_after_its_last_use() {
    let mut world = World::new(DryRun::default()).await;
    world.start_operator();
    world.create("a", "10.0.0.0/24", "10.0.0.1").await;
    world.settle().await;
    world.backend.fail_after(0, BackendError::InUse);
    world.delete("a").await;
    world.wait_until_ready_is("a", "False InUse").await;
    world.wait_for_event("a", "Failed", "in use: out of service").await;
    // It is not tried again before the next resync, so that this settles.
    world.settle().await;
    let records = world.manager().records("network");
    let outcome = &records[0].outcome;
    assert!(matches!(outcome, ReconcileOutcome::FailedPermanently(_)), "{outcome:?}");

    world.backend.set_down(false);
    world.env.advance(RESYNC);
    until("it is deleted", async || world.networks().get_opt("a").await.unwrap().is_none()).await;
    assert!(world.backend.inner.networks().is_empty());
    world.stop().await;
}

#[tokio::test]
async fn a_failure_whose_status_cannot_be_written_stays_that_failure() {
    let mut world = World::new(DryRun::default()).await;
    world.revoke("networks/status", "patch").await;
    let networks = client_of(world.env.server(), "network-operator").api_in::<Network>("default");
    until("the right is revoked", async || {
        let patch = Patch::Merge(json!({"status": {}}));
        let patched = networks.patch_status("a", &PatchParams::default(), &patch).await;
        matches!(patched, Err(kube_client::Error::Api(status)) if status.code == 403)
    })
    .await;
    world.backend.fail_after(0, BackendError::Refused);
    world.start_operator();
    world.create("a", "10.0.0.0/24", "10.0.0.1").await;
    // A refusal is not tried again before the next resync, so that this settles.
    world.settle().await;
    let records = world.manager().records("network");
    let outcome = &records.last().unwrap().outcome;
    let is_refusal = |why: &str| why == "refused: out of service";
    assert!(
        matches!(outcome, ReconcileOutcome::FailedPermanently(why) if is_refusal(why)),
        "{outcome:?}"
    );
    world.stop().await;
}
