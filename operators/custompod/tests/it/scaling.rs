//! The CRD, and the number of pods: one, three, one again.

use crate::controller::CustomPod;
use crate::observer::Observer;
use crate::world::{CRD, CUSTOM_PODS, SAMPLE, World, decode};
use machinery::Value;
use runtime::crd;
use runtime::kube_core::CustomResourceExt;
use runtime::versions::CustomResourceDefinition;

#[test]
fn the_crd_file_equals_the_crd_of_the_type() {
    let generated = CustomPod::crd();
    crd::validate(&generated).unwrap();
    let written: CustomResourceDefinition = serde_json::from_value(decode(CRD)).unwrap();
    let expected = serde_json::to_string_pretty(&generated).unwrap();
    assert_eq!(written, generated, "crd/custompods.yaml should contain {expected}");
}

#[tokio::test]
async fn the_number_of_pods_follows_the_replicas() {
    let mut world = World::new(1).await;
    let mut observer = Observer::new(&world, 1).await;
    world.start_operator();
    observer.settle(&world).await;
    assert_eq!(observer.live(), ["custompod-sample-0"]);
    for replicas in [3, 1] {
        observer.record_desired_replicas(world.scale(replicas).await, replicas);
        observer.settle(&world).await;
    }
    let sample = world.env.read(&format!("{CUSTOM_PODS}/{SAMPLE}")).await;
    let pod = world.pods().get("custompod-sample-0").await.unwrap();
    let owner = &pod.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("CustomPod", Some(true)));
    assert_eq!(Value::from(owner.uid.as_str()), sample["metadata"]["uid"]);
    assert_eq!(pod.metadata.labels.unwrap()["app"], SAMPLE);
    world.stop().await;
}

#[tokio::test]
async fn a_pod_that_is_being_deleted_or_has_ended_is_replaced_at_once() {
    let mut world = World::new(2).await;
    let mut observer = Observer::new(&world, 1).await;
    world.start_operator();
    observer.settle(&world).await;
    world.set_phase("custompod-sample-0", "Running").await;
    world.delete("custompod-sample-0").await;
    // The old pod still exists, and is being deleted.
    while observer.live() != ["custompod-sample-1"] {
        observer.read_next_event().await;
    }
    observer.settle(&world).await;
    assert_eq!(observer.known.len(), 2);
    world.set_phase("custompod-sample-1", "Failed").await;
    while observer.live() != ["custompod-sample-2"] {
        observer.read_next_event().await;
    }
    observer.settle(&world).await;
    world.stop().await;
}

#[tokio::test]
async fn the_cause_of_each_reconcile_is_recorded() {
    let mut world = World::new(3).await;
    let mut observer = Observer::new(&world, 1).await;
    world.start_operator();
    observer.settle(&world).await;
    observer.record_desired_replicas(world.scale(2).await, 2);
    observer.settle(&world).await;
    let causes = world.causes().join("\n");
    assert!(causes.contains("CustomPod default/custompod-sample found"), "{causes}");
    let scaled =
        "CustomPod default/custompod-sample updated (.metadata.generation, .spec.replicas)";
    assert!(causes.contains(scaled), "{causes}");
    world.stop().await;
}
